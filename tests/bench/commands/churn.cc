// svcmap-bench churn: sends endpoint changes at a fixed rate, even if the proxy cannot keep up.
//
// The latency of a change is measured from the scheduled time, so the latency includes the time
// that a change waits for a busy proxy. svcmapd receives each change on a stream at the scheduled
// time. The other compared implementations combine all pending changes in one update.
// Implementations that represent kube-proxy wait for kube-proxy's minSyncPeriod (1 s by default)
// between updates. minSyncPeriod dominates the latency of these implementations. The time for
// combining changes is part of the latency, but not of the CPU time.
#include <sys/prctl.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/bench/cluster/cluster.h"
#include "tests/bench/commands/command.h"
#include "tests/bench/commands/entrants.h"
#include "tests/bench/opponents/svcmap.h"

namespace svcmap::bench {
namespace {

// Returns a key that identifies the object in the message.
std::string ObjectOf(const v1::Change& message) {
  const auto name = [](v1::Kind kind, const std::string& name_space, const std::string& name) {
    return std::to_string(kind) + " " + name_space + "/" + name;
  };
  if (message.has_service()) {
    const v1::ObjectMeta& meta = message.service().metadata();
    return name(v1::KIND_SERVICE, meta.namespace_(), meta.name());
  }
  if (message.has_endpoint_slice()) {
    const v1::ObjectMeta& meta = message.endpoint_slice().metadata();
    return name(v1::KIND_ENDPOINT_SLICE, meta.namespace_(), meta.name());
  }
  return name(message.remove().kind(), message.remove().namespace_(), message.remove().name());
}

void Take(std::vector<v1::Change>& messages, std::vector<v1::Change> more) {
  for (v1::Change& message : more) {
    const std::string object = ObjectOf(message);
    std::erase_if(messages, [&](const v1::Change& old) { return ObjectOf(old) == object; });
    messages.push_back(std::move(message));
  }
}

// Combines several changes into one update, as a busy proxy or a coalescing controller does.
// Returns one change per Service port, which leads from the state before all changes to the state
// after all changes. The result has the order of each port's first change. If several messages
// contain the same object, the result contains only the last message. The result omits Service
// ports that were added and deleted again.
std::vector<ClusterChange> MergeChanges(std::vector<ClusterChange> changes) {
  std::vector<ClusterChange> merged;
  std::map<std::string, size_t> places;
  for (ClusterChange& change : changes) {
    const std::string name = (change.after ? change.after : change.before)->Text();
    const auto [place, fresh] = places.try_emplace(name, merged.size());
    if (fresh) {
      merged.push_back(std::move(change));
      continue;
    }
    ClusterChange& sum = merged[place->second];
    sum.after = std::move(change.after);
    Take(sum.messages, std::move(change.messages));
  }
  std::erase_if(merged, [](const ClusterChange& sum) { return !sum.before && !sum.after; });
  return merged;
}

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr double kMinSyncPeriod = 1;  // Seconds, kube-proxy's default.

struct ChurnOptions {
  std::vector<int> rates = {10, 100, 1000};
  int seconds = 10;
};

// Results of one turn of a compared implementation at one change rate.
struct ChurnFigures {
  std::vector<double> latencies;  // Latency of each change in seconds.
  // Time until the commit of the last change, but at least the planned duration.
  double elapsed = 0;
  double cpu_seconds = 0;
  int updates = 0;  // Number of kernel updates.
  // Longest kernel commit in seconds, as reported in the Acks. Negative for implementations without
  // Acks.
  double longest_commit_seconds = -1;
};

// The scheduled times of the changes.
class Schedule {
 public:
  Schedule(int rate, int seconds)
      : interval_(1.0 / rate), count_(static_cast<size_t>(rate) * static_cast<size_t>(seconds)) {}

  size_t count() const { return count_; }
  void Start() { start_ = Clock::now(); }
  Clock::time_point Due(size_t change) const {
    return start_ + std::chrono::duration_cast<Clock::duration>(
                        Seconds(interval_ * static_cast<double>(change)));
  }
  double Latency(size_t change, Clock::time_point done) const {
    return Seconds(done - Due(change)).count();
  }
  // Returns the elapsed time since the start, but at least the planned duration.
  double Elapsed() const {
    return std::max(interval_ * static_cast<double>(count_),
                    Seconds(Clock::now() - start_).count());
  }

 private:
  double interval_;
  size_t count_;
  Clock::time_point start_;
};

// Sends each change to svcmapd at its scheduled time. Another thread reads the acknowledgements.
absl::StatusOr<ChurnFigures> StreamChanges(Svcmap& svcmap, Loaded& on, Schedule schedule) {
  std::vector<v1::PushRequest> requests;
  const uint64_t first = svcmap.TakeNumber();
  for (size_t i = 0; i < schedule.count(); ++i) {
    const uint64_t number = i == 0 ? first : svcmap.TakeNumber();
    requests.push_back(Svcmap::Message(number, {on.cluster().ReplaceEndpoint(on.NextPosition())}));
  }
  ChurnFigures figures;
  figures.updates = static_cast<int>(requests.size());
  figures.latencies.reserve(requests.size());
  const double cpu = svcmap.CpuSeconds();
  schedule.Start();
  absl::Status sent;
  std::thread sender([&] {
    // The default timer slack would extend sleeps of 100 us to 150 us.
    prctl(PR_SET_TIMERSLACK, 1);
    for (size_t i = 0; i < requests.size() && sent.ok(); ++i) {
      std::this_thread::sleep_until(schedule.Due(i));
      sent = svcmap.Send(requests[i]);
    }
  });
  absl::Status answered;
  for (size_t i = 0; i < requests.size(); ++i) {
    const absl::StatusOr<v1::Ack> ack = svcmap.Await(first + i);
    answered = ack.status();
    if (!ack.ok()) break;
    figures.latencies.push_back(schedule.Latency(i, Clock::now()));
    figures.longest_commit_seconds =
        std::max(figures.longest_commit_seconds, Svcmap::CommitSeconds(*ack));
  }
  figures.elapsed = schedule.Elapsed();
  sender.join();
  figures.cpu_seconds = svcmap.CpuSeconds() - cpu;
  if (!answered.ok()) return answered;
  if (!sent.ok()) return sent;
  return figures;
}

// Combines all due changes in one update. Waits at least `pause` between the starts of two updates.
absl::StatusOr<ChurnFigures> UpdatePending(Loaded& on, Schedule schedule, Seconds pause) {
  ChurnFigures figures;
  prctl(PR_SET_TIMERSLACK, 1);
  schedule.Start();
  Clock::time_point earliest = Clock::now();
  for (size_t done = 0; done < schedule.count();) {
    std::this_thread::sleep_until(std::max(schedule.Due(done), earliest));
    const Clock::time_point start = Clock::now();
    earliest = start + std::chrono::duration_cast<Clock::duration>(pause);
    std::vector<ClusterChange> pending;
    size_t next = done;
    for (; next < schedule.count() && schedule.Due(next) <= start; ++next) {
      pending.push_back(on.cluster().ReplaceEndpoint(on.NextPosition()));
    }
    const absl::StatusOr<Cost> cost =
        on.opponent().Change(on.cluster(), MergeChanges(std::move(pending)));
    if (!cost.ok()) return cost.status();
    const Clock::time_point end = Clock::now();
    for (; done < next; ++done) figures.latencies.push_back(schedule.Latency(done, end));
    figures.cpu_seconds += std::max(0.0, cost->cpu_seconds);
    ++figures.updates;
  }
  figures.elapsed = schedule.Elapsed();
  return figures;
}

class Churn {
 public:
  Churn(const CommonOptions& common, const ChurnOptions& options)
      : common_(common), options_(options), entrants_(common) {}

  absl::Status Run() {
    for (const ClusterShape& shape : common_.shapes) {
      Recorder recorder(*common_.samples, "churn", ShapeText(shape));
      std::vector<std::unique_ptr<Loaded>> all = LoadAll(common_, shape, entrants_, recorder);
      for (const int rate : options_.rates) {
        for (int round = 1; round <= common_.rounds; ++round) {
          std::erase_if(all, [&](const auto& loaded) {
            return !Turn(*loaded, shape, rate, round, recorder);
          });
        }
      }
      recorder.Print();
    }
    return absl::OkStatus();
  }

 private:
  static std::string What(int rate) { return absl::StrCat("rate-", rate); }

  // Returns the minimum interval between two updates of a compared implementation that represents
  // kube-proxy. Returns 0 for "svcmap" and "netlink".
  static double MinSyncPeriod(const std::string& opponent) {
    return opponent == "svcmap" || opponent == "netlink" ? 0 : kMinSyncPeriod;
  }

  // Measures one turn of a compared implementation at the given rate. Returns false if the
  // implementation failed and must not take part in later turns.
  bool Turn(Loaded& on, const ClusterShape& shape, int rate, int round, Recorder& recorder) {
    const Schedule schedule(rate, options_.seconds);
    auto* svcmap = dynamic_cast<Svcmap*>(&on.opponent());
    const absl::StatusOr<ChurnFigures> figures =
        svcmap != nullptr ? StreamChanges(*svcmap, on, schedule)
                          : UpdatePending(on, schedule, Seconds(MinSyncPeriod(on.name())));
    if (!figures.ok()) {
      entrants_.Fail(on.name(), shape, What(rate), round, figures.status(), recorder);
      return false;
    }
    const auto add = [&](const char* metric, double value) {
      recorder.Add(on.name(), What(rate), metric, round, value);
    };
    for (const double latency : figures->latencies) add("latency_seconds", latency);
    add("latency_p50_seconds", Percentile(figures->latencies, 0.5));
    add("latency_p99_seconds", Percentile(figures->latencies, 0.99));
    add("offered_per_second", rate);
    add("achieved_per_second", static_cast<double>(figures->latencies.size()) / figures->elapsed);
    add("cpu_share", figures->cpu_seconds / figures->elapsed);
    add("updates", figures->updates);
    if (figures->longest_commit_seconds >= 0) {
      add("longest_commit_seconds", figures->longest_commit_seconds);
    }
    if (const int64_t rss = on.opponent().Memory().rss_kib; rss > 0) {
      add("rss_kib", static_cast<double>(rss));
    }
    return true;
  }

  const CommonOptions& common_;
  const ChurnOptions& options_;
  Entrants entrants_;
};

}  // namespace

void AddChurn(CLI::App& app, const CommonOptions& common, RunCommand& run) {
  auto options = std::make_shared<ChurnOptions>();
  CLI::App* command = app.add_subcommand("churn", "Endpoint changes at fixed rates");
  command->add_option("--rates", options->rates, "Changes per second")
      ->delimiter(',')
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "How long each rate lasts in a turn")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  command->callback([&common, &run, options] {
    run = [&common, options] { return Churn(common, *options).Run(); };
  });
}

}  // namespace svcmap::bench
