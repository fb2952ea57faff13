// What the agent has to say about objects that it was sent: each text once while it stays true.
// Bounded. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "svcmap/v1/control.pb.h"

namespace svcmap::kube {

class Findings {
 public:
  static constexpr size_t kMaxObjects = 1000;  // Of more, nothing is kept.
  static constexpr size_t kMaxTexts = 20;      // Of one object.

  // `changes` were acked; gives what is new, as lines for the log. What was said before about these
  // objects and was not said again is over.
  std::vector<std::string> Take(const v1::Ack& ack, const std::vector<std::string>& changes);

  // The only change of a batch, which the agent would not read; gives the line for the log, if it
  // is new. Counts as refused.
  std::vector<std::string> LeaveOut(const std::string& change, size_t bytes, size_t max_bytes);

  // A snapshot begins; when it has ended, what was said about objects that it did not name is over.
  void BeginSnapshot();
  void EndSnapshot();

  // Objects that the agent holds in another state than they were sent in, or not at all.
  size_t rejected() const;
  // Whether there are any: refused() does not know of those that were too many to keep.
  bool any_rejected() const { return dropped_ || rejected() > 0; }

 private:
  using Key = std::tuple<v1::Kind, std::string, std::string>;
  struct Reported {
    std::vector<std::string> texts;
    bool rejected = false;
    uint64_t snapshot = 0;  // Counted; when it was said.
  };

  static Key KeyOf(const v1::Change& change);
  std::vector<std::string> Keep(std::map<Key, Reported> reported);

  std::map<Key, Reported> reported_;
  uint64_t snapshot_ = 0;
  bool dropped_ = false;  // Since the last snapshot began.
};

}  // namespace svcmap::kube
