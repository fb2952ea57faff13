// Finds the Service to which a row in the kernel belongs, from the set and key of the row. Used for
// rows that another process changed. The size depends on the number of Services and addresses, not
// of endpoints.
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

  // Returns null if no Service owns the row, or if the set has ranges or no rows of single
  // Services. The result is the Service that would own the row. The row itself may not exist.
  const std::string* Find(nft::SetRef set, std::span<const uint8_t> row_key) const;

 private:
  // Hash of the key part that all rows of one Service have in common: an address with its port, or
  // an allocated number. After a hash collision, Find may return null for one of the Services.
  absl::flat_hash_map<uint64_t, const std::string*> owners_;
};

}  // namespace svcmap::proxy
