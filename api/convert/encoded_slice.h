// Reads the endpoints of an EndpointSlice from its encoding. A message object for each endpoint
// would cost several times as much as all other work for the endpoint.
//
// Pure functions. The encodings must be deterministic (see Project), so the fields of a message are
// in ascending order and occur once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/convert/field_reader.h"
#include "api/convert/fields.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

// Iterates over the fields of a message.
class EncodedFields {
 public:
  explicit EncodedFields(std::string_view bytes) : in_(bytes) {}

  // Returns false at the end, or at the first field of a type that the schema does not contain.
  bool Next() {
    const uint32_t tag = in_.ReadTag();
    number_ = WireReader::NumberOf(tag);
    if (WireReader::IsBytes(tag)) return in_.ReadBytes(bytes_);
    return tag != 0 && WireReader::IsVarint(tag) && in_.ReadVarint(value_);
  }
  uint32_t number() const { return number_; }
  uint64_t value() const { return value_; }          // Value of a field with a number.
  std::string_view bytes() const { return bytes_; }  // Value of any other field.

 private:
  WireReader in_;
  uint32_t number_ = 0;
  uint64_t value_ = 0;
  std::string_view bytes_;
};

// The encoding of an EndpointSlice, in three parts.
struct SplitEncoding {
  std::string_view before;
  std::string_view endpoints;
  std::string_view after;
  int endpoint_count = 0;

  std::string WithoutEndpoints() const { return std::string(before).append(after); }
};
SplitEncoding SplitSlice(std::string_view slice);

// The fields of a v1::Endpoint.
struct EncodedEndpoint {
  std::string_view bytes;
  int address_count = 0;
  std::string_view address;  // The first address.
  std::optional<bool> ready;
  std::optional<bool> serving;
  bool terminating = false;
  std::optional<std::string_view> node_name;
  std::string_view hints;  // Encoding of a v1::EndpointHints.
  std::optional<uint32_t> weight;
};
EncodedEndpoint ReadEndpoint(std::string_view bytes);

// ---- EndpointDelta messages, without the EndpointSlice to which the deltas apply. ConvertDeltas
// in convert.h checks the result of a delta ----

// Rejects missing and malformed names, and endpoints without a valid first address.
void CheckDelta(const v1::EndpointDelta& delta, Report& report);

// Keeps only the names and the valid removals of a rejected delta. Without valid names, nothing
// remains.
void KeepRemovals(v1::EndpointDelta& delta);

}  // namespace svcmap::api
