// Changes of chains and sets in existing tables.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nft/model/table.h"
#include "nft/model/table_content.h"
#include "nft/model/transaction.h"
#include "proxy/ruleset/sets.h"

namespace svcmap::proxy {

// Returns the chains to write and to delete so that a table with the chains and rules of `before`
// has those of `after`.
nft::ChainRepair ChainChanges(const nft::TableSpec& before,
                              std::shared_ptr<const nft::TableSpec> after);

// Adds to `repair`: deletes the set and creates it again, and rewrites the chains whose rules use
// the set. Does nothing if `repair` already creates the set.
void ReplaceSet(SetIndex set, nft::ChainRepair& repair);

// Returns the chains of `spec` that exist with another type, hook or priority. The kernel cannot
// change these values, so such a chain must be deleted and created again.
std::vector<std::string> ChainsToReplace(const nft::TableContent& found,
                                         const nft::TableSpec& spec);

// Returns the repair of all chains that are missing, wrong or unknown. Also replaces sets that are
// missing or have another type, and removes unknown sets, objects and table flags. `reference` is
// the content of an unmodified table created from `spec`.
nft::ChainRepair StructureRepair(const nft::TableContent& found, const nft::TableContent& reference,
                                 std::shared_ptr<const nft::TableSpec> spec);

// Returns true if the repair creates a set, whose elements must be added.
bool CreatesSets(const nft::ChainRepair& repair);

// Returns the number of chains, sets, objects and table flags that the repair changes.
size_t RepairSize(const nft::ChainRepair& repair);

}  // namespace svcmap::proxy
