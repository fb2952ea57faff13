// Converts the values in the state file to and from protobuf messages without loss. The parsing
// functions validate a message and return nullopt if svcmapd cannot have written it.
#pragma once

#include <optional>
#include <vector>

#include "proxy/saved/saved_state.h"
#include "svcmap/saved/v1/saved.pb.h"

namespace svcmap::proxy {

uint32_t KindToNumber(Kind kind);
std::optional<Kind> KindFromNumber(uint32_t number);

void ToMessage(const Marker& marker, saved::v1::Marker& message);
Marker FromMessage(const saved::v1::Marker& message);

// The caller must add the Service's key to `message`.
void ToMessage(const ServiceRows& rows, saved::v1::Service& message);
std::optional<ServiceRows> FromMessage(const saved::v1::Service& message);

void ToMessage(const std::vector<Row>& rows, saved::v1::NodeRows& message);
std::optional<std::vector<Row>> FromMessage(const saved::v1::NodeRows& message);

void ToMessage(const NextNumbers& next, google::protobuf::RepeatedField<uint32_t>& message);
// Raises each value of `next` to the value of the message. An older svcmapd wrote no values.
void RaiseTo(const google::protobuf::RepeatedField<uint32_t>& message, NextNumbers& next);

void ToMessage(const SavedTables& tables, saved::v1::Tables& message);
SavedTables FromMessage(const saved::v1::Tables& message);

}  // namespace svcmap::proxy
