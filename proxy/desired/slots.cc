#include "proxy/desired/slots.h"

#include <algorithm>
#include <iterator>

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

  // Number of removed slots, at the index of the endpoint's first entry in `gone`.
  std::vector<size_t> removed(gone.size());
  const auto leaves = [&](const EndpointAddress& endpoint) {
    const auto first = std::lower_bound(gone.begin(), gone.end(), endpoint);
    if (first == gone.end()) return false;
    size_t& count = removed[static_cast<size_t>(first - gone.begin())];
    if (count == static_cast<size_t>(gone.end() - first) ||
        first[static_cast<ptrdiff_t>(count)] != endpoint) {
      return false;
    }
    ++count;
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
