#include "proxy/desired/slots.h"

#include <algorithm>

namespace svcmap::proxy {

std::vector<EndpointAddress> AssignSlots(const std::vector<EndpointAddress>& before,
                                         const std::vector<EndpointAddress>& wanted) {
  if (before.empty()) return wanted;
  std::vector<EndpointAddress> sorted_before = before;
  std::sort(sorted_before.begin(), sorted_before.end());
  std::vector<EndpointAddress> newcomers;
  std::set_difference(wanted.begin(), wanted.end(), sorted_before.begin(), sorted_before.end(),
                      std::back_inserter(newcomers));
  if (newcomers.empty() && wanted.size() == before.size()) return before;

  const auto stays = [&](const EndpointAddress& endpoint) {
    return std::binary_search(wanted.begin(), wanted.end(), endpoint);
  };
  std::vector<EndpointAddress> slots = before;
  auto newcomer = newcomers.begin();
  for (size_t i = 0; i < slots.size();) {
    if (stays(slots[i])) {
      ++i;
    } else if (newcomer != newcomers.end()) {
      slots[i++] = *newcomer++;
    } else {  // Looked at again: the last one may have left, too.
      slots[i] = slots.back();
      slots.pop_back();
    }
  }
  slots.insert(slots.end(), newcomer, newcomers.end());
  return slots;
}

}  // namespace svcmap::proxy
