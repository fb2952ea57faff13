#include "api/etcd/options.h"

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "api/convert/quote.h"
#include "api/fleet/node_status.h"
#include "api/version/version.h"
#include "nft/base/status.h"

namespace svcmap::etcd {
namespace {

using api::Quote;

absl::Status Invalid(const std::string& text) { return absl::InvalidArgumentError(text); }

absl::Status CheckSeconds(const char* flag, int seconds, int least, int most) {
  if (seconds >= least && seconds <= most) return absl::OkStatus();
  return Invalid(absl::StrCat(flag, ": Invalid value: ", seconds, ": must be between ", least,
                              " and ", most, " seconds"));
}

absl::Status Finish(const std::vector<std::string>& urls, int silence, int list_delay,
                    ProgramOptions& options) {
  FollowerOptions& follower = options.etcd.follower;
  if (absl::Status status = fleet::FinishServers(urls, options.etcd); !status.ok()) return status;
  if (absl::Status status = fleet::CheckPrefix("--prefix", follower.prefix); !status.ok()) {
    return status;
  }
  if (!options.status_prefix.empty()) {
    const absl::Status status = fleet::CheckStatusPrefix(follower.prefix, options.status_prefix);
    if (!status.ok()) return status;
  }
  if (!options.agent_address.empty()) {
    if (options.status_prefix.empty()) return Invalid("--agent-address requires --status-prefix");
    const absl::StatusOr<std::string> target = fleet::AgentTarget(options.agent_address);
    if (!target.ok()) return Annotate(target.status(), "--agent-address");
  }
  const std::string given_name = follower.node_name;
  follower.node_name = api::NodeName(given_name);
  if (follower.node_name.empty() || follower.node_name.find('/') != std::string::npos) {
    return Invalid("--node-name: Invalid value: " + Quote(given_name) +
                   ": must be the name of a node");
  }
  if (absl::Status status = CheckSeconds("--silence", silence, 1, 3600); !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckSeconds("--list-delay", list_delay, 0, 3600); !status.ok()) {
    return status;
  }
  follower.silence = std::chrono::seconds(silence);
  follower.list_delay = std::chrono::seconds(list_delay);
  return source::FinishAgentOptions(options);
}

}  // namespace

api::Parsed<ProgramOptions> ParseOptions(int argc, char** argv) {
  api::Parsed<ProgramOptions> parsed;
  ProgramOptions& options = parsed.options;
  EtcdOptions& etcd = options.etcd;
  int silence = 30;
  int list_delay = 10;

  CLI::App app("Sends Services and endpoints from etcd to svcmapd.", "svcmap-etcd");
  app.set_version_flag("--version", api::VersionLine("svcmap-etcd"));
  app.add_option("--etcd-endpoints", options.urls,
                 "URLs of the etcd members, separated by commas: https://host:port")
      ->delimiter(',')
      ->required();
  app.add_option("--etcd-ca", etcd.tls.ca,
                 "PEM file with the CA certificates that verify etcd's certificate (https:// "
                 "only). svcmap-etcd reads all --etcd-* files again for each connection");
  app.add_option("--etcd-cert", etcd.tls.certificate,
                 "PEM file with the client certificate. Its common name is the user in etcd");
  app.add_option("--etcd-key", etcd.tls.key,
                 "PEM file with the private key of the client certificate");
  app.add_option("--prefix", etcd.follower.prefix, "Prefix of the keys, such as /svcmap/v1/DOMAIN")
      ->required();
  app.add_option("--status-prefix", options.status_prefix,
                 "Prefix of the keys to which svcmap-etcd writes the status of this node, such as "
                 "/svcmap-status/v1/DOMAIN [no status]");
  app.add_option("--agent-address", options.agent_address,
                 "Address of svcmapd for \"svcmapctl fleet explain\", written with the status: "
                 "tcp://host:port [none]");
  app.add_option("--node-name", etcd.follower.node_name, "Name of this node [the host name]");
  app.add_option("--silence", silence,
                 "Seconds without a transaction after which svcmap-etcd checks whether the watch "
                 "has lost events")
      ->capture_default_str();
  app.add_option("--list-delay", list_delay,
                 "Maximum random delay in seconds before objects are listed again. Use at least 50 "
                 "ms for each node of the fleet")
      ->capture_default_str();
  source::AddAgentOptions(app, options);
  parsed.exit = api::Parse(app, argc, argv);
  if (parsed.exit) return parsed;
  if (absl::Status status = Finish(options.urls, silence, list_delay, options); !status.ok()) {
    parsed.exit = api::UsageError("svcmap-etcd", status);
  }
  return parsed;
}

}  // namespace svcmap::etcd
