#include "proxy/localhost/endpoint_picker.h"

#include <algorithm>
#include <utility>

namespace svcmap::proxy {

void EndpointPicker::Set(LocalhostNodePort node_port) {
  node_port_ = std::move(node_port);
  if (affinity_ && (node_port_.affinity_seconds == 0 || !Has(affinity_->endpoint))) {
    affinity_.reset();
  }
}

std::optional<EndpointAddress> EndpointPicker::Pick(const std::vector<EndpointAddress>& tried,
                                                    uint64_t random, Time now) const {
  if (affinity_ && now < affinity_->expires &&
      std::find(tried.begin(), tried.end(), affinity_->endpoint) == tried.end()) {
    return affinity_->endpoint;
  }
  uint64_t total = 0;
  for (size_t i = 0; i < node_port_.endpoints.size(); ++i) total += WeightOf(i, tried);
  if (total == 0) return std::nullopt;
  uint64_t position = random % total;
  size_t index = 0;
  for (; position >= WeightOf(index, tried); ++index) position -= WeightOf(index, tried);
  return node_port_.endpoints[index];
}

void EndpointPicker::Connected(const EndpointAddress& endpoint, Time now) {
  if (node_port_.affinity_seconds == 0 || !Has(endpoint)) return;
  affinity_ = {endpoint, now + std::chrono::seconds(node_port_.affinity_seconds)};
}

bool EndpointPicker::Has(const EndpointAddress& endpoint) const {
  return std::binary_search(node_port_.endpoints.begin(), node_port_.endpoints.end(), endpoint);
}

uint64_t EndpointPicker::WeightOf(size_t index, const std::vector<EndpointAddress>& tried) const {
  if (std::find(tried.begin(), tried.end(), node_port_.endpoints[index]) != tried.end()) return 0;
  return node_port_.weights.empty() ? 1 : node_port_.weights[index];
}

}  // namespace svcmap::proxy
