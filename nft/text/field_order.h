// The order in which people want to see elements.
#pragma once

#include <cstdint>
#include <span>

#include "nft/model/field.h"

namespace svcmap::nft {

// Negative, zero or positive; field by field, host order numbers as numbers. Keys of a foreign
// length go by their bytes.
int CompareFields(std::span<const Field> fields, std::span<const uint8_t> a,
                  std::span<const uint8_t> b);

}  // namespace svcmap::nft
