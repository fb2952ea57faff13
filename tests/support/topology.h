// The dual-stack network of the packet tests and the demo. All hosts are anonymous namespaces:
//
//   local pod ---- veth --+                    +-- veth ---- remote ---- veth ---- remote pod
//   10.244.1.N            |                    |   192.168.77.2                    10.244.2.N
//                         +------  node  ------+
//   client ------- veth --+   192.168.77.1     +-- veth ---- sink (drops everything)
//   203.0.113.N               198.18.7.10 (second address)
//
// The node is a router and the default gateway of all hosts, so Service addresses and external IPs
// reach it without separate routes. The node's own default route leads to `sink`, which drops
// untranslated packets. The output hooks process the node's packets to a Service range before they
// reach `sink`. The node has no bridge, but a host route to each pod. ICMP rate limits and
// rp_filter are disabled, and addresses are usable immediately (no DAD).
//
// Construction is not thread-safe, but NetNs objects are. The destructor deletes all namespaces.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/support/netns.h"

namespace svcmap::testing {

inline constexpr char kNodeV4[] = "192.168.77.1";
inline constexpr char kNodeV6[] = "fd00:77::1";
inline constexpr char kNodeSecondV4[] = "198.18.7.10";  // The node's second interface address.
inline constexpr char kNodeSecondV6[] = "fd00:78::10";
inline constexpr char kClusterCidrV4[] = "10.244.0.0/16";
inline constexpr char kClusterCidrV6[] = "fd00:10:244::/48";
inline constexpr char kPodCidrV4[] =
    "10.244.1.0/24";  // Pod range of the node. The pod range of the remote node is 10.244.2.0/24.
inline constexpr char kPodCidrV6[] = "fd00:10:244:1::/64";
inline constexpr char kServiceCidrV4[] = "10.96.0.0/16";
inline constexpr char kServiceCidrV6[] = "fd00:96::/112";

// One namespace with one address per family.
class Host {
 public:
  Host(std::string name, NetNs netns, std::string v4, std::string v6)
      : name_(std::move(name)), netns_(std::move(netns)), v4_(std::move(v4)), v6_(std::move(v6)) {}

  const std::string& name() const { return name_; }
  const NetNs& netns() const { return netns_; }
  const std::string& v4() const { return v4_; }
  const std::string& v6() const { return v6_; }
  const std::string& address(bool want_v6) const { return want_v6 ? v6_ : v4_; }

  // Returns the veth on the host's router (node or remote). Returns an empty string for routers.
  const std::string& device() const { return device_; }

 private:
  friend class Topology;
  std::string name_;
  NetNs netns_;
  std::string v4_;
  std::string v6_;
  std::string device_;
  const Host* router_ = nullptr;
};

class Topology {
 public:
  static absl::StatusOr<std::unique_ptr<Topology>> Create();

  const Host& node() const { return *node_; }
  const Host& remote() const { return *remote_; }

  // Add a host and return when it answers pings. Hosts exist as long as the topology, so pointers
  // stay valid.
  absl::StatusOr<const Host*> AddLocalPod(const std::string& name);
  absl::StatusOr<const Host*> AddRemotePod(const std::string& name);
  absl::StatusOr<const Host*> AddClient(const std::string& name);

  // Makes every address of `prefix` ("203.0.113.200/32", "10.244.1.128/25", "fd00:10:244:1:1::/80")
  // local to `host` and adds a route to `host` on the node. For example, use this method to give a
  // client a second address, or to simulate a thousand pods in one namespace. `host` must not be
  // node().
  absl::Status AddPrefix(const Host& host, const std::string& prefix);

  // Enables or disables checksum, segmentation and receive offloads of all existing veths with
  // ethtool -K.
  absl::Status SetOffloads(bool on);

 private:
  Topology() = default;
  absl::Status Build();
  absl::StatusOr<const Host*> Attach(const Host& router, const std::string& name,
                                     const std::string& v4, const std::string& v6);

  struct Veth {  // One end of a veth pair.
    const NetNs* netns;
    std::string device;
  };

  std::unique_ptr<NetNs> sink_;
  std::unique_ptr<Host> node_;
  std::unique_ptr<Host> remote_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<Veth> veths_;
  int local_pods_ = 0;
  int remote_pods_ = 0;
  int clients_ = 0;
};

// Clears the connection tracking table of a namespace.
absl::Status FlushConntrack(const NetNs& netns);

}  // namespace svcmap::testing
