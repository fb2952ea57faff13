// svcmap-bench: what svcmapd costs, from the gRPC message in to the acknowledgement out, after the
// kernel has committed. svcmapd runs as it is shipped, its watcher on, in a namespace of its own.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/agent_under_test.h"
#include "tests/bench/cluster/cluster.h"

namespace svcmap::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::vector<std::string> shapes = {"1000x10", "10000x10", "100000x10"};
  int changes = 500;
  bool ipv6 = false;
  bool all_features = false;
  std::string program;
  std::string csv;
};

double Milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

double Percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1,
                         static_cast<size_t>(share * static_cast<double>(values.size())))];
}

struct Figures {
  std::string shape;
  double cold_ms = 0;
  double longest_ms = 0;  // Of the commits that acks told of.
  double cpu_s = 0;       // Of svcmapd during the cold sync.
  std::vector<double> replace_ms, replace_kernel_ms, n_ms, n_kernel_ms;
  std::vector<double> ranges_ms, ranges_kernel_ms;  // With all features only.
  ProcessMemory memory;
  int64_t kernel_kib = 0;
};

class Run {
 public:
  Run(AgentUnderTest& agent, const ClusterShape& shape) : agent_(agent), cluster_(shape) {}

  absl::Status ColdSync(Figures& figures) {
    constexpr int kObjectsPerBatch = 1000;
    std::vector<v1::PushRequest> requests(1);
    requests.back().mutable_snapshot_begin();
    v1::Batch* batch = nullptr;
    const auto add = [&]() -> v1::Change& {
      if (batch == nullptr || batch->changes_size() >= kObjectsPerBatch) {
        batch = requests.emplace_back().mutable_batch();
        batch->set_number(++number_);
      }
      return *batch->add_changes();
    };
    for (v1::Change& change : AllMessages(cluster_)) add() = std::move(change);
    requests.emplace_back().mutable_snapshot_end()->set_number(++number_);

    // The messages are made before; sending and reading answers run side by side.
    const double cpu = agent_.CpuSeconds();
    const auto start = Clock::now();
    absl::Status sent;
    std::thread sender([&] {
      for (const v1::PushRequest& request : requests) {
        sent = agent_.Send(request);
        if (!sent.ok()) return;
      }
    });
    absl::Status answered;
    for (uint64_t next = 1; next <= number_ && answered.ok(); ++next) {
      const absl::StatusOr<v1::Ack> ack = agent_.Await(next);
      answered = ack.status();
      if (ack.ok()) figures.longest_ms = std::max(figures.longest_ms, CommitMs(*ack));
    }
    figures.cold_ms = Milliseconds(Clock::now() - start);
    sender.join();
    figures.cpu_s = agent_.CpuSeconds() - cpu;
    return answered.ok() ? sent : answered;
  }

  // One endpoint of a Service becomes another one.
  absl::Status Replace(std::vector<double>& total, std::vector<double>& kernel) {
    return Change(cluster_.ReplaceEndpoint(Next()), total, kernel);
  }

  // A Service has one endpoint less, or again as many as at first.
  absl::Status ChangeN(bool less, std::vector<double>& total, std::vector<double>& kernel) {
    if (less) Next();
    return Change(less ? cluster_.RemoveEndpoint(service_) : cluster_.AddEndpoint(service_), total,
                  kernel);
  }

  // A Service may be used by other sources than before.
  absl::Status ChangeRanges(std::vector<double>& total, std::vector<double>& kernel) {
    return Change(cluster_.ChangeSourceRanges(Next() / 10 * 10), total, kernel);
  }

 private:
  static double CommitMs(const v1::Ack& ack) {
    return static_cast<double>(ack.commit_duration().seconds()) * 1e3 +
           ack.commit_duration().nanos() / 1e6;
  }

  size_t Next() {
    service_ = (service_ + 7919) % cluster_.ports().size();
    return service_;
  }

  absl::Status Change(ClusterChange change, std::vector<double>& total,
                      std::vector<double>& kernel) {
    v1::PushRequest request;
    request.mutable_batch()->set_number(++number_);
    *request.mutable_batch()->add_changes() = std::move(change.messages[0]);
    const auto start = Clock::now();
    if (const absl::Status sent = agent_.Send(request); !sent.ok()) return sent;
    const absl::StatusOr<v1::Ack> ack = agent_.Await(number_);
    if (!ack.ok()) return ack.status();
    total.push_back(Milliseconds(Clock::now() - start));
    kernel.push_back(CommitMs(*ack));
    if (ack->outcome() != v1::COMMITTED) return absl::InternalError("a change changed nothing");
    return absl::OkStatus();
  }

  AgentUnderTest& agent_;
  Cluster cluster_;
  uint64_t number_ = 0;
  size_t service_ = 0;
};

absl::StatusOr<Figures> Measure(const Options& options, const std::string& name,
                                const ClusterShape& shape) {
  Figures figures;
  figures.shape = name;
  const int64_t kernel_before = KernelMemoryKib();
  absl::StatusOr<std::unique_ptr<AgentUnderTest>> agent = AgentUnderTest::Start(options.program);
  if (!agent.ok()) return agent.status();
  Run run(**agent, shape);
  absl::Status status = run.ColdSync(figures);
  for (int i = 0; i < options.changes && status.ok(); ++i) {
    status = run.Replace(figures.replace_ms, figures.replace_kernel_ms);
  }
  for (int i = 0; i < options.changes && status.ok(); ++i) {
    status = run.ChangeN(i % 2 == 0, figures.n_ms, figures.n_kernel_ms);
  }
  for (int i = 0; i < options.changes && shape.mix == Mix::kEverything && status.ok(); ++i) {
    status = run.ChangeRanges(figures.ranges_ms, figures.ranges_kernel_ms);
  }
  if (!status.ok()) return status;
  figures.memory = (*agent)->Memory();
  figures.kernel_kib = KernelMemoryKib() - kernel_before;
  return figures;
}

void PrintHeader() {
  std::printf(
      "| Services x endpoints | cold sync | longest commit | CPU | replace p50 | p99 | in the "
      "kernel p50 | N change p50 | p99 | in the kernel p50 | source ranges p50 | p99 | in the "
      "kernel "
      "p50 | RSS | peak | kernel memory |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
}

std::string Optional(const std::vector<double>& values, double share) {
  if (values.empty()) return "-";
  char text[32];
  std::snprintf(text, sizeof(text), "%.3f ms", Percentile(values, share));
  return text;
}

void Print(const Figures& f) {
  std::printf(
      "| %s | %.0f ms | %.1f ms | %.2f s | %.3f ms | %.3f ms | %.3f ms | %.3f ms | %.3f ms | %.3f "
      "ms | %s | %s | %s | %.0f MB | %.0f MB | %.1f MB |\n",
      f.shape.c_str(), f.cold_ms, f.longest_ms, f.cpu_s, Percentile(f.replace_ms, 0.5),
      Percentile(f.replace_ms, 0.99), Percentile(f.replace_kernel_ms, 0.5), Percentile(f.n_ms, 0.5),
      Percentile(f.n_ms, 0.99), Percentile(f.n_kernel_ms, 0.5), Optional(f.ranges_ms, 0.5).c_str(),
      Optional(f.ranges_ms, 0.99).c_str(), Optional(f.ranges_kernel_ms, 0.5).c_str(),
      static_cast<double>(f.memory.rss_kib) / 1024, static_cast<double>(f.memory.peak_kib) / 1024,
      static_cast<double>(f.kernel_kib) / 1024);
  std::fflush(stdout);
}

// Every single sample, for plots and checks.
absl::Status WriteCsv(const std::string& path, const std::vector<Figures>& all) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) return absl::InvalidArgumentError("cannot write " + path);
  std::fprintf(file, "shape,what,milliseconds\n");
  for (const Figures& f : all) {
    std::fprintf(file, "%s,cold,%.6f\n", f.shape.c_str(), f.cold_ms);
    for (const auto& [what, values] :
         {std::pair("replace", &f.replace_ms), std::pair("replace-kernel", &f.replace_kernel_ms),
          std::pair("n-change", &f.n_ms), std::pair("n-change-kernel", &f.n_kernel_ms),
          std::pair("ranges", &f.ranges_ms), std::pair("ranges-kernel", &f.ranges_kernel_ms)}) {
      for (const double value : *values) {
        std::fprintf(file, "%s,%s,%.6f\n", f.shape.c_str(), what, value);
      }
    }
  }
  std::fclose(file);
  return absl::OkStatus();
}

int Fail(const std::string& what) {
  std::fprintf(stderr, "svcmap-bench: %s\n", what.c_str());
  return 1;
}

int Main(const Options& options) {
  std::vector<Figures> all;
  PrintHeader();
  for (const std::string& name : options.shapes) {
    absl::StatusOr<ClusterShape> shape = ParseShape(name);
    if (!shape.ok()) return Fail(std::string(shape.status().message()));
    if (options.ipv6) shape->family = Family::kIpv6;
    if (options.all_features) shape->mix = Mix::kEverything;
    absl::StatusOr<Figures> figures = Measure(options, name, *shape);
    if (!figures.ok()) return Fail(name + ": " + std::string(figures.status().message()));
    Print(*figures);
    all.push_back(*std::move(figures));
  }
  if (options.csv.empty()) return 0;
  const absl::Status written = WriteCsv(options.csv, all);
  return written.ok() ? 0 : Fail(std::string(written.message()));
}

}  // namespace
}  // namespace svcmap::bench

int main(int argc, char** argv) {
  svcmap::bench::Options options;
  char self[4096] = {};
  if (readlink("/proc/self/exe", self, sizeof(self) - 1) > 0) {
    const std::string path(self);
    options.program = path.substr(0, path.rfind('/')) + "/svcmapd";
  }
  CLI::App app("svcmap-bench measures svcmapd from the gRPC message in to the acknowledgement out.",
               "svcmap-bench");
  app.add_option("shapes", options.shapes, "Clusters to load, SERVICESxENDPOINTS")
      ->capture_default_str();
  app.add_option("--changes", options.changes, "Single changes of each kind")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_flag("--ipv6", options.ipv6, "IPv6 instead of IPv4");
  app.add_flag("--all-features", options.all_features,
               "Services with load balancer and external IP, nodePort, source ranges, policy Local "
               "and session affinity");
  app.add_option("--svcmapd", options.program, "The program (default: beside this one)");
  app.add_option("--csv", options.csv, "Write every sample to this file");
  CLI11_PARSE(app, argc, argv);
  return svcmap::bench::Main(options);
}
