// Converts results of the loop and the intake to events for watchers. Pure functions.
#pragma once

#include <chrono>
#include <cstdint>

#include "proxy/reconcile/loop.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

inline constexpr int kMaxWatchedFindings = 100;  // Per event. Others are counted.

void FillCommit(const proxy::SyncResult& result, uint64_t revision, v1::WatchCommit& commit);
void FillRecovered(uint64_t revision, std::chrono::nanoseconds after, uint64_t failures,
                   v1::WatchRecovered& recovered);
void FillRepair(const proxy::Repaired& repaired, v1::WatchRepair& repair);
void AddFinding(const proxy::Finding& finding, v1::WatchFindings& findings);

}  // namespace svcmap::api
