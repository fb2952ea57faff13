#include "api/cli/watch_text.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "api/cli/object_id.h"
#include "api/cli/status_text.h"
#include "api/cli/text.h"

namespace svcmap::api {
namespace {

// "2026-11-21T00:08:19.042Z": events come faster than once a second.
std::string EventTime(const google::protobuf::Timestamp& time) {
  std::string text = TimeText(time);
  if (!text.ends_with('Z')) return text;
  text.pop_back();
  return absl::StrFormat("%s.%03dZ", text, time.nanos() / 1'000'000);
}

std::string StatusEvent(const v1::GetStatusResponse& status) {
  return absl::StrCat("svcmapd ", status.version(), " on node ", status.node_name(), ": ",
                      StatusLine(status));
}

std::string CommitEvent(const v1::WatchCommit& commit) {
  return absl::StrCat(
      "revision ", commit.revision(), ": ", commit.tables_written() ? "tables written whole, " : "",
      CountText(commit.elements(), "element"),
      commit.services() == 0 ? "" : " of " + CountText(commit.services(), "Service"), " in ",
      DurationText(commit.duration()));
}

std::string RepairEvent(const v1::WatchRepair& repair) {
  const std::string damage =
      absl::StrCat(repair.damage().empty() ? "the kernel was not as committed" : repair.damage(),
                   repair.process().empty() ? "" : " by " + repair.process());
  switch (repair.outcome()) {
    case v1::WatchRepair::REPAIRED:
      return absl::StrCat("repaired: ", damage, "; ", CountText(repair.elements(), "element"),
                          " and ", CountText(repair.chains(), "chain"), " put right in ",
                          DurationText(repair.duration()));
    case v1::WatchRepair::REWRITE:
      return absl::StrCat("not repaired: ", damage,
                          "; too much is wrong, writing the tables again");
    default:
      return absl::StrCat("not repaired: ", damage, "; ", repair.error(), "; trying again");
  }
}

std::string ControllerEvent(const v1::WatchController& controller) {
  const std::string who = absl::StrCat(
      "controller ", controller.name(),
      controller.instance().empty() ? "" : " (" + controller.instance() + ")",
      controller.epoch() == 0 ? "" : absl::StrCat(", epoch ", controller.epoch(), ","));
  switch (controller.what()) {
    case v1::WatchController::CAME:
      return who + " came";
    case v1::WatchController::LEFT:
      return who + " left";
    case v1::WatchController::REPLACED:
      return who + " was replaced by " + controller.reason();
    case v1::WatchController::FENCED:
      return who + " was refused: " + controller.reason();
    default:
      return who + " did what this version of svcmapctl does not know";
  }
}

std::vector<std::string> FindingLines(const v1::WatchFindings& findings) {
  std::vector<std::string> lines;
  for (const v1::ObjectResult& result : findings.results()) {
    lines.push_back(result.message().empty() ? IdOf(result).ToString() + " " + result.reason()
                                             : result.message());
  }
  if (findings.more() > 0) lines.push_back(CountText(findings.more(), "more finding"));
  return lines;
}

std::vector<std::string> Lines(const v1::WatchEvent& event) {
  switch (event.event_case()) {
    case v1::WatchEvent::kStatus:
      return {StatusEvent(event.status())};
    case v1::WatchEvent::kCommit:
      return {CommitEvent(event.commit())};
    case v1::WatchEvent::kFindings:
      return FindingLines(event.findings());
    case v1::WatchEvent::kRepair:
      return {RepairEvent(event.repair())};
    case v1::WatchEvent::kSyncFailed:
      return {absl::StrCat("the kernel did not take a batch: ", event.sync_failed().error(),
                           "; trying again")};
    case v1::WatchEvent::kRecovered:
      return {absl::StrCat("recovered after ", CountText(event.recovered().failures(), "failure"),
                           " in ", DurationText(event.recovered().after()), ", revision ",
                           event.recovered().revision())};
    case v1::WatchEvent::kController:
      return {ControllerEvent(event.controller())};
    case v1::WatchEvent::EVENT_NOT_SET:
      break;
  }
  return {"something that this version of svcmapctl does not know"};
}

}  // namespace

std::string WatchText(const v1::WatchEvent& event) {
  std::vector<std::string> lines = Lines(event);
  if (event.lost() > 0) {
    lines.insert(lines.begin(),
                 CountText(event.lost(), "event") + " lost: not read as fast as they came");
  }
  const std::string time = EventTime(event.time());
  std::string text;
  for (const std::string& line : lines) absl::StrAppend(&text, time, " ", OneLine(line), "\n");
  return text;
}

}  // namespace svcmap::api
