// What is counted when it happens, as no status keeps it: how long things took, and what was
// answered. Observing allocates nothing and takes no longer than some atomic operations; a scrape
// that reads a histogram holds its lock for as long as copying its numbers takes.
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

  void Synced(const proxy::SyncResult& result);  // On the loop's thread, as the next one.
  void Programmed(Family family, std::chrono::nanoseconds took);
  void Cleaned(const proxy::Cleanup& cleanup);       // On the cleaner's thread.
  void Answered(const std::string& path, int code);  // By the health server, on its thread.

  // Of /healthz or /livez.
  struct Answers {
    std::atomic<uint64_t> ok = 0, unavailable = 0;
  };

  // For those who read, on any thread.
  const prometheus::Histogram& syncs() const { return syncs_; }
  const prometheus::Histogram& full_syncs() const { return full_syncs_; }
  const prometheus::Histogram& partial_syncs() const { return partial_syncs_; }
  const prometheus::Histogram& commits() const { return commits_; }
  const prometheus::Histogram& cleanups() const { return cleanups_; }
  const prometheus::Histogram& programming(Family family) const {
    return family == Family::kIpv4 ? programming_v4_ : programming_v6_;
  }
  double last_sync() const { return last_sync_.Value(); }  // Unix time; 0: none succeeded yet.
  const Answers& healthz() const { return healthz_; }
  const Answers& livez() const { return livez_; }

 private:
  prometheus::Histogram syncs_, full_syncs_, partial_syncs_, commits_, cleanups_;
  prometheus::Histogram programming_v4_, programming_v6_;
  prometheus::Gauge last_sync_;
  Answers healthz_, livez_;
};

}  // namespace svcmap::api
