#include "api/fleet/etcd_connection.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "api/connect/channel.h"
#include "api/connect/target.h"
#include "api/convert/quote.h"
#include "nft/base/backoff.h"
#include "nft/base/status.h"
#include "svcmap/etcd/v3/etcd.grpc.pb.h"

namespace svcmap::fleet {

using std::chrono::steady_clock;

absl::StatusOr<std::string> ParseEndpoint(const std::string& url) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!url.starts_with(scheme)) continue;
    absl::StatusOr<std::string> target = api::ParseTarget("tcp://" + url.substr(scheme.size()));
    if (target.ok()) return target;
  }
  return absl::InvalidArgumentError("Invalid value: " + api::Quote(url) +
                                    ": must be http://HOST:PORT or https://HOST:PORT");
}

absl::Status FinishServers(const std::vector<std::string>& urls, EtcdServers& servers) {
  const auto https = std::count_if(
      urls.begin(), urls.end(), [](const std::string& url) { return url.starts_with("https://"); });
  for (const std::string& url : urls) {
    const absl::StatusOr<std::string> target = ParseEndpoint(url);
    if (!target.ok()) return Annotate(target.status(), "--etcd-endpoints");
    servers.endpoints.push_back(*target);
  }
  if (https != 0 && https != std::ssize(urls)) {
    return absl::InvalidArgumentError("--etcd-endpoints: must be all http:// or all https://");
  }
  if (https != 0 && servers.tls.ca.empty()) {
    return absl::InvalidArgumentError("--etcd-ca: Required value: https:// endpoints require it");
  }
  if (https == 0 && !(servers.tls.ca + servers.tls.certificate + servers.tls.key).empty()) {
    return absl::InvalidArgumentError(
        "--etcd-ca, --etcd-cert and --etcd-key require https:// endpoints");
  }
  if (servers.tls.certificate.empty() != servers.tls.key.empty()) {
    return absl::InvalidArgumentError("--etcd-cert and --etcd-key require each other");
  }
  return absl::OkStatus();
}

absl::Status CheckPrefix(const char* flag, const std::string& prefix) {
  if (prefix.starts_with('/') && !prefix.ends_with('/')) return absl::OkStatus();
  return absl::InvalidArgumentError(
      std::string(flag) + ": Invalid value: " + api::Quote(prefix) +
      ": must start with '/' and not end with '/', such as \"/svcmap/v1/prod\"");
}

absl::Status CheckStatusPrefix(const std::string& prefix, const std::string& status_prefix) {
  if (absl::Status status = CheckPrefix("--status-prefix", status_prefix); !status.ok()) {
    return status;
  }
  const std::string keys = prefix + "/", statuses = status_prefix + "/";
  if (keys.starts_with(statuses) || statuses.starts_with(keys + "state/") ||
      statuses.starts_with(keys + "nodes/")) {
    return absl::InvalidArgumentError(
        "--status-prefix: Invalid value: " + api::Quote(status_prefix) +
        ": must not contain the keys of --prefix");
  }
  return absl::OkStatus();
}

gpr_timespec DeadlineOf(steady_clock::time_point time) {
  const std::chrono::nanoseconds left = time - steady_clock::now();
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(left.count(), GPR_TIMESPAN));
}

EtcdConnection::EtcdConnection(EtcdServers servers)
    : servers_(std::move(servers)),
      next_endpoint_(static_cast<size_t>(Backoff::SeededRandom()() *
                                         static_cast<double>(servers_.endpoints.size()))) {}

absl::Status EtcdConnection::Connect() {
  if (channel_ != nullptr) return absl::OkStatus();
  const absl::StatusOr<api::TlsMaterial> tls = api::ReadTlsFiles(servers_.tls);
  if (!tls.ok()) return tls.status();
  if (absl::Status status = api::CheckTlsMaterial(*tls, servers_.tls); !status.ok()) {
    return status;
  }
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);  // Connection timeout.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
                   static_cast<int>(servers_.ping_interval / std::chrono::milliseconds(1)));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  endpoint_ = servers_.endpoints[next_endpoint_++ % servers_.endpoints.size()];
  channel_ = api::NewChannel(endpoint_, *tls, arguments);
  return absl::OkStatus();
}

absl::StatusOr<etcdserverpb::TxnResponse> EtcdConnection::Txn(
    const etcdserverpb::TxnRequest& request, std::chrono::milliseconds timeout,
    grpc::ClientContext& context) const {
  context.set_deadline(DeadlineOf(steady_clock::now() + timeout));
  etcdserverpb::TxnResponse response;
  const grpc::Status status =
      etcdserverpb::KV::NewStub(channel_)->Txn(&context, request, &response);
  if (!status.ok()) return ErrorOf(status);
  // Without comparisons, etcd executes the operations of `success`.
  const bool success = response.succeeded() || request.compare_size() == 0;
  if (response.responses_size() != (success ? request.success_size() : request.failure_size())) {
    return absl::InternalError("etcd has answered incompletely");
  }
  return response;
}

absl::Status EtcdConnection::AtAnyEndpoint(const std::function<absl::Status()>& request) {
  absl::Status problem;
  for (size_t i = 0; i < servers_.endpoints.size(); ++i) {
    problem = Connect();
    if (!problem.ok()) continue;
    problem = request();
    if (problem.ok()) break;
    Drop();
  }
  return problem;
}

absl::StatusOr<etcdserverpb::TxnResponse> EtcdConnection::TxnAtAnyEndpoint(
    const etcdserverpb::TxnRequest& request, std::chrono::milliseconds timeout) {
  absl::StatusOr<etcdserverpb::TxnResponse> answer;
  const absl::Status status = AtAnyEndpoint([&] {
    grpc::ClientContext context;
    answer = Txn(request, timeout, context);
    return answer.status();
  });
  if (!status.ok()) return status;
  return answer;
}

absl::Status EtcdConnection::ReadAll(
    const Range& range, std::chrono::milliseconds timeout,
    const std::function<void(std::string name, const std::string& value)>& take) {
  std::string end = range.directory;
  end.back() = '0';  // '0' follows '/'.
  std::string next = range.directory;
  for (;;) {
    etcdserverpb::TxnRequest read;
    etcdserverpb::RangeRequest& page = *read.add_success()->mutable_request_range();
    page.set_key(next);
    page.set_range_end(end);
    page.set_limit(range.keys_per_page);
    page.set_keys_only(range.keys_only);
    const absl::StatusOr<etcdserverpb::TxnResponse> answer = TxnAtAnyEndpoint(read, timeout);
    if (!answer.ok()) return answer.status();
    const etcdserverpb::RangeResponse& found = answer->responses(0).response_range();
    for (const etcdserverpb::KeyValue& pair : found.kvs()) {
      take(pair.key().substr(range.directory.size()), pair.value());
    }
    if (!found.more() || found.kvs().empty()) return absl::OkStatus();
    next = found.kvs().rbegin()->key() + std::string(1, '\0');
  }
}

absl::Status EtcdConnection::ErrorOf(const grpc::Status& status) const {
  return {static_cast<absl::StatusCode>(status.error_code()),  // The numbers are the same.
          endpoint_.substr(endpoint_.rfind('/') + 1) + ": " + status.error_message()};
}

void AddCompare(const std::string& key, int64_t mod_revision, etcdserverpb::TxnRequest& request) {
  etcdserverpb::Compare& compare = *request.add_compare();
  compare.set_target(etcdserverpb::Compare::MOD);
  compare.set_key(key);
  compare.set_mod_revision(mod_revision);
}

void AddPut(const std::string& key, const std::string& value, etcdserverpb::TxnRequest& request) {
  etcdserverpb::PutRequest& put = *request.add_success()->mutable_request_put();
  put.set_key(key);
  put.set_value(value);
}

}  // namespace svcmap::fleet
