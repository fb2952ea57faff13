// The objects that the checks send: small, and all in one namespace. Addresses are those of
// benchmarks (RFC 2544), which no network should miss.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "svcmap/v1/control.pb.h"

namespace svcmap::protocol {

inline constexpr char kNamespace[] = "svcmap-check";

using Changes = std::vector<v1::Change>;
// "service NAME" -> the object, serialized: all that an agent holds.
using State = std::map<std::string, std::string>;

// Its port is 80 and its clusterIP 198.18.0.`ip`. `note`: an annotation, so that two Services with
// the same name differ.
v1::Service Service(const std::string& name, int ip, const std::string& note = "");
// Of the Service `service`, with one endpoint 198.19.0.`ip`, port 8080.
v1::EndpointSlice Slice(const std::string& name, const std::string& service, int ip);

v1::Change Put(v1::Service service);
v1::Change Put(v1::EndpointSlice slice);
v1::Change RemoveService(const std::string& name);

// What is held once `changes` were taken by an agent that held `state`. Upserts and removals only.
State After(State state, const Changes& changes);
State StateOf(const Changes& changes);

// For people: the names, or those that differ.
std::string Difference(const State& expected, const State& saw);

}  // namespace svcmap::protocol
