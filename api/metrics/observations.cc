#include "api/metrics/observations.h"

#include "api/metrics/unix_time.h"

namespace svcmap::api {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

// kube-proxy's 15 latency buckets. The limits double from bucket to bucket, from 1 ms to 16.384 s.
Buckets Latency() {
  Buckets buckets;
  for (int k = 0; k < 15; ++k) buckets.push_back(0.001 * (1 << k));
  return buckets;
}

// kube-proxy's buckets for the network programming latency in seconds (S-278).
Buckets Programming() {
  Buckets buckets = {0.25, 0.5};
  for (int seconds = 1; seconds < 60; ++seconds) buckets.push_back(seconds);
  for (int seconds = 60; seconds < 120; seconds += 5) buckets.push_back(seconds);
  for (int seconds = 120; seconds <= 300; seconds += 30) buckets.push_back(seconds);
  return buckets;
}

double Seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

Observations::Observations()
    : syncs_(Latency()),
      full_syncs_(Latency()),
      partial_syncs_(Latency()),
      commits_(Latency()),
      cleanups_(Latency()),
      programming_v4_(Programming()),
      programming_v6_(Programming()) {}

void Observations::Synced(const proxy::SyncResult& result) {
  for (const auto& [family, took] : result.programmed) {
    (family == Family::kIpv4 ? programming_v4_ : programming_v6_).Observe(Seconds(took));
  }
  if (result.whole.count() == 0) return;
  const double took = Seconds(result.whole);
  syncs_.Observe(took);
  (result.recreated ? full_syncs_ : partial_syncs_).Observe(took);
  if (result.outcome == proxy::SyncResult::Outcome::kFailed) return;
  last_sync_.Set(UnixTime(std::chrono::system_clock::now()));
  if (result.outcome == proxy::SyncResult::Outcome::kCommitted) {
    commits_.Observe(Seconds(result.duration));
  }
}

// Does not record a cleanup that could not read the connection table (S-282).
void Observations::Cleaned(const proxy::Cleanup& cleanup) {
  const bool only_tcp = cleanup.services == 0 && cleanup.tcp_services > 0;
  if (cleanup.error.ok() && !only_tcp) cleanups_.Observe(Seconds(cleanup.duration));
}

void Observations::Answered(const std::string& path, int code) {
  if (path != "/healthz" && path != "/livez") return;
  Answers& answers = path == "/healthz" ? healthz_ : livez_;
  ++(code == 200 ? answers.ok : answers.unavailable);
}

}  // namespace svcmap::api
