// The slices of a batch of which single endpoints change. Only the loop knows what is held of them,
// so they become changes there. All deltas of a slice become one change, whose cost is that of the
// slice and not theirs together. Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "api/convert/convert.h"
#include "proxy/reconcile/loop.h"

namespace svcmap::api {

class DeferredSlices {
 public:
  void Add(const std::string& key, std::shared_ptr<const v1::EndpointDelta> delta);

  // `change` says all that counts about its object: deltas before it do not.
  void Forget(const proxy::Change& change);

  // In the order in which the slices were first added.
  std::vector<proxy::DeferredChange> Take(const ConvertContext& context);

 private:
  using Deltas = std::vector<std::shared_ptr<const v1::EndpointDelta>>;

  std::vector<std::pair<std::string, Deltas>> slices_;  // Without deltas: forgotten.
  absl::flat_hash_map<std::string, size_t> places_;
};

}  // namespace svcmap::api
