// Checks that svcmapd runs at startup. Missing kernel features are fatal. Node settings that
// prevent translated connections from working produce warnings. Each message contains a remedy. The
// checks apply to the network namespace of the calling thread and change nothing.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/migration/node_report.h"
#include "nft/netlink/bridge_reader.h"
#include "nft/netlink/chain_reader.h"
#include "nft/netlink/probe.h"

namespace svcmap::api {

using Warning = NodeReport::Warning;

// Settings of the node. A number is absent if the kernel does not have the sysctl.
struct Facts {
  std::optional<int> ip_forward;         // net.ipv4.ip_forward
  std::optional<int> ipv6_forwarding;    // net.ipv6.conf.all.forwarding
  std::optional<int> bridge_iptables;    // net.bridge.bridge-nf-call-iptables
  std::optional<int> bridge_ip6tables;   // net.bridge.bridge-nf-call-ip6tables
  std::optional<int> conntrack_max;      // net.netfilter.nf_conntrack_max
  std::map<std::string, int> rp_filter;  // net.ipv4.conf.NAME.rp_filter, with "all" and "default"
  // True if an interface other than lo has an IPv6 address that is not link-local. If false, IPv6
  // settings are not checked.
  bool ipv6_in_use = false;
  // True if the table filter of iptables-legacy is in use. Absent if the process cannot read the
  // list of legacy tables, which only root can read.
  std::optional<bool> legacy_iptables_filter = false;
  // True if the table filter of ip6tables-legacy is in use. Absent if unknown.
  std::optional<bool> legacy_ip6tables_filter = false;
  std::vector<nft::Bridge> bridges;
  std::vector<nft::ForeignChain> chains;  // All chains of nf_tables, including svcmap's.
  std::vector<std::string> unread;        // Reasons why facts could not be read.
};

// Returns warnings in a fixed order. Pure function.
std::vector<Warning> Judge(const Facts& facts);

// The facts about the running kernel on which the remedy for a missing feature depends.
struct KernelFacts {
  std::string release;            // The output of `uname -r`.
  bool modules_disabled = false;  // True if the kernel loads no modules until the next boot.
};

// Returns kFailedPrecondition with one line that lists all missing features, or OK. The remedy
// names a newer version of Linux, the missing modules or the kernel options. Pure function.
absl::Status MissingFeaturesStatus(std::span<const nft::MissingFeature> missing_features,
                                   const KernelFacts& kernel);

// Directories of files with facts, which tests replace.
struct ProcPaths {
  std::string sysctl = "/proc/sys";
  std::string net = "/proc/thread-self/net";
};

// Reads the facts about the running kernel.
KernelFacts ReadKernelFacts(const ProcPaths& paths = {});

// Reads the facts that come from files. All other facts keep their default values.
Facts ReadProc(const ProcPaths& paths = {});

// Reads all facts.
Facts ReadFacts();

// Runs all checks for `tables`. An error is fatal and contains a remedy.
absl::StatusOr<std::vector<Warning>> Preflight(const nft::TableSpecs& tables);

// Runs the same checks as Preflight for `svcmapd --preflight`. Continues with the remaining checks
// after a fatal error.
NodeReport ReportNode(const nft::TableSpecs& tables);

// Returns OK if the kernel supports `tables`, and otherwise an error with the missing features.
// svcmapd uses ProbeTables for optional features.
absl::Status ProbeTables(const nft::TableSpecs& tables);

}  // namespace svcmap::api
