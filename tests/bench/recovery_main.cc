// svcmap-bench-recovery: what bad days cost. svcmapd runs as it is shipped, with its state on disk,
// in network namespaces of its own.
//
//   damage    what others do to our tables, while svcmapd runs and while it does not: how long a
//             Service is out of order, and how long until all is as it was
//   restart   on unchanged state: until healthy, and what is written
//   memory    and open descriptors, over many changes
//   storm     own commits while others change our tables all the time
//   idle      CPU time of an agent that has nothing to do
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>

#include "absl/strings/str_cat.h"
#include "tests/bench/process_figures.h"
#include "tests/bench/recovery_node.h"
#include "tests/support/damage.h"
#include "tests/support/foreign_storm.h"
#include "tests/support/process.h"

namespace svcmap::bench {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds kRepairDeadline{60};
constexpr milliseconds kPollInterval{1};

struct Options {
  std::vector<std::string> shapes;
  std::vector<std::string> kinds = {
      "FlushedRuleset", "DeletedTable",  "DeletedBaseChain",    "DeletedRule",
      "AddedDrop",      "AddedElements", "RedirectingElements", "DeletedThousandElements"};
  int repetitions = 5;
  int probe_us = 500;
  int changes = 100000;
  int seconds = 10;
  int per_second = 1000;
  std::string csv;
};

double Milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// ---- Results ----

// Every single figure, for plots and checks.
class Csv {
 public:
  absl::Status Open(const std::string& path) {
    if (path.empty()) return absl::OkStatus();
    file_ = std::fopen(path.c_str(), "w");
    if (file_ == nullptr) return absl::InvalidArgumentError("cannot write " + path);
    std::fprintf(file_, "command,shape,what,figure,value\n");
    return absl::OkStatus();
  }
  ~Csv() {
    if (file_ != nullptr) std::fclose(file_);
  }
  void Add(const std::string& command, const std::string& shape, const std::string& what,
           const std::string& figure, double value) {
    if (file_ == nullptr) return;
    std::fprintf(file_, "%s,%s,%s,%s,%.3f\n", command.c_str(), shape.c_str(), what.c_str(),
                 figure.c_str(), value);
    std::fflush(file_);
  }

 private:
  std::FILE* file_ = nullptr;
};

class Samples {
 public:
  void Add(double value) {
    values_.insert(std::upper_bound(values_.begin(), values_.end(), value), value);
  }
  double Share(double share) const {
    if (values_.empty()) return 0;
    return values_[std::min(values_.size() - 1,
                            static_cast<size_t>(share * static_cast<double>(values_.size())))];
  }
  double median() const { return Share(0.5); }
  double worst() const { return values_.empty() ? 0 : values_.back(); }

 private:
  std::vector<double> values_;  // In order.
};

absl::StatusOr<ClusterShape> ParseShape(const std::string& name) {
  ClusterShape shape;
  if (std::sscanf(name.c_str(), "%dx%d", &shape.services, &shape.endpoints) != 2 ||
      shape.services < 1 || shape.endpoints < 1) {
    return absl::InvalidArgumentError("\"" + name + "\" is not SERVICESxENDPOINTS, like 1000x10");
  }
  return shape;
}

// Runs `fn` for each shape, on a node of its own that has that cluster.
template <typename Fn>
absl::Status ForEachShape(const Options& options, const Fn& fn) {
  for (const std::string& name : options.shapes) {
    const absl::StatusOr<ClusterShape> shape = ParseShape(name);
    if (!shape.ok()) return shape.status();
    const absl::StatusOr<std::unique_ptr<RecoveryNode>> node = RecoveryNode::Create();
    if (!node.ok()) return node.status();
    absl::Status status = (*node)->Start();
    if (status.ok()) status = (*node)->Load(*shape);
    if (status.ok()) status = fn(**node, name, *shape);
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat(name, ": ", std::string(status.message())));
    }
  }
  return absl::OkStatus();
}

// ---- damage ----

struct Recovery {
  double outage_ms = 0;  // Until the victim answered again, the longer one of UDP and TCP.
  double repair_ms = 0;  // Until the agent reported that all is well; the kernel was as wanted.
};

// When the agent reports `repairs` repairs or more, and the kernel is as wanted.
absl::StatusOr<Clock::time_point> AwaitRepair(RecoveryNode& node, uint64_t repairs) {
  const Clock::time_point deadline = Clock::now() + kRepairDeadline;
  absl::Status status;
  do {
    status = node.Reports(repairs);
    const Clock::time_point now = Clock::now();
    if (status.ok()) status = node.CheckKernel();
    if (status.ok()) return now;
    std::this_thread::sleep_for(kPollInterval);
  } while (Clock::now() < deadline);
  return status;
}

// Times count from the damage, or from the start of the agent if it was not running.
absl::StatusOr<Recovery> Recover(RecoveryNode& node, const testing::Damage& damage, bool stopped,
                                 std::chrono::microseconds probe_every) {
  const absl::StatusOr<v1::GetStatusResponse> before = node.agent().GetStatus();
  if (!before.ok()) return before.status();
  const absl::StatusOr<std::string> script = damage.script(node.netns());
  if (!script.ok()) return script.status();
  std::vector<std::unique_ptr<Probe>> probes;
  for (const testing::Protocol protocol : {testing::Protocol::kUdp, testing::Protocol::kTcp}) {
    auto probe = node.StartProbe(protocol, probe_every);
    if (!probe.ok()) return probe.status();
    probes.push_back(*std::move(probe));
  }
  absl::Status status;
  if (stopped) status = node.Stop();
  auto watch = GenerationWatch::Start(node.netns());
  if (status.ok()) status = watch.status();
  if (status.ok()) status = testing::RunNft(node.netns(), *script);
  Clock::time_point from;
  if (stopped && status.ok()) {
    from = Clock::now();
    status = node.Start();
  }
  if (!status.ok()) return status;
  // Writing what is saved into a kernel that has nothing is no repair.
  const absl::StatusOr<Clock::time_point> repaired =
      AwaitRepair(node, stopped ? 0 : before->repairs() + 1);
  if (!repaired.ok()) return repaired.status();
  if (!stopped) from = (*watch)->Stop().first;
  Recovery recovery;
  recovery.repair_ms = Milliseconds(*repaired - from);
  for (const std::unique_ptr<Probe>& probe : probes) {
    recovery.outage_ms = std::max(recovery.outage_ms, probe->StopAndMeasure(from).count());
  }
  return recovery;
}

absl::Status MeasureDamage(const Options& options, Csv& csv) {
  std::printf(
      "| Services x endpoints | damage | svcmapd | outage median | worst | repair median | worst "
      "|\n|---|---|---|---|---|---|---|\n");
  return ForEachShape(
      options,
      [&](RecoveryNode& node, const std::string& shape, const ClusterShape&) -> absl::Status {
        for (const std::string& kind : options.kinds) {
          const testing::Damage& damage = *testing::FindDamage(kind);
          for (const bool stopped : {false, true}) {
            const char* agent = stopped ? "started after it" : "running";
            Samples outage, repair;
            for (int i = 0; i < options.repetitions; ++i) {
              const absl::StatusOr<Recovery> recovery =
                  Recover(node, damage, stopped, std::chrono::microseconds(options.probe_us));
              if (!recovery.ok()) {
                return absl::Status(recovery.status().code(),
                                    absl::StrCat(kind, ", svcmapd ", agent, ": ",
                                                 std::string(recovery.status().message()), "\n",
                                                 node.agent().log()));
              }
              outage.Add(recovery->outage_ms);
              repair.Add(recovery->repair_ms);
              const std::string what = absl::StrCat(kind, stopped ? "-stopped" : "-running");
              csv.Add("damage", shape, what, "outage_ms", recovery->outage_ms);
              csv.Add("damage", shape, what, "repair_ms", recovery->repair_ms);
            }
            std::printf("| %s | %s | %s | %.1f ms | %.1f ms | %.1f ms | %.1f ms |\n", shape.c_str(),
                        kind.c_str(), agent, outage.median(), outage.worst(), repair.median(),
                        repair.worst());
            std::fflush(stdout);
          }
        }
        return absl::OkStatus();
      });
}

// ---- restart ----

absl::Status MeasureRestart(const Options& options, Csv& csv) {
  std::printf(
      "| Services x endpoints | end | healthy median | worst | serving median | worst | elements "
      "written | commits by anybody |\n|---|---|---|---|---|---|---|---|\n");
  return ForEachShape(
      options,
      [&](RecoveryNode& node, const std::string& shape, const ClusterShape&) -> absl::Status {
        for (const bool kill : {false, true}) {
          Samples healthy, serving, written, commits;
          for (int i = 0; i < options.repetitions; ++i) {
            absl::Status status = kill ? node.Kill() : node.Stop();
            auto watch = GenerationWatch::Start(node.netns());
            if (status.ok()) status = watch.status();
            const Clock::time_point start = Clock::now();
            if (status.ok()) status = node.Launch();
            if (!status.ok()) return status;
            while (!node.Healthy()) {
              if (Clock::now() > start + kRepairDeadline) {
                return absl::DeadlineExceededError("not healthy\n" + node.agent().log());
              }
              std::this_thread::sleep_for(kPollInterval);
            }
            healthy.Add(Milliseconds(Clock::now() - start));
            status = node.agent().WaitUntilItAnswers();
            absl::StatusOr<v1::GetStatusResponse> said;
            do {
              if (!status.ok()) return status;
              said = node.agent().GetStatus();
              status = said.status();
            } while (!said.ok() || said->state() != v1::SERVING);
            serving.Add(Milliseconds(Clock::now() - start));
            if (status = node.CheckKernel(); !status.ok()) return status;
            said = node.agent().GetStatus();
            if (!said.ok()) return said.status();
            written.Add(static_cast<double>(said->elements_written()));
            commits.Add((*watch)->Stop().changes);
            const std::string what = kill ? "SIGKILL" : "SIGTERM";
            csv.Add("restart", shape, what, "healthy_ms", healthy.worst());
            csv.Add("restart", shape, what, "serving_ms", serving.worst());
            csv.Add("restart", shape, what, "elements_written", written.worst());
          }
          std::printf("| %s | %s | %.0f ms | %.0f ms | %.0f ms | %.0f ms | %.0f | %.0f |\n",
                      shape.c_str(), kill ? "SIGKILL" : "SIGTERM", healthy.median(),
                      healthy.worst(), serving.median(), serving.worst(), written.worst(),
                      commits.worst());
          std::fflush(stdout);
        }
        return absl::OkStatus();
      });
}

// ---- memory ----

absl::Status MeasureMemory(const Options& options, Csv& csv) {
  constexpr int kRows = 10;
  constexpr int kChangesPerStream = 2000;
  std::printf("| Services x endpoints | changes | RSS | open descriptors |\n|---|---|---|---|\n");
  return ForEachShape(
      options,
      [&](RecoveryNode& node, const std::string& shape,
          const ClusterShape& cluster) -> absl::Status {
        const auto print = [&](int changes) {
          const auto rss = static_cast<double>(MemoryOf(node.agent().pid()).rss_kib) / 1024;
          const auto descriptors = static_cast<double>(DescriptorsOf(node.agent().pid()));
          std::printf("| %s | %d | %.1f MB | %.0f |\n", shape.c_str(), changes, rss, descriptors);
          std::fflush(stdout);
          csv.Add("memory", shape, std::to_string(changes), "rss_mb", rss);
          csv.Add("memory", shape, std::to_string(changes), "descriptors", descriptors);
        };
        print(0);
        std::unique_ptr<testing::PushStream> stream;
        for (int i = 1; i <= options.changes; ++i) {
          if (i % kChangesPerStream == 1) {
            stream.reset();
            absl::StatusOr<std::unique_ptr<testing::PushStream>> opened = node.agent().Push();
            if (!opened.ok()) return opened.status();
            stream = *std::move(opened);
          }
          const absl::StatusOr<v1::Ack> ack = stream->Batch({node.NextChange(cluster)});
          const absl::Status status = ack.ok() ? testing::CheckAck(*ack) : ack.status();
          if (!status.ok()) return status;
          if (i % std::max(1, options.changes / kRows) == 0) print(i);
        }
        return node.CheckKernel();
      });
}

// ---- storm ----

absl::Status MeasureStorm(const Options& options, Csv& csv) {
  constexpr milliseconds kBetweenCommits{10};
  std::printf(
      "| Services x endpoints | foreign changes per second | own commits | p50 | p99 | longest | "
      "right again after |\n|---|---|---|---|---|---|---|\n");
  return ForEachShape(
      options,
      [&](RecoveryNode& node, const std::string& shape,
          const ClusterShape& cluster) -> absl::Status {
        const absl::StatusOr<std::unique_ptr<testing::PushStream>> stream = node.agent().Push();
        if (!stream.ok()) return stream.status();
        const auto storm = testing::ForeignStorm::Start(node.netns(), options.per_second);
        if (!storm.ok()) return storm.status();
        Samples own;
        int64_t commits = 0;
        const Clock::time_point end = Clock::now() + std::chrono::seconds(options.seconds);
        while (Clock::now() < end) {
          const Clock::time_point sent = Clock::now();
          const absl::StatusOr<v1::Ack> ack = (*stream)->Batch({node.NextChange(cluster)});
          const absl::Status status = ack.ok() ? testing::CheckAck(*ack) : ack.status();
          if (!status.ok()) return status;
          own.Add(Milliseconds(Clock::now() - sent));
          csv.Add("storm", shape, "own commit", "ms", Milliseconds(Clock::now() - sent));
          ++commits;
          std::this_thread::sleep_until(sent + kBetweenCommits);
        }
        const testing::ForeignStorm::Changes changes = (*storm)->Stop();
        const Clock::time_point over = Clock::now();
        const absl::StatusOr<Clock::time_point> repaired = AwaitRepair(node, 0);
        if (!repaired.ok()) return repaired.status();
        const double after = std::max(0.0, Milliseconds(*repaired - over));
        std::printf("| %s | %.0f | %lld | %.2f ms | %.2f ms | %.2f ms | %.1f ms |\n", shape.c_str(),
                    changes.per_second(), static_cast<long long>(commits), own.median(),
                    own.Share(0.99), own.worst(), after);
        std::fflush(stdout);
        csv.Add("storm", shape, "foreign", "per_second", changes.per_second());
        csv.Add("storm", shape, "after", "ms", after);
        return absl::OkStatus();
      });
}

// ---- idle ----

absl::Status MeasureIdle(const Options& options, Csv& csv) {
  std::printf("| Services x endpoints | seconds | CPU | audits | RSS |\n|---|---|---|---|---|\n");
  return ForEachShape(
      options,
      [&](RecoveryNode& node, const std::string& shape, const ClusterShape&) -> absl::Status {
        const auto audits = [&]() -> uint64_t {
          const absl::StatusOr<v1::GetStatusResponse> status = node.agent().GetStatus();
          return status.ok() ? status->audits() : 0;
        };
        const uint64_t audits_before = audits();
        const double cpu_before = CpuSecondsOf(node.agent().pid());
        const Clock::time_point start = Clock::now();
        std::this_thread::sleep_for(std::chrono::seconds(options.seconds));
        const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
        const double percent = 100 * (CpuSecondsOf(node.agent().pid()) - cpu_before) / seconds;
        std::printf("| %s | %.0f | %.2f %% of a core | %llu | %.1f MB |\n", shape.c_str(), seconds,
                    percent, static_cast<unsigned long long>(audits() - audits_before),
                    static_cast<double>(MemoryOf(node.agent().pid()).rss_kib) / 1024);
        csv.Add("idle", shape, "cpu", "percent", percent);
        return absl::OkStatus();
      });
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("svcmap-bench-recovery measures what bad days cost.", "svcmap-bench-recovery");
  app.add_option("--csv", options.csv, "Write every figure to this file");
  std::map<CLI::App*, absl::Status (*)(const Options&, Csv&)> commands;
  const auto add = [&](const std::string& name, const std::string& help,
                       absl::Status (*run)(const Options&, Csv&), const std::string& shapes) {
    CLI::App* command = app.add_subcommand(name, help);
    command->fallthrough();
    command->add_option("shapes", options.shapes,
                        "Clusters to load, SERVICESxENDPOINTS (default: " + shapes + ")");
    commands[command] = run;
    return command;
  };
  std::map<CLI::App*, std::vector<std::string>> default_shapes;
  const CLI::Range positive(1, 1000000);

  CLI::App* damage =
      add("damage", "Outage and repair after damage by others", MeasureDamage, "1x1 1000x10");
  default_shapes[damage] = {"1x1", "1000x10"};
  std::vector<std::string> known;
  for (const testing::Damage& kind : testing::AllDamage()) known.push_back(kind.name);
  damage->add_option("--kinds", options.kinds, "Kinds of damage")
      ->check(CLI::IsMember(known))
      ->capture_default_str();
  damage->add_option("--repetitions", options.repetitions)->check(positive)->capture_default_str();
  damage->add_option("--probe-us", options.probe_us, "Microseconds between two questions")
      ->check(positive)
      ->capture_default_str();

  CLI::App* restart =
      add("restart", "Restarts on unchanged state", MeasureRestart, "1000x10 10000x10");
  default_shapes[restart] = {"1000x10", "10000x10"};
  restart->add_option("--repetitions", options.repetitions)->check(positive)->capture_default_str();

  CLI::App* memory =
      add("memory", "Memory and descriptors over many changes", MeasureMemory, "1000x10");
  default_shapes[memory] = {"1000x10"};
  memory->add_option("--changes", options.changes)->check(positive)->capture_default_str();

  CLI::App* storm =
      add("storm", "Own commits in a storm of foreign changes", MeasureStorm, "1000x10");
  default_shapes[storm] = {"1000x10"};
  CLI::App* idle = add("idle", "CPU use of an agent without work", MeasureIdle, "10000x10");
  default_shapes[idle] = {"10000x10"};
  for (CLI::App* command : {storm, idle}) {
    command->add_option("--seconds", options.seconds)->check(positive)->capture_default_str();
  }
  storm->add_option("--per-second", options.per_second, "Foreign changes")
      ->check(positive)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  Csv csv;
  absl::Status status = csv.Open(options.csv);
  std::vector<CLI::App*> chosen = app.get_subcommands();
  if (chosen.empty()) chosen = {damage, restart, memory, storm, idle};
  for (CLI::App* command : chosen) {
    if (!status.ok()) break;
    Options own = options;
    if (own.shapes.empty()) own.shapes = default_shapes[command];
    if (command != chosen.front()) std::printf("\n");
    status = commands[command](own, csv);
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "svcmap-bench-recovery: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace svcmap::bench

int main(int argc, char** argv) { return svcmap::bench::Main(argc, argv); }
