// Prints the key of a range in nft syntax: "10.96.0.0/16", "10.96.0.1-10.96.0.9" or "10.96.0.1".
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "nft/model/field.h"

namespace svcmap::nft {

// Prints the keys from `start` (inclusive) to `end` (exclusive). If `end` is empty, the range ends
// at the highest key. An address range that is a prefix is printed as a prefix. All svcmap interval
// sets with start and end elements have a single field.
std::string RangeText(std::span<const Field> fields, std::span<const uint8_t> start,
                      std::span<const uint8_t> end);

// Prints a key with several fields from `first` to `last`, both inclusive. Each field is printed as
// a separate range: "198.51.100.1 . tcp . 80 . 10.0.0.0/8".
std::string RangesText(std::span<const Field> fields, std::span<const uint8_t> first,
                       std::span<const uint8_t> last);

}  // namespace svcmap::nft
