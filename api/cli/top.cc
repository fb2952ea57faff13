// Implements `svcmapctl top`.
#include <sys/ioctl.h>
#include <unistd.h>

#include <memory>
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
class Meter {
 public:
  virtual ~Meter() = default;
  // Reads the current state. The state before becomes the previous state.
  virtual absl::Status Read() = 0;
  // Returns the rates between the previous and the current state.
  virtual std::vector<ServiceRate> Rates(double seconds) const = 0;
};

// Reads the connection counters in the agent's metrics.
class ServiceMeter : public Meter {
 public:
  explicit ServiceMeter(const TopOptions& options) : options_(options) {}

  absl::Status Read() override {
    const absl::StatusOr<std::string> page =
        HttpGet(options_.metrics_address, "/metrics", kTimeout);
    if (!page.ok()) return page.status();
    before_ = std::exchange(now_, ReadConnectionCounts(*page, options_.group));
    if (!now_.empty()) return absl::OkStatus();
    return absl::NotFoundError(
        absl::StrCat("http://", options_.metrics_address,
                     "/metrics contains no connection counters: svcmapd runs without "
                     "--service-counters, or the agent has no Services"));
  }

  std::vector<ServiceRate> Rates(double seconds) const override {
    return RatesBetween(before_, now_, seconds, options_.order);
  }

 private:
  const TopOptions& options_;
  ConnectionCounts before_, now_;
};

// Reads the connections to one Service in the connection tracking table (docs/decisions/0013).
class EndpointMeter : public Meter {
 public:
  EndpointMeter(EndpointRates rates, RateOrder order) : rates_(std::move(rates)), order_(order) {}

  absl::Status Read() override {
    rates_.StartReading();
    const absl::Status listed =
        ForEachTrackedEntry([&](const TrackedEntry& entry) { rates_.Add(entry); });
    // Without the required privileges, top shows nothing. kNotFound selects exit code 1.
    return listed.ok() ? listed : absl::NotFoundError(listed.message());
  }

  std::vector<ServiceRate> Rates(double seconds) const override {
    return rates_.Rates(seconds, order_);
  }

 private:
  EndpointRates rates_;
  const RateOrder order_;
};

// Reads the addresses and endpoints of the Service from the agent. Returns null if the Service does
// not exist or has no addresses.
absl::StatusOr<std::unique_ptr<Meter>> MakeEndpointMeter(const TopOptions& options,
                                                         Session& session) {
  std::vector<IpAddress> local;
  for (const InterfaceAddress& own : InterfaceAddresses()) local.push_back(own.address);
  std::vector<CheckTarget> targets;
  absl::Status listed = session.reader.ForEach(options.endpoints, [&](const v1::Object& object) {
    AddTargets(object.service(), local, targets);
  });
  if (!listed.ok()) return listed;
  if (targets.empty()) return nullptr;
  EndpointRates rates(targets);
  listed = session.reader.ForEach(
      {v1::KIND_ENDPOINT_SLICE, options.endpoints.name_space, ""}, [&](const v1::Object& object) {
        const auto& labels = object.endpoint_slice().metadata().labels();
        const auto label = labels.find(kServiceNameLabel);
        if (label == labels.end() || label->second != options.endpoints.name) return;
        rates.AddEndpoints(object.endpoint_slice());
      });
  if (!listed.ok()) return listed;
  return std::make_unique<EndpointMeter>(std::move(rates), options.order);
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
  RateHeading heading;
  std::unique_ptr<Meter> meter = std::make_unique<ServiceMeter>(options);
  if (!options.endpoints.name.empty()) {
    absl::StatusOr<std::unique_ptr<Meter>> made = MakeEndpointMeter(options, session);
    if (!made.ok()) return session.CallFailed(made.status());
    if (*made == nullptr) {
      session.Error(absl::StrCat("the agent has no ", options.endpoints.ToString(),
                                 ", or the Service has no addresses"));
      return ExitCode::kIncomplete;
    }
    if (const std::string elsewhere = AgentElsewhere(LockSockets()); !elsewhere.empty()) {
      session.Error("top --endpoints: " + elsewhere);
      return ExitCode::kIncomplete;
    }
    meter = *std::move(made);
    heading = {.total = "TRACKED", .name = "ENDPOINT"};
  }
  absl::Status read = meter->Read();
  SteadyClock::time_point before = SteadyClock::now();
  for (;;) {
    if (read.ok()) {
      std::this_thread::sleep_for(options.interval);
      read = meter->Read();
    }
    if (!read.ok()) {
      session.Error(std::string(read.message()));
      return absl::IsNotFound(read) ? ExitCode::kIncomplete : ExitCode::kUnreachable;
    }
    const SteadyClock::time_point after = SteadyClock::now();
    const double seconds = std::chrono::duration<double>(after - before).count();
    before = after;
    const std::vector<ServiceRate> rates = meter->Rates(seconds);
    if (!live) {
      session.out << Summary(rates, seconds) << RatesText(rates, options.rows, 0, heading);
      return ExitCode::kOk;
    }
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &window);
    const size_t height = window.ws_row > 4 ? window.ws_row - 3U : 1;
    const size_t rows = options.rows == 0 ? height : std::min(options.rows, height);
    // Moves the cursor to the top left corner and clears the screen.
    session.out << "\x1b[H\x1b[2J" << Summary(rates, seconds)
                << RatesText(rates, rows, window.ws_col, heading) << std::flush;
    if (!session.out.good()) return ExitCode::kOk;
  }
}

}  // namespace svcmap::api
