// Services that have changed and are not programmed yet, in the order of their first change.
//
// A plan takes Services from this list. If a plan contains only a part of a Service's change, the
// Service is put back as unfinished: further plans take it alone, in turns with plans for other
// Services.
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace svcmap::proxy {

// Where a change comes from. Changes from one source take effect in their order.
enum class ChangeSource : uint8_t {
  kStream,  // The controller's stream.
  kOthers,  // All other sources.
};
inline constexpr size_t kSources = 2;
constexpr size_t Index(ChangeSource source) { return static_cast<size_t>(source); }

struct DirtyService {
  static constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
  // By Index(ChangeSource): the number of its first change since the Service was programmed, or
  // kNone.
  using FirstChanges = std::array<uint64_t, kSources>;

  std::string key;
  uint64_t sequence = 0;  // Number of the first change. 0: no batch has changed the Service.
  FirstChanges first = {kNone, kNone};
};

class DirtyServices {
 public:
  // Adds a Service that a change has made dirty. `sequence` never decreases, except that 0 stands
  // for a change by no batch.
  void Mark(const std::string& key, uint64_t sequence, ChangeSource source);
  // Returns the Service that changed first, or null. Does not return unfinished Services.
  const DirtyService* First() const { return queue_.empty() ? nullptr : &queue_.front(); }
  DirtyService Take();  // Removes First() from the list.
  // Puts Services at the front of the list.
  void Return(std::vector<DirtyService> services);

  // Puts a Service back after a plan that contained a part of its change.
  void PutUnfinished(DirtyService service) { unfinished_.push_back(std::move(service)); }
  // Returns true if TakeUnfinished() may be called. If an unfinished Service has changed again,
  // Take() returns it.
  bool HasUnfinished() const { return !unfinished_.empty() && !Contains(unfinished_.front().key); }
  DirtyService TakeUnfinished();
  // Puts all unfinished Services at the front of the list.
  void ReturnUnfinished();

  // Returns true if the Service is in the list and not only unfinished.
  bool Contains(const std::string& key) const { return first_.contains(key); }
  // Includes unfinished Services.
  size_t size() const;
  // Calls fn(const DirtyService&) for each Service. Unfinished Services come last.
  template <typename Fn>
  void ForEach(Fn&& fn) const {
    for (const DirtyService& service : queue_) fn(service);
    for (const DirtyService& service : unfinished_) {
      if (!Contains(service.key)) fn(service);
    }
  }

  // Returns a number up to which all changes of `source` are programmed, exclusive: the number of
  // the first change in the list, but only changes of `source` count if a Service is unfinished.
  // Returns kNone if all changes are programmed.
  uint64_t FirstChange(ChangeSource source) const;

 private:
  std::deque<DirtyService> queue_;                                      // `first` is in `first_`.
  absl::flat_hash_map<std::string, DirtyService::FirstChanges> first_;  // Services in `queue_`.
  std::deque<DirtyService> unfinished_;
};

}  // namespace svcmap::proxy
