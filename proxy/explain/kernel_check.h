// Whether the kernel holds what is wanted of one destination: reads single elements, so it costs
// the endpoints of one Service port and not the size of the maps.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nft/model/kernel.h"
#include "nft/model/table.h"
#include "proxy/desired/rows.h"

namespace svcmap::proxy {

// The elements that could decide about a packet to this address and port; only keys and sets count.
std::vector<Row> DecidingRows(const IpAddress& address, Protocol protocol, uint16_t port);

// One line per difference, empty where there is none: elements that `wanted` adds and the kernel
// lacks or has with other data, and those of `deciding` that the kernel has and `wanted` does not
// name. Ranges and comments are not compared.
absl::StatusOr<std::vector<std::string>> KernelDifferences(nft::Kernel& kernel,
                                                           const nft::TableSpecs& tables,
                                                           const nft::Transaction& wanted,
                                                           const std::vector<Row>& deciding);

}  // namespace svcmap::proxy
