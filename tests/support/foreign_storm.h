// Simulates another process that continuously changes svcmapd's tables. Each change is a separate
// transaction. Most changes delete elements of service-ips or add elements to cluster-ips, and some
// changes add a rule. Deletions can fail if the addresses or ports of Services change at the same
// time. A rejected transaction also blocks all other transactions while the kernel processes it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/netlink/netlink_kernel.h"
#include "tests/support/netns.h"
#include "tests/support/raw_nft.h"

namespace svcmap::testing {

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
