// The Services that are not programmed, in two lists: those of small batches of changes, and those
// of all other batches. Services of small batches precede the others, so that a change of one
// endpoint does not wait for thousands of Services. A Service that is in a list keeps its place
// when it changes again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace svcmap::proxy {

// Identifies a batch of changes. Sequence numbers of later batches are never smaller.
struct BatchNumber {
  // NOLINTNEXTLINE(google-explicit-constructor): most callers have no small batches.
  BatchNumber(uint64_t number, bool is_small = false) : sequence(number), small(is_small) {}

  uint64_t sequence;
  bool small;
};

// Not thread-safe.
class DirtyServices {
 public:
  struct Service {
    std::string key;
    BatchNumber batch;  // The first batch that changed the Service.
  };

  // Has no effect on a Service that is in a list.
  void Mark(const std::string& key, BatchNumber batch);
  // Puts Services that could not be programmed back at the front of their lists. The first of
  // `services` becomes the first of its list.
  void Return(std::vector<Service> services);

  // Returns the Service to program next, or null.
  const Service* Next() const;
  Service Take();  // Removes and returns the Service of Next(), which must not be null.

  // Return the sequence number of the first batch with a Service in the lists, or in the list of
  // small batches, and `none` if the lists are empty.
  uint64_t First(uint64_t none) const;
  uint64_t FirstSmall(uint64_t none) const;
  // Returns whether every Service that the batch changed was put in the list of small batches.
  // Valid for the latest batch.
  bool OnlySmall(BatchNumber batch) const { return batch.small && last_merged_ != batch.sequence; }

  size_t size() const { return keys_.size(); }
  bool empty() const { return keys_.empty(); }
  template <typename Fn>
  void ForEach(Fn&& fn) const {
    for (const std::deque<Service>* list : {&small_, &others_}) {
      for (const Service& service : *list) fn(service);
    }
  }

 private:
  std::deque<Service>& ListOf(BatchNumber batch) { return batch.small ? small_ : others_; }

  std::deque<Service> small_, others_;
  absl::flat_hash_map<std::string, bool> keys_;  // Whether the Service is in small_.
  // The last batch that changed a Service in others_.
  uint64_t last_merged_ = UINT64_MAX;
};

}  // namespace svcmap::proxy
