// Keeps the agent equal to the mirror, over a stream of the push protocol (proto/README.md).
//
// A change goes out at once while few batches are unacked; beyond that changes wait in the mirror,
// where those of one object become one. A broken stream is opened again for as long as we live. A
// new one goes on from where the old one was if all that was taken from the mirror is acked and the
// agent says that it holds exactly that; otherwise it begins with a snapshot. While the agent
// refuses an object a snapshot is sent again from time to time. Nothing is sent before the mirror
// is complete.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "api/kube/mirror.h"
#include "api/tls/tls_files.h"

namespace svcmap::kube {

struct PushOptions {
  std::string target;  // As api::ParseTarget gives it.
  api::TlsFiles tls;   // Read anew for each connection.
  std::string instance;
  std::chrono::milliseconds first_retry{100};  // Doubles up to last_retry, with jitter.
  std::chrono::milliseconds last_retry{5000};
  std::chrono::milliseconds slow_retry{30000};  // After what time alone will hardly change.
  std::chrono::milliseconds opened_timeout{30000};
  std::chrono::milliseconds ack_timeout{120000};
  // After a refusal, or a snapshot with one, until everything is sent again: the agent may have
  // room by then.
  std::chrono::milliseconds rejected_retry{600000};
  std::function<void()> on_synced;  // Once: the first snapshot was acked. On a thread of gRPC.
};

// All since the start.
struct PushFacts {
  bool connected = false;  // The agent has answered Open.
  bool synced = false;     // And holds a whole state of ours.
  uint64_t revision = 0;   // Of the last ack.
  size_t in_flight = 0;    // Batches without an ack.
  size_t rejected = 0;     // Objects.
  uint64_t batches = 0, snapshots = 0, resumed = 0, failures = 0;
  std::string last_error;  // Empty once things go well again.
};

// A thread of its own.
class Push {
 public:
  // `mirror` outlives it.
  static std::unique_ptr<Push> Start(PushOptions options, Mirror& mirror);
  ~Push();  // Ends the mirror and the stream; does not wait for acks.

  PushFacts facts() const;  // Any thread.

 private:
  class Worker;
  explicit Push(std::unique_ptr<Worker> worker);
  const std::unique_ptr<Worker> worker_;
};

}  // namespace svcmap::kube
