#include "api/daemon/connection_counters.h"

#include <spdlog/spdlog.h>

#include <string>
#include <utility>
#include <vector>

#include "api/log/log_value.h"
#include "api/preflight/preflight.h"
#include "nft/netlink/counter_reader.h"

namespace svcmap::api {

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
