// Implements `svcmapctl top`.
#include <sys/ioctl.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "api/check/target.h"
#include "api/check/tracked_entries.h"
#include "api/cli/check.h"
#include "api/cli/commands.h"
#include "api/cli/http_get.h"
#include "api/cli/rates.h"
#include "api/convert/projection.h"
#include "api/migration/kube_proxy_process.h"
#include "nft/base/lock_sockets.h"

namespace svcmap::api {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kTimeout{10};

// Source of the displayed rates.
struct Meter {
  // Reads the current state. The state before becomes the previous state.
  std::function<absl::Status()> read;
  // Returns the rates between the previous and the current state.
  std::function<std::vector<ServiceRate>(double seconds)> rates;
  RateHeading heading = {};
};

// Reads the connection counters in the agent's metrics. `options` must outlive the result.
Meter MakeServiceMeter(const TopOptions& options) {
  const auto before = std::make_shared<ConnectionCounts>();
  const auto now = std::make_shared<ConnectionCounts>();
  const auto read = [&options, before, now]() -> absl::Status {
    const absl::StatusOr<std::string> page = HttpGet(options.metrics_address, "/metrics", kTimeout);
    if (!page.ok()) return page.status();
    *before = std::exchange(*now, ReadConnectionCounts(*page, options.group));
    if (!now->empty()) return absl::OkStatus();
    return absl::NotFoundError(
        absl::StrCat("http://", options.metrics_address,
                     "/metrics contains no connection counters: svcmapd runs without "
                     "--service-counters, or the agent has no Services"));
  };
  return {read, [&options, before, now](double seconds) {
            return RatesBetween(*before, *now, seconds, options.order);
          }};
}

// Reads the connections to one Service in the connection tracking table (docs/decisions/0013), and
// the addresses and endpoints of the Service from the agent. Returns nullopt if the Service does
// not exist or has no addresses.
absl::StatusOr<std::optional<Meter>> MakeEndpointMeter(const TopOptions& options,
                                                       Session& session) {
  std::vector<IpAddress> local;
  for (const InterfaceAddress& own : InterfaceAddresses()) local.push_back(own.address);
  std::vector<CheckTarget> targets;
  absl::Status listed = session.reader.ForEach(options.endpoints, [&](const v1::Object& object) {
    AddTargets(object.service(), local, targets);
  });
  if (!listed.ok()) return listed;
  if (targets.empty()) return std::nullopt;
  const auto rates = std::make_shared<EndpointRates>(targets);
  const auto add = [&](const v1::Object& object) {
    const v1::EndpointSlice& slice = object.endpoint_slice();
    if (ServiceNameOf(slice.metadata()) == options.endpoints.name) rates->AddEndpoints(slice);
  };
  listed = session.reader.ForEach({v1::KIND_ENDPOINT_SLICE, options.endpoints.name_space, ""}, add);
  if (!listed.ok()) return listed;
  const auto read = [rates] {
    rates->StartReading();
    const absl::Status status =
        ForEachTrackedEntry([&rates](const TrackedEntry& entry) { rates->Add(entry); });
    // Without the required privileges, top shows nothing. kNotFound selects exit code 1.
    return status.ok() ? status : absl::NotFoundError(status.message());
  };
  return Meter{
      read,
      [rates, order = options.order](double seconds) { return rates->Rates(seconds, order); },
      {.total = "TRACKED", .name = "ENDPOINT"}};
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

ExitCode RunTop(const Options& all, Session& session) {
  const TopOptions& options = all.top;
  winsize window = {};
  const bool live =
      !options.once && isatty(STDOUT_FILENO) == 1 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0;
  Meter meter = MakeServiceMeter(options);
  if (!options.endpoints.name.empty()) {
    absl::StatusOr<std::optional<Meter>> made = MakeEndpointMeter(options, session);
    if (!made.ok()) return session.CallFailed(made.status());
    if (!*made) {
      return session.Refuse(absl::StrCat("the agent has no ", options.endpoints.ToString(),
                                         ", or the Service has no addresses"));
    }
    if (const std::string elsewhere = AgentElsewhere(LockSockets()); !elsewhere.empty()) {
      return session.Refuse("top --endpoints: " + elsewhere);
    }
    meter = **std::move(made);
  }
  absl::Status read = meter.read();
  SteadyClock::time_point before = SteadyClock::now();
  for (;;) {
    if (read.ok()) {
      std::this_thread::sleep_for(options.interval);
      read = meter.read();
    }
    if (!read.ok()) {
      session.Error(std::string(read.message()));
      return absl::IsNotFound(read) ? ExitCode::kIncomplete : ExitCode::kUnreachable;
    }
    const SteadyClock::time_point after = SteadyClock::now();
    const double seconds = std::chrono::duration<double>(after - before).count();
    before = after;
    const std::vector<ServiceRate> rates = meter.rates(seconds);
    if (!live) {
      session.out << Summary(rates, seconds) << RatesText(rates, options.rows, 0, meter.heading);
      return ExitCode::kOk;
    }
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &window);
    const size_t height = window.ws_row > 4 ? window.ws_row - 3U : 1;
    const size_t rows = options.rows == 0 ? height : std::min(options.rows, height);
    // Moves the cursor to the top left corner and clears the screen.
    session.out << "\x1b[H\x1b[2J" << Summary(rates, seconds)
                << RatesText(rates, rows, window.ws_col, meter.heading) << std::flush;
    if (!session.out.good()) return ExitCode::kOk;
  }
}

}  // namespace svcmap::api
