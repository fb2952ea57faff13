#include "api/convert/encoded_slice.h"

#include "api/convert/field_reader.h"
#include "svcmap/v1/objects.pb.h"

namespace svcmap::api {
namespace {

void ReadConditions(std::string_view bytes, EncodedEndpoint& endpoint) {
  for (FieldReader fields(bytes); fields.Next();) {
    const bool value = fields.value() != 0;
    switch (fields.number()) {
      case v1::EndpointConditions::kReadyFieldNumber:
        endpoint.ready = value;
        break;
      case v1::EndpointConditions::kServingFieldNumber:
        endpoint.serving = value;
        break;
      case v1::EndpointConditions::kTerminatingFieldNumber:
        endpoint.terminating = value;
        break;
      default:
        break;
    }
  }
}

}  // namespace

SplitEncoding SplitSlice(std::string_view slice) {
  const char* first = slice.data();
  const char* last = nullptr;
  SplitEncoding split;
  for (FieldReader fields(slice); fields.Next();) {
    const std::string_view bytes = fields.bytes();
    if (fields.number() < v1::EndpointSlice::kEndpointsFieldNumber) {
      first = bytes.data() + bytes.size();
    } else if (fields.number() == v1::EndpointSlice::kEndpointsFieldNumber) {
      last = bytes.data() + bytes.size();
      ++split.endpoint_count;
    }
  }
  if (last == nullptr) last = first;
  split.before = {slice.data(), static_cast<size_t>(first - slice.data())};
  split.endpoints = {first, static_cast<size_t>(last - first)};
  split.after = slice.substr(static_cast<size_t>(last - slice.data()));
  return split;
}

EncodedEndpoint ReadEndpoint(std::string_view bytes) {
  EncodedEndpoint endpoint;
  endpoint.bytes = bytes;
  for (FieldReader fields(bytes); fields.Next();) {
    switch (fields.number()) {
      case v1::Endpoint::kAddressesFieldNumber:
        if (endpoint.address_count++ == 0) endpoint.address = fields.bytes();
        break;
      case v1::Endpoint::kConditionsFieldNumber:
        ReadConditions(fields.bytes(), endpoint);
        break;
      case v1::Endpoint::kNodeNameFieldNumber:
        endpoint.node_name = fields.bytes();
        break;
      case v1::Endpoint::kHintsFieldNumber:
        endpoint.hints = fields.bytes();
        break;
      case v1::Endpoint::kWeightFieldNumber:
        endpoint.weight = static_cast<uint32_t>(fields.value());
        break;
      default:
        break;
    }
  }
  return endpoint;
}

}  // namespace svcmap::api
