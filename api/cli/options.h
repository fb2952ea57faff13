// Options of svcmapctl. All values have been validated without contacting the agent.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/check/probe.h"
#include "api/cli/exit_code.h"
#include "api/cli/object_id.h"
#include "api/cli/rates.h"
#include "api/fleet/etcd_connection.h"
#include "api/health/bind_address.h"
#include "api/tls/tls_files.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

struct Options;
struct Session;

// Runs a command.
using Runner = ExitCode (*)(const Options& options, Session& session);

inline constexpr char kDefaultMetricsAddress[] = "127.0.0.1:10249";

enum class OutputFormat { kTable, kWide, kJson, kYaml, kName };  // kTable is also text.

struct ApplyOptions {
  std::vector<std::string> files;  // Files or directories. "-" means standard input.
  bool strict = false;             // True if nothing is sent when a manifest has a flaw.
  bool prune = false;              // True if objects that are not in the manifests are deleted.
  bool allow_empty = false;        // True if --prune may delete any number of objects.
  // True if --prune disconnects a connected controller, or if `fleet apply` writes even if a Store
  // is the elected writer.
  bool force = false;
  bool dry_run = false;  // True if changes are shown but not applied.
};

struct DeleteOptions {  // Either `files` or `objects` is set.
  std::vector<std::string> files;
  std::vector<ObjectId> objects;
  bool dry_run = false;  // True if changes are shown but not applied.
  bool ignore_not_found = false;
};

struct GetOptions {
  std::vector<ObjectId> filters;  // An empty name or namespace matches all objects.
  OutputFormat output = OutputFormat::kTable;
};

struct ExplainOptions {
  std::string to;              // The destination, as typed by the user.
  v1::ExplainRequest request;  // Without a destination if `service` is set.
  ObjectId service;            // Explain all addresses and ports of this Service.
  std::string service_port;    // Only this port: a name or number. Empty: all ports.
  OutputFormat output = OutputFormat::kTable;  // kTable, kJson or kYaml.
  bool requirements = false;                   // True if requirement numbers ("S-94") are printed.
  bool verbose = false;                        // True if all steps and endpoints are printed.
};

struct WaitOptions {
  enum class For { kServing, kController, kRevision };
  For what = For::kServing;
  uint64_t revision = 0;                  // Minimum revision to wait for, used with kRevision.
  std::string what_as_given = "serving";  // Value of --for, as typed by the user.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);  // Timeout for the whole command.
};

struct CheckOptions {
  // At most one of `netns` and `pid` is set. If `netns` and `pid` are not set, svcmapctl connects
  // from the node.
  std::string netns;          // Name in /run/netns, or path.
  int pid = 0;                // A process in the network namespace.
  std::string name_space;     // Kubernetes namespace of the Services. Empty selects all Services.
  size_t sample = 0;          // Number of random addresses. 0 selects all addresses.
  bool no_endpoints = false;  // True if endpoints are not checked directly.
  ProbeLimits limits;
  OutputFormat output = OutputFormat::kTable;  // kTable or kJson.
};

struct TopOptions {
  std::string metrics_address = kDefaultMetricsAddress;  // HOST:PORT
  // Shows the endpoints of this Service instead of all Services, if the name is not empty.
  ObjectId endpoints;
  RateGroup group = RateGroup::kService;
  RateOrder order = RateOrder::kRate;
  std::chrono::milliseconds interval = std::chrono::seconds(2);
  size_t rows = 0;    // Maximum number of lines. 0 means all lines that fit.
  bool once = false;  // True if one interval is printed, even on a terminal.
};

struct BundleOptions {
  std::string metrics_address = kDefaultMetricsAddress;  // HOST:PORT
  std::string file;         // Output file. "-" means standard output. Empty selects a name.
  bool hash_names = false;  // True if names of objects are replaced with hashes.
  std::string log_file;     // Log of svcmapd. Empty means the systemd journal.
  bool no_check = false;    // True if the result of `svcmapctl check` is not included.
};

struct FleetOptions {
  fleet::EtcdServers etcd;
  std::string prefix, status_prefix;
  bool behind = false, rejecting = false, silent = false;  // nodes: print only these nodes.
  // wait: the writer's sequence number. Other commands: the number that nodes are compared with, or
  // nullopt for the default.
  std::optional<uint64_t> seq;
  int percent = 100;                                             // wait
  std::chrono::milliseconds timeout = std::chrono::seconds(60);  // wait
  std::chrono::milliseconds window = std::chrono::seconds(5);    // wait
  OutputFormat output = OutputFormat::kTable;                    // kTable or kJson.
  std::string node;                                              // explain
  BindAddress listen;                                            // serve
};

struct Options {
  std::string address;  // Agent address as typed by the user.
  std::string target;   // `address` converted to a gRPC target.
  TlsFiles tls;         // TLS is disabled if `ca` is empty.
  std::chrono::milliseconds timeout = std::chrono::seconds(10);  // Timeout for each call.
  std::string bundle;  // Support bundle to read instead of calling the agent, or empty.

  Runner run = nullptr;
  // If not empty, the output of --help, --version or completion. No command runs.
  std::string help;
  std::vector<std::string> help_topic;  // The arguments of `help`.
  bool help_is_script = false;          // True if long lines must not be broken.

  // Options of the commands. Only the options of the given command are set. `fleet apply` and
  // `fleet explain` also use `apply` and `explain`.
  ApplyOptions apply;
  DeleteOptions remove;
  GetOptions get;
  OutputFormat output = OutputFormat::kTable;  // status, watch and migrate check
  bool verbose = false;                        // status
  v1::DumpRequest::What dump = v1::DumpRequest::DESIRED;
  ExplainOptions explain;
  WaitOptions wait;
  CheckOptions check;
  TopOptions top;
  BundleOptions support_bundle;
  FleetOptions fleet;
};

}  // namespace svcmap::api
