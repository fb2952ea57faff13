// Before svcmapd starts: can this kernel do what the rules need, and is the node set up so that
// translated connections get through? The first is fatal, the second gives warnings, each with the
// command that helps. Everything is read in the calling thread's network namespace; nothing is
// changed.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/netlink/bridge_reader.h"
#include "nft/netlink/chain_reader.h"
#include "nft/netlink/probe.h"

namespace svcmap::api {

// Both parts are whole phrases without a line break.
struct Warning {
  std::string what;
  std::string remedy;
  // What svcmapctl migrate check looks at more closely: NodeReport::Warning::about.
  std::string about = "";

  std::string ToString() const { return what + "; remedy: " + remedy; }
};

// What there is to know about the node. An absent number is a sysctl that this kernel has not.
struct Facts {
  std::optional<int> ip_forward;         // net.ipv4.ip_forward
  std::optional<int> ipv6_forwarding;    // net.ipv6.conf.all.forwarding
  std::optional<int> bridge_iptables;    // net.bridge.bridge-nf-call-iptables
  std::optional<int> bridge_ip6tables;   // net.bridge.bridge-nf-call-ip6tables
  std::optional<int> conntrack_max;      // net.netfilter.nf_conntrack_max
  std::map<std::string, int> rp_filter;  // net.ipv4.conf.NAME.rp_filter, with "all" and "default"
  // An interface has an IPv6 address that is more than link-local; else IPv6 is not asked about.
  bool ipv6_in_use = false;
  // The table filter of iptables-legacy is in use; absent: only root may read that.
  std::optional<bool> legacy_iptables_filter = false;
  std::optional<bool> legacy_ip6tables_filter = false;  // And of ip6tables-legacy.
  std::vector<nft::Bridge> bridges;
  std::vector<nft::ForeignChain> chains;  // Our own among them.
  std::vector<std::string> unread;        // Why something could not be read at all.
};

// Pure: what is wrong, in a fixed order.
std::vector<Warning> Judge(const Facts& facts);

// Pure: OK if nothing is lacking, else kFailedPrecondition and one line that names everything.
absl::Status LackStatus(std::span<const nft::Lack> lacks);

// Where the facts that are files lie.
struct ProcPaths {
  std::string sysctl = "/proc/sys";
  std::string net = "/proc/thread-self/net";
};

// The facts that are files; all others are left as they are by default.
Facts ReadProc(const ProcPaths& paths);

// All facts.
Facts ReadFacts();

// OK if the kernel can do what `tables` need and lets us; else what is lacking, and what to do.
absl::Status CheckKernel(const nft::TableSpecs& tables);

// The whole preflight for `tables`. A status other than OK is fatal and says what to do.
absl::StatusOr<std::vector<Warning>> Preflight(const nft::TableSpecs& tables);

// OK if the kernel takes `tables`; otherwise what it refuses. For what we can do without.
absl::Status ProbeTables(const nft::TableSpecs& tables);

}  // namespace svcmap::api
