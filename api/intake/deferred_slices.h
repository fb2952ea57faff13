// Collects changes of single endpoints (deltas) in a batch. They are converted on the loop's
// thread, because only the loop knows the stored EndpointSlices. All deltas of a slice become one
// change, so the cost depends on the size of the slice, not on the number of deltas. Not
// thread-safe.
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

  // Discards earlier deltas of the object, because `change` replaces it completely.
  void Forget(const proxy::Change& change);

  // Returns the changes in the order in which the slices were first added.
  std::vector<proxy::DeferredChange> Take(const ConvertContext& context);

 private:
  using Deltas = std::vector<std::shared_ptr<const v1::EndpointDelta>>;

  // A slice without deltas was discarded by Forget.
  std::vector<std::pair<std::string, Deltas>> slices_;
  absl::flat_hash_map<std::string, size_t> places_;
};

}  // namespace svcmap::api
