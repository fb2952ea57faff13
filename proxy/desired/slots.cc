#include "proxy/desired/slots.h"

#include <algorithm>
#include <iterator>

#include "absl/container/flat_hash_map.h"

namespace svcmap::proxy {

std::vector<EndpointAddress> AssignSlots(const std::vector<EndpointAddress>& before,
                                         const std::vector<EndpointAddress>& wanted) {
  if (before.empty()) return wanted;
  std::vector<EndpointAddress> sorted_before = before;
  std::sort(sorted_before.begin(), sorted_before.end());
  std::vector<EndpointAddress> newcomers, gone;
  std::set_difference(wanted.begin(), wanted.end(), sorted_before.begin(), sorted_before.end(),
                      std::back_inserter(newcomers));
  if (newcomers.empty() && wanted.size() == before.size()) return before;
  std::set_difference(sorted_before.begin(), sorted_before.end(), wanted.begin(), wanted.end(),
                      std::back_inserter(gone));

  absl::flat_hash_map<EndpointAddress, size_t> leaving;  // Number of slots to remove per endpoint.
  for (const EndpointAddress& endpoint : gone) ++leaving[endpoint];
  const auto leaves = [&](const EndpointAddress& endpoint) {
    const auto found = leaving.find(endpoint);
    if (found == leaving.end() || found->second == 0) return false;
    --found->second;
    return true;
  };
  std::vector<EndpointAddress> slots = before;
  auto newcomer = newcomers.begin();
  for (size_t i = 0; i < slots.size();) {
    if (!leaves(slots[i])) {
      ++i;
    } else if (newcomer != newcomers.end()) {
      slots[i++] = *newcomer++;
    } else {  // Keeps `i`, because the endpoint moved to slot `i` may also have to be removed.
      slots[i] = slots.back();
      slots.pop_back();
    }
  }
  slots.insert(slots.end(), newcomer, newcomers.end());
  return slots;
}

}  // namespace svcmap::proxy
