#include "api/daemon/kernel_features.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "api/log/log_value.h"
#include "api/preflight/preflight.h"
#include "nft/netlink/counter_reader.h"
#include "nft/netlink/probe.h"

namespace svcmap::api {
namespace {

// Returns tables with all sets, but only one rule, so that the probe is short.
nft::TableSpecs TablesWithOneHash(const proxy::RulesetOptions& ruleset) {
  nft::TableSpecs tables = proxy::MakeTables(ruleset);
  for (nft::TableSpec& table : tables) {
    const auto hash = std::find_if(table.rules.begin(), table.rules.end(), [](const auto& rule) {
      return rule.chain.starts_with("hash-");
    });
    table.rules = {*hash};
    std::erase_if(table.chains, [&](const nft::ChainSpec& chain) {
      return chain.name != table.rules.front().chain;
    });
  }
  return tables;
}

}  // namespace

proxy::TcpResets ChooseTcpResets() {
  constexpr char kPath[] = "/proc/sys/net/netfilter/nf_conntrack_tcp_loose";
  int loose = 1;
  if (!(std::ifstream(kPath) >> loose)) {
    spdlog::info("nf_conntrack_tcp_loose not read, assuming 1 path={}", LogValue(kPath));
    return proxy::TcpResets::kLoose;
  }
  return loose != 0 ? proxy::TcpResets::kLoose : proxy::TcpResets::kStrict;
}

void DropHashPicksIfUnsupported(proxy::RulesetOptions& ruleset) {
  const absl::StatusOr<std::vector<nft::MissingFeature>> missing =
      nft::FindMissingFeatures(TablesWithOneHash(ruleset));
  if (!missing.ok()) return;  // The preflight checks report this error.
  const bool unsupported =
      std::any_of(missing->begin(), missing->end(),
                  [](const nft::MissingFeature& feature) { return feature.module == "nft_hash"; });
  if (!unsupported) return;
  ruleset.hash_picks = false;
  spdlog::warn(
      "the kernel has no hashes, Services with endpointPick pick endpoints at random "
      "module=nft_hash option=CONFIG_NFT_HASH");
}

void DropCountersIfRejected(proxy::RulesetOptions& ruleset) {
  if (!ruleset.count_connections) return;
  const absl::Status probed = ProbeTables(proxy::MakeTables(ruleset));
  if (probed.ok()) return;
  ruleset.count_connections = false;
  spdlog::warn("--service-counters ignored, the kernel rejects tables with counters error={}",
               LogValue(probed));
}

absl::StatusOr<std::unique_ptr<proxy::ConnectionReader>> OpenConnectionReader(
    const proxy::RulesetOptions& ruleset, proxy::Loop& loop) {
  if (!ruleset.count_connections) return std::unique_ptr<proxy::ConnectionReader>();
  absl::StatusOr<std::unique_ptr<nft::CounterReader>> opened =
      nft::CounterReader::Open(proxy::MakeTables(ruleset));
  if (!opened.ok()) return opened.status();
  proxy::ConnectionReaderOptions options;
  std::vector<uint8_t> sets = {proxy::ConnectionCountSet(ruleset)};
  if (ruleset.port_ranges) sets.push_back(proxy::RangeConnectionCountSet(ruleset));
  options.read = [reader = std::shared_ptr(*std::move(opened)),
                  sets](Family family) -> absl::StatusOr<proxy::PacketCounts> {
    proxy::PacketCounts counts;
    for (const uint8_t set : sets) {
      const auto read = reader->Read({family, set});
      if (!read.ok()) return read.status();
      for (const nft::ElementCount& count : *read) {
        counts[std::string(count.key.begin(), count.key.end())] = count.packets;
      }
    }
    return counts;
  };
  options.on_problem = [](const absl::Status& problem) {
    spdlog::warn("connection counters not read, reporting previous values error={}",
                 LogValue(problem));
  };
  return std::make_unique<proxy::ConnectionReader>(loop, std::move(options));
}

}  // namespace svcmap::api
