// Finds the Service to which a row in the kernel belongs, from the set and key of the row. Used for
// rows that another process changed. The memory usage depends on the number of Services and
// addresses, but not on the number of endpoints.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "proxy/desired/rows.h"

namespace svcmap::proxy {

class RowOwners {
 public:
  // `key` must stay at its address until Remove is called.
  void Add(const std::string& key, const ServiceRows& rows);
  void Remove(const std::string& key, const ServiceRows& rows);
  // Remove and Add, but costs little if only endpoints differ.
  void Replace(const std::string& key, const ServiceRows& before, const ServiceRows& after);

  // Returns the Service that owns a row with this key, even if the kernel has no such row. Returns
  // null if no Service owns such a row, if the set has ranges, or if the rows of the set do not
  // belong to single Services.
  const std::string* Find(nft::SetRef set, std::span<const uint8_t> row_key) const;

 private:
  // Hash of the key part that all rows of one Service have in common: an address with its port, or
  // an allocated number. After a hash collision, Find may return null for one of the Services.
  absl::flat_hash_map<uint64_t, const std::string*> owners_;
};

}  // namespace svcmap::proxy
