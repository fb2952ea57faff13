#include "tests/loss/packet_watch.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/loss/counted_service.h"
#include "tests/support/kernel_check.h"
#include "tests/support/topology.h"

namespace svcmap::testing {
namespace {

constexpr char kWatchTable[] = "loss-watch";
constexpr char kFlowSet[] =
    "{ typeof udp sport . ip daddr . udp dport; size 65535; flags dynamic; }\n";
constexpr char kPortSet[] = "{ typeof udp sport; size 64; flags dynamic; }\n";

std::string SetOf(const char* name, const char* spec) {
  return absl::StrCat("set ", name, " ", spec);
}

std::string NodeTable() {
  const std::string flow = absl::StrCat("ip saddr ", kCountedSources, " ip protocol udp ");
  const std::string to_service =
      absl::StrCat(flow, "ip daddr { ", kServiceCidrV4, ", ", kCountedLoadBalancers, " } ");
  const std::string to_endpoint = absl::StrCat(flow, "ip daddr ", kCountedEndpoints, " ");
  return absl::StrCat(
      "table ip ", kWatchTable, " {\n", SetOf("entered", kPortSet), SetOf("repeated", kPortSet),
      SetOf("untranslated", kPortSet), SetOf("escaped", kPortSet), SetOf("left", kFlowSet),
      // Before connection tracking.
      "chain enter { type filter hook prerouting priority -300;\n", to_service,
      "update @entered { udp sport counter }\n}\n",
      // After connection tracking and before destination NAT.
      "chain track { type filter hook prerouting priority -150;\n", to_service,
      "ct state != new update @repeated { udp sport counter }\n}\n",
      // Trace messages only for destination NAT.
      "chain trace { type filter hook prerouting priority -101;\n", to_service,
      "meta nftrace set 1\n}\n",
      "chain untrace { type filter hook prerouting priority -99;\nmeta nftrace set 0\n}\n",
      // Before svcmapd's rejects, so that a rejected datagram counts as untranslated.
      "chain forward { type filter hook forward priority -300;\n", to_service,
      "update @untranslated { udp sport counter }\n}\n",
      // After svcmapd's rejects.
      "chain escape { type filter hook forward priority 100;\n", to_service,
      "update @escaped { udp sport counter }\n}\n",
      // After source NAT.
      "chain leave { type filter hook postrouting priority 300;\n", to_endpoint,
      "update @left { udp sport . ip daddr . udp dport counter }\n}\n}\n");
}

std::string EndpointTable() {
  return absl::StrCat("table ip ", kWatchTable, " {\n", SetOf("arrived", kFlowSet),
                      "chain arrive { type filter hook prerouting priority -300;\n", "ip saddr ",
                      kCountedSources,
                      " ip protocol udp update @arrived { udp sport . ip daddr . udp dport "
                      "counter } drop\n}\n}\n");
}

// Creates the table, without the counters of a previous test.
absl::Status Replace(const NetNs& netns, const std::string& table) {
  return RunNft(netns, absl::StrCat("table ip ", kWatchTable, "\ndelete table ip ", kWatchTable,
                                    "\n", table));
}

// Opens a socket that receives the trace messages of the namespace. The kernel discards the
// messages when the small buffer of the socket is full.
absl::StatusOr<UniqueFd> ReceiveTrace(const NetNs& netns) {
  UniqueFd fd = netns.Run(
      [] { return UniqueFd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER)); });
  const int size = 1;  // The kernel uses its minimum.
  const int group = NFNLGRP_NFTRACE;
  if (!fd.ok() || ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)) != 0 ||
      ::setsockopt(fd.get(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)) != 0) {
    return absl::ErrnoToStatus(errno, "trace socket");
  }
  return fd;
}

// Sums up a column of hexadecimal numbers, with one line for each CPU.
int64_t SumOfColumn(std::istream& file, size_t column) {
  int64_t sum = 0;
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string word;
    for (size_t i = 0; i <= column; ++i) words >> word;
    sum += std::strtoll(word.c_str(), nullptr, 16);
  }
  return sum;
}

// Returns the position of `name` in the first line of the file.
absl::StatusOr<size_t> ColumnOf(std::istream& file, const std::string& name) {
  std::string line;
  std::getline(file, line);
  std::istringstream words(line);
  std::string word;
  for (size_t i = 0; words >> word; ++i) {
    if (word == name) return i;
  }
  return absl::NotFoundError(absl::StrCat("no column ", name, " in ", line));
}

}  // namespace

int64_t Sum(const DatagramCounts& counts) {
  int64_t sum = 0;
  for (const auto& [key, count] : counts) sum += count;
  return sum;
}

absl::StatusOr<PacketWatch> PacketWatch::Install(const NetNs& node, const NetNs& endpoints) {
  if (absl::Status status = Replace(node, NodeTable()); !status.ok()) return status;
  if (absl::Status status = Replace(endpoints, EndpointTable()); !status.ok()) return status;
  absl::StatusOr<UniqueFd> trace = ReceiveTrace(node);
  if (!trace.ok()) return trace.status();
  return PacketWatch(node, endpoints, *std::move(trace));
}

absl::StatusOr<DatagramCounts> PacketWatch::Read(const NetNs& netns, const std::string& set) {
  const absl::StatusOr<std::string> listing =
      Nft(netns, absl::StrCat("-n list set ip ", kWatchTable, " ", set));
  if (!listing.ok()) return listing.status();
  DatagramCounts counts;
  for (const ElementsAt& list : FindElements(*listing)) {
    for (const std::string& element : list.elements) {
      constexpr std::string_view kCounter = " counter packets ";
      const size_t at = element.find(kCounter);
      if (at == std::string::npos) return absl::DataLossError("no counter: " + element);
      counts[element.substr(0, at)] =
          std::strtoll(element.c_str() + at + kCounter.size(), nullptr, 10);
    }
  }
  return counts;
}

absl::StatusOr<ConntrackLosses> ReadConntrackLosses(const NetNs& netns) {
  return netns.Run([]() -> absl::StatusOr<ConntrackLosses> {
    ConntrackLosses losses;
    for (const auto& [name, value] :
         {std::pair("insert_failed", &losses.insert_failed), std::pair("drop", &losses.dropped)}) {
      std::ifstream file("/proc/thread-self/net/stat/nf_conntrack");
      const absl::StatusOr<size_t> column = ColumnOf(file, name);
      if (!column.ok()) return column.status();
      *value = SumOfColumn(file, *column);
    }
    return losses;
  });
}

absl::StatusOr<int64_t> ReadQueueDrops() {
  constexpr size_t kDropped = 1;
  std::ifstream file("/proc/net/softnet_stat");
  if (!file) return absl::NotFoundError("/proc/net/softnet_stat");
  return SumOfColumn(file, kDropped);
}

}  // namespace svcmap::testing
