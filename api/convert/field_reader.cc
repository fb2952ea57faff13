#include "api/convert/field_reader.h"

#include <climits>

#include "google/protobuf/wire_format_lite.h"

namespace svcmap::api {

using google::protobuf::internal::WireFormatLite;

bool ReadBytes(google::protobuf::io::CodedInputStream& in, std::string_view& bytes) {
  uint32_t size = 0;
  if (!in.ReadVarint32(&size)) return false;
  const void* data = nullptr;
  int available = 0;
  in.GetDirectBufferPointerInline(&data, &available);
  if (size > static_cast<uint32_t>(available)) return false;
  bytes = {static_cast<const char*>(data), size};
  return in.Skip(static_cast<int>(size));
}

FieldReader::FieldReader(std::string_view bytes)
    : good_(bytes.size() <= INT_MAX),
      in_(reinterpret_cast<const uint8_t*>(bytes.data()),
          good_ ? static_cast<int>(bytes.size()) : 0) {}

bool FieldReader::Next() {
  while (const uint32_t tag = in_.ReadTag()) {
    number_ = WireFormatLite::GetTagFieldNumber(tag);
    const bool sized =
        WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    good_ = sized ? ReadBytes(in_, value_) : WireFormatLite::SkipField(&in_, tag);
    if (sized || !good_) return good_;
  }
  good_ = good_ && in_.ConsumedEntireMessage();
  return false;
}

}  // namespace svcmap::api
