#include "api/kube/write/event_writer.h"

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
#include "api/kube/wire/decode.h"
#include "api/kube/wire/resource.h"
#include "api/log/log_value.h"
#include "api/source/object.h"

namespace svcmap::kube {
namespace {

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

}  // namespace svcmap::kube
