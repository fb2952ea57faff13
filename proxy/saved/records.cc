#include "proxy/saved/records.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "absl/algorithm/container.h"

namespace svcmap::proxy {
namespace {

// Flags of a saved address.
constexpr uint8_t kFirewalledBit = 1;
constexpr uint8_t kNodePortBit = 2;

// Encodes lists item by item.
class ListWriter {
 public:
  explicit ListWriter(std::string* bytes) : bytes_(*bytes) {}

  void Add(const IpAddress& address) {
    bytes_ += static_cast<char>(address.size());
    bytes_.append(reinterpret_cast<const char*>(address.bytes().data()), address.size());
  }
  void Add(const EndpointAddress& endpoint) {
    const std::span<const uint8_t> ip = endpoint.ip.bytes();
    uint8_t item[1 + 16 + 2] = {static_cast<uint8_t>(ip.size())};
    uint8_t* end = std::copy(ip.begin(), ip.end(), item + 1);
    *end++ = static_cast<uint8_t>(endpoint.port >> 8);
    *end++ = static_cast<uint8_t>(endpoint.port);
    bytes_.append(reinterpret_cast<const char*>(item), static_cast<size_t>(end - item));
  }
  void Add8(uint8_t value) { bytes_ += static_cast<char>(value); }
  void Add16(uint16_t value) {
    Add8(static_cast<uint8_t>(value >> 8));
    Add8(static_cast<uint8_t>(value));
  }

 private:
  std::string& bytes_;
};

// Decodes lists item by item. After the end of the input, ListReader returns 0 and records an
// error.
class ListReader {
 public:
  explicit ListReader(std::string_view bytes) : left_(bytes) {}

  size_t left() const { return left_.size(); }
  bool ok() const { return ok_; }

  IpAddress Address() {
    const size_t size = Number8();
    if (left_.size() < size) ok_ = false;
    if (!ok_) return {};
    const auto address =
        IpAddress::FromBytes({reinterpret_cast<const uint8_t*>(left_.data()), size});
    left_.remove_prefix(size);
    if (!address) ok_ = false;
    return address.value_or(IpAddress());
  }
  EndpointAddress Endpoint() {
    const IpAddress ip = Address();
    return {ip, Number16()};
  }
  uint8_t Number8() {
    if (left_.empty()) {
      ok_ = false;
      return 0;
    }
    const auto value = static_cast<uint8_t>(left_.front());
    left_.remove_prefix(1);
    return value;
  }
  uint16_t Number16() {
    const unsigned high = Number8();
    return static_cast<uint16_t>(high << 8 | Number8());
  }

 private:
  std::string_view left_;
  bool ok_ = true;
};

// `read_item` parses one item.
template <typename T, typename Fn>
bool ReadList(const std::string& bytes, std::vector<T>& items, Fn read_item) {
  ListReader reader(bytes);
  while (reader.left() > 0 && reader.ok()) {
    items.push_back(read_item(reader));
    // Reserves memory on the assumption that all items are as long as the first item.
    if (items.size() == 1) items.reserve(bytes.size() / (bytes.size() - reader.left()));
  }
  return reader.ok();
}

void WriteEndpoints(const std::vector<EndpointAddress>& endpoints, std::string* bytes) {
  if (endpoints.empty()) return;
  bytes->reserve(endpoints.size() * (1 + endpoints[0].ip.size() + 2));
  ListWriter writer(bytes);
  for (const EndpointAddress& endpoint : endpoints) writer.Add(endpoint);
}

bool ReadEndpoints(const std::string& bytes, std::vector<EndpointAddress>& endpoints) {
  return ReadList(bytes, endpoints, [](ListReader& reader) { return reader.Endpoint(); });
}

void ToMessage(const Affinity& affinity, saved::v1::Affinity& message) {
  message.set_timer(affinity.timer);
  message.set_port_number(affinity.port_number);
  message.set_last_number(affinity.last_number);
  ListWriter endpoints(message.mutable_endpoints());
  for (const Affinity::Endpoint& endpoint : affinity.endpoints) {
    endpoints.Add(endpoint.address);
    endpoints.Add16(endpoint.number);
  }
}

template <typename T>
bool Fits(uint32_t number, T& value) {
  value = static_cast<T>(number);
  return static_cast<uint32_t>(value) == number;
}

bool ReadAffinity(const saved::v1::Affinity& message, Affinity& affinity) {
  affinity.port_number = message.port_number();
  return Fits(message.timer(), affinity.timer) &&
         Fits(message.last_number(), affinity.last_number) &&
         ReadList(message.endpoints(), affinity.endpoints, [](ListReader& reader) {
           const EndpointAddress endpoint = reader.Endpoint();
           return Affinity::Endpoint{endpoint, reader.Number16()};
         });
}

std::optional<Family> FamilyFromNumber(uint32_t number) {
  if (number > static_cast<uint32_t>(Family::kIpv6)) return std::nullopt;
  return static_cast<Family>(number);
}

std::optional<Protocol> ProtocolFromNumber(uint32_t number) {
  for (const Protocol protocol : {Protocol::kTcp, Protocol::kUdp, Protocol::kSctp}) {
    if (number == static_cast<uint32_t>(protocol)) return protocol;
  }
  return std::nullopt;
}

void ToMessage(const PortRows& port, saved::v1::Port& message) {
  message.set_family(static_cast<uint32_t>(port.family));
  message.set_name(port.name);
  message.set_protocol(static_cast<uint32_t>(port.protocol));
  message.set_port(port.port);
  message.set_end_port(port.end_port);
  ListWriter addresses(message.mutable_addresses());
  for (const ReachedAt& at : port.addresses) {
    addresses.Add(at.address);
    addresses.Add16(at.port);
    addresses.Add8(static_cast<uint8_t>(at.kind));
    addresses.Add8((at.firewalled ? kFirewalledBit : 0) | (at.node_port ? kNodePortBit : 0));
  }
  message.set_any(port.any);
  message.set_internal_local(port.internal_local);
  message.set_pick_by(static_cast<uint32_t>(port.pick_by));
  message.set_cluster_group(port.cluster.group);
  WriteEndpoints(port.cluster.slots, message.mutable_cluster());
  message.set_local_group(port.local.group);
  WriteEndpoints(port.local.slots, message.mutable_local());
  WriteEndpoints(port.hairpins, message.mutable_hairpins());
  if (port.affinity) ToMessage(*port.affinity, *message.mutable_affinity());
}

bool ReadPickBy(const saved::v1::Port& message, PortRows& port) {
  if (message.pick_by() > static_cast<uint32_t>(PickBy::kClientAndPort)) return false;
  port.pick_by = static_cast<PickBy>(message.pick_by());
  return true;
}

// Returns false if the number of slots has no descriptor.
bool TablesFit(const PortRows& port) {
  const auto fits = [](const EndpointSet& set) {
    return set.slots.empty() || absl::c_linear_search(kHashTableSizes, set.slots.size());
  };
  return port.pick_by == PickBy::kRandom || (fits(port.cluster) && fits(port.local));
}

bool ReadPort(const saved::v1::Port& message, PortRows& port) {
  const std::optional<Family> family = FamilyFromNumber(message.family());
  const std::optional<Protocol> protocol = ProtocolFromNumber(message.protocol());
  if (!family || !protocol || !Fits(message.port(), port.port) || !ReadPickBy(message, port) ||
      !Fits(message.end_port(), port.end_port)) {
    return false;
  }
  // DividePorts requires an ascending range.
  if (port.is_range() && (port.port == 0 || port.end_port < port.port)) return false;
  port.family = *family;
  port.name = message.name();
  port.protocol = *protocol;
  bool kinds_known = true;
  const bool addresses_read =
      ReadList(message.addresses(), port.addresses, [&](ListReader& reader) {
        ReachedAt at{.address = reader.Address(), .port = reader.Number16()};
        const uint8_t kind = reader.Number8();
        kinds_known = kinds_known && kind <= static_cast<uint8_t>(DispatchKind::kSticky);
        at.kind = static_cast<DispatchKind>(kind);
        const uint8_t flags = reader.Number8();
        at.firewalled = (flags & kFirewalledBit) != 0;
        at.node_port = (flags & kNodePortBit) != 0;
        return at;
      });
  port.any = message.any();
  port.internal_local = message.internal_local();
  port.cluster.group = message.cluster_group();
  port.local.group = message.local_group();
  return addresses_read && kinds_known && ReadEndpoints(message.cluster(), port.cluster.slots) &&
         ReadEndpoints(message.local(), port.local.slots) &&
         ReadEndpoints(message.hairpins(), port.hairpins) && TablesFit(port) &&
         (!message.has_affinity() || ReadAffinity(message.affinity(), port.affinity.emplace()));
}

void SetBytes(const nft::FieldBytes& field, std::string* bytes) {
  bytes->assign(reinterpret_cast<const char*>(field.bytes().data()), field.bytes().size());
}

bool FromBytes(const std::string& bytes, nft::FieldBytes& field) {
  if (bytes.size() > nft::FieldBytes::kMaxSize) return false;
  field.Append({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  return true;
}

}  // namespace

uint32_t KindToNumber(Kind kind) { return static_cast<uint32_t>(kind) + 1; }

std::optional<Kind> KindFromNumber(uint32_t number) {
  if (number < 1 || number > KindToNumber(Kind::kServiceCidr)) return std::nullopt;
  return static_cast<Kind>(number - 1);
}

void ToMessage(const NextNumbers& next, google::protobuf::RepeatedField<uint32_t>& message) {
  for (const auto& families : next) message.Add(families.begin(), families.end());
}

void RaiseTo(const google::protobuf::RepeatedField<uint32_t>& message, NextNumbers& next) {
  int i = 0;
  for (auto& families : next) {
    for (uint32_t& value : families) {
      if (i < message.size()) value = std::max(value, message[i]);
      ++i;
    }
  }
}

void ToMessage(const Marker& marker, saved::v1::Marker& message) {
  message.set_digest(marker.digest);
  message.set_generation(marker.generation);
}

Marker FromMessage(const saved::v1::Marker& message) {
  return {.digest = message.digest(), .generation = message.generation()};
}

void ToMessage(const ServiceRows& rows, saved::v1::Service& message) {
  ListWriter cluster_ips(message.mutable_cluster_ips());
  for (const IpAddress& address : rows.cluster_ips) cluster_ips.Add(address);
  ListWriter ping_addresses(message.mutable_ping_addresses());
  for (const IpAddress& address : rows.ping_addresses) ping_addresses.Add(address);
  message.set_tcp_resets(static_cast<uint32_t>(rows.tcp_resets));
  ListWriter sources(message.mutable_sources());
  for (const AddressRange& range : rows.sources) {
    sources.Add(range.first);
    sources.Add(range.last);
  }
  for (const PortRows& port : rows.ports) ToMessage(port, *message.add_ports());
}

std::optional<ServiceRows> FromMessage(const saved::v1::Service& message) {
  std::optional<ServiceRows> rows(std::in_place);
  bool read = ReadList(message.cluster_ips(), rows->cluster_ips,
                       [](ListReader& reader) { return reader.Address(); }) &&
              ReadList(message.ping_addresses(), rows->ping_addresses,
                       [](ListReader& reader) { return reader.Address(); }) &&
              ReadList(message.sources(), rows->sources, [](ListReader& reader) {
                const IpAddress first = reader.Address();
                return AddressRange{first, reader.Address()};
              });
  rows->tcp_resets = static_cast<TcpResets>(message.tcp_resets());
  read = read && message.tcp_resets() <= static_cast<uint32_t>(TcpResets::kStrict);
  rows->ports.reserve(static_cast<size_t>(message.ports_size()));
  for (const saved::v1::Port& port : message.ports()) {
    read = read && ReadPort(port, rows->ports.emplace_back());
  }
  if (!read) rows.reset();
  return rows;
}

void ToMessage(const std::vector<Row>& rows, saved::v1::NodeRows& message) {
  for (const Row& row : rows) {
    saved::v1::Row& added = *message.add_rows();
    added.set_family(static_cast<uint32_t>(row.set.family));
    added.set_set(row.set.set);
    SetBytes(row.key, added.mutable_key());
    SetBytes(row.data, added.mutable_data());
    added.set_comment(row.comment);
    added.set_interval_end(row.interval_end);
    SetBytes(row.key_end, added.mutable_key_end());
  }
}

std::optional<std::vector<Row>> FromMessage(const saved::v1::NodeRows& message) {
  std::vector<Row> rows(static_cast<size_t>(message.rows_size()));
  for (size_t i = 0; i < rows.size(); ++i) {
    const saved::v1::Row& from = message.rows(static_cast<int>(i));
    Row& row = rows[i];
    const std::optional<Family> family = FamilyFromNumber(from.family());
    if (!family || from.set() >= kRowSetCount || !FromBytes(from.key(), row.key) ||
        !FromBytes(from.data(), row.data) || !FromBytes(from.key_end(), row.key_end)) {
      return std::nullopt;
    }
    row.set = {*family, static_cast<uint8_t>(from.set())};
    row.comment = from.comment();
    row.interval_end = from.interval_end();
  }
  return rows;
}

void ToMessage(const SavedTables& tables, saved::v1::Tables& message) {
  message.mutable_timers()->Assign(tables.timers.begin(), tables.timers.end());
  message.set_ruleset(tables.ruleset);
}

SavedTables FromMessage(const saved::v1::Tables& message) {
  return {.timers = {message.timers().begin(), message.timers().end()},
          .ruleset = message.ruleset()};
}

}  // namespace svcmap::proxy
