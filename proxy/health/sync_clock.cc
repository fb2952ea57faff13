#include "proxy/health/sync_clock.h"

#include <utility>

namespace svcmap::proxy {

void SyncClock::Told(Time now) {
  if (!told_) told_ = now;
}

void SyncClock::Taken() {
  const std::optional<Time> told = std::exchange(told_, std::nullopt);
  if (!taken_) taken_ = told;
}

void SyncClock::Synced() { taken_.reset(); }

}  // namespace svcmap::proxy
