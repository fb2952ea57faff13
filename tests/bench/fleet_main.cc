// svcmap-bench-fleet: simulates many nodes of a fleet in one process. Each simulated node uses the
// client of svcmap-etcd with its own connection to a real etcd. For comparison, plain watches
// receive equal objects and changes below a second prefix and ignore them. With --floor, the same
// number of streams also receives the same bytes from a server that only writes them to all
// streams.
#include <malloc.h>
#include <spdlog/spdlog.h>
#include <sys/types.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/bench/fleet/world.h"
#include "tests/bench/process_figures.h"
#include "tests/bench/program.h"
#include "tests/bench/record/statistics.h"

// The client of svcmap-etcd trims the heap before each watch. In this process, which contains the
// heaps of all nodes, this would take longer than everything that is measured.
extern "C" int malloc_trim(size_t) noexcept { return 0; }

namespace svcmap::bench {
namespace {

// Resources that were used during a part of the run.
struct Usage {
  double seconds = 0, server_cpu = 0, own_cpu = 0, megabytes = 0;
  double server_before_mb = 0, server_peak_mb = 0;
};

// Measures the resources of a server, of this process and of the loopback interface.
class Meter {
 public:
  explicit Meter(pid_t server);
  Usage Used() const;  // Since the constructor.

 private:
  const pid_t server_;
  Usage start_;
};

struct Results {
  Usage cold, changes, back;
  // Milliseconds since the write was sent, for each change.
  std::vector<double> answered, p50, p99, last;
  double rss_mb = 0;  // RSS of the server after the changes.
};

double RssMb(pid_t server) { return static_cast<double>(MemoryOf(server).rss_kib) / 1024; }

Usage Now(pid_t server) {
  Usage usage;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  usage.seconds = std::chrono::duration<double>(now).count();
  usage.server_cpu = CpuSecondsOf(server);
  usage.own_cpu = CpuSecondsOf(getpid());
  std::ifstream file("/proc/thread-self/net/dev");
  std::string word;
  for (double bytes = 0; file >> word;) {
    if (word == "lo:" && file >> bytes) usage.megabytes = bytes / 1e6;
  }
  usage.server_before_mb = RssMb(server);
  return usage;
}

Meter::Meter(pid_t server) : server_(server) {
  // Resets VmHWM.
  std::ofstream(absl::StrCat("/proc/", server, "/clear_refs")) << "5" << std::flush;
  start_ = Now(server);
}

Usage Meter::Used() const {
  Usage usage = Now(server_);
  usage.seconds -= start_.seconds;
  usage.server_cpu -= start_.server_cpu;
  usage.own_cpu -= start_.own_cpu;
  usage.megabytes -= start_.megabytes;
  usage.server_before_mb = start_.server_before_mb;
  usage.server_peak_mb = static_cast<double>(MemoryOf(server_).peak_kib) / 1024;
  return usage;
}

// Prints the beginning of a table.
void PrintHeader(const std::string& title, const std::string& first, const std::string& second) {
  std::printf("\n| %s | %s | %s | ratio |\n| --- | ---: | ---: | ---: |\n", title.c_str(),
              first.c_str(), second.c_str());
}

// A row "| name | first | second | ratio of the second to the first |".
void PrintRow(const std::string& name, double first, double second) {
  std::printf("| %s | %.1f | %.1f | %.2f |\n", name.c_str(), first, second,
              first > 0 ? second / first : 0);
}

// Prints the rows of the measured changes. The counts are those of the watches or nodes.
void PrintChanges(const Results& first, int first_count, const Results& second, int second_count) {
  PrintRow("change: write answered, ms", Median(first.answered), Median(second.answered));
  PrintRow("change: p50, ms", Median(first.p50), Median(second.p50));
  PrintRow("change: p99, ms", Median(first.p99), Median(second.p99));
  PrintRow("change: last node, ms", Median(first.last), Median(second.last));
  const Usage &a = first.changes, &b = second.changes;
  PrintRow("change: CPU of the server, ms", 1000 * a.server_cpu, 1000 * b.server_cpu);
  PrintRow("change: CPU of all nodes, ms", 1000 * a.own_cpu, 1000 * b.own_cpu);
  PrintRow("change: bytes per node", 1e6 * a.megabytes / first_count,
           1e6 * b.megabytes / second_count);
}

void PrintUsage(const std::string& phase, const Usage& first, const Usage& second) {
  PrintRow(phase + ": seconds", first.seconds, second.seconds);
  PrintRow(phase + ": MB", first.megabytes, second.megabytes);
  PrintRow(phase + ": CPU of etcd, s", first.server_cpu, second.server_cpu);
  PrintRow(phase + ": CPU of all nodes, s", first.own_cpu, second.own_cpu);
  PrintRow(phase + ": RSS of etcd before, MiB", first.server_before_mb, second.server_before_mb);
  PrintRow(phase + ": peak RSS of etcd, MiB", first.server_peak_mb, second.server_peak_mb);
}

constexpr int kHungTransactions = 50;           // Events of about 3 MB for each watch.
constexpr std::chrono::minutes kTimeLimit{10};  // Of each step.

// The nodes read the head if they do not receive a new head for 30 s.
constexpr std::chrono::seconds kHeartbeat{20};

struct Options {
  int nodes = 100;
  int plain = -1;  // -1: as many as `nodes`.
  int hung = 0;
  ClusterShape shape{.services = 1000, .endpoints = 10};
  int changes = 50;
  int behind = 100;
  int behind_objects = 1;
  bool tls = false;
  bool watch_only = false;
  bool floor = false;
  bool lose_change = false;
  bool log = false;
};

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options),
        world_(options.shape, options.tls, options.nodes + options.plain),
        server_(world_.etcd()) {}

  int Run() {
    Results plain, ours;
    gate_ = true;
    const uint64_t first = options_.watch_only ? world_.Position(world_.plain()) : 0;
    plain.cold = Reach(plain_, world_.Position(world_.plain()), [&] {
      for (int i = 0; i < options_.plain; ++i) {
        plain_.push_back(std::make_unique<PlainNode>(world_.servers(), gate_, first));
      }
    });
    ours.cold = Reach(nodes_, world_.Position(world_.nodes()), [&] {
      for (int i = 0; i < options_.nodes; ++i) StartNode(absl::StrCat("n", i));
    });
    uint64_t failures = 0;
    for (const auto& node : nodes_) failures += node->facts().failures;
    std::printf("cold start: %.1f s, failed requests and connections %lu\n", ours.cold.seconds,
                failures);
    MeasureChanges(plain, ours);
    std::printf("memory of etcd with idle watches: %.0f MiB\n", RssMb(server_));
    if (options_.hung > 0) MeasureWithHungWatches(plain, ours);
    if (options_.behind > 0) {
      Disconnect();
      ours.back = Reach(nodes_, world_.Position(world_.nodes()), [&] { world_.SetLoopback("up"); });
      plain.back = Reach(plain_, world_.Position(world_.plain()), [&] {
        gate_ = true;
        gate_.notify_all();
      });
    }
    Print(plain, ours);
    int plain_failures = 0;
    for (const auto& node : plain_) plain_failures += node->failures();
    std::printf("\nfailed plain watches and lists %d\n", plain_failures);
    const bool good = CheckNodes(nodes_, world_.digest());
    if (options_.floor) MeasureFloor(plain);
    return good ? 0 : 1;
  }

 private:
  void StartNode(const std::string& name) {
    etcd::EtcdOptions options{world_.servers(), {.prefix = testing::kEtcdPrefix}};
    options.follower.node_name = name;
    // The value that docs/fleet.md recommends.
    options.follower.list_delay = std::chrono::milliseconds(50 * options_.nodes);
    nodes_.push_back(
        std::make_unique<Node>(std::move(options), options_.lose_change && nodes_.empty()));
  }

  void MeasureChanges(Results& plain, Results& ours) {
    std::printf("change  plain watch: write answered, p50 p99 last; svcmap-etcd: the same (ms)\n");
    for (int i = 0; i < options_.changes; ++i) {
      const testing::Objects change = world_.NextChange();
      Measure([&] { return world_.Put(world_.plain(), change); }, plain_, plain);
      Measure([&] { return world_.Put(world_.nodes(), change); }, nodes_, ours);
      std::printf("%5d  %.1f  %.1f %.1f %.1f    %.1f  %.1f %.1f %.1f\n", i + 1,
                  plain.answered.back(), plain.p50.back(), plain.p99.back(), plain.last.back(),
                  ours.answered.back(), ours.p50.back(), ours.p99.back(), ours.last.back());
    }
  }

  // First writes more bytes than flow control permits on a connection that is not read.
  void MeasureWithHungWatches(const Results& plain, const Results& ours) {
    const double before_mb = RssMb(server_);
    std::list<HungWatch> hung;
    for (int i = 0; i < options_.hung; ++i) hung.emplace_back(world_.servers());
    for (int i = 0; i < kHungTransactions; ++i) world_.WriteChanges(World::kChangesPerTransaction);
    AwaitAll(plain_, world_.Position(world_.plain()));
    AwaitAll(nodes_, world_.Position(world_.nodes()));
    Results hung_plain, hung_ours;
    MeasureChanges(hung_plain, hung_ours);
    PrintHeader(absl::StrCat(options_.hung, " watches that never read"), "before", "with them");
    PrintRow("plain watch: p50, ms", Median(plain.p50), Median(hung_plain.p50));
    PrintRow("plain watch: p99, ms", Median(plain.p99), Median(hung_plain.p99));
    PrintRow("svcmap-etcd: p50, ms", Median(ours.p50), Median(hung_ours.p50));
    PrintRow("svcmap-etcd: p99, ms", Median(ours.p99), Median(hung_ours.p99));
    PrintRow("RSS of etcd, MiB", before_mb, RssMb(server_));
  }

  // Replaces the plain watches by streams from the server of --floor.
  void MeasureFloor(const Results& plain) {
    plain_.clear();
    FloorServer server(world_.netns(), world_.servers(), world_.server_files());
    server_ = server.pid();
    Results floor;
    uint64_t position = 1;
    floor.cold = Reach(plain_, position, [&] {
      for (int i = 0; i < options_.plain; ++i) {
        plain_.push_back(std::make_unique<PlainNode>(server.servers(), gate_, position));
      }
    });
    for (int i = 0; i < options_.changes; ++i) {
      const std::string message = WatchResponseOf(world_.NextChange(), ++position);
      Measure(
          [&] {
            server.Send(message);
            return position;
          },
          plain_, floor);
    }
    PrintHeader(absl::StrCat(options_.plain, " streams"), "floor", "plain watch");
    PrintChanges(floor, options_.plain, plain, options_.plain);
    PrintRow("RSS, MiB", RssMb(server_), plain.rss_mb);
  }

  // Writes the head every 20 s meanwhile.
  template <typename Condition>
  void Await(const std::string& what, const Condition& condition) {
    const auto end = Clock::now() + kTimeLimit;
    auto heartbeat = Clock::now() + kHeartbeat;
    while (!condition()) {
      if (Clock::now() > end) {
        std::string error;
        for (const auto& node : nodes_) error = std::max(error, node->facts().last_error);
        Fail("in vain waited for " + what + "; last error: " + error);
      }
      if (Clock::now() > heartbeat) {
        Need(world_.nodes().Write({}));
        heartbeat = Clock::now() + kHeartbeat;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  template <typename Nodes>
  void AwaitAll(const Nodes& nodes, uint64_t position) {
    size_t reached = 0;
    Await(absl::StrCat("all nodes to acknowledge position ", position), [&] {
      while (reached < nodes.size() && nodes[reached]->position() >= position) ++reached;
      return reached == nodes.size();
    });
  }

  // Calls `start`, and waits until all nodes have acknowledged the position.
  template <typename Nodes, typename Start>
  Usage Reach(const Nodes& nodes, uint64_t position, const Start& start) {
    const Meter meter(server_);
    start();
    AwaitAll(nodes, position);
    return meter.Used();
  }

  // Calls `send`, which returns the position of a change, and measures when the nodes acknowledge
  // it. The time begins when the write is sent, because with many nodes, most of them receive the
  // change before the writer receives the answer.
  template <typename Nodes, typename Send>
  void Measure(const Send& send, const Nodes& nodes, Results& results) {
    const Meter meter(server_);
    const auto sent = Clock::now();
    const uint64_t position = send();
    results.answered.push_back(Milliseconds(Clock::now() - sent));
    AwaitAll(nodes, position);
    const Usage usage = meter.Used();
    results.changes.server_cpu += usage.server_cpu / options_.changes;
    results.changes.own_cpu += usage.own_cpu / options_.changes;
    results.changes.megabytes += usage.megabytes / options_.changes;
    results.rss_mb = RssMb(server_);
    std::vector<double> delays;
    for (const auto& node : nodes) delays.push_back(Milliseconds(node->reached() - sent));
    results.p50.push_back(Percentile(delays, 0.5));
    results.p99.push_back(Percentile(delays, 0.99));
    results.last.push_back(Percentile(delays, 1));
  }

  // Interrupts all connections, waits until all nodes have noticed it, and writes changes.
  void Disconnect() {
    std::vector<uint64_t> failures;
    for (const auto& node : nodes_) failures.push_back(node->facts().failures);
    gate_ = false;
    world_.SetLoopback("down");
    size_t noticed = 0, plain_noticed = 0;
    Await("all nodes to notice that the network is down", [&] {
      while (noticed < nodes_.size() && nodes_[noticed]->facts().failures > failures[noticed]) {
        ++noticed;
      }
      while (plain_noticed < plain_.size() && !plain_[plain_noticed]->connected()) ++plain_noticed;
      return noticed == nodes_.size() && plain_noticed == plain_.size();
    });
    double bytes = 0;
    for (int i = 0; i < options_.behind; ++i) bytes += world_.WriteChanges(options_.behind_objects);
    std::printf("missed: %d transactions with %.1f MB of values\n", options_.behind, bytes / 1e6);
  }

  void Print(const Results& plain, const Results& ours) const {
    std::printf("\n%d nodes, %s, %s, %d changes, %d behind\n", options_.nodes,
                ShapeText(options_.shape).c_str(), options_.tls ? "TLS" : "no TLS",
                options_.changes, options_.behind);
    PrintHeader("", "plain watch", "svcmap-etcd");
    PrintChanges(plain, options_.plain, ours, options_.nodes);
    PrintUsage("cold start", plain.cold, ours.cold);
    PrintUsage("return", plain.back, ours.back);
  }

  const Options options_;
  World world_;
  pid_t server_;                   // The measured server: etcd, or the server of --floor.
  std::atomic<bool> gate_{false};  // Whether plain watches may connect.
  std::vector<std::unique_ptr<PlainNode>> plain_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("svcmap-bench-fleet simulates the nodes of a fleet on etcd.");
  app.add_option("--nodes", options.nodes)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--plain", options.plain, "Number of plain watches [as many as --nodes]")
      ->check(CLI::PositiveNumber);
  app.add_option("--hung", options.hung,
                 "Number of watches that never read. Changes are measured without and with them")
      ->capture_default_str();
  app.add_option("--services", options.shape.services)->capture_default_str();
  app.add_option("--endpoints", options.shape.endpoints, "Endpoints of each Service")
      ->capture_default_str();
  app.add_option("--changes", options.changes, "Measured changes")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--behind", options.behind,
                 "Number of transactions while all nodes are disconnected")
      ->capture_default_str();
  app.add_option("--behind-objects", options.behind_objects,
                 "Number of objects in each of these transactions")
      ->capture_default_str()
      ->check(CLI::Range(1, static_cast<int>(World::kChangesPerTransaction)));
  app.add_flag("--tls", options.tls, "Mutual TLS between nodes and etcd");
  app.add_flag("--watch-only", options.watch_only, "Plain watches do not list the objects");
  app.add_flag("--floor", options.floor,
               "Measure a server that only writes the same bytes to as many streams as --plain");
  app.add_flag("--lose-change", options.lose_change,
               "The agent of the first node ignores a change, so that the final check must fail");
  app.add_flag("--log", options.log, "Print the warnings of the nodes");
  CLI11_PARSE(app, argc, argv);
  if (options.plain < 0) options.plain = options.nodes;
  spdlog::set_level(options.log ? spdlog::level::warn : spdlog::level::off);
  return Bench(options).Run();
}

}  // namespace
}  // namespace svcmap::bench

int main(int argc, char** argv) {
  if (argc == 5 && std::string_view(argv[1]) == "floor") {
    return svcmap::bench::RunFloor({.certificate = argv[2], .key = argv[3], .ca = argv[4]});
  }
  return svcmap::bench::Main(argc, argv);
}
