// Collects changes of single endpoints (deltas) in a batch, and rejected EndpointSlices, whose
// missing endpoints must not stay in use. They are converted on the loop's thread, because only the
// loop knows the stored EndpointSlices. All deltas of a slice become one change, so the cost
// depends on the size of the slice, not on the number of deltas. Not thread-safe.
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
  // `encoded` is the encoding of a rejected EndpointSlice (see ConvertDepartures).
  void Reject(const std::string& key, std::string encoded);

  // Discards what was added for the object before, because `change` replaces it completely.
  void Forget(const proxy::Change& change);

  // Returns the changes in the order in which the slices were first added.
  std::vector<proxy::DeferredChange> Take(const ConvertContext& context);

 private:
  // Deltas, and a rejected version that follows them. The version may be empty.
  struct Step {
    std::vector<std::shared_ptr<const v1::EndpointDelta>> deltas;
    std::string rejected;
  };
  using Steps = std::vector<Step>;

  Steps& StepsOf(const std::string& key);
  static proxy::DeferredChange::Result Make(const std::string& key, const std::string* held,
                                            const Steps& steps, const ConvertContext& context);

  // A slice without steps was discarded by Forget.
  std::vector<std::pair<std::string, Steps>> slices_;
  absl::flat_hash_map<std::string, size_t> places_;
};

}  // namespace svcmap::api
