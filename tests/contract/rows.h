// Short helper functions that create elements of svcmapd's tables in tests.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nft/model/field.h"
#include "nft/model/kernel.h"
#include "nft/model/transaction.h"
#include "nft/types/ip_address.h"
#include "proxy/ruleset/table.h"

namespace svcmap::testing {

// An element that owns the bytes of its key and data.
struct Row {
  nft::SetRef set;
  nft::FieldBytes key = {};
  nft::FieldBytes data = {};
  std::string comment = {};
  bool interval_end = false;
  nft::FieldBytes key_end = {};

  nft::ElementView View() const {
    return {set, key.bytes(), data.bytes(), comment, interval_end, key_end.bytes()};
  }
  operator nft::ElementView() const { return View(); }  // NOLINT: Add(row) reads well.

  nft::Element Read() const {
    const auto k = key.bytes(), d = data.bytes(), e = key_end.bytes();
    return {
        {k.begin(), k.end()}, {d.begin(), d.end()}, comment, interval_end, {e.begin(), e.end()}};
  }
  Row Comment(std::string text) && {
    comment = std::move(text);
    return std::move(*this);
  }
};

inline IpAddress Ip(std::string_view text) { return *IpAddress::Parse(text); }

// Returns the address 10.0.0.0 or fd00:: plus `number`, depending on the family.
inline IpAddress Address(Family family, uint32_t number) {
  uint8_t bytes[16] = {};
  const size_t size = family == Family::kIpv4 ? 4 : 16;
  bytes[0] = family == Family::kIpv4 ? 10 : 0xfd;
  for (size_t i = 0; i < 3; ++i) bytes[size - 1 - i] = static_cast<uint8_t>(number >> (8 * i));
  return *IpAddress::FromBytes({bytes, size});
}

// Returns a row of service-ips: address . tcp . port : descriptor.
inline Row ServiceRow(const IpAddress& address, uint16_t port, const IpAddress& descriptor) {
  Row row{.set = {address.family(), proxy::kServiceIps}};
  row.key.Append(address.bytes()).AppendU8(6).AppendU16Be(port).PadToWord();
  row.data.Append(descriptor.bytes());
  return row;
}

inline Row ServiceRow(Family family, uint32_t number, uint32_t descriptor = 1) {
  return ServiceRow(Address(family, number), 80, Address(family, descriptor));
}

// Returns a row of endpoints: group . slot : address . port.
inline Row EndpointRow(uint32_t group, uint32_t slot, const IpAddress& address, uint16_t port) {
  Row row{.set = {address.family(), proxy::kEndpoints}};
  if (address.family() == Family::kIpv4) {
    row.key.AppendU24Be(group);
  } else {
    row.key.AppendU32Be(group);
  }
  row.key.AppendU32Host(slot);
  row.data.Append(address.bytes()).AppendU16Be(port).PadToWord();
  return row;
}

// Returns a row of firewall-sources: a source range that may use address:port/TCP.
inline Row SourceRow(const IpAddress& address, uint16_t port, const IpAddress& first,
                     const IpAddress& last) {
  Row row{.set = {address.family(), proxy::kFirewallSources}};
  row.key.Append(address.bytes()).AppendU8(6).AppendU16Be(port);
  row.key_end = row.key;
  row.key.Append(first.bytes());
  row.key_end.Append(last.bytes());
  return row;
}

inline Row SourceRow(Family family, uint32_t number, uint32_t first, uint32_t last) {
  return SourceRow(Address(family, number), 80, Address(family, first), Address(family, last));
}

// Returns a row of affinity: client . service-port : choice.
inline Row RecordRow(Family family, uint32_t client, uint16_t port, uint32_t choice) {
  Row row{.set = {family, proxy::kAffinity}};
  const IpAddress address = Address(family, client);
  row.key.Append(address.bytes().last(family == Family::kIpv4 ? 4 : 12)).AppendU16Be(port);
  row.key.PadToWord();
  row.data.AppendU32Be(choice);
  if (family == Family::kIpv6) row.data.AppendU32Be(~choice);
  return row;
}

// Returns a row with one address, for cluster-ips or a similar set.
inline Row AddressRow(proxy::SetIndex set, const IpAddress& address) {
  Row row{.set = {address.family(), set}};
  row.key.Append(address.bytes());
  return row;
}

inline Row ClusterIpRow(Family family, uint32_t number) {
  return AddressRow(proxy::kClusterIps, Address(family, number));
}

inline Row RangeStart(const IpAddress& address, proxy::SetIndex set = proxy::kServiceCidrs) {
  return AddressRow(set, address);
}
inline Row RangeEnd(const IpAddress& first_behind, proxy::SetIndex set = proxy::kServiceCidrs) {
  Row row = AddressRow(set, first_behind);
  row.interval_end = true;
  return row;
}

// Returns a transaction that first deletes and then adds elements.
inline nft::Transaction Changes(const std::vector<Row>& deleted, const std::vector<Row>& added) {
  nft::Transaction transaction;
  for (const Row& row : deleted) transaction.Delete(row);
  for (const Row& row : added) transaction.Add(row);
  return transaction;
}

}  // namespace svcmap::testing
