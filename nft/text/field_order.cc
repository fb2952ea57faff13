#include "nft/text/field_order.h"

#include <algorithm>
#include <compare>
#include <cstring>

namespace svcmap::nft {
namespace {

int CompareBytes(std::span<const uint8_t> a, std::span<const uint8_t> b) {
  const auto order = std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end());
  return order < 0 ? -1 : order > 0;
}

int CompareHostOrder(const uint8_t* a, const uint8_t* b) {
  uint32_t left, right;
  std::memcpy(&left, a, sizeof(left));
  std::memcpy(&right, b, sizeof(right));
  return left < right ? -1 : left > right;
}

}  // namespace

int CompareFields(std::span<const Field> fields, std::span<const uint8_t> a,
                  std::span<const uint8_t> b) {
  const size_t size = FieldsSize(fields);
  if (a.size() != size || b.size() != size) return CompareBytes(a, b);
  size_t offset = 0;
  for (const Field field : fields) {
    const bool host_order = field == Field::kMark || field == Field::kSlot;
    const int order = host_order ? CompareHostOrder(&a[offset], &b[offset])
                                 : CompareBytes(a.subspan(offset, FieldSize(field)),
                                                b.subspan(offset, FieldSize(field)));
    if (order != 0) return order;
    offset += PaddedFieldSize(field);
  }
  return 0;
}

}  // namespace svcmap::nft
