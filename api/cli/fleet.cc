// Implements the commands of `svcmapctl fleet` that read the state of a fleet from etcd and print
// it.
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
#include "api/manifests/json_text.h"

namespace svcmap::api {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kFleetPoll{1};
constexpr size_t kNamesPrinted = 10;

bool Selected(const FleetOptions& options, const fleet::FleetNode& node) {
  if (!options.behind && !options.rejecting && !options.silent) return true;
  return (options.behind && node.behind) || (options.rejecting && node.rejecting()) ||
         (options.silent && node.silent);
}

void PrintNodes(const FleetOptions& options, const fleet::Summary& summary,
                const Session& session) {
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
    session.out << JsonText({{"nodes", nodes}});
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

// Asks svcmapd of the node. Returns kUnreachable if no connection is possible.
ExitCode ExplainThere(const Options& options, const std::string& address, Session& session) {
  if (address.empty()) {
    session.Error("node " + options.fleet.node +
                  ": etcd has no address of svcmapd, because svcmap-etcd " +
                  "of the node has no --agent-address or has not written its status yet");
    return ExitCode::kUnreachable;
  }
  const absl::StatusOr<std::string> target = fleet::AgentTarget(address);
  const absl::StatusOr<TlsMaterial> tls = ReadTlsFiles(options.tls);
  for (const absl::Status& status : {target.status(), tls.status()}) {
    if (status.ok()) continue;
    session.Error("node " + options.fleet.node + ": " + std::string(status.message()));
    return ExitCode::kUnreachable;
  }
  const std::unique_ptr<Client> client = NewClient(*target, *tls, options.timeout);
  Session there{*client,    *client,     address,     /*bundle=*/"",
                session.in, session.out, session.err, session.screen};
  return RunExplain(options, there);
}

// Prints the status of the node in etcd, and the command for the node.
void PrintKnown(const Options& options, const FleetReader& reader, const fleet::FleetNode& node,
                const Session& session) {
  if (!node.status) {
    session.Note("etcd has no valid status of node " + node.name);
  } else {
    const fleet::NodeStatus& status = *node.status;
    const auto age = std::chrono::duration_cast<std::chrono::seconds>(
        std::chrono::system_clock::now() - status.time);
    session.Note(absl::StrCat("status of node ", node.name, " in etcd: ", StateText(node), ", seq ",
                              status.seq, " of ", reader.required(), ", etcd revision ",
                              status.revision, ", ", CountText(status.rejected, "rejected object"),
                              ", written ", DurationText(std::max(age, std::chrono::seconds(0))),
                              " ago", status.reason.empty() ? "" : ", reason: ", status.reason));
  }
  const std::string& from = options.explain.request.from();
  session.Note(absl::StrCat("run this command on the node: svcmapctl explain ", options.explain.to,
                            from.empty() ? "" : " --from ", from));
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
      session.out << JsonText(result);
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
  FleetReader reader(all.fleet);
  const absl::StatusOr<fleet::Summary> summary = reader.Read();
  if (!summary.ok()) return EtcdFailed(summary.status(), session);
  if (all.fleet.output == OutputFormat::kJson) {
    session.out << JsonText(CountsJson(reader.head().seq, reader.required(), *summary));
    return ExitCode::kOk;
  }
  session.out << absl::StrFormat("The writer's seq is %d. The nodes are compared with seq %d.\n",
                                 reader.head().seq, reader.required());
  for (const auto& [name, count] : {std::pair("nodes", summary->nodes.size()),
                                    {"up to date", summary->up_to_date},
                                    {"behind", summary->behind},
                                    {"rejecting", summary->rejecting},
                                    {"unhealthy", summary->unhealthy},
                                    {"silent", summary->silent}}) {
    session.out << absl::StrFormat("%-12s%8d\n", name, count);
  }
  return ExitCode::kOk;
}

ExitCode RunFleetNodes(const Options& all, Session& session) {
  const absl::StatusOr<fleet::Summary> summary = FleetReader(all.fleet).Read();
  if (!summary.ok()) return EtcdFailed(summary.status(), session);
  PrintNodes(all.fleet, *summary, session);
  return ExitCode::kOk;
}

ExitCode RunFleetExplain(const Options& options, Session& session) {
  FleetReader reader(options.fleet);
  const absl::StatusOr<fleet::Summary> summary = reader.Read();
  if (!summary.ok()) return EtcdFailed(summary.status(), session);
  const auto node = std::ranges::find(summary->nodes, options.fleet.node, &fleet::FleetNode::name);
  if (node == summary->nodes.end()) {
    return session.Refuse(absl::StrCat("node ", options.fleet.node, " not found below ",
                                       options.fleet.prefix, "/nodes/ and ",
                                       options.fleet.status_prefix, "/nodes/"));
  }
  const ExitCode code = ExplainThere(options, node->status ? node->status->agent : "", session);
  if (code == ExitCode::kUnreachable) PrintKnown(options, reader, *node, session);
  return code;
}

}  // namespace svcmap::api
