// What svcmapd logs, and how.
#pragma once

#include <chrono>

#include "proxy/conntrack/cleaner.h"
#include "proxy/reconcile/loop.h"

namespace svcmap::api {

void SetUpLog(int verbosity);  // To standard error; what gRPC has to say too.

void LogSync(const proxy::SyncResult& result, const proxy::LoopStatus& status);
void LogCleanup(const proxy::Cleanup& cleanup);
void LogBeginning(proxy::Beginning beginning, uint64_t revision);

// Repairs: ten lines at once, then one a second, as somebody may fight with us. One thread.
class RepairLog {
 public:
  void Add(const proxy::Repaired& repaired);

 private:
  static constexpr int kBurst = 10;
  std::chrono::steady_clock::time_point refilled_;
  int allowed_ = kBurst;
  uint64_t unsaid_ = 0;
};

}  // namespace svcmap::api
