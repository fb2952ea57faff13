// The events of `svcmapctl fleet serve`. Without connections and clocks.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "api/fleet/node_status.h"

namespace svcmap::api {

// The JSON of `fleet status`: the numbers of nodes by state.
nlohmann::json CountsJson(uint64_t head_seq, uint64_t required_seq, const fleet::Summary& summary);

// Compares the states of the nodes with their earlier states. Not thread-safe.
class FleetObserver {
 public:
  // Limits of an event, which therefore has at most 256 KiB.
  static constexpr size_t kMaxNodes = 100;
  static constexpr size_t kMaxChanges = 20;
  static constexpr size_t kMaxText = 100;  // Characters of a name or a reason.

  // Returns the next event: the fields of CountsJson, and the nodes with problems. `now` is
  // compared with the times of the statuses. Steps of the system clock do not change `steady`.
  std::string Observe(const fleet::Head& head, uint64_t required_seq, const fleet::Summary& summary,
                      fleet::SystemTimePoint now, std::chrono::steady_clock::time_point steady);

 private:
  struct Seen {
    std::string state;
    // Set while the node is behind.
    std::optional<std::chrono::steady_clock::time_point> behind_since;
  };

  void AddChange(fleet::SystemTimePoint now, const std::string& text);

  bool first_ = true;
  uint64_t epoch_ = 0, required_seq_ = 0;
  std::map<std::string, Seen> nodes_;
  std::deque<nlohmann::json> changes_;  // Latest first.
};

}  // namespace svcmap::api
