// What svcmapd is told on its command line, checked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/access/listeners.h"
#include "api/config/file.h"
#include "api/grpc/push_limits.h"
#include "api/health/bind_address.h"
#include "proxy/node/nodeport_addresses.h"
#include "proxy/ruleset/table.h"
#include "proxy/state/limits.h"

namespace svcmap::api {

inline constexpr char kDefaultListen[] = "unix:///run/svcmap/svcmap.sock";

inline constexpr char kDefaultStateDir[] = "/var/lib/svcmap";

struct DaemonOptions {
  ListenOptions listeners;
  std::string manifests;  // A file or folder; empty: controllers push.
  std::string node_name;  // Lower case.
  proxy::RulesetOptions ruleset;
  proxy::NodePortAddresses node_port_addresses;
  bool external_ips = true;                  // spec.externalIPs of Services is programmed (S-6).
  std::string state_dir = kDefaultStateDir;  // Empty: no state is kept on disk.
  std::optional<BindAddress> healthz_bind_address;  // Nothing: /healthz is not served.
  std::optional<BindAddress> metrics_bind_address;  // Nothing: metrics are not served.
  bool bind_address_hard_fail = false;
  PushLimits push_limits;
  proxy::StateLimits state_limits;
  bool cleanup = false;
  bool remove_kube_proxy = false;  // Once our tables serve.
  bool preflight = false;          // Only look, and print what is found.
  int verbosity = 0;
  // What --config names. Where fields above have a place there, they are from it.
  std::optional<ConfigurationFile> config;
  bool init_only = false;
};

// Reads the command line. Where the program shall end at once (--help, --version, bad usage) `exit`
// is set, and what there is to say was printed.
struct ParsedOptions {
  DaemonOptions options;
  std::optional<int> exit;
};
ParsedOptions ParseDaemonOptions(int argc, char** argv);

}  // namespace svcmap::api
