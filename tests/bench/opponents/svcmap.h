// The compared implementation "svcmap" runs the svcmapd release binary on the node and sends
// changes over gRPC. Kernel notifications and the state file are enabled. A sync or change ends
// with its acknowledgement. Messages are built before the time measurement starts.
#pragma once

#include <memory>

#include "svcmap/v1/control.pb.h"
#include "tests/bench/opponents/opponent.h"

namespace svcmap::bench {

class Svcmap : public Opponent {
 public:
  static absl::StatusOr<std::unique_ptr<Svcmap>> Start(const testing::NetNs& netns,
                                                       const OpponentSettings& settings);

  // The following methods are for callers that do not wait for each change. One thread may send
  // batches while another thread waits for acknowledgements. Do not mix these methods with the
  // methods of Opponent. Await reads acknowledgements up to `number`, and returns an error if an
  // earlier batch failed.
  static v1::PushRequest Message(uint64_t number, const std::vector<ClusterChange>& changes);
  // Returns the duration of the kernel commit that the Ack reports.
  static double CommitSeconds(const v1::Ack& ack);
  // Returns the next batch number. The batches of a stream have the numbers 1, 2, 3, ...
  virtual uint64_t TakeNumber() = 0;
  virtual absl::Status Send(const v1::PushRequest& request) = 0;
  virtual absl::StatusOr<v1::Ack> Await(uint64_t number) = 0;

  virtual double CpuSeconds() const = 0;  // Returns the CPU time of the process so far.
};

}  // namespace svcmap::bench
