#include "tests/bench/commands/disturbance.h"

#include <thread>

#include "tests/bench/packets/paced_connections.h"
#include "tests/support/process.h"

namespace svcmap::bench {
namespace {

using Clock = PacedConnections::Clock;

constexpr std::chrono::seconds kBetweenDamages{1};

// Flushes the ruleset, then waits until the Service answers again, but at least one second.
absl::Status DamageOnce(const Contender& contender, const PacedConnections& traffic,
                        std::chrono::seconds time_limit) {
  const Clock::time_point begin = Clock::now();
  absl::Status damaged = testing::RunNft(contender.world->node(), "flush ruleset\n");
  if (!damaged.ok()) return damaged;
  if (!traffic.AwaitConnected(Clock::now(), time_limit)) {
    return absl::DeadlineExceededError("the Service does not answer after a flushed ruleset");
  }
  std::this_thread::sleep_until(begin + kBetweenDamages);
  return absl::OkStatus();
}

}  // namespace

Cluster WithOtherEndpoints(Cluster cluster) {
  for (size_t position = 0; position < cluster.ports().size(); ++position) {
    const size_t count = cluster.ports()[position].endpoints.size();
    if (count > 0) cluster.ReplaceEndpoints(position, 0, count);
  }
  return cluster;
}

absl::StatusOr<Disturbed> MeasureDisturbed(Contender& contender, const Cluster& cluster,
                                           Disturbance disturbance,
                                           const DisturbanceOptions& options,
                                           std::chrono::seconds time_limit) {
  const bool is_svcmap = contender.name == "svcmap";
  const bool repairs = disturbance == Disturbance::kRepair;
  if (repairs && !is_svcmap && contender.name != "direct") {
    return absl::UnimplementedError(contender.name + " does not notice a flushed ruleset");
  }
  const Cluster other = !repairs && is_svcmap ? WithOtherEndpoints(cluster) : cluster;
  const auto target = TargetOf(contender.name, cluster.ports().back());
  if (!target.ok()) return target.status();
  auto traffic = PacedConnections::Start(*contender.world, *target, options.per_second);
  if (!traffic.ok()) return traffic.status();
  if (!(*traffic)->AwaitConnected(Clock::now(), time_limit)) {
    return absl::UnavailableError("the Service does not answer");
  }

  const std::chrono::seconds duration(options.seconds);
  const Clock::time_point from = Clock::now();
  std::this_thread::sleep_for(duration);
  const Clock::time_point middle = Clock::now();
  Disturbed disturbed;
  const auto is_back = [&] { return repairs || !is_svcmap || disturbed.times % 2 == 0; };
  while (Clock::now() < middle + duration || !is_back()) {
    const absl::Status status =
        repairs && is_svcmap ? DamageOnce(contender, **traffic, time_limit)
                             : contender.opponent->Resync(is_back() ? other : cluster).status();
    if (absl::IsUnimplemented(status)) break;
    if (!status.ok()) return status;
    ++disturbed.times;
  }
  const Clock::time_point to = Clock::now();
  (*traffic)->Stop();
  disturbed.quiet = (*traffic)->Between(from, middle);
  disturbed.during = (*traffic)->Between(middle, to);
  return disturbed;
}

}  // namespace svcmap::bench
