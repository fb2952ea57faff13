// svcmap-bench: compares svcmapd with other Service proxies in temporary network namespaces.
// Requires root. docs/benchmarks.md describes the method.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "api/version/version.h"
#include "tests/bench/commands/command.h"
#include "tests/bench/cpu.h"
#include "tests/bench/record/machine.h"

namespace svcmap::bench {
namespace {

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
         "nftables-shared and nftables-library)")
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
         std::vector<std::string> command_line) {
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
    const absl::Status written = WriteMachine(
        options.out + "/machine.json", {std::move(command_line), common.settings.svcmapd, pinning});
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
