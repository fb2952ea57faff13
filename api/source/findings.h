// Results that svcmapd reports for objects: rejections and warnings. Each message is logged once
// while it applies. The number of stored objects is bounded. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "svcmap/v1/control.pb.h"

namespace svcmap::source {

struct Finding {
  v1::Kind kind = v1::KIND_UNSPECIFIED;  // KIND_UNSPECIFIED: the finding is not about one object.
  std::string name_space, name;
  bool rejected = false;  // True if the object was rejected, false for a warning.
  std::string text;
};

class Findings {
 public:
  static constexpr size_t kMaxObjects = 1000;  // Results of further objects are dropped.
  static constexpr size_t kMaxTexts = 20;      // Maximum number of messages per object.

  // Processes the Ack for `changes`. For each changed object, replaces the stored results with the
  // results in the Ack. Returns the results whose messages were not stored before.
  std::vector<Finding> Take(const v1::Ack& ack, const std::vector<std::string>& changes);

  // Records that the only change of a batch was not sent, because the message of `bytes` bytes
  // exceeds `max_bytes`. The object counts as rejected. Returns the result if its message was
  // not stored before.
  std::vector<Finding> LeaveOut(const std::string& change, size_t bytes, size_t max_bytes);

  // Call these functions at the start and end of a snapshot. EndSnapshot removes results that are
  // older than the snapshot.
  void BeginSnapshot();
  void EndSnapshot();

  // Number of stored objects that svcmapd has rejected. svcmapd stores an earlier version of such
  // an object, or no version.
  size_t rejected() const;
  // Returns whether objects were rejected, including objects whose results were dropped because of
  // kMaxObjects.
  bool any_rejected() const { return dropped_rejection_ || rejected() > 0; }

 private:
  using Key = std::tuple<v1::Kind, std::string, std::string>;
  struct Reported {
    std::vector<std::string> texts;
    bool rejected = false;
    uint64_t snapshot = 0;  // Number of the snapshot in which the result arrived.
  };

  static Key KeyOf(const v1::Change& change);
  std::vector<Finding> Keep(std::map<Key, Reported> reported);

  std::map<Key, Reported> reported_;
  uint64_t snapshot_ = 0;
  // True if results were dropped since the start of the last snapshot.
  bool dropped_ = false;
  bool dropped_rejection_ = false;
};

}  // namespace svcmap::source
