#include "api/cli/fleet_reader.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"

namespace svcmap::api {
namespace {

using etcdserverpb::TxnRequest;
using etcdserverpb::TxnResponse;

constexpr int64_t kKeysPerPage = 2000;

}  // namespace

absl::Status FleetReader::ReadFleet() {
  TxnRequest read;
  const std::string head_key = options_.prefix + "/state/head";
  read.add_success()->mutable_request_range()->set_key(head_key);
  read.add_success()->mutable_request_range()->set_key(fleet::AskKey(options_.status_prefix));
  const absl::StatusOr<TxnResponse> found = connection_.TxnAtAnyEndpoint(read, kEtcdTimeout);
  if (!found.ok()) return found.status();
  const auto& heads = found->responses(0).response_range().kvs();
  if (heads.empty()) return absl::NotFoundError(head_key + ": the key does not exist");
  const absl::StatusOr<fleet::Head> head = fleet::ParseHead(heads[0].value());
  if (!head.ok()) {
    return absl::NotFoundError(head_key + ": " + std::string(head.status().message()));
  }
  head_ = *head;
  required_ = head_.seq;
  if (options_.seq) {
    required_ = *options_.seq;
  } else if (const auto& asks = found->responses(1).response_range().kvs(); !asks.empty()) {
    const absl::StatusOr<fleet::Ask> ask = fleet::ParseAsk(asks[0].value());
    if (ask.ok() && ask->seq <= head_.seq) required_ = ask->seq;
  }
  names_.clear();
  return connection_.ReadAll(
      {options_.prefix + "/nodes/", kKeysPerPage, /*keys_only=*/true}, kEtcdTimeout,
      [this](std::string name, const std::string&) { names_.insert(std::move(name)); });
}

absl::StatusOr<fleet::Summary> FleetReader::ReadStatuses() {
  std::map<std::string, std::string> values;
  const absl::Status status = connection_.ReadAll(
      {options_.status_prefix + "/nodes/", kKeysPerPage, /*keys_only=*/false}, kEtcdTimeout,
      [&values](std::string name, const std::string& value) { values[std::move(name)] = value; });
  if (!status.ok()) return status;
  return fleet::Summarize(names_, values, required_, std::chrono::system_clock::now());
}

absl::Status FleetReader::WriteAsk() {
  TxnRequest write;
  fleet::AddPut(
      fleet::AskKey(options_.status_prefix),
      fleet::ToJson(fleet::Ask{.seq = required_,
                               .window = std::chrono::ceil<std::chrono::seconds>(options_.window)}),
      write);
  return connection_.TxnAtAnyEndpoint(write, kEtcdTimeout).status();
}

absl::StatusOr<fleet::Summary> FleetReader::Read() {
  if (absl::Status status = ReadFleet(); !status.ok()) return status;
  return ReadStatuses();
}

ExitCode EtcdFailed(const absl::Status& status, const Session& session) {
  session.Error("etcd: " + std::string(status.message()));
  if (absl::IsNotFound(status)) return ExitCode::kIncomplete;
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ? ExitCode::kUnreachable
                                                                         : ExitCode::kCallRejected;
}

std::string StateText(const fleet::FleetNode& node) {
  std::vector<std::string> words;
  if (node.behind) words.push_back("behind");
  if (node.rejecting()) words.push_back("rejecting");
  if (node.unhealthy()) words.push_back("unhealthy");
  if (node.silent) words.push_back("silent");
  return words.empty() ? "ok" : absl::StrJoin(words, ",");
}

}  // namespace svcmap::api
