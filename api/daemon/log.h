// Writes the log lines of the reconcile loop.
#pragma once

#include "api/limits/token_bucket.h"
#include "proxy/conntrack/cleaner.h"
#include "proxy/reconcile/loop.h"

namespace svcmap::api {

void LogSync(const proxy::SyncResult& result, const proxy::LoopStatus& status);
void LogCleanup(const proxy::Cleanup& cleanup);

// Logs repairs of the tables. The rate limit is a burst of 10 lines and then one line per second,
// because another process may change the tables in a loop. Not thread-safe.
class RepairLog {
 public:
  void Add(const proxy::RepairResult& result);

 private:
  TokenBucket lines_{10, 1, TokenBucket::Clock::now()};
  uint64_t unreported_ = 0;
};

}  // namespace svcmap::api
