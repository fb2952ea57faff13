// Looks up the first packet of a connection in copies of the tables, as the rules do: the source
// ranges, the maps, the endpoints, and the rejects of packets that are not translated. Commits may
// take place between any two lookups, so a packet reads each map in the same version as the
// previous map, or in a later version. Instead of picking one endpoint, PacketPath follows all.
//
// Linux before 6.17 can miss a key that a commit deletes and adds again. The rules then repeat the
// lookup, or use another slot. The second lookup takes place after the commit, so the packet is
// handled like a packet that reads only the later version.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "nft/model/field.h"
#include "proxy/desired/rows.h"
#include "proxy/explain/explain.h"
#include "proxy/ruleset/descriptor.h"
#include "proxy/ruleset/table.h"

namespace svcmap::proxy::test {

struct Packet {
  IpAddress to;
  Protocol protocol = Protocol::kTcp;
  uint16_t port = 0;
  bool from_pod = false;

  // Some source ranges of RandomChanges contain these addresses.
  IpAddress source() const {
    const bool is_v4 = to.family() == Family::kIpv4;
    if (from_pod) return *IpAddress::Parse(is_v4 ? "10.0.0.99" : "fd00:1::99");
    return *IpAddress::Parse(is_v4 ? "198.51.100.1" : "2001:db9::1");
  }

  friend auto operator<=>(const Packet&, const Packet&) = default;
};

struct Outcome {
  Verdict verdict = Verdict::kUntouched;
  // Only for kDnat. The port is 0 if the packet keeps its port, as in a port range.
  EndpointAddress endpoint = {};

  friend auto operator<=>(const Outcome&, const Outcome&) = default;
};
using Outcomes = std::set<Outcome>;

// Data of all elements of a set by key. For source ranges, the key is the key of the restricted
// load balancer IP, and the data are the first and last addresses of all of its ranges.
using Elements = absl::flat_hash_map<std::string, std::string>;
// The sets of both tables by Index(Family) and SetIndex. Sets that do not exist are empty.
using TableCopies = std::array<std::array<std::shared_ptr<const Elements>, kRowSetCount>, 2>;
// Versions of the tables in the order of the commits.
using Versions = std::span<const TableCopies* const>;
// Data that lookups can return, with the first version in which they can return the data. Empty
// data means a miss.
using Found = std::map<std::string, size_t>;
// The slots of groups by family, set, group, number of slots, and first version.
using FoundSlots = std::map<std::tuple<Family, SetIndex, uint32_t, uint32_t, size_t>, Found>;

class PacketPath {
 public:
  // `slots` contains the groups that earlier packets have looked up in the same versions.
  PacketPath(Versions versions, const Packet& packet, FoundSlots& slots)
      : versions_(versions), packet_(packet), slots_(slots) {}

  // Returns how the packet can be handled, for all possible times of the lookups.
  Outcomes Take() {
    PassFirewall(kFirewallIps, kFirewallSources, PortKey(), 0,
                 [this](size_t v) { FindService(v); });
    return std::move(outcomes_);
  }

  static DescriptorParts Parse(std::span<const uint8_t> descriptor) {
    return ParseDescriptor(*IpAddress::FromBytes(descriptor));
  }

 private:
  static constexpr int kStickyAttempts = 3;

  // The chain services.
  void FindService(size_t from) {
    Lookup(kServiceIps, PortKey(), from, [this](const std::string* descriptor, size_t v) {
      if (descriptor != nullptr) return Dispatch(*descriptor, /*range=*/false, v);
      // If a port without endpoints becomes part of a range, the filter chains may miss the reject
      // (docs/decisions/0011).
      HasReject(
          v, [this](size_t) { End(Verdict::kReject); },
          [this](size_t w) {
            const auto of_range = [this](const std::string& found, size_t x) {
              // One commit can add a range and a single port in the range. A packet to the single
              // port can then reach the range (docs/decisions/0011).
              if (HasSinglePort(x)) return;
              PassRangeFirewall(x, [&](size_t y) { Dispatch(found, /*range=*/true, y); });
            };
            FindRange(w, of_range, [this](size_t x) { Filter(0, x); });
          });
    });
  }

  // Calls fn(data, version) for each result that a lookup in version `from` or later can have.
  // `data` is null if the key does not exist. If successive versions have the same result, fn is
  // called only for the first one, because its later lookups include those of the others.
  template <typename Fn>
  void Lookup(SetIndex set, const std::string& key, size_t from, Fn fn) const {
    const std::string* last = nullptr;
    for (size_t v = from; v < versions_.size(); ++v) {
      const Elements& elements = *(*versions_[v])[Index(packet_.to.family())][set];
      const auto found = elements.find(key);
      const std::string* data = found == elements.end() ? nullptr : &found->second;
      const bool same = data == nullptr ? last == nullptr : last != nullptr && *data == *last;
      if (v == from || !same) fn(data, v);
      last = data;
    }
  }

  static std::string Bytes(const nft::FieldBytes& key) {
    return {key.bytes().begin(), key.bytes().end()};
  }
  std::string PortKey() const {
    return Bytes(ServiceIpKey(packet_.to, packet_.protocol, packet_.port));
  }
  std::string BlockKey() const {
    const auto block = static_cast<uint8_t>(packet_.port >> 8);
    return Bytes(RangeBlockKey(packet_.to, packet_.protocol, block));
  }
  static std::span<const uint8_t> Span(const std::string& bytes) {
    return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
  }
  static DescriptorParts Parse(const std::string& descriptor) { return Parse(Span(descriptor)); }

  bool HasSinglePort(size_t v) const {
    const auto& sets = (*versions_[v])[Index(packet_.to.family())];
    return sets[kServiceIps]->contains(PortKey()) ||
           sets[kNoEndpointServices]->contains(PortKey()) ||
           sets[kNoEndpointNodePorts]->contains(PortKey());
  }

  void End(Verdict verdict) { outcomes_.insert({verdict}); }

  // The chains firewall-check and range-firewall-check. Calls passed(version) with the first
  // version in which the packet can pass them.
  template <typename Fn>
  void PassFirewall(SetIndex ips, SetIndex sources, const std::string& key, size_t from,
                    Fn passed) {
    size_t first = versions_.size();
    const IpAddress source = packet_.source();
    Lookup(ips, key, from, [&](const std::string* restricted, size_t v) {
      if (restricted == nullptr) {
        first = std::min(first, v);
        return;
      }
      Lookup(sources, key, v, [&](const std::string* ranges, size_t w) {
        if (ranges != nullptr && Contains(Span(*ranges), source)) {
          first = std::min(first, w);
        } else {
          End(Verdict::kDrop);
        }
      });
    });
    if (first < versions_.size()) passed(first);
  }
  template <typename Fn>
  void PassRangeFirewall(size_t from, Fn passed) {
    const std::string key = Bytes(AddressAndProtocolKey(packet_.to, packet_.protocol));
    PassFirewall(kRangeFirewallIps, kRangeFirewallSources, key, from, passed);
  }

  static bool Contains(std::span<const uint8_t> ranges, const IpAddress& source) {
    const size_t size = source.size();
    for (; !ranges.empty(); ranges = ranges.subspan(2 * size)) {
      if (*IpAddress::FromBytes(ranges.first(size)) <= source &&
          source <= *IpAddress::FromBytes(ranges.subspan(size, size))) {
        return true;
      }
    }
    return false;
  }

  // Calls found(descriptor, version) or missed(version).
  template <typename OnFound, typename OnMissed>
  void FindRange(size_t from, OnFound found, OnMissed missed) const {
    Lookup(kRangePorts, PortKey(), from, [&](const std::string* of_port, size_t v) {
      if (of_port != nullptr) return found(*of_port, v);
      Lookup(kRangeBlocks, BlockKey(), v, [&](const std::string* of_block, size_t w) {
        of_block != nullptr ? found(*of_block, w) : missed(w);
      });
    });
  }

  // Calls found(version) or missed(version).
  template <typename OnFound, typename OnMissed>
  void HasReject(size_t from, OnFound found, OnMissed missed) const {
    Lookup(kNoEndpointServices, PortKey(), from, [&](const std::string* of_service, size_t v) {
      if (of_service != nullptr) return found(v);
      Lookup(kNoEndpointNodePorts, PortKey(), v, [&](const std::string* of_node_port, size_t w) {
        of_node_port != nullptr ? found(w) : missed(w);
      });
    });
  }

  // The filter chains, for a packet that was not translated. `lookup` is the next lookup.
  void Filter(size_t lookup, size_t from) {
    static constexpr SetIndex kSets[] = {kNoEndpointNodePorts, kNoEndpointServices,
                                         kNoEndpointRangePorts, kNoEndpointRangeBlocks,
                                         kClusterIps};
    if (lookup == std::size(kSets)) return End(Verdict::kUntouched);
    const SetIndex set = kSets[lookup];
    const std::string key = set == kClusterIps ? Bytes(nft::FieldBytes().Append(packet_.to.bytes()))
                            : set == kNoEndpointRangeBlocks ? BlockKey()
                                                            : PortKey();
    Lookup(set, key, from, [&](const std::string* found, size_t v) {
      if (found == nullptr) return Filter(lookup + 1, v);
      const auto reject = [this](size_t) { End(Verdict::kReject); };
      const bool range = set == kNoEndpointRangePorts || set == kNoEndpointRangeBlocks;
      range ? PassRangeFirewall(v, reject) : reject(v);
    });
  }

  // The chains dispatch and external-local.
  void Dispatch(const std::string& descriptor, bool range, size_t from) {
    if (packet_.from_pod || Parse(descriptor).kind != DispatchKind::kExternalLocal) {
      return Pick(descriptor, range, from);
    }
    Lookup(kLocalSets, descriptor, from, [&](const std::string* local, size_t v) {
      local != nullptr ? Pick(*local, range, v) : End(Verdict::kDrop);
    });
  }

  void Pick(const std::string& descriptor, bool range, size_t from) {
    const DescriptorParts parts = Parse(descriptor);
    if (parts.sticky) return Choose(descriptor, parts.sticky->local, kStickyAttempts, from);
    for (const auto& [endpoint, v] : SlotsOf(range ? kRangeEndpoints : kEndpoints, parts, from)) {
      endpoint.empty() ? End(Verdict::kDrop) : Translate(endpoint);
    }
  }

  void Translate(const std::string& endpoint) {
    const size_t size = packet_.to.size();
    uint16_t port = 0;
    if (endpoint.size() > size) {
      port = static_cast<uint16_t>(nft::ReadBigEndian(Span(endpoint).subspan(size, 2)));
    }
    const IpAddress address = *IpAddress::FromBytes(Span(endpoint).first(size));
    outcomes_.insert({Verdict::kDnat, {address, port}});
  }

  // A packet that misses its slot looks up the first slot.
  const Found& SlotsOf(SetIndex set, const DescriptorParts& parts, size_t from) {
    const Family family = packet_.to.family();
    const auto [known, added] =
        slots_.try_emplace({family, set, parts.group, parts.capacity, from}, Found());
    Found& slots = known->second;
    if (!added) return slots;
    const auto key = [&](uint32_t slot) {
      if (set != kAffinitySlots) {
        return Bytes(EndpointRow({family, set}, parts.group, slot, {}).key);
      }
      const auto group = static_cast<uint16_t>(parts.group);
      return Bytes(nft::FieldBytes().AppendU16Be(group).AppendU32Host(slot));
    };
    const auto add = [&](const std::string* found, size_t v) {
      const auto [entry, is_new] = slots.emplace(found == nullptr ? "" : *found, v);
      if (!is_new && v < entry->second) entry->second = v;
    };
    for (uint32_t slot = 0; slot < parts.capacity; ++slot) Lookup(set, key(slot), from, add);
    const auto miss = slots.extract("");
    if (parts.capacity == 0) add(nullptr, from);
    if (!miss.empty()) Lookup(set, key(0), miss.mapped(), add);
    return slots;
  }

  // The chains choose and recall, for a client without a record.
  void Choose(const std::string& descriptor, bool local, int attempts, size_t from) {
    const DescriptorParts parts = Parse(descriptor);
    if (!parts.sticky || attempts == 0) return End(Verdict::kDrop);
    if (!chosen_.emplace(descriptor, local, attempts, from).second) return;
    for (const auto& [choice, v] : SlotsOf(kAffinitySlots, parts, from)) {
      if (choice.empty()) {
        End(Verdict::kDrop);
        continue;
      }
      const std::string key = choice.substr(0, 4);
      const auto recall = [&](SetIndex endpoints, size_t w, auto missed) {
        Lookup(endpoints, key, w, [&](const std::string* endpoint, size_t x) {
          endpoint != nullptr ? Translate(*endpoint) : missed(x);
        });
      };
      recall(local ? kAffinityLocalEndpoints : kAffinityEndpoints, v, [&](size_t w) {
        recall(local ? kRangeAffinityLocalEndpoints : kRangeAffinityEndpoints, w,
               [&](size_t x) { Restore(local, attempts - 1, x); });
      });
    }
  }

  // The chains restore and restored. `attempts` is the number of remaining attempts.
  void Restore(bool local, int attempts, size_t from) {
    const auto restored = [&](const std::string& descriptor, bool range, size_t v) {
      Parse(descriptor).sticky ? Choose(descriptor, local, attempts, v)
                               : Pick(descriptor, range, v);
    };
    const auto restore = [&](const std::string& descriptor, bool range, size_t v) {
      if (!local) return restored(descriptor, range, v);
      Lookup(kLocalSets, descriptor, v, [&](const std::string* of_local, size_t w) {
        of_local != nullptr ? restored(*of_local, range, w)
                            : Choose(descriptor, local, attempts, w);
      });
    };
    if (attempts == 0) return End(Verdict::kDrop);
    Lookup(kServiceIps, PortKey(), from, [&](const std::string* descriptor, size_t v) {
      if (descriptor != nullptr) return restore(*descriptor, false, v);
      FindRange(
          v, [&](const std::string& of_range, size_t w) { restore(of_range, true, w); },
          [&](size_t) { End(Verdict::kDrop); });
    });
  }

  Versions versions_;
  const Packet& packet_;
  FoundSlots& slots_;
  std::set<std::tuple<std::string, bool, int, size_t>> chosen_;  // Arguments of past calls.
  Outcomes outcomes_;
};

}  // namespace svcmap::proxy::test
