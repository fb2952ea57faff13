#include "nft/model/kernel.h"

namespace svcmap::nft {

absl::StatusOr<std::optional<Element>> Kernel::ReadElement(SetRef set,
                                                           std::span<const uint8_t> key) {
  const FieldBytes bytes = FieldBytes().Append(key);
  absl::StatusOr<std::vector<std::optional<Element>>> elements = ReadElements(set, {&bytes, 1});
  if (!elements.ok()) return elements.status();
  return std::move(elements->front());
}

}  // namespace svcmap::nft
