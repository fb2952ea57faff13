#include "tests/bench/fleet/figures.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/bench/process_figures.h"
#include "tests/bench/record/statistics.h"

namespace svcmap::bench {
namespace {

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

}  // namespace

double RssMb(pid_t server) { return static_cast<double>(MemoryOf(server).rss_kib) / 1024; }

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

void PrintHeader(const std::string& title, const std::string& first, const std::string& second) {
  std::printf("\n| %s | %s | %s | ratio |\n| --- | ---: | ---: | ---: |\n", title.c_str(),
              first.c_str(), second.c_str());
}

void PrintRow(const std::string& name, double first, double second) {
  std::printf("| %s | %.1f | %.1f | %.2f |\n", name.c_str(), first, second,
              first > 0 ? second / first : 0);
}

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

}  // namespace svcmap::bench
