// The sort order of elements in printed output.
#pragma once

#include <cstdint>
#include <span>

#include "nft/model/field.h"

namespace svcmap::nft {

// Compares two keys field by field and returns a negative value, zero or a positive value. Fields
// in host byte order are compared as numbers. Keys with an unexpected length are compared as bytes.
int CompareFields(std::span<const Field> fields, std::span<const uint8_t> a,
                  std::span<const uint8_t> b);

}  // namespace svcmap::nft
