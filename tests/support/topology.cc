#include "tests/support/topology.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nft/base/unique_fd.h"
#include "tests/support/client.h"
#include "tests/support/process.h"
#include "tests/support/wait.h"

namespace svcmap::testing {
namespace {

constexpr char kRemoteV4[] = "192.168.77.2";
constexpr char kRemoteV6[] = "fd00:77::2";
// IPv6 address of the router on every veth of a pod or client.
constexpr char kGatewayV6[] = "fe80::1";

struct Sysctl {
  const char* key;
  const char* value;
};

// Sysctls of all namespaces. `default` must be written before devices are created, because new
// devices copy its values.
constexpr Sysctl kEverywhere[] = {
    {"net/ipv6/conf/all/accept_dad", "0"},
    {"net/ipv6/conf/default/accept_dad", "0"},
    {"net/ipv6/conf/default/dad_transmits", "0"},
    {"net/ipv6/conf/default/accept_ra", "0"},
    {"net/ipv4/conf/all/rp_filter", "0"},
    {"net/ipv4/conf/default/rp_filter", "0"},
    {"net/ipv4/conf/all/accept_redirects", "0"},
    {"net/ipv4/conf/default/accept_redirects", "0"},
    {"net/ipv6/conf/all/accept_redirects", "0"},
    {"net/ipv6/conf/default/accept_redirects", "0"},
    // Tests cause bursts of rejected packets. By default, a host sends about one ICMP error per
    // second to each destination.
    {"net/ipv4/icmp_ratelimit", "0"},
    {"net/ipv4/icmp_ratemask", "0"},
    {"net/ipv6/icmp/ratelimit", "0"},
    // The empty mask exempts all ICMPv6 types from the rate limit.
    {"net/ipv6/icmp/ratemask", "\n"},
};

constexpr Sysctl kRouters[] = {
    {"net/ipv4/ip_forward", "1"},
    {"net/ipv6/conf/all/forwarding", "1"},
    {"net/ipv6/conf/default/forwarding", "1"},
    {"net/ipv4/conf/all/send_redirects", "0"},
    {"net/ipv4/conf/default/send_redirects", "0"},
};

absl::Status RunIp(const NetNs& netns, const std::string& batch) {
  return RunOk({.argv = {"ip", "-batch", "-"}, .netns = &netns, .stdin_text = batch}).status();
}

// Returns the ip(8) lines that bring `device` up. The peer may join the multicast group only after
// the first neighbour solicitation. Therefore, neighbour solicitations are repeated at short
// intervals instead of every second, for two seconds in total.
std::string Up(const std::string& device) {
  const std::string change = absl::StrCat(" dev ", device, " retrans 20 mcast_probes 100\n");
  return absl::StrCat("ntable change name arp_cache", change, "ntable change name ndisc_cache",
                      change, "link set ", device, " up\n");
}

absl::StatusOr<NetNs> MakeNetNs(bool router) {
  absl::StatusOr<NetNs> netns = NetNs::Create();
  if (!netns.ok()) return netns;
  for (const Sysctl& sysctl : kEverywhere) {
    if (absl::Status status = netns->WriteSysctl(sysctl.key, sysctl.value); !status.ok())
      return status;
  }
  if (!router) return netns;
  for (const Sysctl& sysctl : kRouters) {
    if (absl::Status status = netns->WriteSysctl(sysctl.key, sysctl.value); !status.ok())
      return status;
  }
  return netns;
}

// Waits until the host answers pings. The carrier comes up asynchronously, but callers use a Host
// immediately.
absl::Status WaitUntilReachable(const Host& host, const std::string& address) {
  Answer answer;
  const auto ping = [&] {
    answer = Ping(host.netns(), {.destination = address, .timeout = std::chrono::milliseconds(50)});
    return answer.outcome == Outcome::kAnswered;
  };
  if (WaitUntil(ping)) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat(host.name(), " cannot reach ", address, ": ", answer.ToString()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Topology>> Topology::Create() {
  std::unique_ptr<Topology> topology(new Topology);
  if (absl::Status status = topology->Build(); !status.ok()) return status;
  return topology;
}

absl::Status Topology::Build() {
  absl::StatusOr<NetNs> node = MakeNetNs(/*router=*/true);
  if (!node.ok()) return node.status();
  absl::StatusOr<NetNs> remote = MakeNetNs(/*router=*/true);
  if (!remote.ok()) return remote.status();
  absl::StatusOr<NetNs> sink = NetNs::Create();
  if (!sink.ok()) return sink.status();
  node_ = std::make_unique<Host>("node", *std::move(node), kNodeV4, kNodeV6);
  remote_ = std::make_unique<Host>("remote", *std::move(remote), kRemoteV4, kRemoteV6);
  sink_ = std::make_unique<NetNs>(*std::move(sink));

  // Add `remote` first, because masquerading on a device without an address uses the node's first
  // address, which should be the primary address. ARP is off on the device to `sink`, so frames
  // leave with a wrong destination address. With neighbour discovery, sends would fail with
  // EHOSTUNREACH after some seconds.
  absl::Status status =
      RunIp(node_->netns(),
            absl::StrCat("link add remote type veth peer name eth0 netns ", remote_->netns().path(),
                         "\n", "link add sink type veth peer name eth0 netns ", sink_->path(), "\n",
                         Up("remote"), "link set sink up arp off\n", "addr add ", kNodeV4,
                         "/24 dev remote\n", "addr add ", kNodeV6, "/64 dev remote nodad\n",
                         "addr add ", kNodeSecondV4, "/32 dev sink\n", "addr add ", kNodeSecondV6,
                         "/128 dev sink nodad\n", "route add 0.0.0.0/0 dev sink src ", kNodeV4,
                         "\n", "route add ::/0 dev sink src ", kNodeV6, "\n",
                         "route add 10.244.2.0/24 via ", kRemoteV4, " dev remote\n",
                         "route add fd00:10:244:2::/64 via ", kRemoteV6, " dev remote\n"));
  if (!status.ok()) return status;
  status =
      RunIp(remote_->netns(),
            absl::StrCat(Up("eth0"), "addr add ", kRemoteV4, "/24 dev eth0\n", "addr add ",
                         kRemoteV6, "/64 dev eth0 nodad\n", "route add 0.0.0.0/0 via ", kNodeV4,
                         " dev eth0\n", "route add ::/0 via ", kNodeV6, " dev eth0\n"));
  if (!status.ok()) return status;
  status = RunIp(*sink_, "link set eth0 up\n");
  if (!status.ok()) return status;
  veths_.push_back({&node_->netns(), "remote"});
  veths_.push_back({&remote_->netns(), "eth0"});
  veths_.push_back({&node_->netns(), "sink"});
  status = WaitUntilReachable(*remote_, kNodeV4);
  if (!status.ok()) return status;
  return WaitUntilReachable(*remote_, kNodeV6);
}

absl::StatusOr<const Host*> Topology::AddLocalPod(const std::string& name) {
  const int index = ++local_pods_ + 10;
  return Attach(*node_, name, absl::StrCat("10.244.1.", index),
                absl::StrCat("fd00:10:244:1::", index));
}

absl::StatusOr<const Host*> Topology::AddRemotePod(const std::string& name) {
  const int index = ++remote_pods_ + 10;
  return Attach(*remote_, name, absl::StrCat("10.244.2.", index),
                absl::StrCat("fd00:10:244:2::", index));
}

absl::StatusOr<const Host*> Topology::AddClient(const std::string& name) {
  const int index = ++clients_ + 8;
  return Attach(*node_, name, absl::StrCat("203.0.113.", index),
                absl::StrCat("2001:db8:203::", index));
}

absl::StatusOr<const Host*> Topology::Attach(const Host& router, const std::string& name,
                                             const std::string& v4, const std::string& v6) {
  absl::StatusOr<NetNs> netns = MakeNetNs(/*router=*/false);
  if (!netns.ok()) return netns.status();
  auto host = std::make_unique<Host>(name, *std::move(netns), v4, v6);
  host->device_ = absl::StrCat("veth", hosts_.size());
  host->router_ = &router;
  const std::string& device = host->device_;

  absl::Status status = RunIp(
      router.netns(),
      absl::StrCat("link add ", device, " type veth peer name eth0 netns ", host->netns().path(),
                   "\n", Up(device), "addr add ", kGatewayV6, "/64 dev ", device, " nodad\n",
                   "route add ", v4, "/32 dev ", device, " src ", router.v4(), "\n", "route add ",
                   v6, "/128 dev ", device, " src ", router.v6(), "\n"));
  if (!status.ok()) return status;
  // The IPv4 gateway is an address of another device of the router, and ARP answers for such an
  // address. Neighbour discovery does not answer for such an address, so the IPv6 gateway is
  // fe80::1.
  status = RunIp(host->netns(),
                 absl::StrCat(Up("eth0"), "addr add ", v4, "/32 dev eth0\n", "addr add ", v6,
                              "/128 dev eth0 nodad\n", "route add ", router.v4(), "/32 dev eth0\n",
                              "route add 0.0.0.0/0 via ", router.v4(), " dev eth0\n",
                              "route add ::/0 via ", kGatewayV6, " dev eth0\n"));
  if (!status.ok()) return status;
  status = WaitUntilReachable(*host, kNodeV4);
  if (!status.ok()) return status;
  status = WaitUntilReachable(*host, kNodeV6);
  if (!status.ok()) return status;
  veths_.push_back({&router.netns(), device});
  veths_.push_back({&host->netns(), "eth0"});
  hosts_.push_back(std::move(host));
  return hosts_.back().get();
}

absl::Status Topology::AddPrefix(const Host& host, const std::string& prefix) {
  if (host.router_ == nullptr)
    return absl::InvalidArgumentError("AddPrefix is for pods and clients");
  const bool v6 = prefix.find(':') != std::string::npos;
  // `via` makes the host the gateway of the prefix, so the router does not resolve each address. A
  // host does not answer neighbour solicitations for addresses that are local only because of an
  // IPv6 route.
  absl::Status status =
      RunIp(host.router_->netns(),
            absl::StrCat("route add ", prefix, " via ", host.address(v6), " dev ", host.device(),
                         " onlink src ", host.router_->address(v6), "\n"));
  if (!status.ok()) return status;
  if (host.router_ != node_.get()) {
    status = RunIp(node_->netns(), absl::StrCat("route add ", prefix, " via ",
                                                host.router_->address(v6), " dev remote\n"));
    if (!status.ok()) return status;
  }
  if (v6) {  // Allows binding to IPv6 addresses that no device has.
    status = host.netns().WriteSysctl("net/ipv6/ip_nonlocal_bind", "1");
    if (!status.ok()) return status;
  }
  return RunIp(host.netns(), absl::StrCat("route add local ", prefix, " dev lo\n"));
}

absl::Status Topology::SetOffloads(bool on) {
  const std::string value = on ? "on" : "off";
  for (const Veth& veth : veths_) {
    absl::Status status = RunOk({.argv = {"ethtool", "-K", veth.device, "tx", value, "rx", value,
                                          "tso", value, "gso", value, "gro", value},
                                 .netns = veth.netns})
                              .status();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status FlushConntrack(const NetNs& netns) {
  struct {
    nlmsghdr header = {};
    nfgenmsg body = {};
  } request;
  request.header.nlmsg_len = sizeof(request);
  request.header.nlmsg_type = NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_DELETE;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
  struct {
    nlmsghdr header;
    nlmsgerr body;
  } answer = {};
  const UniqueFd fd = netns.Run(
      [] { return UniqueFd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER)); });
  if (::send(fd.get(), &request, sizeof(request), 0) < 0 ||
      ::recv(fd.get(), &answer, sizeof(answer), 0) < 0) {
    return absl::ErrnoToStatus(errno, "flush of the connection table");
  }
  if (answer.body.error == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(-answer.body.error, "flush of the connection table");
}

}  // namespace svcmap::testing
