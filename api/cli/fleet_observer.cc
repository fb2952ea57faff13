#include "api/cli/fleet_observer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "api/cli/fleet_reader.h"
#include "api/cli/text.h"

namespace svcmap::api {
namespace {

using nlohmann::json;

std::string TimeOf(fleet::SystemTimePoint time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromChrono(time), absl::UTCTimeZone());
}

int64_t WholeSeconds(std::chrono::nanoseconds time) {
  return std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::seconds>(time).count());
}

// Names and reasons are any bytes.
std::string ShortText(const std::string& text) {
  return Shorten(OneLine(text), FleetObserver::kMaxText);
}

}  // namespace

json CountsJson(uint64_t head_seq, uint64_t required_seq, const fleet::Summary& summary) {
  return {{"head_seq", head_seq},           {"seq", required_seq},
          {"total", summary.nodes.size()},  {"up_to_date", summary.up_to_date},
          {"behind", summary.behind},       {"rejecting", summary.rejecting},
          {"unhealthy", summary.unhealthy}, {"silent", summary.silent}};
}

void FleetObserver::AddChange(fleet::SystemTimePoint now, const std::string& text) {
  if (first_) return;
  changes_.push_front({{"time", TimeOf(now)}, {"text", text}});
  if (changes_.size() > kMaxChanges) changes_.pop_back();
}

std::string FleetObserver::Observe(const fleet::Head& head, uint64_t required_seq,
                                   const fleet::Summary& summary, fleet::SystemTimePoint now,
                                   std::chrono::steady_clock::time_point steady) {
  if (head.epoch != epoch_) AddChange(now, absl::StrCat("new writer, epoch ", head.epoch));
  if (required_seq != required_seq_ && required_seq != head.seq) {
    AddChange(now, absl::StrCat("the nodes are compared with seq ", required_seq));
  }
  json nodes = json::array();
  std::map<std::string, Seen> seen;
  uint64_t problems = 0, rejected_objects = 0, max_lag = 0;
  int64_t max_behind_seconds = 0;
  for (const fleet::FleetNode& node : summary.nodes) {
    const auto old = nodes_.find(node.name);
    const bool known = old != nodes_.end();
    Seen& current = seen[node.name];
    current.state = StateText(node);
    if (node.behind)
      current.behind_since = known ? old->second.behind_since.value_or(steady) : steady;
    if (!known || old->second.state != current.state) {
      AddChange(now, absl::StrCat(ShortText(node.name), ": ", known ? old->second.state : "new",
                                  " -> ", current.state));
    }
    const uint64_t lag = node.behind ? required_seq - node.status->seq : 0;
    const int64_t behind_seconds = WholeSeconds(steady - current.behind_since.value_or(steady));
    const uint64_t rejected = node.status ? node.status->rejected : 0;
    max_lag = std::max(max_lag, lag);
    max_behind_seconds = std::max(max_behind_seconds, behind_seconds);
    rejected_objects += rejected;
    if (current.state == "ok" || ++problems > kMaxNodes) continue;
    nodes.push_back({{"name", ShortText(node.name)},
                     {"state", current.state},
                     {"lag", lag},
                     {"behind_seconds", behind_seconds},
                     {"rejected", rejected},
                     {"age_seconds", nullptr},
                     {"reason", node.status ? ShortText(node.status->reason) : ""}});
    if (node.status) nodes.back()["age_seconds"] = WholeSeconds(now - node.status->time);
  }
  for (const auto& [name, old] : nodes_) {
    if (!seen.contains(name)) AddChange(now, ShortText(name) + ": removed");
  }
  nodes_ = std::move(seen);
  epoch_ = head.epoch;
  required_seq_ = required_seq;
  first_ = false;

  json event = CountsJson(head.seq, required_seq, summary);
  event.update({{"time", TimeOf(now)},
                {"epoch", head.epoch},
                {"problems", problems},
                {"rejected_objects", rejected_objects},
                {"max_lag", max_lag},
                {"max_behind_seconds", max_behind_seconds},
                {"nodes", std::move(nodes)},
                {"changes", changes_}});
  return event.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace svcmap::api
