// Writes all applied rows to empty tables. Pure functions.
#pragma once

#include <cstddef>
#include <functional>

#include "nft/model/transaction.h"
#include "proxy/applied/applied.h"

namespace svcmap::proxy {

// Calls `commit` with transactions of at most `max_elements` elements, which together add all
// applied rows and the marker. The order lets each Service answer early: first the addresses of all
// Services and the first slot of each group, which the rules use if a pick finds no endpoint. Then
// the rows that Services share, which decide about masquerading, and the other slots. The marker is
// last. Returns false after the first call of `commit` that returns false.
bool CommitAppliedRows(const Applied& applied, size_t max_elements,
                       const std::function<bool(nft::Transaction)>& commit);

}  // namespace svcmap::proxy
