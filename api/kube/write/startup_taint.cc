#include "api/kube/write/startup_taint.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "api/convert/projection.h"
#include "api/kube/wire/decode.h"
#include "api/kube/wire/resource.h"
#include "api/log/log_value.h"
#include "api/source/object.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::kube {

StartupTaint::StartupTaint(std::string node_name, std::string key, Backoff::Random random)
    : ObjectWriter("startup taint not removed", std::move(random)),
      path_("/api/v1/nodes/" + PercentEncoded(node_name)),
      key_(std::move(key)) {}

void StartupTaint::ServicesProgrammed(Clock::time_point now) { Read(path_, now); }

void StartupTaint::OnObject(std::string_view body, Clock::time_point now) {
  const auto envelope = source::OpenEnvelope(body);
  source::Item item;
  v1::Change change;
  if (!envelope || source::ReadChange(Resource::kNode, envelope->raw, api::IsUsedLabel, item) ||
      !change.ParseFromString(item.change)) {
    return Retry("invalid response from the API server: the Node cannot be decoded", now);
  }
  // Starts with the last taint, because each removal changes the indexes of later taints. A `test`
  // operation fails if another client has changed the order of the taints.
  std::string operations;
  for (int i = change.node().spec().taints_size() - 1; i >= 0; --i) {
    if (change.node().spec().taints(i).key() != key_) continue;
    absl::StrAppend(&operations, operations.empty() ? "" : ",",
                    R"({"op":"test","path":"/spec/taints/)", i, R"(/key","value":")", key_,
                    R"("},{"op":"remove","path":"/spec/taints/)", i, R"("})");
  }
  if (operations.empty()) return Finish();
  Write({.path = path_,
         .accept = kProtobufType,
         .method = "PATCH",
         .content_type = "application/json-patch+json",
         .body = absl::StrCat("[", operations, "]")});
}

void StartupTaint::OnWritten(Clock::time_point /*now*/) {
  spdlog::info("startup taint removed taint={}", api::LogValue(key_));
  Finish();
}

void StartupTaint::OnRejected(int http_status, const std::string& why, Clock::time_point now) {
  // For example 422, if another client has changed the order of the taints.
  if (http_status != 403) return Retry(why, now);
  Retry("RBAC rule required: get nodes, patch nodes: " + why, now);
}

}  // namespace svcmap::kube
