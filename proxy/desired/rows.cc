#include "proxy/desired/rows.h"

#include <xxhash.h>

#include <cinttypes>
#include <cstdio>

#include "proxy/ruleset/table.h"

namespace svcmap::proxy {
namespace {

nft::SetRef Ref(Family family, SetIndex set) { return {family, set}; }

nft::FieldBytes ProtocolAndPort(nft::FieldBytes key, Protocol protocol, uint16_t port) {
  return key.AppendU8(static_cast<uint8_t>(protocol)).AppendU16Be(port).PadToWord();
}

nft::FieldBytes Address(const IpAddress& address) {
  return nft::FieldBytes().Append(address.bytes());
}

nft::FieldBytes DescriptorOf(const PortRows& port, const ReachedAt& at) {
  const unsigned pick_class = PickClassFor(static_cast<uint32_t>(port.slots.size()));
  return Address(Descriptor(at.address, at.kind, pick_class, port.group));
}

}  // namespace

std::string ServiceComment(const std::string& service_key, const std::string& port_name) {
  std::string comment = service_key + ":" + port_name;
  if (comment.size() <= nft::Transaction::kMaxComment) return comment;
  char hash[20];
  std::snprintf(hash, sizeof(hash), "~%016" PRIx64,
                static_cast<uint64_t>(XXH3_64bits(comment.data(), comment.size())));
  comment.resize(nft::Transaction::kMaxComment - 17);
  return comment + hash;
}

std::vector<Row> OwnRows(const std::string& service_key, const ServiceRows& service) {
  std::vector<Row> rows;
  for (const PortRows& port : service.ports) {
    const std::string comment = ServiceComment(service_key, port.name);
    const bool reachable = port.group != 0;
    for (const ReachedAt& at : port.addresses) {
      Row& row = rows.emplace_back();
      row.set = Ref(port.family, reachable ? kServiceIps : kNoEndpointServices);
      row.key = ProtocolAndPort(Address(at.address), port.protocol, at.port);
      if (reachable) row.data = DescriptorOf(port, at);
      row.comment = comment;
    }
  }
  return rows;
}

std::vector<Row> SharedRows(const ServiceRows& service) {
  std::vector<Row> rows;
  for (const IpAddress& address : service.cluster_ips) {
    Row& row = rows.emplace_back();
    row.set = Ref(address.family(), kClusterIps);
    row.key = Address(address);
  }
  for (const PortRows& port : service.ports) {
    for (const EndpointAddress& endpoint : port.local) {
      Row& row = rows.emplace_back();
      row.set = Ref(port.family, kHairpinConnections);
      row.key = ProtocolAndPort(Address(endpoint.ip).Append(endpoint.ip.bytes()), port.protocol,
                                endpoint.port);
    }
  }
  return rows;
}

Row EndpointRow(Family family, uint32_t group, uint32_t slot, const EndpointAddress& endpoint) {
  Row row;
  row.set = Ref(family, kEndpoints);
  family == Family::kIpv4 ? row.key.AppendU24Be(group) : row.key.AppendU32Be(group);
  row.key.AppendU32Host(slot);
  row.data = Address(endpoint.ip).AppendU16Be(endpoint.port).PadToWord();
  return row;
}

}  // namespace svcmap::proxy
