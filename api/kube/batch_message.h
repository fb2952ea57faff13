// Builds messages of the push protocol from serialized changes. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace svcmap::kube {

// Returns a serialized v1::PushRequest with a batch of `changes`. Each change is a serialized
// v1::Change.
std::string BatchMessage(uint64_t number, const std::vector<std::string>& changes);

}  // namespace svcmap::kube
