// Implements `svcmapctl fleet`, which reads the state of a fleet from etcd.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "api/cli/commands.h"
#include "api/cli/fleet_observer.h"
#include "api/cli/fleet_reader.h"
#include "api/cli/table.h"
#include "api/cli/text.h"

namespace svcmap::api {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kFleetPoll{1};
constexpr size_t kNamesPrinted = 10;

// The names of keys and nodes are any bytes.
void PrintJson(const nlohmann::json& value, const Session& session) {
  session.out << value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
}

void PrintCounts(const FleetOptions& options, const FleetReader& reader,
                 const fleet::Summary& summary, Session& session) {
  if (options.output == OutputFormat::kJson) {
    PrintJson(CountsJson(reader.head().seq, reader.required(), summary), session);
    return;
  }
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

void PrintNodes(const FleetOptions& options, const FleetReader& /*reader*/,
                const fleet::Summary& summary, Session& session) {
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

ExitCode ReadAndPrint(const FleetOptions& options,
                      void (*print)(const FleetOptions&, const FleetReader&, const fleet::Summary&,
                                    Session&),
                      Session& session) {
  FleetReader reader(options);
  if (absl::Status status = reader.ReadFleet(); !status.ok()) return EtcdFailed(status, session);
  const absl::StatusOr<fleet::Summary> summary = reader.ReadStatuses();
  if (!summary.ok()) return EtcdFailed(summary.status(), session);
  print(options, reader, *summary, session);
  return ExitCode::kOk;
}

}  // namespace

ExitCode RunFleetWait(const Options& all, Session& session) {
  const FleetOptions& options = all.fleet;
  FleetReader reader(options);
  if (absl::Status status = reader.ReadFleet(); !status.ok()) return EtcdFailed(status, session);
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
      nlohmann::json result = CountsJson(reader.head().seq, reader.required(), *summary);
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

ExitCode RunFleetStatus(const Options& all, Session& session) {
  return ReadAndPrint(all.fleet, PrintCounts, session);
}

ExitCode RunFleetNodes(const Options& all, Session& session) {
  return ReadAndPrint(all.fleet, PrintNodes, session);
}

}  // namespace svcmap::api
