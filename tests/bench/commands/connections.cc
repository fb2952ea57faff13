// svcmap-bench connections: measures the number of new connections per second from a single client.
//
// All compared implementations keep the cluster loaded and take turns, as in svcmap-bench latency.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "nft/base/status.h"
#include "nft/base/unique_fd.h"
#include "tests/bench/commands/entrants.h"
#include "tests/bench/packets/packet_world.h"
#include "tests/support/process.h"

namespace svcmap::bench {
namespace {

class Connections {
 public:
  Connections(const CommonOptions& common, double seconds)
      : common_(common), seconds_(seconds), entrants_(common) {}

  absl::Status Run() {
    for (const ClusterShape& shape : common_.shapes) {
      const Cluster cluster(shape);
      Recorder recorder(*common_.samples, "connections", ShapeText(shape));
      std::vector<Contender> contenders = LoadContenders(common_, cluster, entrants_, recorder);
      for (const Position& position : Positions(cluster)) {
        for (int round = 1; round <= common_.rounds; ++round) {
          for (Contender& contender : contenders) {
            const absl::Status status =
                Turn(contender, cluster.ports()[position.index], position.name, round, recorder);
            if (!status.ok()) return status;
          }
        }
      }
      recorder.Print();
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Turn(Contender& contender, const ServicePort& port, const std::string& what,
                    int round, Recorder& recorder) const {
    const auto target = TargetOf(contender.name, port);
    if (!target.ok()) return target.status();
    const auto count =
        CountConnections(*contender.world, *target, std::chrono::duration<double>(seconds_));
    if (!count.ok()) return count.status();
    const auto add = [&](const char* metric, double value) {
      recorder.Add(contender.name, what, metric, round, value);
    };
    add("count", static_cast<double>(count->made));
    add("failures", static_cast<double>(count->failed));
    add("per_second", count->per_second());
    return absl::OkStatus();
  }

  const CommonOptions& common_;
  const double seconds_;
  Entrants entrants_;
};

}  // namespace

void AddConnections(CLI::App& app, const CommonOptions& common, RunCommand& run) {
  auto seconds = std::make_shared<double>(2);
  CLI::App* command = app.add_subcommand("connections", "New connections per second");
  command->add_option("--seconds", *seconds, "Of each turn, at each position")
      ->check(CLI::Range(0.1, 600.0))
      ->capture_default_str();
  command->callback([&common, &run, seconds] {
    run = [&common, seconds] { return Connections(common, *seconds).Run(); };
  });
}

// svcmap-bench latency: measures the time that a proxy adds to the first packet of a flow.
//
// Each compared implementation loads the cluster in its own PacketWorld. For each measured Service,
// the implementations are measured alternately (A B A B). With the implementation "direct", clients
// connect to an endpoint through a node without rules. The latency difference between a proxy and
// "direct" is the latency that the proxy adds, including connection tracking.

namespace {

// Opens TCP connections at a fixed rate, even if earlier connections are not established yet.
// Measures a disturbance from the client's point of view.
class PacedConnections {
 public:
  using Clock = std::chrono::steady_clock;

  // Starts opening connections. `world` must outlive the returned object.
  static absl::StatusOr<std::unique_ptr<PacedConnections>> Start(PacketWorld& world,
                                                                 const FlowTarget& target,
                                                                 int per_second);
  ~PacedConnections();

  // Waits until a connection with a scheduled time after `after` succeeds. Returns false if no such
  // connection succeeds within `limit`.
  bool AwaitConnected(Clock::time_point after, std::chrono::seconds limit) const;

  // Stops opening connections, and waits at most kFlowPatience for pending connections.
  void Stop();

  // Returns the latencies of connections scheduled in [from, to), measured from the scheduled time.
  // Call Between only after Stop.
  Latencies Between(Clock::time_point from, Clock::time_point to) const;

 private:
  struct Flow {
    Clock::time_point due;
    double microseconds = -1;  // Latency of the connection. Negative if the connection failed.
    UniqueFd fd;
  };

  PacedConnections(PacketWorld& world, FlowTarget target, int per_second)
      : world_(world), target_(std::move(target)), every_(std::chrono::seconds(1)) {
    every_ /= per_second;
  }
  void Run();
  void Connect(Clock::time_point due);
  void AwaitAnswers(Clock::time_point until);
  void GiveUp(Clock::time_point due_before);

  PacketWorld& world_;
  const FlowTarget target_;
  std::chrono::nanoseconds every_;
  UniqueFd epoll_;
  std::vector<Flow> flows_;  // Flows in the order of their scheduled times.
  // Index of the first connection that may still be pending.
  size_t oldest_ = 0;
  // The scheduled time of the newest successful connection.
  std::atomic<Clock::rep> newest_connected_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

constexpr std::chrono::milliseconds kPollInterval{2};

bool HasError(int fd) {
  int error = 0;
  socklen_t size = sizeof(error);
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0;
}

absl::StatusOr<std::unique_ptr<PacedConnections>> PacedConnections::Start(PacketWorld& world,
                                                                          const FlowTarget& target,
                                                                          int per_second) {
  if (absl::Status forgot = world.ForgetFlows(); !forgot.ok()) return forgot;
  std::unique_ptr<PacedConnections> paced(new PacedConnections(world, target, per_second));
  paced->epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!paced->epoll_.ok()) return ErrnoStatus(errno, "epoll of paced connections");
  // Start the thread in the client's network namespace, because a thread inherits the namespace of
  // its creator.
  world.client().Run([raw = paced.get()] { raw->thread_ = std::thread([raw] { raw->Run(); }); });
  return paced;
}

PacedConnections::~PacedConnections() { Stop(); }

bool PacedConnections::AwaitConnected(Clock::time_point after, std::chrono::seconds limit) const {
  const Clock::time_point deadline = Clock::now() + limit;
  while (newest_connected_ <= after.time_since_epoch().count()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(kPollInterval);
  }
  return true;
}

void PacedConnections::Stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

void PacedConnections::Run() {
  PinThread(world_.cpus().client);
  PreferThread();
  // Open overdue connections too. The latency of an overdue connection is measured from the
  // scheduled time.
  for (Clock::time_point due = Clock::now(); !stop_; due += every_) {
    AwaitAnswers(due);
    Connect(due);
    GiveUp(Clock::now() - kFlowPatience);
  }
  while (oldest_ < flows_.size()) {
    AwaitAnswers(Clock::now() + std::chrono::milliseconds(1));
    GiveUp(Clock::now() - kFlowPatience);
  }
}

void PacedConnections::Connect(Clock::time_point due) {
  Flow& flow = flows_.emplace_back();
  flow.due = due;
  const testing::SocketAddress& source = world_.NextSource();
  flow.fd = UniqueFd(::socket(source.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(flow.fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const linger reset = {1, 0};
  ::setsockopt(flow.fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  epoll_event event = {};
  event.events = EPOLLOUT;
  event.data.u64 = flows_.size() - 1;
  const testing::SocketAddress& destination = target_.destination;
  if (::bind(flow.fd.get(), source.get(), source.size()) != 0 ||
      (::connect(flow.fd.get(), destination.get(), destination.size()) != 0 &&
       errno != EINPROGRESS) ||
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, flow.fd.get(), &event) != 0) {
    flow.fd.Close();
  }
}

void PacedConnections::AwaitAnswers(Clock::time_point until) {
  do {
    const auto left =
        std::max(std::chrono::nanoseconds(0), std::chrono::nanoseconds(until - Clock::now()));
    const timespec wait = {static_cast<time_t>(left.count() / 1'000'000'000),
                           static_cast<long>(left.count() % 1'000'000'000)};
    epoll_event events[64];
    const int count = ::epoll_pwait2(epoll_.get(), events, 64, &wait, nullptr);
    const Clock::time_point now = Clock::now();
    for (int i = 0; i < count; ++i) {
      Flow& flow = flows_[events[i].data.u64];
      if (!HasError(flow.fd.get())) {
        flow.microseconds = std::chrono::duration<double, std::micro>(now - flow.due).count();
        newest_connected_ =
            std::max<Clock::rep>(newest_connected_, flow.due.time_since_epoch().count());
      }
      flow.fd.Close();
    }
  } while (Clock::now() < until);
}

void PacedConnections::GiveUp(Clock::time_point due_before) {
  for (; oldest_ < flows_.size(); ++oldest_) {
    Flow& flow = flows_[oldest_];
    if (flow.fd.ok() && flow.due >= due_before) return;
    flow.fd.Close();
  }
}

Latencies PacedConnections::Between(Clock::time_point from, Clock::time_point to) const {
  Latencies latencies;
  for (const Flow& flow : flows_) {
    if (flow.due < from || flow.due >= to) continue;
    if (flow.microseconds < 0) {
      ++latencies.failed;
    } else {
      latencies.microseconds.push_back(flow.microseconds);
    }
  }
  return latencies;
}

// What happens while new connections are measured.
enum class Disturbance {
  // The compared implementation repeats full syncs. svcmapd writes only differences, so the
  // benchmark alternates between two clusters with different endpoints.
  kSync,
  // The benchmark flushes the ruleset once per second. Of all compared implementations, only svcmap
  // repairs a flushed ruleset. The real kube-proxy would detect the damage at its next full sync,
  // up to an hour later (S-149). The compared implementation "direct" has no rules to flush.
  kRepair,
};

struct DisturbanceOptions {
  int per_second = 1000;  // Number of new connections per second to the last Service.
  // Duration in seconds of each of the two phases. The first phase has no disturbances. The second
  // phase takes longer if a disturbance takes longer than `seconds`.
  int seconds = 5;
};

struct Disturbed {
  Latencies quiet, during;
  // Number of disturbances. 0 if the compared implementation does not support the disturbance.
  int times = 0;
};

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

// Returns a cluster with the same Services but different endpoints.
Cluster WithOtherEndpoints(Cluster cluster) {
  for (size_t position = 0; position < cluster.ports().size(); ++position) {
    const size_t count = cluster.ports()[position].endpoints.size();
    if (count > 0) cluster.ReplaceEndpoints(position, 0, count);
  }
  return cluster;
}

// Measures connections to the last Service. When the function returns, the compared implementation
// has loaded `cluster` again.
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

constexpr char kQuiet[] = "tcp-quiet";
struct LatencyOptions {
  std::vector<std::string> protocols = {"tcp", "udp"};
  int flows = 5000;
  std::string during = "none";
  DisturbanceOptions disturbance;
};

void RecordLatencies(const Latencies& latencies, const std::string& opponent,
                     const std::string& what, int round, Recorder& recorder) {
  const auto add = [&](const char* metric, double value) {
    recorder.Add(opponent, what, metric, round, value);
  };
  add("count", static_cast<double>(latencies.count()));
  add("failures", static_cast<double>(latencies.failed));
  // Without samples, records no percentiles, because a latency of 0 us would look like a valid
  // result.
  if (latencies.count() == 0) return;
  const std::vector<double> microseconds = latencies.WithFailures();
  add("p01_us", Percentile(microseconds, 0.01));
  add("p50_us", Percentile(microseconds, 0.5));
  add("p90_us", Percentile(microseconds, 0.9));
  add("p99_us", Percentile(microseconds, 0.99));
  add("max_us", Percentile(microseconds, 1));
}

class Latency {
 public:
  Latency(const CommonOptions& common, const LatencyOptions& options)
      : common_(common), options_(options), entrants_(common_) {}

  absl::Status Run() {
    const bool by_position = options_.during == "none";
    if (options_.during == "repair") {
      std::erase_if(common_.opponents,
                    [](const std::string& name) { return name != "svcmap" && name != "direct"; });
    }
    for (ClusterShape shape : common_.shapes) {
      for (const std::string& protocol : options_.protocols) {
        shape.protocol = protocol == "udp" ? proxy::Protocol::kUdp : proxy::Protocol::kTcp;
        if (!by_position && shape.protocol == proxy::Protocol::kUdp) continue;
        const Cluster cluster(shape);
        Recorder recorder(*common_.samples, "latency", ShapeText(shape));
        std::vector<Contender> contenders = LoadContenders(common_, cluster, entrants_, recorder);
        const absl::Status status = by_position
                                        ? ByPosition(contenders, cluster, protocol, recorder)
                                        : Disturbed(contenders, cluster, recorder);
        if (!status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status ByPosition(std::vector<Contender>& contenders, const Cluster& cluster,
                          const std::string& protocol, Recorder& recorder) const {
    for (const Position& position : Positions(cluster)) {
      const std::string what = absl::StrCat(protocol, "-", position.name);
      for (int round = 1; round <= common_.rounds; ++round) {
        for (Contender& contender : contenders) {
          const auto target = TargetOf(contender.name, cluster.ports()[position.index]);
          if (!target.ok()) return target.status();
          const absl::StatusOr<Latencies> latencies =
              MeasureFirstPackets(*contender.world, *target, options_.flows);
          if (!latencies.ok()) return latencies.status();
          RecordLatencies(*latencies, contender.name, what, round, recorder);
        }
      }
    }
    recorder.Print();
    return absl::OkStatus();
  }

  absl::Status Disturbed(std::vector<Contender>& contenders, const Cluster& cluster,
                         Recorder& recorder) const {
    const std::string what = "tcp-" + options_.during;
    const auto disturbance =
        options_.during == "repair" ? Disturbance::kRepair : Disturbance::kSync;
    for (int round = 1; round <= common_.rounds; ++round) {
      std::vector<Contender> still_there;
      for (Contender& contender : contenders) {
        const auto disturbed = MeasureDisturbed(contender, cluster, disturbance,
                                                options_.disturbance, common_.settings.time_limit);
        if (!disturbed.ok()) {
          recorder.AddFailure(contender.name, what, round, disturbed.status(),
                              common_.settings.time_limit);
          continue;
        }
        RecordLatencies(disturbed->quiet, contender.name, kQuiet, round, recorder);
        if (disturbed->times > 0) {
          RecordLatencies(disturbed->during, contender.name, what, round, recorder);
          recorder.Add(contender.name, what, "times", round, disturbed->times);
        }
        still_there.push_back(std::move(contender));
      }
      contenders = std::move(still_there);
    }
    recorder.Print();
    return absl::OkStatus();
  }

  // The common options. With "--during repair", the options contain only the compared
  // implementations "svcmap" and "direct".
  CommonOptions common_;
  const LatencyOptions& options_;
  Entrants entrants_;
};

}  // namespace

void AddLatency(CLI::App& app, const CommonOptions& common, RunCommand& run) {
  auto options = std::make_shared<LatencyOptions>();
  CLI::App* command = app.add_subcommand("latency", "First packets of new flows");
  const CLI::Range positive(1, 1000000);
  command->add_option("--protocols", options->protocols, "Of: tcp, udp")
      ->check(CLI::IsMember({"tcp", "udp"}))
      ->capture_default_str();
  command->add_option("--flows", options->flows, "At each position and turn")
      ->check(positive)
      ->capture_default_str();
  command
      ->add_option("--during", options->during,
                   "Of new connections at a fixed rate instead, alone and while something goes "
                   "on: sync, repair")
      ->check(CLI::IsMember({"none", "sync", "repair"}))
      ->capture_default_str();
  command->add_option("--per-second", options->disturbance.per_second, "The rate, with --during")
      ->check(CLI::Range(1, 5000))
      ->capture_default_str();
  command
      ->add_option("--seconds", options->disturbance.seconds,
                   "How long, with --during: alone, and again while something goes on")
      ->check(CLI::Range(1, 600))
      ->capture_default_str();
  command->callback([&common, &run, options] {
    run = [&common, options] { return Latency(common, *options).Run(); };
  });
}

}  // namespace svcmap::bench
