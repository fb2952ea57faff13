// Changes of chains and sets in existing tables.
#pragma once

#include <memory>

#include "nft/model/table.h"
#include "nft/model/transaction.h"
#include "proxy/ruleset/sets.h"

namespace svcmap::proxy {

// Returns the chains to write and to delete so that a table with the chains and rules of `before`
// has those of `after`.
nft::ChainRepair ChainChanges(const nft::TableSpec& before,
                              std::shared_ptr<const nft::TableSpec> after);

// Adds to `repair`: deletes the set and creates it again, and rewrites the chains whose rules look
// up the set.
void ReplaceSet(SetIndex set, nft::ChainRepair& repair);

}  // namespace svcmap::proxy
