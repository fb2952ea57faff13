// svcmapd as shipped: a process of its own on the node, driven over gRPC, its watcher and its state
// file on. A sync or change ends when the acknowledgement is here; the messages are made before the
// clock starts.
#pragma once

#include <memory>

#include "svcmap/v1/control.pb.h"
#include "tests/bench/opponents/opponent.h"

namespace svcmap::bench {

class Svcmap : public Opponent {
 public:
  static absl::StatusOr<std::unique_ptr<Svcmap>> Start(const testing::NetNs& netns,
                                                       const OpponentSettings& settings);

  // For who does not wait for one change before the next. One thread may send while another one
  // awaits; not together with the calls of Opponent. Await reads acknowledgements up to that of
  // `number`, and tells an error if anything before it failed.
  static v1::PushRequest Message(uint64_t number, const std::vector<ClusterChange>& changes);
  virtual uint64_t TakeNumber() = 0;  // Batches of a stream are numbered 1, 2, 3, ...
  virtual absl::Status Send(const v1::PushRequest& request) = 0;
  virtual absl::StatusOr<v1::Ack> Await(uint64_t number) = 0;

  virtual double CpuSeconds() const = 0;  // Of the process, so far.
};

}  // namespace svcmap::bench
