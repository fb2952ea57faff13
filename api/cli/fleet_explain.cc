// Implements `svcmapctl fleet explain`.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "api/cli/commands.h"
#include "api/cli/fleet_reader.h"
#include "api/cli/text.h"

namespace svcmap::api {
namespace {

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

ExitCode RunFleetExplain(const Options& options, Session& session) {
  FleetReader reader(options.fleet);
  if (absl::Status status = reader.ReadFleet(); !status.ok()) return EtcdFailed(status, session);
  const absl::StatusOr<fleet::Summary> summary = reader.ReadStatuses();
  if (!summary.ok()) return EtcdFailed(summary.status(), session);
  const auto node = std::find_if(summary->nodes.begin(), summary->nodes.end(),
                                 [&](const auto& each) { return each.name == options.fleet.node; });
  if (node == summary->nodes.end()) {
    session.Error(absl::StrCat("node ", options.fleet.node, " not found below ",
                               options.fleet.prefix, "/nodes/ and ", options.fleet.status_prefix,
                               "/nodes/"));
    return ExitCode::kIncomplete;
  }
  const ExitCode code = ExplainThere(options, node->status ? node->status->agent : "", session);
  if (code == ExitCode::kUnreachable) PrintKnown(options, reader, *node, session);
  return code;
}

}  // namespace svcmap::api
