#include "proxy/ruleset/sets.h"

#include <initializer_list>
#include <string>

#include "proxy/ruleset/typeof.h"

namespace svcmap::proxy {
namespace {

using nft::Field;

constexpr std::string_view kSetNames[] = {
    "affinity",
    "marker",
    "pod-sources",
    "masquerade-sources",
    "cluster-ips",
    "service-cidrs",
    "service-ips",
    "endpoints",
    "local-sets",
    "no-endpoint-services",
    "no-endpoint-nodeports",
    "hairpin-connections",
    "firewall-ips",
    "firewall-sources",
    "affinity-slots",
    "affinity-endpoints",
    "affinity-local-endpoints",
    "self-endpoints",
    "ping-addresses",
    "ping-target",
    "reset-services",
    "range-ports",
    "range-blocks",
    "range-endpoints",
    "no-endpoint-range-ports",
    "no-endpoint-range-blocks",
    "range-hairpins",
    "range-firewall-ips",
    "range-firewall-sources",
    "range-affinity-endpoints",
    "range-affinity-local-endpoints",
};

// User data that nft stores for "type mark : ipv6_addr". Without this user data, nft interprets the
// key in network byte order and cannot load its own output again.
std::vector<uint8_t> MarkerUserdata() {
  return {0, 4, 1, 0, 0, 0,   // key byte order: host
          1, 4, 2, 0, 0, 0,   // data byte order: network
          6, 4, 0, 0, 0, 0};  // data is not an interval
}

void SetTypeof(nft::SetSpec& set, const std::vector<TypeofPart>& key,
               const std::vector<TypeofPart>& data) {
  set.typeof_text = TypeofText(key, data);
  set.userdata = TypeofUserdata(key, data);
}

std::vector<TypeofPart> GroupAndSlot(Family family) {
  return {family == Family::kIpv4 ? TypeofPart::Raw(136, 24) : TypeofPart::Raw(288, 32),
          TypeofPart::Random(65536)};
}

// Declares keys without a named nft type: parts of the destination address and random numbers.
// nft/expr/rule_builder.h documents the byte offsets.
void SetEndpointTypes(Family family, std::vector<nft::SetSpec>& sets) {
  const bool v4 = family == Family::kIpv4;
  const Field address = v4 ? Field::kIpv4Addr : Field::kIpv6Addr;
  const TypeofPart destination = v4 ? kIpDestination : kIp6Destination;
  const TypeofPart slot = TypeofPart::Random(65536);
  const TypeofPart choice = v4 ? kIpDestination : TypeofPart::Raw(192, 64);

  sets[kEndpoints].key = {v4 ? Field::kRaw24 : Field::kRaw32, Field::kSlot};
  sets[kEndpoints].data = {address, Field::kInetService};
  SetTypeof(sets[kEndpoints], GroupAndSlot(family), {destination, kTransportDestination});

  sets[kAffinitySlots].key = {Field::kRaw16, Field::kSlot};
  sets[kAffinitySlots].data = {v4 ? Field::kIpv4Addr : Field::kRaw64};
  SetTypeof(sets[kAffinitySlots], {TypeofPart::Raw(v4 ? 144 : 304, 16), slot}, {choice});

  sets[kAffinity].key = {v4 ? Field::kIpv4Addr : Field::kRaw96, Field::kRaw16};
  sets[kAffinity].data = sets[kAffinitySlots].data;
  SetTypeof(sets[kAffinity],
            {v4 ? kIpSource : TypeofPart::Raw(96, 96), TypeofPart::Raw(v4 ? 128 : 192, 16)},
            {choice});

  for (const SetIndex set : {kAffinityEndpoints, kAffinityLocalEndpoints}) {
    sets[set].key = {v4 ? Field::kIpv4Addr : Field::kRaw32};
    sets[set].data = {address, Field::kInetService};
    if (v4) continue;
    SetTypeof(sets[set], {TypeofPart::Raw(192, 32)}, {destination, kTransportDestination});
  }
}

// Appends the sets of port ranges, in the order of SetIndex.
void AddRangeSets(Family family, std::vector<nft::SetSpec>& sets) {
  const bool v4 = family == Family::kIpv4;
  const Field address = v4 ? Field::kIpv4Addr : Field::kIpv6Addr;
  const TypeofPart destination = v4 ? kIpDestination : kIp6Destination;
  const std::vector<Field> port = {address, Field::kInetProto, Field::kInetService};
  const std::vector<Field> block = {address, Field::kInetProto, Field::kRaw8};
  const std::vector<TypeofPart> block_types = {destination, kProtocol, kDestinationPortBlock};
  const auto add = [&sets](SetIndex set) -> nft::SetSpec& {
    sets.push_back({.name = std::string(kSetNames[set])});
    return sets.back();
  };
  nft::SetSpec& ports = add(kRangePorts);
  ports.key = port;
  ports.data = {address};
  nft::SetSpec& blocks = add(kRangeBlocks);
  blocks.key = block;
  blocks.data = {address};
  SetTypeof(blocks, block_types, {destination});
  nft::SetSpec& endpoints = add(kRangeEndpoints);
  endpoints.key = sets[kEndpoints].key;
  endpoints.data = {address};
  SetTypeof(endpoints, GroupAndSlot(family), {destination});
  add(kNoEndpointRangePorts).key = port;
  nft::SetSpec& no_endpoint_blocks = add(kNoEndpointRangeBlocks);
  no_endpoint_blocks.key = block;
  SetTypeof(no_endpoint_blocks, block_types, {});
  add(kRangeHairpins).key = {address, address, Field::kInetProto};
  add(kRangeFirewallIps).key = {address, Field::kInetProto};
  nft::SetSpec& sources = add(kRangeFirewallSources);
  sources.key = {address, Field::kInetProto, address};
  sources.interval = true;
  for (const SetIndex set : {kRangeAffinityEndpoints, kRangeAffinityLocalEndpoints}) {
    nft::SetSpec& choices = add(set);
    choices.key = sets[kAffinityEndpoints].key;
    choices.data = {address};
    if (!v4) SetTypeof(choices, {TypeofPart::Raw(192, 32)}, {destination});
  }
}

}  // namespace

std::vector<nft::SetSpec> MakeSets(Family family, const RulesetOptions& options) {
  const Field address = family == Family::kIpv4 ? Field::kIpv4Addr : Field::kIpv6Addr;
  const std::vector<Field> service = {address, Field::kInetProto, Field::kInetService};

  std::vector<nft::SetSpec> sets(kSetCount);
  for (size_t i = 0; i < kSetCount; ++i) sets[i].name = kSetNames[i];
  sets[kMarker].key = {Field::kMark};
  sets[kMarker].data = {Field::kIpv6Addr};
  sets[kMarker].userdata = MarkerUserdata();
  for (const SetIndex set : {kPodSources, kMasqueradeSources, kServiceCidrs}) {
    sets[set].key = {address};
    sets[set].interval = true;
  }
  sets[kClusterIps].key = {address};
  sets[kServiceIps].key = service;
  sets[kServiceIps].data = {address};
  sets[kLocalSets].key = {address};
  sets[kLocalSets].data = {address};
  sets[kNoEndpointServices].key = service;
  sets[kNoEndpointNodePorts].key = service;
  sets[kHairpinConnections].key = {address, address, Field::kInetProto, Field::kInetService};
  sets[kSelfEndpoints].key = {address, Field::kInetProto};
  sets[kFirewallIps].key = service;
  sets[kFirewallSources].key = {address, Field::kInetProto, Field::kInetService, address};
  sets[kFirewallSources].interval = true;
  sets[kAffinity].dynamic_size = kAffinityRecords;
  SetEndpointTypes(family, sets);
  if (RowSetCount(options) > kPingTarget) {
    sets.push_back({.name = std::string(kSetNames[kPingAddresses]), .key = {address}});
    sets.push_back({.name = std::string(kSetNames[kPingTarget]),
                    .key = {Field::kInetProto},
                    .data = {address}});
  }
  if (RowSetCount(options) > kResetServices) {
    sets.push_back({.name = std::string(kSetNames[kResetServices]), .key = service});
  }
  if (RowSetCount(options) > kRangePorts) AddRangeSets(family, sets);
  if (options.count_connections) {
    sets.push_back({.name = std::string(kServiceConnectionsName),
                    .key = service,
                    .dynamic_size = kCountedDestinations});
  }
  if (options.count_connections && options.port_ranges) {
    sets.push_back({.name = std::string(kRangeConnectionsName),
                    .key = {address, Field::kInetProto},
                    .dynamic_size = kCountedDestinations});
  }
  return sets;
}

nft::NamedSet Named(SetIndex set) { return {set, kSetNames[set]}; }

}  // namespace svcmap::proxy
