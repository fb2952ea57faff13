// svcmap-bench: compares svcmapd with other Service proxies in temporary network namespaces.
// Requires root. docs/benchmarks.md describes the method.
#include <sys/utsname.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "api/version/version.h"
#include "tests/bench/commands/command.h"
#include "tests/bench/process_figures.h"
#include "tests/support/process.h"

namespace svcmap::bench {
namespace {

// Sysctls for connection tracking, packet processing and socket buffers.
constexpr const char* kSysctls[] = {
    "net/netfilter/nf_conntrack_max",
    "net/netfilter/nf_conntrack_buckets",
    "net/core/wmem_max",
    "net/core/rmem_max",
    "net/core/bpf_jit_enable",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/tcp_tw_reuse",
    "kernel/sched_autogroup_enabled",
    "vm/overcommit_memory",
    "vm/swappiness",
};

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string Trimmed(const std::string& text) {
  return std::string(absl::StripAsciiWhitespace(text));
}

// Returns the first line of the command's output, or an empty string if the command fails.
std::string VersionOf(const std::vector<std::string>& argv) {
  const absl::StatusOr<std::string> out = testing::RunOk({.argv = argv});
  return out.ok() ? Trimmed(out->substr(0, out->find('\n'))) : "";
}

void Put(nlohmann::ordered_json& facts, const char* name, const std::string& value) {
  if (!value.empty()) facts[name] = value;
}

// Returns the value of the first line "NAME<separator>VALUE" with the given name, without
// surrounding whitespace and quotes. Returns an empty string if no line has the given name.
std::string ValueOf(const std::string& text, const std::string& name, char separator) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find(separator);
    if (at == std::string::npos || Trimmed(line.substr(0, at)) != name) continue;
    std::string value = Trimmed(line.substr(at + 1));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
      value = value.substr(1, value.size() - 2);
    }
    return value;
  }
  return "";
}

// Writes the facts as JSON. Facts that are not available on this machine are omitted.
// Writes the facts about the machine, kernel and tools that influence results. `pinning` describes
// the CPU pinning, for example "proxies on CPU 1, load generator on CPU 0" or "none".
absl::Status WriteMachine(const std::string& path, const std::vector<std::string>& command_line,
                          const std::string& svcmapd, const std::string& pinning) {
  nlohmann::ordered_json facts;
  facts["date"] = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone());
  facts["command_line"] = command_line;
  Put(facts, "commit",
      VersionOf({"git", "-C", SVCMAP_SOURCE_DIR, "describe", "--always", "--dirty"}));
  Put(facts, "svcmapd", VersionOf({svcmapd, "--version"}));
  Put(facts, "nft", VersionOf({"nft", "--version"}));
  Put(facts, "iptables_legacy", VersionOf({"iptables-legacy", "--version"}));
  Put(facts, "iptables_nft", VersionOf({"iptables-nft", "--version"}));

  utsname kernel = {};
  uname(&kernel);
  facts["kernel"] = {{"release", kernel.release}, {"version", kernel.version}};
  facts["architecture"] = kernel.machine;
  Put(facts, "distribution", ValueOf(Contents("/etc/os-release"), "PRETTY_NAME", '='));
  const std::string cpu = Contents("/proc/cpuinfo");
  Put(facts, "cpu", ValueOf(cpu, "model name", ':'));
  Put(facts, "cpu_mhz", ValueOf(cpu, "cpu MHz", ':'));
  Put(facts, "cpu_cache", ValueOf(cpu, "cache size", ':'));
  facts["cpus"] = sysconf(_SC_NPROCESSORS_ONLN);
  Put(facts, "governor",
      Trimmed(Contents("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")));
  Put(facts, "hypervisor", Trimmed(Contents("/sys/hypervisor/type")));
  Put(facts, "memory", ValueOf(Contents("/proc/meminfo"), "MemTotal", ':'));
  Put(facts, "memory_available", ValueOf(Contents("/proc/meminfo"), "MemAvailable", ':'));
  Put(facts, "load_average", Trimmed(Contents("/proc/loadavg")));
  facts["pinning"] = pinning;
  for (const char* sysctl : kSysctls) {
    const std::string value = Trimmed(Contents(std::string("/proc/sys/") + sysctl));
    if (!value.empty()) facts["sysctls"][sysctl] = value;
  }
  // Replace invalid UTF-8, which CPU names and similar strings may contain.
  std::ofstream file(path);
  file << facts.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  file.close();
  return file.good() ? absl::OkStatus() : absl::UnknownError("cannot write " + path);
}

struct Options {
  std::vector<std::string> shapes = {"1000x10", "5000x10", "10000x10"};
  Mix mix = Mix::kClusterIp;
  int time_limit = 120;
  std::string out;
  bool pin = false;
  bool packets = false;  // True if the subcommand opens connections.
};

// Pins this process to the first permitted CPU and the measured processes to the last permitted
// CPU. Returns a description.
std::string Pin() {
  const CpuPair cpus = ChooseCpus();
  if (cpus.client < 0) return "none: there is only one CPU";
  PinThread(cpus.server);
  SetProxyCpu(cpus.client);
  return "load generator on CPU " + std::to_string(cpus.server) +
         "; programs that it starts on CPU " + std::to_string(cpus.client);
}

std::string BesideThisProgram(const std::string& name) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / name).string();
}

std::vector<std::string> DefaultOpponents() {
  std::vector<std::string> names = OpponentNames();
  // The compared implementation "nftables-single" differs from "nftables" only for Services with
  // one endpoint, and no version of kube-proxy uses the rules of "nftables-shared". Packages do not
  // contain the program that "nftables-library" runs.
  std::erase(names, "nftables-single");
  std::erase(names, "nftables-shared");
  std::erase(names, "nftables-library");
  // Debian's kernels have IPVS. The kernel of the published runs does not.
  std::erase(names, "ipvs");
  return names;
}

void AddOptions(CLI::App& app, Options& options, CommonOptions& common) {
  app.add_option("--shapes", options.shapes, "Clusters to load, SERVICESxENDPOINTS each")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--mix", options.mix, "What Services are like")
      ->transform(CLI::CheckedTransformer(std::map<std::string, Mix>{
          {"plain", Mix::kClusterIp}, {"mixed", Mix::kMixed}, {"everything", Mix::kEverything}}))
      ->option_text("plain|mixed|everything (default plain)");
  app.add_option(
         "--opponents", common.opponents,
         "Compared implementations, in the order of turns (default: all except nftables-single, "
         "nftables-shared, nftables-library and ipvs)")
      ->delimiter(',')
      ->check(CLI::IsMember(OpponentNames()));
  app.add_option("--rounds", common.rounds, "Turns of each opponent")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--time-limit", options.time_limit,
                 "Seconds that one sync or change may take; who needs longer is reported as such")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  app.add_option("--svcmapd", common.settings.svcmapd, "The program (default: beside this one)");
  app.add_option("--out", options.out,
                 "Folder for samples.csv, which grows with each run, and machine.json");
  app.add_flag("--pin", options.pin,
               "In sync, change and churn: the load generator on one CPU, proxies on another (the "
               "other subcommands place both ends of a connection themselves)");
}

int Fail(const std::string& what) {
  std::fprintf(stderr, "svcmap-bench: %s\n", what.c_str());
  return 1;
}

absl::Status Complete(const Options& options, CommonOptions& common) {
  for (const std::string& text : options.shapes) {
    absl::StatusOr<ClusterShape> shape = ParseShape(text);
    if (!shape.ok()) return shape.status();
    shape->mix = options.mix;
    common.shapes.push_back(*shape);
  }
  if (common.opponents.empty()) common.opponents = DefaultOpponents();
  common.settings.time_limit = std::chrono::seconds(options.time_limit);
  return testing::NetNsAvailable();
}

int Main(const Options& options, CommonOptions& common, const RunCommand& run,
         const std::vector<std::string>& command_line) {
  if (const absl::Status status = Complete(options, common); !status.ok()) {
    return Fail(std::string(status.message()));
  }
  const std::string pinning = options.packets ? "both ends of connections, by the subcommand"
                              : options.pin   ? Pin()
                                              : "none";
  std::ofstream samples;  // Discards all values if it is not open.
  if (!options.out.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.out, error);
    samples.open(options.out + "/samples.csv", std::ios::app);
    const absl::Status written =
        WriteMachine(options.out + "/machine.json", command_line, common.settings.svcmapd, pinning);
    if (!written.ok()) return Fail(std::string(written.message()));
    if (!samples.is_open()) return Fail("cannot write " + options.out + "/samples.csv");
    samples.seekp(0, std::ios::end);
    if (samples.tellp() == 0)
      samples << "workload,shape,opponent,what,metric,round,value" << std::endl;
  }
  common.samples = &samples;
  const absl::Status status = run();
  return status.ok() ? 0 : Fail(std::string(status.message()));
}

}  // namespace
}  // namespace svcmap::bench

int main(int argc, char** argv) {
  using namespace svcmap::bench;  // NOLINT: main() only.
  Options options;
  CommonOptions common;
  common.settings.svcmapd = BesideThisProgram("svcmapd");
  common.settings.libnftables = BesideThisProgram("svcmap-bench-libnftables");
  RunCommand run;
  CLI::App app("svcmap-bench measures svcmapd and other service proxies side by side.",
               "svcmap-bench");
  app.set_version_flag("--version", svcmap::api::VersionLine("svcmap-bench"));
  app.fallthrough();  // Accept common options after the subcommand too.
  AddOptions(app, options, common);
  app.require_subcommand(1);
  AddSync(app, common, run);
  AddChange(app, common, run);
  AddChurn(app, common, run);
  AddLatency(app, common, run);
  AddConnections(app, common, run);
  AddRestart(app, common, run);
  AddRepair(app, common, run);
  CLI11_PARSE(app, argc, argv);
  options.packets =
      !app.got_subcommand("sync") && !app.got_subcommand("change") && !app.got_subcommand("churn");
  return Main(options, common, run, {argv, argv + argc});
}
