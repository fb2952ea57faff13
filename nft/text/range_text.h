// Prints the key of a range as nft does: "10.96.0.0/16", "10.96.0.1-10.96.0.9" or "10.96.0.1".
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "nft/model/field.h"

namespace svcmap::nft {

// The keys from `start` up to the one before `end`, which may be empty: to the highest key. Ranges
// that are a prefix print as one where the key is an address. Interval sets of ours have one field.
std::string RangeText(std::span<const Field> fields, std::span<const uint8_t> start,
                      std::span<const uint8_t> end);

// A key of several fields from `first` to `last`, both included: each field by itself, as
// "198.51.100.1 . tcp . 80 . 10.0.0.0/8".
std::string RangesText(std::span<const Field> fields, std::span<const uint8_t> first,
                       std::span<const uint8_t> last);

}  // namespace svcmap::nft
