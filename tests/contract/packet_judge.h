// Judges after each commit how packets are handled whose lookups take place before and after the
// last commits. Each packet must be handled as one of the desired states requires that were in
// effect during its lookups: the last state that was completely in the kernel, and the later ones.
// Therefore a packet never reaches an endpoint of another Service, and is not lost if its Service
// has endpoints before and after a change.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "nft/model/kernel.h"
#include "nft/model/transaction.h"
#include "proxy/explain/destination.h"
#include "tests/contract/packet_path.h"
#include "tests/unit/proxy/row_text.h"

namespace svcmap::proxy::test {

class PacketJudge {
 public:
  // `kernel` has the sets with an index below `sets`. `masquerades`: whether packets to clusterIPs
  // can be masqueraded.
  PacketJudge(nft::Kernel& kernel, uint8_t sets, bool masquerades)
      : kernel_(kernel), sets_(sets), masquerades_(masquerades) {
    Restart({});
  }

  enum class Access { kOpen, kPermitted, kDenied };  // By loadBalancerSourceRanges.

  struct Handling {
    std::string port;  // Name of the Service port.
    std::string kind;  // Role of the address and kind of source.
    bool range = false;
    Access access = Access::kOpen;
    Outcomes outcomes;  // Of packets from permitted sources.

    Outcomes Expected() const {
      return access == Access::kDenied ? Outcomes{{Verdict::kDrop}} : outcomes;
    }

    friend bool operator==(const Handling&, const Handling&) = default;
  };
  // A desired state: all packets to Service ports.
  using Desired = std::map<Packet, Handling>;

  // The next commits lead to this state.
  void Aim(Desired desired) {
    if (aims_.back() && *aims_.back() == desired) return;
    aims_.push_back(std::make_shared<const Desired>(std::move(desired)));
  }

  // The kernel has committed the transaction.
  void Committed(const nft::Transaction& transaction) {
    if (::testing::Test::HasFailure()) return;
    const bool all = !transaction.drops().empty() || !transaction.creations().empty() ||
                     !transaction.repairs().empty();
    std::set<std::pair<Family, uint8_t>> changed;
    transaction.ForEachElement([&](nft::Verb, const nft::ElementView& element) {
      changed.emplace(element.set.family, element.set.set);
    });
    Version next{versions_.back().tables, aims_, transaction};
    Read(next.tables, [&](nft::SetRef set) {
      return all || changed.contains({set.family, set.set});
    });
    // The replacement of a table may lose packets (proxy/README.md).
    if (!transaction.drops().empty()) versions_.clear();
    versions_.push_back(std::move(next));
    if (versions_.size() > kVersions) versions_.pop_front();
    ++commits_;
    if (masquerades_ && !all) JudgeMasquerade();
    Judge();
  }

  // All packets that looked up earlier versions have left the rules (nft::AwaitPackets).
  void PacketsLeft() {
    versions_.erase(versions_.begin(), versions_.end() - 1);
    versions_.back().aims = aims_;
  }

  // The last desired state is in the kernel. New packets must be handled as it requires, and must
  // be able to reach all of its endpoints. While the kernel still has leftovers, a port without
  // endpoints that has become part of a port range is still rejected, and an ended restriction
  // still applies to the port ranges of its address.
  void Acked(bool leftovers) {
    if (::testing::Test::HasFailure()) return;
    if (!leftovers) {
      aims_.erase(aims_.begin(), aims_.end() - 1);
      versions_.back().aims = aims_;
    }
    FoundSlots slots;
    const TableCopies* tables[] = {&versions_.back().tables};
    for (const auto& [packet, desired] : *aims_.back()) {
      const Outcomes outcomes = PacketPath(tables, packet, slots).Take();
      if (outcomes == desired.Expected()) continue;
      if (leftovers && desired.range &&
          (outcomes == Outcomes{{Verdict::kReject}} || outcomes == Outcomes{{Verdict::kDrop}})) {
        continue;
      }
      ADD_FAILURE() << Text(packet) << " after the Ack: " << Text(outcomes) << ", expected "
                    << Text(desired.Expected()) << Changes(packet);
      return;
    }
  }

  // Ignores the commits until now. `desired` is in the kernel.
  void Restart(Desired desired) {
    aims_ = {std::make_shared<const Desired>(std::move(desired))};
    Version now{{}, aims_, {}};
    Read(now.tables, [](nft::SetRef) { return true; });
    versions_.clear();
    versions_.push_back(std::move(now));
  }

  // Returns how packets to the given ports must be handled.
  static Desired DesiredBy(const ExplainContext& context, const std::vector<IpAddress>& addresses,
                           const std::vector<uint16_t>& ports) {
    Desired desired;
    for (const IpAddress& address : addresses) {
      for (const Protocol protocol : {Protocol::kTcp, Protocol::kUdp, Protocol::kSctp}) {
        for (const uint16_t port : ports) {
          const Destination to = FindDestination(context, {.source = {},
                                                           .in_interface = {},
                                                           .destination = address,
                                                           .protocol = protocol,
                                                           .port = port});
          if (!to.known()) continue;
          for (const bool from_pod : {false, true}) {
            const Packet packet = {address, protocol, port, from_pod};
            desired[packet] = HandlingOf(to, packet);
          }
        }
      }
    }
    return desired;
  }

 private:
  // Lookups of a packet take place in at most this many versions, which bounds the duration of the
  // test. Packets usually leave the rules earlier.
  static constexpr size_t kVersions = 5;

  using Aims = std::vector<std::shared_ptr<const Desired>>;
  struct Version {
    TableCopies tables;
    Aims aims;                // The states in effect until the next version.
    nft::Transaction change;  // The commit that led to this version.
  };

  static Access AccessOf(const Destination& to, const IpAddress& source) {
    const Service& service = to.service();
    if (to.role == Role::kNodePort || !service.HasSourceRanges(to.family()) ||
        !absl::c_linear_search(service.load_balancer_ips, to.address)) {
      return Access::kOpen;
    }
    const auto contains = [&](const IpPrefix& range) { return range.Contains(source); };
    return absl::c_any_of(service.source_ranges, contains) ? Access::kPermitted : Access::kDenied;
  }

  static Handling HandlingOf(const Destination& to, const Packet& packet) {
    const bool from_pod = packet.from_pod;
    const bool local = to.role == Role::kClusterIp
                           ? to.service().internal_policy == TrafficPolicy::kLocal
                           : to.service().external_policy == TrafficPolicy::kLocal && !from_pod;
    const bool range = to.port->is_range();
    const std::string port = absl::StrCat(to.Name(), " ", std::string(ProtocolName(to.protocol)));
    const std::string kind = absl::StrCat("/", to.role == Role::kClusterIp, from_pod);
    const Access access = AccessOf(to, packet.source());
    if (!to.resolved.any) return {port, kind, range, access, {{Verdict::kReject}}};
    Outcomes outcomes;
    for (const EndpointAddress& endpoint : local ? to.resolved.local : to.resolved.cluster) {
      outcomes.insert({Verdict::kDnat, {endpoint.ip, range ? uint16_t{0} : endpoint.port}});
    }
    if (outcomes.empty()) outcomes.insert({Verdict::kDrop});
    return {port, kind, range, access, std::move(outcomes)};
  }

  template <typename Fn>
  void Read(TableCopies& tables, Fn&& is_changed) {
    static const auto kEmpty = std::make_shared<const Elements>();
    for (const Family family : kFamilies) {
      for (uint8_t set = 0; set < kRowSetCount; ++set) {
        std::shared_ptr<const Elements>& copy = tables[Index(family)][set];
        if (copy && !is_changed({family, set})) continue;
        copy = kEmpty;
        if (set >= sets_) continue;
        const auto elements = kernel_.ReadSet({family, set});
        if (!elements.ok()) continue;  // The table does not exist.
        Elements read;
        for (const nft::Element& e : *elements) {
          if (!HasSourceRanges(set)) {
            read[{e.key.begin(), e.key.end()}] = {e.data.begin(), e.data.end()};
            continue;
          }
          const std::ptrdiff_t size = family == Family::kIpv4 ? 4 : 16;
          std::string& ranges = read[{e.key.begin(), e.key.end() - size}];
          ranges.append(e.key.end() - size, e.key.end());
          ranges.append(e.key_end.end() - size, e.key_end.end());
        }
        copy = std::make_shared<const Elements>(std::move(read));
      }
    }
  }

  // A packet looks up its clusterIP before its Service, with at most one commit in between
  // (docs/decisions/0011).
  void JudgeMasquerade() {
    if (versions_.size() < 2) return;
    const TableCopies& before = versions_[versions_.size() - 2].tables;
    versions_.back().change.ForEachElement([&](nft::Verb verb, const nft::ElementView& element) {
      const auto [family, set] = element.set;
      if (verb == nft::Verb::kDelete || set != kServiceIps ||
          PacketPath::Parse(element.data).kind != DispatchKind::kInternal) {
        return;
      }
      const auto address = element.key.first(family == Family::kIpv4 ? 4 : 16);
      EXPECT_TRUE(
          before[Index(family)][kClusterIps]->contains(std::string(address.begin(), address.end())))
          << "packets to " << IpAddress::FromBytes(address)->ToString()
          << " are not masqueraded in commit " << commits_;
    });
  }

  // Judges packets whose lookups take place in any of the versions.
  void Judge() {
    std::vector<const TableCopies*> tables;
    std::set<std::shared_ptr<const Desired>> aims;
    for (const Version& version : versions_) {
      tables.push_back(&version.tables);
      aims.insert(version.aims.begin(), version.aims.end());
    }
    // A packet that has found the descriptor of a Service port can reach all endpoints of the port,
    // even if the port has lost the address since.
    std::map<std::pair<Family, std::string>, Outcomes> ports;
    std::set<Packet> packets;
    for (const auto& aim : aims) {
      for (const auto& [packet, handling] : *aim) {
        packets.insert(packet);
        const Family family = packet.to.family();
        for (const Outcome& outcome : handling.outcomes) {
          ports[{family, handling.port + handling.kind}].insert(outcome);
          if (outcome.verdict == Verdict::kDnat) ports[{family, handling.port}].insert(outcome);
        }
      }
    }
    FoundSlots slots;
    for (const Packet& packet : packets) {
      Outcomes allowed;
      bool is_rejected = false, is_in_range = false, is_permitted = false;
      std::set<std::string> denied;  // Ports.
      for (const auto& aim : aims) {
        const auto handling = aim->find(packet);
        if (handling == aim->end()) {
          // No Service has the port. A Service may have the address.
          allowed.insert({{Verdict::kUntouched}, {Verdict::kReject}});
        } else {
          const auto& [port, kind, range, access, own] = handling->second;
          is_rejected |= !range && own == Outcomes{{Verdict::kReject}};
          is_in_range |= range;
          is_permitted |= access == Access::kPermitted;
          if (access == Access::kDenied) {
            // The reject of a deleted port can exist longer than its restriction.
            denied.insert(port);
            allowed.insert({{Verdict::kDrop}, {Verdict::kReject}});
            continue;
          }
          for (const std::string& name : {port, port + kind}) {
            const Outcomes& of_port = ports[{packet.to.family(), name}];
            allowed.insert(of_port.begin(), of_port.end());
          }
        }
      }
      // The source ranges of the old Service apply to the new one (limit 3 of docs/decisions/0011).
      for (const std::string& port : denied) {
        if (!is_permitted) break;
        const Outcomes& of_port = ports[{packet.to.family(), port}];
        allowed.insert(of_port.begin(), of_port.end());
      }
      // The rules for session affinity drop a packet whose endpoint and Service port are gone.
      if (allowed.contains({Verdict::kReject})) allowed.insert({Verdict::kDrop});
      // A reject can move to another set in two plans. A rejected port that becomes part of a range
      // is limit 1 of docs/decisions/0011.
      if (allowed == Outcomes{{Verdict::kReject}, {Verdict::kDrop}} ||
          (is_rejected && is_in_range)) {
        allowed.insert({Verdict::kUntouched});
      }
      for (const Outcome& outcome : PacketPath(tables, packet, slots).Take()) {
        if (allowed.contains(outcome)) continue;
        ADD_FAILURE() << Text(packet) << " within " << versions_.size() << " versions until commit "
                      << commits_ << ": " << Text({outcome}) << ", expected " << Text(allowed)
                      << Changes(packet);
        return;
      }
    }
  }

  // Returns the changes of the last commits that can affect the packet, except for most endpoints.
  std::string Changes(const Packet& packet) const {
    std::string text;
    for (const Version& version : versions_) {
      text += "\ncommit:";
      size_t others = 0;
      for (const std::string& line : Operations(version.change)) {
        const bool matches = line.find(" " + packet.to.ToString() + " ") != std::string::npos;
        const bool is_other = line.find(" . tcp") != std::string::npos ||
                              line.find(" . udp") != std::string::npos ||
                              line.find(" . sctp") != std::string::npos;
        if (matches || (!is_other && ++others < 30)) text += "\n  " + line;
      }
    }
    return text;
  }

  static std::string Text(const Packet& packet) {
    return (packet.from_pod ? "from a pod to " : "to ") + packet.to.WithPort(packet.port) + "/" +
           std::string(ProtocolName(packet.protocol));
  }
  static std::string Text(const Outcomes& outcomes) {
    constexpr const char* kVerdicts[] = {"endpoint", "reject", "drop", "untouched"};
    std::string text;
    for (const Outcome& outcome : outcomes) {
      text +=
          (text.empty() ? "" : ", ") + std::string(kVerdicts[static_cast<size_t>(outcome.verdict)]);
      if (outcome.verdict == Verdict::kDnat) {
        text += " " + outcome.endpoint.ip.WithPort(outcome.endpoint.port);
      }
    }
    return text;
  }

  nft::Kernel& kernel_;
  const uint8_t sets_;
  const bool masquerades_;
  Aims aims_;  // The last state that was completely in the kernel, and the later ones.
  std::deque<Version> versions_;
  size_t commits_ = 0;
};

}  // namespace svcmap::proxy::test
