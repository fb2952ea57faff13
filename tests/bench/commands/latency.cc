// svcmap-bench latency: measures the time that a proxy adds to the first packet of a flow.
//
// Each compared implementation loads the cluster in its own PacketWorld. For each measured Service,
// the implementations are measured alternately (A B A B). With the implementation "direct", clients
// connect to an endpoint through a node without rules. The latency difference between a proxy and
// "direct" is the latency that the proxy adds, including connection tracking.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/bench/commands/contenders.h"
#include "tests/bench/commands/disturbance.h"
#include "tests/bench/record/markdown.h"

namespace svcmap::bench {
namespace {

constexpr char kQuiet[] = "tcp-quiet";
constexpr char kDuringSync[] =
    "one full sync after the other. The others write again what is there; to svcmap every endpoint "
    "of the cluster is replaced each time, as it would write nothing else. kube-proxy does a full "
    "sync once an hour at most in nftables mode, and never by itself in iptables mode in clusters "
    "of more than 1,000 endpoints (S-235)";
constexpr char kDuringRepair[] =
    "svcmapd repairs a flushed ruleset, once a second. Of svcmap alone: kube-proxy notices a flush "
    "after up to an hour in nftables mode, and after up to its syncPeriod in iptables mode "
    "(S-149), so that there is nothing to compare";

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
  add("p50_us", Percentile(microseconds, 0.5));
  add("p90_us", Percentile(microseconds, 0.9));
  add("p99_us", Percentile(microseconds, 0.99));
  add("max_us", Percentile(microseconds, 1));
}

// Returns the median and the median absolute deviation of the rounds as text, for example "28.4 +-
// 0.3".
std::string MicrosecondsText(const std::vector<double>& values) {
  if (values.empty()) return "-";
  return absl::StrFormat("%.1f +- %.1f", Median(values), MedianDeviation(values));
}

double Sum(const Rounds& rounds) {
  double sum = 0;
  for (const double value : AllRounds(rounds)) sum += value;
  return sum;
}

// Returns one difference per round, because a slow phase of the machine affects both compared
// implementations in a round.
std::vector<double> Over(const Rounds& of, const Rounds& reference) {
  std::vector<double> differences;
  for (const auto& [round, values] : of) {
    const auto other = reference.find(round);
    if (other != reference.end()) differences.push_back(Median(values) - Median(other->second));
  }
  return differences;
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
    std::vector<std::string> whats;
    for (const Position& position : Positions(cluster)) {
      whats.push_back(absl::StrCat(protocol, "-", position.name));
      for (int round = 1; round <= common_.rounds; ++round) {
        for (Contender& contender : contenders) {
          const auto target = TargetOf(contender.name, cluster.ports()[position.index]);
          if (!target.ok()) return target.status();
          const absl::StatusOr<Latencies> latencies =
              MeasureFirstPackets(*contender.world, *target, options_.flows);
          if (!latencies.ok()) return latencies.status();
          RecordLatencies(*latencies, contender.name, whats.back(), round, recorder);
        }
      }
    }
    std::printf(
        "\nFirst packet of a flow, by the place of the Service in the list, in "
        "microseconds; one that failed counts as %d ms.\n\n",
        static_cast<int>(kFlowPatience.count()));
    Print(recorder, whats, "over direct", [&](const std::string&, const std::string& what) {
      return recorder.Of("direct", what, "p50_us");
    });
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
    std::printf(
        "\nNew TCP connections to the last Service, %d per second, in microseconds from "
        "when each was due (one that failed counts as %d ms); beside them %s.\n\n",
        options_.disturbance.per_second, static_cast<int>(kFlowPatience.count()),
        disturbance == Disturbance::kSync ? kDuringSync : kDuringRepair);
    Print(recorder, {kQuiet, what}, "over quiet",
          [&](const std::string& opponent, const std::string&) {
            return recorder.Of(opponent, kQuiet, "p50_us");
          });
    return absl::OkStatus();
  }

  // Prints the table. `reference` returns the p50 values that are subtracted from the p50 values of
  // an implementation.
  void Print(const Recorder& recorder, const std::vector<std::string>& whats,
             const std::string& over,
             const std::function<Rounds(const std::string&, const std::string&)>& reference) const {
    PrintHeader({"Services x endpoints", "flow", "opponent", "p50", over, "p90", "p99", "longest",
                 "flows", "failed"});
    for (const std::string& what : whats) {
      for (const std::string& opponent : common_.opponents) {
        const auto of = [&](const char* metric) { return recorder.Of(opponent, what, metric); };
        const std::string load = recorder.Trouble(opponent, kLoading);
        const std::string trouble = load.empty() ? recorder.Trouble(opponent, what) : load;
        if (of("count").empty() && trouble.empty()) continue;
        PrintRow(
            {recorder.shape(), what, opponent,
             trouble.empty() ? MicrosecondsText(AllRounds(of("p50_us"))) : trouble,
             MicrosecondsText(Over(of("p50_us"), reference(opponent, what))),
             MicrosecondsText(AllRounds(of("p90_us"))), MicrosecondsText(AllRounds(of("p99_us"))),
             MicrosecondsText(AllRounds(of("max_us"))), absl::StrFormat("%.0f", Sum(of("count"))),
             absl::StrFormat("%.0f", Sum(of("failures")))});
      }
    }
    std::fflush(stdout);
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
