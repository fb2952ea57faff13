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
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tests/bench/process_figures.h"
#include "tests/bench/recovery_figures.h"
#include "tests/bench/recovery_node.h"
#include "tests/support/damage.h"
#include "tests/support/foreign_storm.h"
#include "tests/support/process.h"

namespace svcmap::bench {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds kRepairDeadline{30};
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

// What a command measures on: a node that has a cluster of `shape`.
struct Context {
  const Options& options;
  Csv& csv;
  RecoveryNode& node;
  const std::string& name;  // "1000x10"
  const ClusterShape& shape;
};

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

// One row. What was not repaired is told, and the node set up again.
absl::Status MeasureOneDamage(const Context& context, const testing::Damage& damage, bool stopped) {
  const Options& options = context.options;
  const char* agent = stopped ? "started after it" : "running";
  const std::string what = damage.name + (stopped ? "-stopped" : "-running");
  Samples outage, repair;
  int not_repaired = 0;
  for (int i = 0; i < options.repetitions; ++i) {
    const absl::StatusOr<Recovery> recovery =
        Recover(context.node, damage, stopped, std::chrono::microseconds(options.probe_us));
    if (!recovery.ok()) {
      ++not_repaired;
      std::fprintf(stderr, "%s, %s, svcmapd %s: %s\n%s\n", context.name.c_str(),
                   damage.name.c_str(), agent, recovery.status().ToString().c_str(),
                   context.node.agent().log().c_str());
      if (absl::Status status = context.node.Load(context.shape); !status.ok()) return status;
      continue;
    }
    outage.Add(recovery->outage_ms);
    repair.Add(recovery->repair_ms);
    context.csv.Add("damage", context.name, what, "outage_ms", recovery->outage_ms);
    context.csv.Add("damage", context.name, what, "repair_ms", recovery->repair_ms);
  }
  std::printf("| %s | %s | %s | %.1f ms | %.1f ms | %.1f ms | %.1f ms | %d |\n",
              context.name.c_str(), damage.name.c_str(), agent, outage.median(), outage.worst(),
              repair.median(), repair.worst(), not_repaired);
  return absl::OkStatus();
}

absl::Status MeasureDamage(const Context& context) {
  for (const std::string& kind : context.options.kinds) {
    for (const bool stopped : {false, true}) {
      absl::Status status = MeasureOneDamage(context, *testing::FindDamage(kind), stopped);
      if (!status.ok()) return status;
      std::fflush(stdout);
    }
  }
  return absl::OkStatus();
}

// ---- restart ----

struct Restart {
  double healthy_ms = 0;  // From the start of the program.
  double serving_ms = 0;
  double elements_written = 0;
  double commits = 0;  // By anybody, until the kernel was found to be as wanted.
};

absl::StatusOr<Restart> RestartOnce(RecoveryNode& node, bool kill) {
  absl::Status status = kill ? node.Kill() : node.Stop();
  if (!status.ok()) return status;
  auto watch = GenerationWatch::Start(node.netns());
  if (!watch.ok()) return watch.status();
  const Clock::time_point start = Clock::now();
  if (status = node.Launch(); !status.ok()) return status;
  Restart restart;
  while (!node.Healthy()) {
    if (Clock::now() > start + kRepairDeadline) {
      return absl::DeadlineExceededError("not healthy\n" + node.agent().log());
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  restart.healthy_ms = Milliseconds(Clock::now() - start);
  if (status = node.agent().WaitUntilItAnswers(); !status.ok()) return status;
  absl::StatusOr<v1::GetStatusResponse> said;
  do {
    said = node.agent().GetStatus();
    if (!said.ok()) return said.status();
  } while (said->state() != v1::SERVING && Clock::now() < start + kRepairDeadline);
  restart.serving_ms = Milliseconds(Clock::now() - start);
  const absl::StatusOr<Clock::time_point> right = AwaitRepair(node, 0);
  if (!right.ok()) return right.status();
  said = node.agent().GetStatus();
  if (!said.ok()) return said.status();
  restart.elements_written = static_cast<double>(said->elements_written());
  restart.commits = (*watch)->Stop().changes;
  return restart;
}

absl::Status MeasureRestart(const Context& context) {
  for (const bool kill : {false, true}) {
    const std::string what = kill ? "SIGKILL" : "SIGTERM";
    Samples healthy, serving, written, commits;
    for (int i = 0; i < context.options.repetitions; ++i) {
      const absl::StatusOr<Restart> restart = RestartOnce(context.node, kill);
      if (!restart.ok()) return restart.status();
      for (const auto& [figure, samples, value] :
           {std::tuple("healthy_ms", &healthy, restart->healthy_ms),
            std::tuple("serving_ms", &serving, restart->serving_ms),
            std::tuple("elements_written", &written, restart->elements_written),
            std::tuple("commits", &commits, restart->commits)}) {
        samples->Add(value);
        context.csv.Add("restart", context.name, what, figure, value);
      }
    }
    std::printf("| %s | %s | %.0f ms | %.0f ms | %.0f ms | %.0f ms | %.0f | %.0f |\n",
                context.name.c_str(), what.c_str(), healthy.median(), healthy.worst(),
                serving.median(), serving.worst(), written.worst(), commits.worst());
  }
  return absl::OkStatus();
}

// ---- memory ----

void PrintMemory(const Context& context, int changes) {
  const pid_t pid = context.node.agent().pid();
  const auto rss = static_cast<double>(MemoryOf(pid).rss_kib) / 1024;
  const auto descriptors = static_cast<double>(DescriptorsOf(pid));
  std::printf("| %s | %d | %.1f MB | %.0f |\n", context.name.c_str(), changes, rss, descriptors);
  std::fflush(stdout);
  context.csv.Add("memory", context.name, std::to_string(changes), "rss_mb", rss);
  context.csv.Add("memory", context.name, std::to_string(changes), "descriptors", descriptors);
}

absl::Status MeasureMemory(const Context& context) {
  constexpr int kRows = 10;
  constexpr int kChangesPerStream = 2000;
  const int changes = context.options.changes;
  PrintMemory(context, 0);
  std::unique_ptr<testing::PushStream> stream;
  for (int i = 1; i <= changes; ++i) {
    if (stream == nullptr || i % kChangesPerStream == 0) {
      stream.reset();
      absl::StatusOr<std::unique_ptr<testing::PushStream>> opened = context.node.agent().Push();
      if (!opened.ok()) return opened.status();
      stream = *std::move(opened);
    }
    const absl::StatusOr<v1::Ack> ack = stream->Batch({context.node.NextChange()});
    const absl::Status status = ack.ok() ? testing::CheckAck(*ack) : ack.status();
    if (!status.ok()) return status;
    if (i % std::max(1, changes / kRows) == 0) PrintMemory(context, i);
  }
  return context.node.CheckKernel();
}

// ---- storm ----

absl::Status MeasureOneStorm(const Context& context, testing::ForeignStorm::RulesBy rules_by) {
  constexpr milliseconds kBetweenCommits{10};
  const absl::StatusOr<std::unique_ptr<testing::PushStream>> stream = context.node.agent().Push();
  if (!stream.ok()) return stream.status();
  const auto storm =
      testing::ForeignStorm::Start(context.node.netns(), context.options.per_second, rules_by);
  if (!storm.ok()) return storm.status();
  Samples own;
  const Clock::time_point end = Clock::now() + std::chrono::seconds(context.options.seconds);
  while (Clock::now() < end) {
    const Clock::time_point sent = Clock::now();
    const absl::StatusOr<v1::Ack> ack = (*stream)->Batch({context.node.NextChange()});
    const absl::Status status = ack.ok() ? testing::CheckAck(*ack) : ack.status();
    if (!status.ok()) return status;
    own.Add(Milliseconds(Clock::now() - sent));
    context.csv.Add("storm", context.name, "own commit", "ms", Milliseconds(Clock::now() - sent));
    std::this_thread::sleep_until(sent + kBetweenCommits);
  }
  const testing::ForeignStorm::Changes changes = (*storm)->Stop();
  const Clock::time_point over = Clock::now();
  const absl::StatusOr<Clock::time_point> right = AwaitRepair(context.node, 0);
  if (!right.ok()) return right.status();
  const double after = Milliseconds(*right - over);
  const char* by = rules_by == testing::ForeignStorm::RulesBy::kNft ? "nft" : "netlink";
  std::printf("| %s | %s | %.0f | %lld | %zu | %.2f ms | %.2f ms | %.2f ms | %.1f ms |\n",
              context.name.c_str(), by, changes.per_second(),
              static_cast<long long>(changes.refused), own.count(), own.median(), own.Share(0.99),
              own.worst(), after);
  context.csv.Add("storm", context.name, "foreign", "per_second", changes.per_second());
  context.csv.Add("storm", context.name, "after", "ms", after);
  return absl::OkStatus();
}

absl::Status MeasureStorm(const Context& context) {
  using testing::ForeignStorm;
  for (const auto rules_by : {ForeignStorm::RulesBy::kNetlink, ForeignStorm::RulesBy::kNft}) {
    if (absl::Status status = MeasureOneStorm(context, rules_by); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// ---- idle ----

absl::Status MeasureIdle(const Context& context) {
  const pid_t pid = context.node.agent().pid();
  const absl::StatusOr<v1::GetStatusResponse> before = context.node.agent().GetStatus();
  if (!before.ok()) return before.status();
  const double cpu = CpuSecondsOf(pid);
  const Clock::time_point start = Clock::now();
  const auto seconds = [&] { return Milliseconds(Clock::now() - start) / 1000; };
  std::string first_audit = "none";
  uint64_t audits = 0;
  while (seconds() < context.options.seconds) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const absl::StatusOr<v1::GetStatusResponse> now = context.node.agent().GetStatus();
    if (!now.ok()) return now.status();
    audits = now->audits() - before->audits();
    if (audits > 0 && first_audit == "none") first_audit = absl::StrFormat("%.0f s", seconds());
  }
  const double percent = 100 * (CpuSecondsOf(pid) - cpu) / seconds();
  std::printf("| %s | %.0f | %.2f %% of a core | %d | %s | %.1f MB |\n", context.name.c_str(),
              seconds(), percent, static_cast<int>(audits), first_audit.c_str(),
              static_cast<double>(MemoryOf(pid).rss_kib) / 1024);
  context.csv.Add("idle", context.name, "cpu", "percent", percent);
  return absl::OkStatus();
}

// ---- The commands ----

struct Command {
  const char* name;
  const char* help;
  const char* columns;
  std::vector<std::string> shapes;  // Unless others are named.
  absl::Status (*measure)(const Context&);
};

const Command kCommands[] = {
    {"damage",
     "Outage and repair after damage by others",
     "damage | svcmapd | outage median | worst | repair median | worst | not repaired",
     {"1x1", "1000x10"},
     MeasureDamage},
    {"restart",
     "Restarts on unchanged state",
     "end | healthy median | worst | serving median | worst | elements written | commits",
     {"1000x10", "10000x10"},
     MeasureRestart},
    {"memory",
     "Memory and descriptors over many changes",
     "changes | RSS | open descriptors",
     {"1000x10"},
     MeasureMemory},
    {"storm",
     "Own commits in a storm of foreign changes",
     "rules added by | foreign changes per second | refused | own commits | p50 | p99 | longest | "
     "right again after",
     {"1000x10"},
     MeasureStorm},
    {"idle",
     "CPU use of an agent without work",
     "seconds | CPU | audits | the first ended after | RSS",
     {"10000x10"},
     MeasureIdle},
};

// On a node of its own for each shape.
absl::Status Run(const Command& command, const Options& options, Csv& csv) {
  const std::string header = absl::StrCat("| Services x endpoints | ", command.columns, " |");
  std::string rule = "|";
  for (auto bars = std::count(header.begin(), header.end(), '|'); bars > 1; --bars) rule += "---|";
  std::printf("%s\n%s\n", header.c_str(), rule.c_str());
  for (const std::string& name : options.shapes.empty() ? command.shapes : options.shapes) {
    const absl::StatusOr<ClusterShape> shape = ParseShape(name);
    if (!shape.ok()) return shape.status();
    const absl::StatusOr<std::unique_ptr<RecoveryNode>> node = RecoveryNode::Create();
    absl::Status status = node.status();
    if (status.ok()) status = (*node)->Start();
    if (status.ok()) status = (*node)->Load(*shape);
    if (status.ok()) status = command.measure({options, csv, **node, name, *shape});
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat(command.name, " at ", name, ": ",
                                                      std::string(status.message())));
    }
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("svcmap-bench-recovery measures what bad days cost.", "svcmap-bench-recovery");
  const CLI::Range positive(1, 1000000);
  std::vector<std::string> kinds;
  for (const testing::Damage& kind : testing::AllDamage()) kinds.push_back(kind.name);
  app.add_option("--csv", options.csv, "Write every figure to this file");
  app.add_option("--kinds", options.kinds, "damage: which kinds")
      ->check(CLI::IsMember(kinds))
      ->capture_default_str();
  app.add_option("--repetitions", options.repetitions, "damage, restart: how often")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--probe-us", options.probe_us, "damage: microseconds between two questions")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--changes", options.changes, "memory: how many")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "storm, idle: how long")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--per-second", options.per_second, "storm: changes by others")
      ->check(positive)
      ->capture_default_str();
  for (const Command& command : kCommands) {
    CLI::App* added = app.add_subcommand(command.name, command.help);
    added->fallthrough();
    added->add_option(
        "shapes", options.shapes,
        "Clusters to load, SERVICESxENDPOINTS; default: " + absl::StrJoin(command.shapes, " "));
  }
  CLI11_PARSE(app, argc, argv);

  Csv csv;
  absl::Status status = csv.Open(options.csv);
  for (const Command& command : kCommands) {
    const bool chosen = app.get_subcommands().empty() || app.got_subcommand(command.name);
    if (chosen && status.ok()) status = Run(command, options, csv);
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "svcmap-bench-recovery: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace svcmap::bench

int main(int argc, char** argv) { return svcmap::bench::Main(argc, argv); }
