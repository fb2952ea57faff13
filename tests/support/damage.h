// Kinds of damage by other processes that an agent must repair, for tests and benchmarks.
//
// Damage affects the Service with the addresses kVictim, on TCP and UDP port 80. The Service
// kOtherService has different endpoints.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/netlink/netlink_kernel.h"
#include "tests/support/netns.h"
#include "tests/support/raw_nft.h"

namespace svcmap::testing {

inline constexpr char kVictim[] = "10.96.0.10";
inline constexpr char kOtherService[] = "10.96.0.11";

struct Damage {
  std::string name;  // Name of the damage, for example "FlushedRuleset".
  bool interrupts =
      // True if new connections to the victim fail or reach wrong endpoints until the repair.
      false;
  bool keeps_tables = true;  // True if affinity records survive the repair.
  // Returns the nft script that damages the current rules and elements in `netns`.
  absl::StatusOr<std::string> (*script)(const NetNs& netns);
};

inline std::ostream& operator<<(std::ostream& out, const Damage& damage) {
  return out << damage.name;
}

const std::vector<Damage>& AllDamage();

// Returns the damage with this name, or null if no such damage exists.
const Damage* FindDamage(const std::string& name);

// Simulates another process that continuously changes svcmapd's tables. Each change is a separate
// transaction. Most changes delete elements of service-ips or add elements to cluster-ips, and some
// changes add a rule. Deletions can fail if the addresses or ports of Services change at the same
// time. A rejected transaction also blocks all other transactions while the kernel processes it.
class ForeignStorm {
 public:
  struct Changes {
    int64_t added = 0;    // Number of added elements.
    int64_t deleted = 0;  // Number of deleted elements.
    int64_t rules = 0;    // Number of added rules.
    // Number of transactions that the kernel rejected, because svcmapd had not yet restored the
    // element that the transaction deletes.
    int64_t rejected = 0;
    std::chrono::duration<double> time{0};

    int64_t made() const { return added + deleted + rules; }
    double per_second() const { return static_cast<double>(made()) / time.count(); }
    std::string ToString() const;
  };

  // Starts a storm that attempts `per_second` changes in the namespace. The storm deletes only
  // elements that exist during this call.
  static absl::StatusOr<std::unique_ptr<ForeignStorm>> Start(const NetNs& netns, int per_second);
  ~ForeignStorm();  // Stops the changes.

  Changes Stop();

 private:
  ForeignStorm(std::unique_ptr<nft::NetlinkKernel> kernel, RawSocket rules)
      : kernel_(std::move(kernel)), rules_(std::move(rules)) {}
  absl::Status AddRule();
  void Blow(int per_second);
  void Change(uint64_t number);

  std::unique_ptr<nft::NetlinkKernel> kernel_;
  RawSocket rules_;
  std::vector<nft::Element> victims_;  // Elements of service-ips that the storm deletes.
  Changes changes_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace svcmap::testing
