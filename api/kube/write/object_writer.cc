#include "api/kube/write/object_writer.h"

#include <openssl/sha.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "api/convert/kinds.h"
#include "api/convert/projection.h"
#include "api/kube/wire/decode.h"
#include "api/kube/wire/resource.h"
#include "api/log/log_value.h"
#include "api/source/object.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::kube {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstRetry{1000};
constexpr milliseconds kLastRetry{60000};

// Limits of the API server, in bytes.
constexpr size_t kMaxInstance = 128;
constexpr size_t kMaxNote = 1024;

constexpr char kEventsVersion[] = "events.k8s.io/v1";

// The same on all nodes.
std::string EventName(const std::string& uid, const std::string& reason,
                      const source::Finding& finding) {
  const std::string identity = absl::StrCat(uid, "/", reason, "/", finding.text);
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(identity.data()), identity.size(), digest);
  return absl::StrCat(finding.name, ".", absl::BytesToHexString(std::string(digest, digest + 8)));
}

}  // namespace

ObjectWriter::ObjectWriter(std::string subject, Backoff::Random random)
    : subject_(std::move(subject)), backoff_(kFirstRetry, kLastRetry, {}, std::move(random)) {}

HttpRequest ObjectWriter::Next() const {
  return write_ ? *write_ : HttpRequest{.path = path_, .accept = kProtobufType};
}

void ObjectWriter::Ended(const absl::StatusOr<HttpResponse>& response, std::string_view body,
                         Clock::time_point now) {
  if (!response.ok()) return Retry(std::string(response.status().message()), now);
  const int status = response->status;
  if (status >= 200 && status < 300) return write_ ? OnWritten(now) : OnObject(body, now);
  const ApiStatus error = DecodeStatus(body);
  const std::string why = ErrorText(status, error);
  // The request is not the cause of these errors.
  if (status < 400 || status == 401 || status == 429 || status >= 500) {
    return Retry(why, now,
                 std::max(response->retry_after, std::chrono::seconds(error.retry_after_seconds)));
  }
  OnRejected(status, why, now);
}

void ObjectWriter::Read(std::string path, Clock::time_point at) {
  path_ = std::move(path);
  write_.reset();
  not_before_ = at;
}

void ObjectWriter::Write(HttpRequest request) { write_ = std::move(request); }

void ObjectWriter::Finish() {
  backoff_.Success();
  last_error_.clear();
  not_before_ = kNever;
}

void ObjectWriter::Retry(const std::string& why, Clock::time_point now,
                         std::chrono::seconds retry_after) {
  write_.reset();
  const milliseconds wait = std::max<milliseconds>(backoff_.Failure(now),
                                                   std::min<milliseconds>(retry_after, kLastRetry));
  not_before_ = now + wait;
  if (std::exchange(last_error_, why) == why) return;
  spdlog::warn("{}, retrying in {}ms error={}", subject_, wait.count(), api::LogValue(why));
}

EventWriter::EventWriter(std::string node_name, Backoff::Random random)
    : ObjectWriter("Event not created", std::move(random)), node_name_(std::move(node_name)) {}

void EventWriter::Report(const source::Finding& finding, Clock::time_point now) {
  const api::KindInfo* kind = api::FindKind(finding.kind);
  if (forbidden_ || kind == nullptr || !kind->namespaced) return;
  const Clock::time_point full_at = std::max(full_at_, now) + kInterval;
  const bool too_many = full_at > now + kBurst * kInterval || waiting_.size() == kBurst;
  if (too_many && !reported_limit_) {
    spdlog::warn("too many findings, further findings cause no Events");
  }
  reported_limit_ = too_many;
  if (too_many) return;
  full_at_ = full_at;
  waiting_.push_back(finding);
  if (waiting_.size() == 1) ReadFirst(now);
}

void EventWriter::ReadFirst(Clock::time_point now) {
  const source::Finding& finding = waiting_.front();
  const api::KindInfo& kind = *api::FindKind(finding.kind);
  Read(absl::StrCat(kind.group.empty() ? "/api/" : "/apis/", std::string(kind.api_version),
                    "/namespaces/", PercentEncoded(finding.name_space), "/",
                    std::string(kind.plural), "/", PercentEncoded(finding.name)),
       now + RandomPart(kSpread));
}

void EventWriter::Continue(Clock::time_point now) {
  Finish();
  waiting_.pop_front();
  if (!waiting_.empty()) ReadFirst(now);
}

void EventWriter::OnObject(std::string_view body, Clock::time_point now) {
  const auto envelope = source::OpenEnvelope(body);
  const auto metadata = envelope ? source::ReadMetadata(envelope->raw) : std::nullopt;
  if (!metadata || metadata->uid().empty()) {
    return Retry("invalid response from the API server: the object has no UID", now);
  }
  const source::Finding& finding = waiting_.front();
  const api::KindInfo& kind = *api::FindKind(finding.kind);
  const std::string reason = finding.rejected ? "ObjectRejected" : "PartIgnored";
  const nlohmann::json event = {
      {"apiVersion", kEventsVersion},
      {"kind", "Event"},
      {"metadata",
       {{"namespace", finding.name_space}, {"name", EventName(metadata->uid(), reason, finding)}}},
      {"eventTime", absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::Now(), absl::UTCTimeZone())},
      {"reportingController", "svcmap"},
      {"reportingInstance", node_name_.substr(0, kMaxInstance)},
      {"action", "Program"},
      {"reason", reason},
      {"regarding",
       {{"apiVersion", kind.api_version},
        {"kind", kind.name},
        {"namespace", finding.name_space},
        {"name", finding.name},
        {"uid", metadata->uid()}}},
      {"note", finding.text.substr(0, kMaxNote)},
      {"type", "Warning"}};
  // The handler removes the last character of the note if it is incomplete.
  Write({.path = absl::StrCat("/apis/", kEventsVersion, "/namespaces/",
                              PercentEncoded(finding.name_space), "/events"),
         .accept = kProtobufType,
         .method = "POST",
         .content_type = "application/json",
         .body = event.dump(-1, ' ', false, nlohmann::json::error_handler_t::ignore)});
}

void EventWriter::OnRejected(int http_status, const std::string& why, Clock::time_point now) {
  // Another node has created the Event, or the object was deleted.
  if (http_status == (writing() ? 409 : 404)) return Continue(now);
  // RBAC errors have the form `User "a" cannot create resource "events"`. Status 403 has other
  // causes as well, such as a quota, or the deletion of the namespace.
  if (http_status == 403 && absl::StrContains(why, " cannot ")) {
    spdlog::warn(
        "no Events until the next start, RBAC rules required: get services, get "
        "endpointslices.discovery.k8s.io, create events.events.k8s.io error={}",
        api::LogValue(why));
    forbidden_ = true;
    waiting_.clear();
    return Finish();
  }
  const source::Finding& finding = waiting_.front();
  spdlog::warn("Event not created object={} error={}",
               api::LogValue(finding.name_space + "/" + finding.name), api::LogValue(why));
  Continue(now);
}

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
