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

#include "api/convert/fields.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

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
