#include "api/convert/field_reader.h"

#include <algorithm>
#include <climits>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"

namespace svcmap::api {

bool WireReader::ReadLongVarint(uint64_t& value) {
  constexpr unsigned kLastShift = 63;  // The tenth byte contains only one bit.
  value = 0;
  for (unsigned shift = 0; next_ != end_ && shift <= kLastShift; shift += 7) {
    const auto byte = static_cast<uint8_t>(*next_++);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte >= 0x80) continue;
    minimal_ &= byte != 0 && (shift < kLastShift || byte == 1);
    return true;
  }
  return false;
}

bool WireReader::Skip(uint32_t tag) {
  if (IsBytes(tag)) {
    std::string_view bytes;
    return NumberOf(tag) != 0 && ReadBytes(bytes);
  }
  google::protobuf::io::CodedInputStream in(
      reinterpret_cast<const uint8_t*>(next_),
      static_cast<int>(std::min<ptrdiff_t>(end_ - next_, INT_MAX)));
  if (!google::protobuf::internal::WireFormatLite::SkipField(&in, tag)) return false;
  next_ += in.CurrentPosition();
  return true;
}

}  // namespace svcmap::api
