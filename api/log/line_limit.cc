#include "api/log/line_limit.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "api/log/log_value.h"

namespace svcmap::api {
namespace {

constexpr char kOthers[] = "others";

}  // namespace

LineLimit::LineLimit(std::function<void(const std::string& line)> log, bool own_thread)
    : log_(std::move(log)) {
  if (own_thread) thread_ = std::thread([this] { Run(); });
}

LineLimit::~LineLimit() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
  Report(Clock::time_point::max());
}

bool LineLimit::Admit(const std::string& client, Clock::time_point now) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    auto found = periods_.find(client);
    if (found == periods_.end()) {
      // Periods without suppressed lines end here. Report() ends all other periods.
      std::erase_if(periods_, [now](const auto& entry) {
        return entry.second.suppressed == 0 && now - entry.second.start >= kPeriod;
      });
      found =
          periods_.try_emplace(periods_.size() < kClients ? client : kOthers, Period{now}).first;
    }
    Period& period = found->second;
    if (period.suppressed == 0 && now - period.start >= kPeriod) period = {now};
    if (period.admitted < kLines) {
      ++period.admitted;
      return true;
    }
    ++period.suppressed;
    first = !std::exchange(suppressing_, true);
  }
  if (first) wake_.notify_one();
  return false;
}

std::optional<LineLimit::Clock::time_point> LineLimit::Report(Clock::time_point now) {
  std::vector<std::pair<std::string, uint64_t>> ended;
  std::optional<Clock::time_point> next;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(periods_, [&](const auto& entry) {
      const auto& [client, period] = entry;
      if (now - period.start < kPeriod) {
        const Clock::time_point end = period.start + kPeriod;
        if (period.suppressed > 0) next = next ? std::min(*next, end) : end;
        return false;
      }
      if (period.suppressed > 0) ended.emplace_back(client, period.suppressed);
      return true;
    });
    suppressing_ = next.has_value();
  }
  // The lock is released first, because the reader of the log may be slow.
  for (const auto& [client, count] : ended) {
    log_("log lines suppressed client=" + LogValue(client) + " count=" + std::to_string(count));
  }
  return next;
}

void LineLimit::Run() {
  for (;;) {
    const std::optional<Clock::time_point> next = Report(Clock::now());
    std::unique_lock lock(mutex_);
    const auto stop = [this] { return stopping_; };
    if (next) {
      wake_.wait_until(lock, *next, stop);
    } else {
      wake_.wait(lock, [this] { return stopping_ || suppressing_; });
    }
    if (stopping_) return;
  }
}

}  // namespace svcmap::api
