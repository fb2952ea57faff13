#include "proxy/repair/expected.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace svcmap::proxy {
namespace {

Row BareRow(nft::SetRef set, std::span<const uint8_t> key) {
  Row row;
  row.set = set;
  row.key.Append(key);
  return row;
}

std::optional<Row> NodeRow(const Applied& applied, const nft::ForeignChange::Touched& touched) {
  for (const Row& row : applied.node_rows()) {
    if (row.set == touched.set && std::ranges::equal(row.key.bytes(), touched.key)) return row;
  }
  return std::nullopt;
}

// Numbers of the requested rows of one Service, by set and key.
using Requested = absl::flat_hash_map<std::string, std::vector<size_t>>;

// Keeps only requested rows, because a Service can have 262,144 rows.
void FindRows(const std::string& service, const ServiceRows& service_rows,
              const Requested& requested, std::vector<std::optional<Row>>& rows) {
  ForEachOwnRow(service, service_rows, [&](const Row& row) {
    const auto found = requested.find(SharedKey(row.set, row.key.bytes()));
    if (found == requested.end()) return;
    for (const size_t number : found->second) rows[number] = row;
  });
}

}  // namespace

std::vector<std::optional<Row>> ExpectedRows(const Applied& applied,
                                             std::span<const nft::ForeignChange::Touched> keys) {
  absl::flat_hash_map<const std::string*, Requested> services;
  std::vector<std::optional<Row>> rows;
  rows.reserve(keys.size());
  for (const nft::ForeignChange::Touched& touched : keys) {
    std::optional<Row>& row = rows.emplace_back();
    if (touched.set.set == kMarker) {
      for (Row& marker_row : applied.marker().ToRows(touched.set.family)) {
        if (std::ranges::equal(touched.key, marker_row.key.bytes())) row = std::move(marker_row);
      }
    } else if (touched.set.set == kPingTarget) {
      row = NodeRow(applied, touched);
    } else if (const std::string* owner = applied.owners().Find(touched.set, touched.key)) {
      services[owner][SharedKey(touched.set, touched.key)].push_back(rows.size() - 1);
    } else if (applied.shared().contains(SharedKey(touched.set, touched.key))) {
      row = BareRow(touched.set, touched.key);
    }
  }
  for (const auto& [service, requested] : services) {
    FindRows(*service, *applied.Find(*service), requested, rows);
  }
  return rows;
}

std::vector<Row> ExpectedSet(const Applied& applied, nft::SetRef set) {
  std::vector<Row> rows;
  const auto keep = [&](const Row& row) {
    if (row.set == set) rows.push_back(row);
  };
  if (set.set == kMarker) return applied.marker().ToRows(set.family);
  if (applied.counts()[Index(set.family)][set.set] == 0) return rows;  // Nothing to search.
  for (const Row& row : applied.node_rows()) keep(row);
  for (const auto& [key, service] : applied.services()) ForEachOwnRow(key, service, keep);
  for (const auto& [key, count] : applied.shared()) {
    const nft::ElementView element = FromSharedKey(key);
    if (element.set == set) rows.push_back(BareRow(set, element.key));
  }
  return rows;
}

}  // namespace svcmap::proxy
