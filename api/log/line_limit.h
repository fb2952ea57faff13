// Limits the number of log lines that clients with write permission can cause. Per client, at most
// kLines lines are logged in a period of one second. LineLimit counts further lines, and logs their
// number at the end of the period. If many clients cause lines at the same time, clients without a
// period of their own share one period. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace svcmap::api {

class LineLimit {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr uint64_t kLines = 20;
  static constexpr size_t kClients = 16;
  static constexpr std::chrono::seconds kPeriod{1};

  // `log` receives a line such as `log lines suppressed client="uid 0" count=5`. If `own_thread` is
  // false, the caller must call Report().
  explicit LineLimit(std::function<void(const std::string& line)> log, bool own_thread = true);
  ~LineLimit();  // Logs the remaining numbers.
  LineLimit(const LineLimit&) = delete;
  LineLimit& operator=(const LineLimit&) = delete;

  // Returns true if `client` may log a line. Otherwise, counts the line.
  bool Admit(const std::string& client, Clock::time_point now = Clock::now());

  // Logs the numbers of all periods that have ended. Returns the end of the next period with
  // suppressed lines, or nullopt.
  std::optional<Clock::time_point> Report(Clock::time_point now);

 private:
  struct Period {
    Clock::time_point start;
    uint64_t admitted = 0;
    uint64_t suppressed = 0;
  };

  void Run();

  const std::function<void(const std::string&)> log_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::string, Period> periods_;  // By client.
  bool suppressing_ = false;               // True if a period has suppressed lines.
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace svcmap::api
