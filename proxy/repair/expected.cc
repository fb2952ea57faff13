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

// Caches the rows of Services, so that each Service is converted only once.
class RowsOfServices {
 public:
  explicit RowsOfServices(const Applied& applied) : applied_(applied) {}

  std::optional<Row> Find(const std::string& service, nft::SetRef set,
                          std::span<const uint8_t> key) {
    const auto [entry, added] = services_.try_emplace(&service);
    auto& rows = entry->second;
    if (added) {
      ForEachOwnRow(service, *applied_.Find(service), [&](const Row& row) {
        rows.emplace(SharedKey(row.set, row.key.bytes()), row);
      });
    }
    const auto found = rows.find(SharedKey(set, key));
    if (found == rows.end()) return std::nullopt;
    return found->second;
  }

 private:
  const Applied& applied_;
  absl::flat_hash_map<const std::string*, absl::flat_hash_map<std::string, Row>> services_;
};

}  // namespace

std::vector<std::optional<Row>> ExpectedRows(const Applied& applied,
                                             std::span<const nft::ForeignChange::Touched> keys) {
  RowsOfServices services(applied);
  std::vector<std::optional<Row>> rows;
  rows.reserve(keys.size());
  for (const nft::ForeignChange::Touched& touched : keys) {
    std::optional<Row>& row = rows.emplace_back();
    if (touched.set.set == kMarker) {
      if (std::ranges::equal(touched.key, MarkerKey().bytes())) {
        row = applied.marker().ToRow(touched.set.family);
      }
    } else if (touched.set.set == kPingTarget) {
      row = NodeRow(applied, touched);
    } else if (const std::string* owner = applied.owners().Find(touched.set, touched.key)) {
      row = services.Find(*owner, touched.set, touched.key);
    } else if (applied.shared().contains(SharedKey(touched.set, touched.key))) {
      row = BareRow(touched.set, touched.key);
    }
  }
  return rows;
}

std::vector<Row> ExpectedSet(const Applied& applied, nft::SetRef set) {
  std::vector<Row> rows;
  const auto keep = [&](const Row& row) {
    if (row.set == set) rows.push_back(row);
  };
  if (set.set == kMarker) keep(applied.marker().ToRow(set.family));
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
