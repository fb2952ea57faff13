// Looks up applied rows by set and key, independently of the Service to which they belong. Pure
// functions.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "nft/model/foreign_change.h"
#include "proxy/applied/applied.h"

namespace svcmap::proxy {

// Returns the expected row for each key, or nullopt if no row should exist. ExpectedRows does not
// support sets of ranges.
std::vector<std::optional<Row>> ExpectedRows(const Applied& applied,
                                             std::span<const nft::ForeignChange::Touched> keys);

// Returns all rows of one set. ExpectedSet iterates over all Services.
std::vector<Row> ExpectedSet(const Applied& applied, nft::SetRef set);

}  // namespace svcmap::proxy
