// Implements `svcmapctl fleet`, which reads the state of a fleet from etcd.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "api/cli/commands.h"
#include "api/cli/etcd_failed.h"
#include "api/cli/table.h"
#include "api/cli/text.h"
#include "api/fleet/node_status.h"

namespace svcmap::api {
namespace {

using etcdserverpb::TxnRequest;
using etcdserverpb::TxnResponse;
using std::chrono::steady_clock;

constexpr std::chrono::seconds kFleetPoll{1};
constexpr size_t kNamesPrinted = 10;
constexpr int64_t kKeysPerPage = 2000;

class FleetReader {
 public:
  explicit FleetReader(const FleetOptions& options)
      : options_(options), connection_(options.etcd) {}

  // Reads the head, the request and the names of the nodes.
  absl::Status ReadFleet() {
    TxnRequest read;
    const std::string head_key = options_.prefix + "/state/head";
    read.add_success()->mutable_request_range()->set_key(head_key);
    read.add_success()->mutable_request_range()->set_key(fleet::AskKey(options_.status_prefix));
    const absl::StatusOr<TxnResponse> found = connection_.TxnAtAnyEndpoint(read, kEtcdTimeout);
    if (!found.ok()) return found.status();
    if (found->responses_size() != 2) return absl::InternalError("etcd has answered incompletely");
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
    return Read(options_.prefix, /*keys_only=*/true,
                [this](std::string name, const std::string&) { names_.insert(std::move(name)); });
  }

  absl::StatusOr<fleet::Summary> ReadStatuses() {
    std::map<std::string, std::string> values;
    const absl::Status status = Read(
        options_.status_prefix, /*keys_only=*/false,
        [&values](std::string name, const std::string& value) { values[std::move(name)] = value; });
    if (!status.ok()) return status;
    return fleet::Summarize(names_, values, required_, std::chrono::system_clock::now());
  }

  absl::Status WriteAsk() {
    TxnRequest write;
    fleet::AddPut(fleet::AskKey(options_.status_prefix),
                  fleet::ToJson(fleet::Ask{.seq = required_, .window = options_.window}), write);
    return connection_.TxnAtAnyEndpoint(write, kEtcdTimeout).status();
  }

  const fleet::Head& head() const { return head_; }
  uint64_t required() const { return required_; }

 private:
  absl::Status Read(const std::string& prefix, bool keys_only,
                    const std::function<void(std::string name, const std::string& value)>& take) {
    return connection_.ReadAll({prefix + "/nodes/", kKeysPerPage, keys_only}, kEtcdTimeout, take);
  }

  const FleetOptions& options_;
  fleet::EtcdConnection connection_;
  fleet::Head head_;
  uint64_t required_ = 0;
  std::set<std::string> names_;
};

// The names of keys and nodes are any bytes.
void PrintJson(const nlohmann::json& value, const Session& session) {
  session.out << value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
}

nlohmann::json CountsJson(const FleetReader& reader, const fleet::Summary& summary) {
  return {{"head_seq", reader.head().seq},  {"seq", reader.required()},
          {"total", summary.nodes.size()},  {"up_to_date", summary.up_to_date},
          {"behind", summary.behind},       {"rejecting", summary.rejecting},
          {"unhealthy", summary.unhealthy}, {"silent", summary.silent}};
}

void PrintCounts(const FleetReader& reader, const fleet::Summary& summary, Session& session) {
  const auto line = [&session](const char* name, uint64_t count) {
    session.out << absl::StrFormat("%-12s%8d\n", name, count);
  };
  session.out << absl::StrFormat("The writer's seq is %d. The nodes are compared with seq %d.\n",
                                 reader.head().seq, reader.required());
  line("nodes", summary.nodes.size());
  line("up to date", summary.up_to_date);
  line("behind", summary.behind);
  line("rejecting", summary.rejecting);
  line("unhealthy", summary.unhealthy);
  line("silent", summary.silent);
}

bool Selected(const FleetOptions& options, const fleet::FleetNode& node) {
  if (!options.behind && !options.rejecting && !options.silent) return true;
  return (options.behind && node.behind) || (options.rejecting && node.rejecting()) ||
         (options.silent && node.silent);
}

// Returns the problems of a node, such as "behind,silent".
std::string StateText(const fleet::FleetNode& node) {
  std::vector<std::string> words;
  if (node.behind) words.push_back("behind");
  if (node.rejecting()) words.push_back("rejecting");
  if (node.unhealthy()) words.push_back("unhealthy");
  if (node.silent) words.push_back("silent");
  return words.empty() ? "ok" : absl::StrJoin(words, ",");
}

void PrintNodes(const FleetOptions& options, const fleet::Summary& summary, Session& session) {
  constexpr size_t kColumns = 80;
  if (options.output == OutputFormat::kJson) {
    nlohmann::json nodes = nlohmann::json::array();
    for (const fleet::FleetNode& node : summary.nodes) {
      if (!Selected(options, node)) continue;
      nlohmann::json entry = {{"name", node.name},
                              {"behind", node.behind},
                              {"silent", node.silent},
                              {"status", nullptr}};
      if (node.status) entry["status"] = nlohmann::json::parse(fleet::ToJson(*node.status));
      nodes.push_back(std::move(entry));
    }
    PrintJson({{"nodes", nodes}}, session);
    return;
  }
  Table table({"NAME", "SEQ", "AGE", "REJECTED", "STATE", "REASON"}, session.out, kColumns);
  const auto now = std::chrono::system_clock::now();
  for (const fleet::FleetNode& node : summary.nodes) {
    if (!Selected(options, node)) continue;
    if (!node.status) {
      table.Row({node.name, "", "", "", StateText(node), ""});
      continue;
    }
    const auto age = std::chrono::duration_cast<std::chrono::seconds>(now - node.status->time);
    table.Row({node.name, absl::StrCat(node.status->seq),
               (age.count() < 0 ? "-" : "") + DurationText(std::chrono::abs(age)),
               absl::StrCat(node.status->rejected), StateText(node), node.status->reason});
  }
  table.Finish();
}

ExitCode WaitForFleet(const FleetOptions& options, FleetReader& reader, Session& session) {
  const auto deadline = steady_clock::now() + options.timeout;
  if (absl::Status status = reader.WriteAsk(); !status.ok()) return EtcdFailed(status, session);
  for (;;) {
    const absl::StatusOr<fleet::Summary> summary = reader.ReadStatuses();
    if (!summary.ok()) return EtcdFailed(summary.status(), session);
    const bool reached = fleet::Reached(*summary, options.percent);
    if (!reached && steady_clock::now() < deadline) {
      std::this_thread::sleep_until(std::min(steady_clock::now() + kFleetPoll, deadline));
      continue;
    }
    std::vector<std::string> missing;
    for (const fleet::FleetNode& node : summary->nodes) {
      if (!node.status || node.behind) missing.push_back(node.name);
    }
    const size_t count = missing.size();
    missing.resize(std::min(count, kNamesPrinted));
    if (options.output == OutputFormat::kJson) {
      nlohmann::json result = CountsJson(reader, *summary);
      result["reached"] = reached;
      result["missing"] = missing;
      PrintJson(result, session);
    } else if (reached) {
      session.out << absl::StrFormat("%d of %d nodes have acknowledged seq %d.\n",
                                     summary->up_to_date, summary->nodes.size(), *options.seq);
    }
    if (reached) return ExitCode::kOk;
    session.Error(absl::StrCat("fleet wait: timed out after ", DurationText(options.timeout), "; ",
                               summary->up_to_date, " of ", summary->nodes.size(),
                               " nodes have acknowledged seq ", *options.seq));
    if (count > 0) {
      session.Note(absl::StrCat("missing: ", absl::StrJoin(missing, ", "),
                                count > missing.size() ? ", ..." : ""));
    }
    return ExitCode::kIncomplete;
  }
}

}  // namespace

ExitCode EtcdFailed(const absl::Status& status, const Session& session) {
  session.Error("etcd: " + std::string(status.message()));
  if (absl::IsNotFound(status)) return ExitCode::kIncomplete;
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ? ExitCode::kUnreachable
                                                                         : ExitCode::kCallRejected;
}

ExitCode Execute(const FleetOptions& options, Session& session) {
  FleetReader reader(options);
  if (absl::Status status = reader.ReadFleet(); !status.ok()) return EtcdFailed(status, session);
  if (options.what == FleetOptions::What::kWait) return WaitForFleet(options, reader, session);
  const absl::StatusOr<fleet::Summary> summary = reader.ReadStatuses();
  if (!summary.ok()) return EtcdFailed(summary.status(), session);
  if (options.what == FleetOptions::What::kNodes) {
    PrintNodes(options, *summary, session);
  } else if (options.output == OutputFormat::kJson) {
    PrintJson(CountsJson(reader, *summary), session);
  } else {
    PrintCounts(reader, *summary, session);
  }
  return ExitCode::kOk;
}

}  // namespace svcmap::api
