// Messages of the push protocol from changes that are serialized already. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace svcmap::kube {

// A serialized v1::PushRequest with a batch of `changes`, each a serialized v1::Change.
std::string BatchMessage(uint64_t number, const std::vector<std::string>& changes);

}  // namespace svcmap::kube
