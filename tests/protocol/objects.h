// Small test objects in one namespace. The addresses are reserved for benchmarks (RFC 2544), so the
// objects do not conflict with addresses in use.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "svcmap/v1/control.pb.h"

namespace svcmap::protocol {

inline constexpr char kNamespace[] = "svcmap-check";

using Changes = std::vector<v1::Change>;
// All objects that an agent stores. The key is "service NAME" or "slice NAME", and the value is the
// serialized object.
using State = std::map<std::string, std::string>;

// Returns a Service with port 80 and cluster IP 198.18.0.`ip`. `note` is a host name, which makes
// versions of a Service different.
v1::Service Service(const std::string& name, int ip, const std::string& note = "");
// Returns a slice of Service `service` with the endpoint 198.19.0.`ip` and port 8080.
v1::EndpointSlice Slice(const std::string& name, const std::string& service, int ip);

v1::Change Put(v1::Service service);
v1::Change Put(v1::EndpointSlice slice);
v1::Change RemoveService(const std::string& name);

// Returns the state after `changes`, which must be upserts and removals.
State After(State state, const Changes& changes);
State StateOf(const Changes& changes);

// Returns a description of the state `s`, or of the differences between two states, by object
// names.
std::string Difference(const State& expected, const State& saw);

}  // namespace svcmap::protocol
