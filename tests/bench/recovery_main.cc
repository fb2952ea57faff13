// svcmap-bench-recovery: measures the cost of failures and of long-term operation. Runs the svcmapd
// release binary with its state on disk, in separate network namespaces.
//
// The command `memory` measures memory and open file descriptors over many changes.
//
// The command `storm` measures commits while another process continuously changes the tables.
//
// The command `idle` measures the CPU time of an idle agent.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tests/bench/process_figures.h"
#include "tests/bench/program.h"
#include "tests/bench/record/statistics.h"
#include "tests/bench/recovery/node.h"
#include "tests/support/foreign_storm.h"
#include "tests/support/process.h"

namespace svcmap::bench {
namespace {

struct Options {
  std::vector<std::string> shapes;
  int changes = 100000;
  int seconds = 10;
  int per_second = 1000;
};

// Parameters of a measurement. The agent on `node` has loaded the cluster.
struct Context {
  const Options& options;
  RecoveryNode& node;
  const std::string& name;  // Name of the shape, for example "1000x10".
};

// ---- memory ----

void PrintMemory(const Context& context, int changes) {
  const pid_t pid = context.node.agent().pid();
  const auto rss = static_cast<double>(MemoryOf(pid).rss_kib) / 1024;
  const auto descriptors = static_cast<double>(DescriptorsOf(pid));
  std::printf("| %s | %d | %.1f MB | %.0f |\n", context.name.c_str(), changes, rss, descriptors);
  std::fflush(stdout);
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
  constexpr std::chrono::milliseconds kBetweenCommits{10};
  const absl::StatusOr<std::unique_ptr<testing::PushStream>> stream = context.node.agent().Push();
  if (!stream.ok()) return stream.status();
  const auto storm =
      testing::ForeignStorm::Start(context.node.netns(), context.options.per_second, rules_by);
  if (!storm.ok()) return storm.status();
  std::vector<double> own;
  const Clock::time_point end = Clock::now() + std::chrono::seconds(context.options.seconds);
  while (Clock::now() < end) {
    const Clock::time_point sent = Clock::now();
    const absl::StatusOr<v1::Ack> ack = (*stream)->Batch({context.node.NextChange()});
    const absl::Status status = ack.ok() ? testing::CheckAck(*ack) : ack.status();
    if (!status.ok()) return status;
    own.push_back(Milliseconds(Clock::now() - sent));
    std::this_thread::sleep_until(sent + kBetweenCommits);
  }
  const testing::ForeignStorm::Changes changes = (*storm)->Stop();
  const Clock::time_point over = Clock::now();
  const absl::StatusOr<Clock::time_point> right = context.node.AwaitRepair(0);
  if (!right.ok()) return right.status();
  const double after = Milliseconds(*right - over);
  const char* by = rules_by == testing::ForeignStorm::RulesBy::kNft ? "nft" : "netlink";
  std::printf("| %s | %s | %.0f | %lld | %zu | %.2f ms | %.2f ms | %.2f ms | %.1f ms |\n",
              context.name.c_str(), by, changes.per_second(),
              static_cast<long long>(changes.rejected), own.size(), Median(own),
              Percentile(own, 0.99), Percentile(own, 1), after);
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
  return absl::OkStatus();
}

// ---- Commands ----

struct Command {
  const char* name;
  const char* help;
  const char* columns;
  std::vector<std::string> shapes;  // Cluster shapes that are measured by default.
  absl::Status (*measure)(const Context&);
};

const Command kCommands[] = {
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

// Runs the command on a separate node for each shape.
absl::Status Run(const Command& command, const Options& options) {
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
    if (status.ok()) status = command.measure({options, **node, name});
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

  absl::Status status;
  for (const Command& command : kCommands) {
    const bool chosen = app.get_subcommands().empty() || app.got_subcommand(command.name);
    if (chosen && status.ok()) status = Run(command, options);
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "svcmap-bench-recovery: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace svcmap::bench

int main(int argc, char** argv) { return svcmap::bench::Main(argc, argv); }
