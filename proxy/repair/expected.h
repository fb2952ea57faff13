// What is applied at some place in the kernel's sets, whoever it belongs to. Pure.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "nft/model/foreign_change.h"
#include "proxy/reconcile/applied.h"

namespace svcmap::proxy {

// For each key the row that should be there, or nothing. Sets of ranges are not for this.
std::vector<std::optional<Row>> ExpectedRows(const Applied& applied,
                                             std::span<const nft::ForeignChange::Touched> keys);

// All rows of one set. Walks all Services.
std::vector<Row> ExpectedSet(const Applied& applied, nft::SetRef set);

}  // namespace svcmap::proxy
