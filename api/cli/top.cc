// Implements `svcmapctl top`.
#include <sys/ioctl.h>
#include <unistd.h>

#include <ostream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "api/cli/commands.h"
#include "api/cli/http_get.h"
#include "api/cli/service_rates.h"

namespace svcmap::api {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kTimeout{10};

struct Reading {
  ConnectionCounts counts;
  SteadyClock::time_point time;
};

absl::StatusOr<Reading> Read(const TopOptions& options) {
  const absl::StatusOr<std::string> page = HttpGet(options.metrics_address, "/metrics", kTimeout);
  if (!page.ok()) return page.status();
  Reading reading{ReadConnectionCounts(*page, options.group), SteadyClock::now()};
  if (!reading.counts.empty()) return reading;
  return absl::NotFoundError(
      absl::StrCat("http://", options.metrics_address,
                   "/metrics contains no connection counters: svcmapd runs without "
                   "--service-counters, or the agent has no Services"));
}

// Describes the interval: "2026-11-22T15:40:00Z, 2.0 s, 812.5 connections/s".
std::string Summary(const std::vector<ServiceRate>& rates, double seconds) {
  double sum = 0;
  for (const ServiceRate& rate : rates) sum += rate.per_second;
  return absl::StrFormat("%s, interval %.1f s, %.1f new connections/s\n",
                         absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone()),
                         seconds, sum);
}

}  // namespace

ExitCode Execute(const TopOptions& options, Session& session) {
  winsize window = {};
  const bool live =
      !options.once && isatty(STDOUT_FILENO) == 1 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0;
  absl::StatusOr<Reading> before = Read(options);
  for (;;) {
    if (!before.ok()) {
      session.Error(std::string(before.status().message()));
      return absl::IsNotFound(before.status()) ? ExitCode::kIncomplete : ExitCode::kUnreachable;
    }
    std::this_thread::sleep_for(options.interval);
    absl::StatusOr<Reading> after = Read(options);
    if (!after.ok()) {
      before = std::move(after);
      continue;
    }
    const double seconds = std::chrono::duration<double>(after->time - before->time).count();
    const std::vector<ServiceRate> rates =
        RatesBetween(before->counts, after->counts, seconds, options.order);
    if (!live) {
      session.out << Summary(rates, seconds) << RatesText(rates, options.rows, 0);
      return ExitCode::kOk;
    }
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &window);
    const size_t height = window.ws_row > 4 ? window.ws_row - 3U : 1;
    const size_t rows = options.rows == 0 ? height : std::min(options.rows, height);
    // Moves the cursor to the top left corner and clears the screen.
    session.out << "\x1b[H\x1b[2J" << Summary(rates, seconds)
                << RatesText(rates, rows, window.ws_col) << std::flush;
    if (!session.out.good()) return ExitCode::kOk;
    before = std::move(after);
  }
}

}  // namespace svcmap::api
