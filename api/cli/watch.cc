// Implements `svcmapctl watch`. Prints events in the style of the agent's log: an event, then
// key=value fields.
#include <nlohmann/json.hpp>
#include <ostream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "api/cli/commands.h"
#include "api/cli/message_text.h"
#include "api/cli/object_id.h"
#include "api/cli/text.h"
#include "api/log/log_value.h"
#include "api/manifests/json_text.h"

namespace svcmap::api {
namespace {

// Example: "2026-11-21T00:08:19.042Z". Prints milliseconds, because several events may occur in one
// second.
std::string EventTime(const google::protobuf::Timestamp& time) {
  std::string text = TimeText(time);
  if (!text.ends_with('Z')) return text;
  text.pop_back();
  return absl::StrFormat("%s.%03dZ", text, time.nanos() / 1'000'000);
}

// Formats a duration in milliseconds with two decimal places: "0.13".
std::string Milliseconds(const google::protobuf::Duration& duration) {
  return absl::StrFormat("%.2f",
                         static_cast<double>(duration.seconds()) * 1e3 + duration.nanos() / 1e6);
}

// Returns " key=value", or "" if `value` is empty.
std::string Field(const char* key, const std::string& value) {
  return value.empty() ? "" : absl::StrCat(" ", key, "=", LogValue(value));
}

std::string StatusEvent(const v1::GetStatusResponse& status) {
  return absl::StrCat("agent status", Field("version", status.version()),
                      Field("node", status.node_name()), Field("state", StateName(status.state())),
                      " revision=", status.revision(), Field("error", status.last_error()));
}

std::string CommitEvent(const v1::WatchCommit& commit) {
  return absl::StrCat("committed revision=", commit.revision(), " elements=", commit.elements(),
                      " services=", commit.services(),
                      commit.tables_written() ? " rewrite=full" : "",
                      " duration_ms=", Milliseconds(commit.duration()));
}

std::string RepairEvent(const v1::WatchRepair& repair) {
  const std::string cause = Field("damage", repair.damage()) + Field("process", repair.process());
  switch (repair.outcome()) {
    case v1::WatchRepair::REPAIRED:
      return absl::StrCat("kernel state repaired", cause, " elements=", repair.elements(),
                          " chains_and_objects=", repair.chains(),
                          " duration_ms=", Milliseconds(repair.duration()));
    case v1::WatchRepair::REWRITE:
      return absl::StrCat("kernel state damaged, rewriting the tables completely", cause);
    default:
      return absl::StrCat("repair failed, retrying", cause, Field("error", repair.error()));
  }
}

std::string ControllerEvent(const v1::WatchController& controller) {
  const std::string who =
      absl::StrCat(Field("name", controller.name()), Field("instance", controller.instance()),
                   controller.epoch() == 0 ? "" : absl::StrCat(" epoch=", controller.epoch()));
  switch (controller.what()) {
    case v1::WatchController::CAME:
      return "controller connected" + who;
    case v1::WatchController::LEFT:
      return "controller disconnected" + who;
    case v1::WatchController::REPLACED:
      return absl::StrCat("controller replaced", who, Field("by", controller.reason()));
    case v1::WatchController::FENCED:
      return absl::StrCat("controller rejected", who, Field("reason", controller.reason()));
    default:
      return absl::StrCat("unknown controller event", who,
                          " event=", static_cast<int>(controller.what()));
  }
}

std::vector<std::string> FindingLines(const v1::WatchFindings& findings) {
  std::vector<std::string> lines;
  for (const v1::ObjectResult& result : findings.results()) {
    lines.push_back(result.message().empty() ? IdOf(result).ToString() + " " + result.reason()
                                             : result.message());
  }
  if (findings.more() > 0) {
    lines.push_back(absl::StrCat("findings omitted count=", findings.more()));
  }
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
      return {"commit failed, retrying" + Field("error", event.sync_failed().error())};
    case v1::WatchEvent::kRecovered:
      return {absl::StrCat("commit recovered failures=", event.recovered().failures(),
                           " duration_ms=", Milliseconds(event.recovered().after()),
                           " revision=", event.recovered().revision())};
    case v1::WatchEvent::kController:
      return {ControllerEvent(event.controller())};
    case v1::WatchEvent::EVENT_NOT_SET:
      break;
  }
  return {"unknown event, not supported by this version of svcmapctl"};
}

// Returns one line for an event, except that an event with findings has one line for each finding.
// If events were lost, an additional first line contains the number of lost events.
std::string WatchText(const v1::WatchEvent& event) {
  std::vector<std::string> lines = Lines(event);
  if (event.lost() > 0) {
    lines.insert(lines.begin(), absl::StrCat("events lost because svcmapctl read too slowly count=",
                                             event.lost()));
  }
  const std::string time = EventTime(event.time());
  std::string text;
  for (const std::string& line : lines) absl::StrAppend(&text, time, " ", OneLine(line), "\n");
  return text;
}

}  // namespace

ExitCode RunWatch(const Options& options, Session& session) {
  // Flushes after each event, even if standard output is a pipe. Also detects a closed standard
  // output while no event arrives.
  const auto flush = [&] { return session.out.flush().good(); };
  const auto print = [&](const v1::WatchEvent& event) {
    const bool json = options.output == OutputFormat::kJson;
    session.out << (json ? JsonLine(MessageTree(event)) : WatchText(event));
    return flush();
  };
  const absl::Status status = session.client.Watch(print, flush);
  return status.ok() ? ExitCode::kOk : session.CallFailed(status);
}

}  // namespace svcmap::api
