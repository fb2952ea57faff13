// Histograms and counters that are updated when an event occurs: durations of syncs and cleanups,
// and responses of health checks. Updates allocate no memory. A scrape holds the lock of a
// histogram only while it copies the values.
#pragma once

#include <prometheus/histogram.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "proxy/conntrack/cleaner.h"
#include "proxy/reconcile/loop.h"

namespace svcmap::api {

class Observations {
 public:
  Observations();

  // Called on the thread of the reconcile loop.
  void Synced(const proxy::SyncResult& result);
  void Cleaned(const proxy::Cleanup& cleanup);       // Called on the cleaner's thread.
  void Answered(const std::string& path, int code);  // Called on the health server's thread.

  // Number of responses of /healthz or /livez.
  struct Answers {
    std::atomic<uint64_t> ok = 0, unavailable = 0;
  };

  // The functions below are thread-safe.
  const prometheus::Histogram& syncs() const { return syncs_; }
  const prometheus::Histogram& full_syncs() const { return full_syncs_; }
  const prometheus::Histogram& partial_syncs() const { return partial_syncs_; }
  const prometheus::Histogram& commits() const { return commits_; }
  const prometheus::Histogram& cleanups() const { return cleanups_; }
  const prometheus::Histogram& programming(Family family) const {
    return family == Family::kIpv4 ? programming_v4_ : programming_v6_;
  }
  // Unix time of the last successful sync, or 0.
  double last_sync() const { return last_sync_.Value(); }
  const Answers& healthz() const { return healthz_; }
  const Answers& livez() const { return livez_; }

 private:
  prometheus::Histogram syncs_, full_syncs_, partial_syncs_, commits_, cleanups_;
  prometheus::Histogram programming_v4_, programming_v6_;
  prometheus::Gauge last_sync_;
  Answers healthz_, livez_;
};

}  // namespace svcmap::api
