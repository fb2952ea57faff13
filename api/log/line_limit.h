// Limits the number of log lines that clients with write permission can cause. Per client, at most
// kLines lines are logged in a period of one second. LineLimit counts further lines, and logs their
// number after the end of the period. If many clients cause lines at the same time, clients without
// a period of their own share one period. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace svcmap::api {

class LineLimit {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr uint64_t kLines = 20;
  static constexpr size_t kClients = 16;
  static constexpr std::chrono::seconds kPeriod{1};

  // `log` receives a line such as `log lines suppressed client="uid 0" count=5`.
  explicit LineLimit(std::function<void(const std::string& line)> log) : log_(std::move(log)) {}
  ~LineLimit() { Report(Clock::time_point::max()); }  // Logs the remaining numbers.
  LineLimit(const LineLimit&) = delete;
  LineLimit& operator=(const LineLimit&) = delete;

  // Returns true if `client` may log a line. Otherwise, counts the line.
  bool Admit(const std::string& client, Clock::time_point now = Clock::now());

  // Logs the numbers of all periods that have ended. Must be called regularly.
  void Report(Clock::time_point now = Clock::now());

 private:
  struct Period {
    Clock::time_point start;
    uint64_t admitted = 0;
    uint64_t suppressed = 0;
  };

  const std::function<void(const std::string&)> log_;
  std::mutex mutex_;
  std::map<std::string, Period> periods_;  // By client.
};

}  // namespace svcmap::api
