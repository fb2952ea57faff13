// Another program that changes our tables all the time: each change a transaction of its own, most
// of them elements of service-ips that it deletes or of cluster-ips that it adds, now and then a
// rule. Who changes the addresses or ports of Services meanwhile makes its deletions fail, and each
// transaction that the kernel refuses holds up all others as long as that.
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
    int64_t added = 0;    // Elements.
    int64_t deleted = 0;  // Elements.
    int64_t rules = 0;    // Added.
    int64_t refused = 0;  // By the kernel: what was to be deleted had not come back yet.
    std::chrono::duration<double> time{0};

    int64_t made() const { return added + deleted + rules; }
    double per_second() const { return static_cast<double>(made()) / time.count(); }
    std::string ToString() const;
  };

  enum class RulesBy {
    kNetlink,  // Over one socket.
    // A process each. When it closes its socket the kernel waits for a grace period of RCU, with
    // all transactions locked out: 10 to 20 ms (nft_rcv_nl_event of Linux 6.18).
    kNft,
  };

  // Attempts `per_second` changes in the namespace, which must outlive this object. Takes the
  // elements that are there now for those to delete.
  static absl::StatusOr<std::unique_ptr<ForeignStorm>> Start(const NetNs& netns, int per_second,
                                                             RulesBy rules_by = RulesBy::kNetlink);
  ~ForeignStorm();  // Stops.

  Changes Stop();

 private:
  ForeignStorm(const NetNs& netns, std::unique_ptr<nft::NetlinkKernel> kernel, RulesBy rules_by,
               RawSocket rules)
      : netns_(netns), kernel_(std::move(kernel)), rules_by_(rules_by), rules_(std::move(rules)) {}
  absl::Status AddRule();
  void Blow(int per_second);
  void Change(uint64_t number);

  const NetNs& netns_;
  std::unique_ptr<nft::NetlinkKernel> kernel_;
  RulesBy rules_by_;
  RawSocket rules_;
  std::vector<nft::Element> victims_;  // Elements of service-ips.
  Changes changes_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace svcmap::testing
