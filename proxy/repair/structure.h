// Differences between the chains and sets of a table in the kernel and those of its specification.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nft/model/table_content.h"
#include "nft/model/transaction.h"

namespace svcmap::proxy {

// Returns the chains of `spec` that exist with another type, hook or priority. The kernel cannot
// change these values, so such a chain must be deleted and created again.
std::vector<std::string> ChainsToReplace(const nft::TableContent& found,
                                         const nft::TableSpec& spec);

// Returns the chains that exist and that `spec` does not have.
std::vector<std::string> UnknownChains(const nft::TableContent& found, const nft::TableSpec& spec);

// Returns the repair of all chains that are missing, wrong or unknown. Also removes unknown sets,
// objects and table flags.
// `reference` is the content of an unmodified table created from `spec`.
nft::ChainRepair StructureRepair(const nft::TableContent& found, const nft::TableContent& reference,
                                 std::shared_ptr<const nft::TableSpec> spec);

// Number of chains, sets, objects and table flags that the repair changes.
size_t RepairSize(const nft::ChainRepair& repair);

}  // namespace svcmap::proxy
