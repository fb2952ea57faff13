#include "proxy/health/sync_clock.h"

#include <utility>

namespace svcmap::proxy {

void SyncClock::Received(Time now) {
  if (!received_) received_ = now;
}

void SyncClock::Started() {
  const std::optional<Time> reported = std::exchange(received_, std::nullopt);
  if (!started_) started_ = reported;
}

}  // namespace svcmap::proxy
