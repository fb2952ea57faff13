// Options of each svcmapctl command. All values have been validated without contacting the agent.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/check/probe.h"
#include "api/cli/object_id.h"
#include "api/cli/service_rates.h"
#include "api/fleet/etcd_connection.h"
#include "api/health/bind_address.h"
#include "api/tls/tls_files.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

struct ApplyOptions {
  std::vector<std::string> files;  // Files or directories. "-" means standard input.
  bool strict = false;             // True if nothing is sent when a manifest has a flaw.
  bool prune = false;              // True if objects that are not in the manifests are deleted.
  bool allow_empty = false;        // True if --prune may delete any number of objects.
  bool force = false;              // True if --prune disconnects a connected controller.
  bool dry_run = false;            // True if changes are shown but not applied.
};

struct DeleteOptions {  // Either `files` or `objects` is set.
  std::vector<std::string> files;
  std::vector<ObjectId> objects;
  bool dry_run = false;  // True if changes are shown but not applied.
  bool ignore_not_found = false;
};

enum class OutputFormat { kTable, kWide, kJson, kYaml, kName };

struct GetOptions {
  std::vector<ObjectId> filters;  // An empty name or namespace matches all objects.
  OutputFormat output = OutputFormat::kTable;
};

struct StatusOptions {
  OutputFormat output = OutputFormat::kTable;  // kTable (text), kJson or kYaml.
  bool verbose = false;                        // True if stages, maps and all findings are printed.
};

struct VersionOptions {};

struct DumpOptions {
  v1::DumpRequest::What what = v1::DumpRequest::DESIRED;
};

struct ExplainOptions {
  v1::ExplainRequest request;  // Without a destination if `service` is set.
  ObjectId service;            // Explain all addresses and ports of this Service.
  std::string service_port;    // Only this port: a name or number. Empty: all ports.
  OutputFormat output = OutputFormat::kTable;  // kTable (text), kJson or kYaml.
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

struct WatchOptions {
  OutputFormat output = OutputFormat::kTable;  // kTable (text) or kJson.
};

struct MigrateCheckOptions {
  OutputFormat output = OutputFormat::kTable;  // kTable (text) or kJson.
};

struct CheckOptions {
  // At most one of `netns` and `pid` is set. If `netns` and `pid` are not set, svcmapctl connects
  // from the node.
  std::string netns;       // Name in /run/netns, or path.
  int pid = 0;             // A process in the network namespace.
  std::string name_space;  // Kubernetes namespace of the Services. Empty selects all Services.
  size_t sample = 0;       // Number of random addresses. 0 selects all addresses.
  bool endpoints = true;   // True if endpoints are also checked directly.
  ProbeLimits limits;
  OutputFormat output = OutputFormat::kTable;  // kTable (text) or kJson.
};

struct TopOptions {
  std::string metrics_address;  // HOST:PORT
  // Shows the endpoints of this Service instead of all Services, if the name is not empty.
  ObjectId endpoints;
  RateGroup group = RateGroup::kService;
  RateOrder order = RateOrder::kRate;
  std::chrono::milliseconds interval = std::chrono::seconds(2);
  size_t rows = 0;    // Maximum number of lines. 0 means all lines that fit.
  bool once = false;  // True if one interval is printed, even on a terminal.
};

struct BundleOptions {
  std::string file;             // Output file. "-" means standard output. Empty selects a name.
  bool hash_names = false;      // True if names of objects are replaced with hashes.
  std::string log_file;         // Log of svcmapd. Empty means the systemd journal.
  bool check = true;            // True if the result of `svcmapctl check` is included.
  std::string metrics_address;  // HOST:PORT
};

struct FleetOptions {
  enum class What { kStatus, kNodes, kWait, kExplain, kServe };
  What what = What::kStatus;
  fleet::EtcdServers etcd;
  std::string prefix, status_prefix;
  bool behind = false, rejecting = false, silent = false;  // nodes: print only these nodes.
  // wait: the writer's sequence number. status and nodes: the number that nodes are compared with,
  // or nullopt for the default.
  std::optional<uint64_t> seq;
  int percent = 100;                                             // wait
  std::chrono::milliseconds timeout = std::chrono::seconds(60);  // wait
  std::chrono::seconds window{5};                                // wait
  OutputFormat output = OutputFormat::kTable;                    // kTable (text) or kJson.
};

struct FleetExplainOptions {
  FleetOptions fleet;
  std::string node;
  ExplainOptions explain;
  std::string command;  // The command to run on the node: "explain 10.96.0.10:80".
  TlsFiles tls;         // For svcmapd of the node.
  std::chrono::milliseconds timeout;
};

struct FleetServeOptions {
  FleetOptions fleet;
  BindAddress listen;
};

// `manifests.force` writes even if a Store is the elected writer.
struct FleetApplyOptions {
  fleet::EtcdServers etcd;
  std::string prefix;
  ApplyOptions manifests;
};

struct AcceptSnapshotOptions {};

using Command =
    std::variant<ApplyOptions, DeleteOptions, AcceptSnapshotOptions, GetOptions, StatusOptions,
                 DumpOptions, ExplainOptions, WaitOptions, WatchOptions, MigrateCheckOptions,
                 CheckOptions, TopOptions, BundleOptions, FleetOptions, FleetExplainOptions,
                 FleetApplyOptions, FleetServeOptions, VersionOptions>;

struct Options {
  std::string address;  // Agent address as typed by the user.
  std::string target;   // `address` converted to a gRPC target.
  TlsFiles tls;         // TLS is disabled if `ca` is empty.
  std::chrono::milliseconds timeout = std::chrono::seconds(10);  // Timeout for each call.
  std::string bundle;  // Support bundle to read instead of calling the agent, or empty.
  Command command;
};

}  // namespace svcmap::api
