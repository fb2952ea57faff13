#include "api/kube/wire/fields.h"

namespace svcmap::kube {

bool FieldReader::Next() {
  while (good_ && !rest_.empty()) {
    uint64_t tag = 0;
    good_ = Varint(tag);
    number_ = tag >> 3;
    uint64_t number_or_size = 0;
    switch (tag & 7) {
      case 0:
        good_ = good_ && Varint(number_or_size);
        break;
      case 1:
        good_ = good_ && Take(8, value_);
        break;
      case 2:
        good_ = good_ && Varint(number_or_size) && Take(number_or_size, value_);
        if (good_) return true;
        break;
      case 5:
        good_ = good_ && Take(4, value_);
        break;
      default:  // Groups, which Kubernetes does not use.
        good_ = false;
    }
  }
  return false;
}

bool FieldReader::Varint(uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

bool FieldReader::Take(uint64_t size, std::string_view& piece) {
  if (size > rest_.size()) return false;
  piece = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return true;
}

}  // namespace svcmap::kube
