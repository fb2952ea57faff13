// Which Service a row in the kernel belongs to, told by its key alone: what a foreign change or a
// rejected batch names. Grows with Services and their addresses, not with endpoints.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "proxy/desired/rows.h"

namespace svcmap::proxy {

class RowOwners {
 public:
  // `key` must stay where it is until it is removed.
  void Add(const std::string& key, const ServiceRows& rows);
  void Remove(const std::string& key, const ServiceRows& rows);

  // Null: nobody's, or of a set that has no rows of single Services or has ranges. An owner is who
  // would have such a row, not whether it does.
  const std::string* Find(nft::SetRef set, std::span<const uint8_t> row_key) const;

 private:
  // What the rows of one Service have in common: an address with its port, or a number that was
  // given to it. By hash: of two that are the same one would be taken for nobody's.
  absl::flat_hash_map<uint64_t, const std::string*> owners_;
};

}  // namespace svcmap::proxy
