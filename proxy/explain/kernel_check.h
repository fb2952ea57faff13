// Compares the kernel with the desired state for one destination. Reads single elements, so the
// cost depends on the number of endpoints of one Service port, not on the size of the maps.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nft/model/kernel.h"
#include "nft/model/table.h"
#include "proxy/desired/rows.h"

namespace svcmap::proxy {

// Returns the elements that can match a packet to this address and port. Only the keys and sets of
// the returned rows are valid.
std::vector<Row> DecidingRows(const IpAddress& address, Protocol protocol, uint16_t port);

// Returns one line per difference. An element of `wanted` is a difference if the element is missing
// in the kernel or has a different value. An element of `deciding` is a difference if the kernel
// contains the element but `wanted` does not. Interval sets and comments are not compared.
absl::StatusOr<std::vector<std::string>> KernelDifferences(nft::Kernel& kernel,
                                                           const nft::TableSpecs& tables,
                                                           const nft::Transaction& wanted,
                                                           const std::vector<Row>& deciding);

}  // namespace svcmap::proxy
