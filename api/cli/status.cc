// Implements `svcmapctl status` and `svcmapctl version`.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "api/cli/commands.h"
#include "api/cli/message_text.h"
#include "api/cli/object_id.h"
#include "api/cli/text.h"
#include "api/manifests/json_text.h"
#include "api/version/version.h"

namespace svcmap::api {
namespace {

// Appends a line "Name         value" to `page`.
void Line(std::string_view name, const std::string& value, std::string& page) {
  absl::StrAppendFormat(&page, "%-12s %s\n", name, OneLine(value));
}

std::string ControllerText(const v1::GetStatusResponse& status) {
  if (!status.manifests_path().empty())
    return "none, state is read from manifests in " + status.manifests_path();
  if (!status.has_controller()) return "not connected";
  const v1::ControllerStatus& controller = status.controller();
  return absl::StrCat(controller.name(),
                      controller.instance().empty() ? "" : " (" + controller.instance() + ")",
                      controller.epoch() == 0 ? "" : absl::StrCat(", epoch ", controller.epoch()),
                      ", connected since ", TimeText(controller.since()),
                      controller.in_snapshot() ? ", sending a snapshot" : "");
}

std::string CommitText(const v1::GetStatusResponse& status) {
  if (!status.has_last_commit()) return "none since the agent started";
  const v1::CommitStatus& commit = status.last_commit();
  return absl::StrCat(TimeText(commit.time()), ", ", CountText(commit.elements(), "element"),
                      " in ", DurationText(commit.duration()));
}

std::string ObjectsText(const v1::GetStatusResponse& status) {
  std::vector<std::string> texts;
  for (const v1::KindCount& count : status.objects()) {
    const KindInfo& words = WordsOf(count.kind());
    texts.push_back(absl::StrCat(count.count(), " ",
                                 std::string(count.count() == 1 ? words.singular : words.plural)));
  }
  return texts.empty() ? "none" : absl::StrJoin(texts, ", ");
}

std::string KernelText(const v1::GetStatusResponse& status) {
  return absl::StrCat(status.verified() ? "matches the last commit" : "not yet verified",
                      status.watching() ? ", external changes are monitored"
                                        : ", external changes are NOT monitored");
}

// The counts of elements and chains do not include the contents of deleted tables.
std::string RepairsText(const v1::GetStatusResponse& status) {
  if (status.repaired_elements() == 0 && status.repaired_chains() == 0) {
    return absl::StrCat(status.repairs(),
                        " (tables deleted or damaged by other processes, written again)");
  }
  return absl::StrCat(status.repairs(), " (", CountText(status.repaired_elements(), "element"),
                      " and ", status.repaired_chains(),
                      status.repaired_chains() == 1 ? " chain or object" : " chains or objects",
                      " changed by other processes)");
}

std::string SavedStateText(const v1::GetStatusResponse& status) {
  if (!status.has_saved_state())
    return "disabled; after a restart, the agent waits for a controller";
  const v1::SavedStateStatus& saved = status.saved_state();
  if (!saved.error().empty()) {
    return absl::StrCat("NOT written to ", saved.folder(), ": ", saved.error());
  }
  return absl::StrCat(saved.folder(), ", ", saved.bytes(), " bytes",
                      saved.has_synced() ? ", synced at " + TimeText(saved.synced()) : "");
}

void Maps(const v1::GetStatusResponse& status, std::string& page) {
  std::string_view name = "Maps";
  for (const v1::MapCount& map : status.maps()) {
    Line(name, absl::StrFormat("%-28s %-5s %9d", map.name(), map.family(), map.elements()), page);
    name = "";
  }
}

void Stages(const v1::GetStatusResponse& status, std::string& page) {
  std::string_view name = "Stages";
  for (const v1::StageTime& stage : status.stages()) {
    if (stage.count() == 0) continue;
    const double micros = static_cast<double>(stage.sum().seconds()) * 1e6 +
                          static_cast<double>(stage.sum().nanos()) / 1e3;
    Line(
        name,
        absl::StrFormat("%-8s count %7d, average %.1f us, maximum %s", stage.name(), stage.count(),
                        micros / static_cast<double>(stage.count()), DurationText(stage.longest())),
        page);
    name = "";
  }
}

// Appends the findings, or as many as fit on the screen if `rows` is not 0.
void Findings(const v1::GetStatusResponse& status, size_t columns, size_t rows, std::string& page) {
  const auto lines = [](std::string_view text) {
    return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  };
  constexpr size_t kOtherLines = 3;  // Heading, number of omitted findings, and the next prompt.
  const size_t used = lines(page) + kOtherLines;
  size_t room = rows > used ? rows - used : 1;
  if (!status.findings().empty()) page += "Findings\n";
  for (int i = 0; i < status.findings_size(); ++i) {
    const std::string text = FitLines("  " + OneLine(status.findings(i).message()) + "\n", columns);
    if (rows > 0 && i > 0 && lines(text) > room) {
      absl::StrAppend(&page, "  and ", status.findings_size() - i,
                      " more; svcmapctl status --verbose prints all findings\n");
      return;
    }
    page += text;
    room -= std::min(room, lines(text));
  }
}

std::string LatencyText(const v1::GetStatusResponse& status) {
  const v1::ProgrammingLatency& latency = status.programming_latency();
  return absl::StrCat("last ", DurationText(latency.last()), ", maximum ",
                      DurationText(latency.longest()), " (endpoint change to commit)");
}

// Returns the text for phases that the state does not show.
std::string PhaseText(v1::Phase phase) {
  switch (phase) {
    case v1::PHASE_LOADING:
      return " (loading)";
    case v1::PHASE_REWRITING:
      return " (rewriting the tables)";
    case v1::PHASE_REPAIRING:
      return " (repairing the tables)";
    default:
      return "";
  }
}

std::string WaitingText(const v1::GetStatusResponse& status) {
  return absl::StrCat(
      status.manifests_path().empty()
          ? "a complete snapshot (from a controller or from svcmapctl apply --prune)"
          : "manifests without errors in --manifests " + status.manifests_path(),
      status.phase() == v1::PHASE_HOLDING ? "; existing rules stay in effect" : "");
}

// On a terminal, omits stages, maps and findings that do not fit on the screen, unless `verbose` is
// set.
std::string StatusText(const v1::GetStatusResponse& status, bool verbose,
                       const TerminalSize& screen) {
  const bool complete = verbose || screen.rows == 0;
  std::string page;
  Line("Agent",
       absl::StrCat("svcmapd ", status.version(), " on node ", status.node_name(), ", started ",
                    TimeText(status.started())),
       page);
  Line("State",
       absl::StrCat(StateName(status.state()), PhaseText(status.phase()), ", revision ",
                    status.revision()),
       page);
  if (status.state() == v1::WAITING_FOR_STATE && status.revision() > 0) {
    Line("Waiting for", WaitingText(status), page);
  }
  if (status.has_held_snapshot()) {
    Line("Snapshot held",
         absl::StrCat("since ", TimeText(status.held_snapshot().since()), ", would remove ",
                      status.held_snapshot().loss()),
         page);
  }
  if (!status.last_error().empty()) Line("Last error", status.last_error(), page);
  Line("Controller", ControllerText(status), page);
  Line("Last commit", CommitText(status), page);
  if (status.has_programming_latency()) Line("Latency", LatencyText(status), page);
  if (status.pending_changes() > 0) {
    Line("Pending", CountText(status.pending_changes(), "changed object") + " not yet committed",
         page);
  }
  Line("Objects", ObjectsText(status), page);
  if (status.refused_objects() > 0) {
    Line("Rejected", CountText(status.refused_objects(), "object"), page);
  }
  if (status.kernel_refused_services() > 0) {
    Line("Rejected", CountText(status.kernel_refused_services(), "Service") + " by the kernel",
         page);
  }
  if (status.refused_calls() > 0 || status.failed_handshakes() > 0) {
    Line("Unauthorized",
         absl::StrCat(CountText(status.refused_calls(), "call"), " and ",
                      CountText(status.failed_handshakes(), "TLS handshake"),
                      ", see the agent's log"),
         page);
  }
  Line("Programmed",
       absl::StrCat(CountText(status.service_ports(), "Service port"), ", ",
                    CountText(status.endpoints(), "endpoint slot")),
       page);
  Line("Kernel", KernelText(status), page);
  if (status.repairs() > 0) Line("Repairs", RepairsText(status), page);
  Line("Saved state", SavedStateText(status), page);
  page = FitLines(page, screen.columns);
  Findings(status, screen.columns, complete ? 0 : screen.rows, page);
  if (!complete) return page;
  Line("Counters",
       absl::StrCat("kernel generation ", status.kernel_generation(), ", ",
                    CountText(status.audits(), "audit"), ", ",
                    CountText(status.elements_written(), "element"), " written"),
       page);
  Stages(status, page);
  Maps(status, page);
  return page;
}

}  // namespace

std::string StateName(v1::State state) {
  switch (state) {
    case v1::WAITING_FOR_STATE:
      return "waiting for state";
    case v1::SERVING:
      return "serving";
    case v1::RETRYING:
      return "retrying";
    default:
      return absl::StrCat("state ", static_cast<int>(state));
  }
}

std::string StatusLine(const v1::GetStatusResponse& status) {
  return absl::StrCat(
      StateName(status.state()), ", revision ", status.revision(),
      status.last_error().empty() ? "" : ", last error: " + OneLine(status.last_error()));
}

ExitCode RunVersion(const Options& /*options*/, Session& session) {
  session.out << VersionLine("svcmapctl") << '\n';
  const absl::StatusOr<v1::GetStatusResponse> status = session.reader.GetStatus();
  if (!status.ok()) return session.CallFailed(status.status());
  session.out << "svcmapd " << OneLine(status->version()) << " on node "
              << OneLine(status->node_name()) << '\n';
  return ExitCode::kOk;
}

ExitCode RunStatus(const Options& options, Session& session) {
  const absl::StatusOr<v1::GetStatusResponse> status = session.reader.GetStatus();
  if (!status.ok()) return session.CallFailed(status.status());
  session.out << (options.output == OutputFormat::kJson ? JsonText(MessageTree(*status))
                  : options.output == OutputFormat::kYaml
                      ? YamlText(MessageTree(*status))
                      : StatusText(*status, options.verbose, session.screen));
  return ExitCode::kOk;
}

}  // namespace svcmap::api
