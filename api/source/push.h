// Keeps svcmapd in sync with the mirror, over a stream of the push protocol (proto/README.md).
//
// Changes are sent immediately while only a few batches are unacknowledged. Otherwise they wait in
// the mirror, where several changes of one object become one change. A broken stream is reopened
// until Push is destroyed. A new stream resumes without a snapshot if all changes taken from the
// mirror are acknowledged and svcmapd reports the same state token. Otherwise it begins with a
// snapshot. While svcmapd rejects objects or holds removals, a new snapshot is sent every
// `snapshot_retry`. Nothing is sent before the mirror is complete.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "api/source/findings.h"
#include "api/source/mirror.h"
#include "api/tls/tls_files.h"

namespace svcmap::source {

struct PushOptions {
  std::string name;    // Name of the controller, such as "svcmap-kube".
  std::string target;  // A result of api::ParseTarget.
  api::TlsFiles tls;   // The files are read again for each connection.
  std::string instance;
  std::chrono::milliseconds first_retry{100};  // Doubles up to last_retry, with jitter.
  std::chrono::milliseconds last_retry{5000};
  std::chrono::milliseconds slow_retry{30000};  // After errors that need an action of the operator.
  std::chrono::milliseconds opened_timeout{30000};
  std::chrono::milliseconds ack_timeout{120000};
  // Delay between a rejection, a failed commit or held removals and the next snapshot. The rejected
  // object may be accepted then, for example because a limit is no longer exceeded, and another
  // client may have accepted the removals.
  std::chrono::milliseconds snapshot_retry{600000};
  // Called once, on a gRPC thread, when svcmapd has acknowledged the first snapshot.
  std::function<void()> on_synced;
  // Called once, on a gRPC thread, when svcmapd has programmed all objects of a snapshot.
  std::function<void()> on_programmed;
  // Called for each new result for an object, while the Push is locked.
  std::function<void(const Finding&)> on_finding;
};

// Status and counters. Counters start at 0 when the process starts.
struct PushFacts {
  bool connected = false;  // True if svcmapd has answered Open.
  // True if svcmapd has the complete state, except for batches in flight.
  bool synced = false;
  uint64_t revision = 0;  // Revision in the last Ack.
  size_t in_flight = 0;   // Batches without an Ack.
  size_t rejected = 0;    // Objects that svcmapd rejected.
  // Position (Mirror::Apply) of the state that svcmapd has acknowledged as programmed.
  uint64_t position = 0;
  // The objects that the open snapshot would remove, if svcmapd holds their removals. Otherwise
  // empty.
  std::string held;
  uint64_t batches = 0, snapshots = 0, resumed = 0, failures = 0;
  std::string last_error;  // Empty after a successful connection.
};

// Runs its own thread.
class Push {
 public:
  Push(PushOptions options, Mirror& mirror);  // `mirror` must outlive the Push.
  ~Push();  // Ends the mirror and the stream. Does not wait for Acks.

  PushFacts facts() const;  // Thread-safe.

 private:
  class Worker;
  const std::unique_ptr<Worker> worker_;
};

}  // namespace svcmap::source
