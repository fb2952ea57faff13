#include "api/log/line_limit.h"

#include <vector>

#include "api/log/log_value.h"

namespace svcmap::api {
namespace {

constexpr char kOthers[] = "others";

}  // namespace

bool LineLimit::Admit(const std::string& client, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  auto found = periods_.find(client);
  if (found == periods_.end()) {
    // Periods without suppressed lines end here. Report() ends all other periods.
    std::erase_if(periods_, [now](const auto& entry) {
      return entry.second.suppressed == 0 && now - entry.second.start >= kPeriod;
    });
    found = periods_.try_emplace(periods_.size() < kClients ? client : kOthers, Period{now}).first;
  }
  Period& period = found->second;
  if (period.suppressed == 0 && now - period.start >= kPeriod) period = {now};
  if (period.admitted == kLines) {
    ++period.suppressed;
    return false;
  }
  ++period.admitted;
  return true;
}

void LineLimit::Report(Clock::time_point now) {
  std::vector<std::pair<std::string, uint64_t>> ended;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(periods_, [&](const auto& entry) {
      const auto& [client, period] = entry;
      if (now - period.start < kPeriod) return false;
      if (period.suppressed > 0) ended.emplace_back(client, period.suppressed);
      return true;
    });
  }
  // The lock is released first, because the reader of the log may be slow.
  for (const auto& [client, count] : ended) {
    log_("log lines suppressed client=" + LogValue(client) + " count=" + std::to_string(count));
  }
}

}  // namespace svcmap::api
