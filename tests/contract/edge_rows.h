// Elements with boundary values for every set: addresses, ports, groups, slots, choices and
// comments.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "proxy/ruleset/descriptor.h"
#include "proxy/ruleset/table.h"
#include "tests/contract/rows.h"

namespace svcmap::testing {

// Adds single addresses, prefixes, other ranges, and a range of all addresses.
inline void AddSourceRows(Family family, std::vector<Row>& rows) {
  const bool v4 = family == Family::kIpv4;
  const std::vector<std::pair<const char*, const char*>> ranges =
      v4 ? std::vector<std::pair<const char*, const char*>>{{"0.0.0.0", "0.0.0.0"},
                                                            {"10.0.0.0", "10.255.255.255"},
                                                            {"11.0.0.0", "11.0.0.2"},
                                                            {"192.0.2.3", "192.0.2.9"},
                                                            {"255.255.255.255", "255.255.255.255"}}
         : std::vector<std::pair<const char*, const char*>>{
               {"::", "::"},
               {"fd00::", "fd00::ffff"},
               {"fd00::1:0", "fd00::1:2"},
               {"2001:db8::3", "2001:db8::1:9"},
               {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}};
  const IpAddress vip = v4 ? Ip("203.0.113.1") : Ip("2001:db8:9::1");
  for (const uint16_t port : {uint16_t{1}, uint16_t{80}, uint16_t{65535}}) {
    for (const auto& [first, last] : ranges) {
      rows.push_back(SourceRow(vip, port, Ip(first), Ip(last)).Comment("ns/web:http"));
    }
  }
  const IpAddress lowest = v4 ? Ip("0.0.0.0") : Ip("::");
  const IpAddress highest =
      v4 ? Ip("255.255.255.255") : Ip("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
  rows.push_back(SourceRow(highest, 80, lowest, highest));
}

// Adds elements to all session affinity sets, including affinity records.
inline void AddAffinityRows(Family family, std::vector<Row>& rows) {
  const bool v4 = family == Family::kIpv4;
  const IpAddress endpoint = v4 ? Ip("10.244.0.1") : Ip("fd00:244::1");
  for (const uint32_t choice : {proxy::Choice(1, 1), proxy::Choice(1, 0x100),
                                proxy::Choice(0x100, 0xff), proxy::Choice(0x8000, 0x8000),
                                proxy::Choice(proxy::kMaxStickyPort, proxy::kMaxStickyEndpoint)}) {
    const auto choice_bytes = [&](nft::FieldBytes& bytes) {
      bytes.AppendU32Be(choice);
      if (!v4) bytes.AppendU32Be(~choice);
    };
    for (const uint16_t group : {uint16_t{1}, uint16_t{0x80}, uint16_t{0x8000}, uint16_t{0xffff}}) {
      Row slot{.set = {family, proxy::kAffinitySlots}};
      slot.key.AppendU16Be(group).AppendU32Host(choice & 0xffff);
      choice_bytes(slot.data);
      rows.push_back(slot);
    }
    for (const proxy::SetIndex set : {proxy::kAffinityEndpoints, proxy::kAffinityLocalEndpoints}) {
      Row row{.set = {family, set}, .comment = "ns/web:http"};
      row.key.AppendU32Be(choice);
      row.data.Append(endpoint.bytes()).AppendU16Be(8080).PadToWord();
      rows.push_back(row);
    }
    rows.push_back(RecordRow(family, choice & 0xff, static_cast<uint16_t>(choice >> 16), choice));
  }
}

// Returns rows for all sets except interval sets with one field.
inline std::vector<Row> EdgeRows(Family family) {
  const bool v4 = family == Family::kIpv4;
  const IpAddress lowest = v4 ? Ip("0.0.0.0") : Ip("::");
  const IpAddress highest =
      v4 ? Ip("255.255.255.255") : Ip("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
  const IpAddress typical = v4 ? Ip("10.96.0.10") : Ip("fd00:96::10");
  // A comment with the maximum length of 127 bytes: a namespace and a name of 63 bytes each.
  std::string long_comment = std::string(63, 'n') + "/" + std::string(63, 's');
  long_comment.resize(nft::Transaction::kMaxComment, 'x');

  std::vector<Row> rows;
  Row marker{.set = {family, proxy::kMarker}};
  marker.key.AppendU32Host(1);
  marker.data.Append(Ip("1:2:3:4:5:6:7:8").bytes());
  rows.push_back(std::move(marker).Comment("0123456789abcdef"));
  rows.push_back(AddressRow(proxy::kClusterIps, lowest));
  rows.push_back(AddressRow(proxy::kClusterIps, highest).Comment(long_comment));
  rows.push_back(AddressRow(proxy::kClusterIps, typical).Comment("ns/web"));
  for (const uint16_t port : {uint16_t{1}, uint16_t{80}, uint16_t{65535}}) {
    for (const uint8_t protocol : {uint8_t{6}, uint8_t{17}, uint8_t{132}}) {
      for (const IpAddress& address : {lowest, typical, highest}) {
        Row row{.set = {family, proxy::kServiceIps}};
        row.key.Append(address.bytes()).AppendU8(protocol).AppendU16Be(port).PadToWord();
        row.data.Append(proxy::Descriptor{.kind = proxy::DispatchKind::kExternalLocal,
                                          .endpoints = proxy::kMaxEndpoints,
                                          .group = proxy::kMaxGroup}
                            .For(address)
                            .bytes());
        rows.push_back(row);
        rows.back().comment = port == 80 ? "a.b/c-d:e" : long_comment;
        row.data = {};
        for (const proxy::SetIndex set :
             {proxy::kNoEndpointServices, proxy::kNoEndpointNodePorts, proxy::kFirewallIps}) {
          row.set.set = set;
          rows.push_back(row);
        }
      }
      Row hairpin{.set = {family, proxy::kHairpinConnections}, .comment = long_comment};
      hairpin.key.Append(typical.bytes()).Append(highest.bytes()).AppendU8(protocol);
      hairpin.key.AppendU16Be(port).PadToWord();
      rows.push_back(hairpin);
    }
  }
  for (const IpAddress& address : {lowest, typical, highest}) {
    Row local_set = AddressRow(proxy::kLocalSets, address);
    local_set.data.Append(highest.bytes());
    rows.push_back(local_set);
    for (const uint8_t protocol : {uint8_t{6}, uint8_t{17}, uint8_t{132}}) {
      Row self_endpoint{.set = {family, proxy::kSelfEndpoints}};
      self_endpoint.key.Append(address.bytes()).AppendU8(protocol).PadToWord();
      rows.push_back(self_endpoint);
    }
  }
  AddSourceRows(family, rows);
  AddAffinityRows(family, rows);
  for (const uint32_t group : {1u, 0x80u, 0x8000u, 0x800000u, proxy::kMaxGroup}) {
    for (const uint32_t slot : {0u, 1u, 255u, 256u, 65534u}) {
      rows.push_back(EndpointRow(group, slot, typical, 1).Comment(long_comment));
    }
    rows.push_back(EndpointRow(group, 2, highest, 65535));
    rows.push_back(EndpointRow(group, 3, lowest, 65535));
  }
  return rows;
}

// Returns adjacent ranges, single addresses and ranges that are not prefixes.
inline std::vector<Row> RangeRows(Family family, proxy::SetIndex set) {
  std::vector<Row> rows;
  const std::vector<std::pair<const char*, const char*>> ranges =
      family == Family::kIpv4
          ? std::vector<std::pair<const char*, const char*>>{{"10.96.0.0", "10.97.0.0"},
                                                             {"10.97.0.0", "10.97.0.1"},
                                                             {"10.98.0.3", "10.98.0.9"},
                                                             {"172.16.0.0", "172.32.0.0"},
                                                             {"255.255.255.255", ""}}
          : std::vector<std::pair<const char*, const char*>>{
                {"fd00:96::", "fd00:96::1:0"},
                {"fd00:96::1:0", "fd00:96::1:1"},
                {"fd00:97::3", "fd00:97::9"},
                {"fd00:98::", "fd00:99::"},
                {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ""}};
  for (const auto& [start, end] : ranges) {
    rows.push_back(RangeStart(Ip(start), set).Comment("cidr"));
    if (*end != '\0') rows.push_back(RangeEnd(Ip(end), set));
  }
  return rows;
}

}  // namespace svcmap::testing
