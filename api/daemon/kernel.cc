#include "api/daemon/kernel.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "api/log/log_value.h"
#include "api/preflight/preflight.h"
#include "nft/base/status.h"
#include "nft/base/unique_fd.h"
#include "nft/netlink/counter_reader.h"
#include "nft/netlink/probe.h"

namespace svcmap::api {
namespace {

constexpr char kConntrackMax[] = "net.netfilter.nf_conntrack_max";
constexpr int64_t kMostConnections = 1048576;

// Connections per bucket of conntrack's hash table (S-327).
constexpr int64_t kConnectionsPerSlot = 4;

// Reads the number in a file. Returns 0 or an errno.
int ReadInteger(const std::string& path, int64_t& value) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[32];
  const ssize_t size = file.ok() ? read(file.get(), text, sizeof(text)) : -1;
  if (size < 0) return errno;
  const std::string number(text, static_cast<size_t>(size));
  return absl::SimpleAtoi(absl::StripAsciiWhitespace(number), &value) ? 0 : EINVAL;
}

// Writes a number to a file. Returns 0 or an errno. Sysctls require a single write(2) for a number.
int WriteNumber(const std::string& path, int64_t value) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
  const std::string text = absl::StrCat(value);
  return file.ok() && write(file.get(), text.data(), text.size()) >= 0 ? 0 : errno;
}

// Returns whether `error` means that the sysctl does not exist or that this process may not write
// it.
bool IsForbidden(int error) {
  return error == EROFS || error == EACCES || error == EPERM || error == ENOENT ||
         error == EOPNOTSUPP;
}

// Returns tables with all sets, but only one rule, so that the probe is short.
nft::TableSpecs TablesWithOneHash(const proxy::RulesetOptions& ruleset) {
  nft::TableSpecs tables = proxy::MakeTables(ruleset);
  for (nft::TableSpec& table : tables) {
    const auto hash = std::ranges::find_if(
        table.rules, [](const auto& rule) { return rule.chain.starts_with("hash-"); });
    table.rules = {*hash};
    std::erase_if(table.chains, [&](const nft::ChainSpec& chain) {
      return chain.name != table.rules.front().chain;
    });
  }
  return tables;
}

}  // namespace

std::vector<Sysctl> DesiredSysctls(const KubeProxyConfiguration& config, int cpus) {
  const auto& c = config.conntrack;
  std::vector<Sysctl> wanted;
  if (c.max_per_core > 0) {
    int64_t max = int64_t{c.max_per_core} * cpus;
    max = max > kMostConnections ? kMostConnections : std::max<int64_t>(max, c.min);
    wanted.push_back({kConntrackMax, max});
  }
  for (const auto& [name, timeout] :
       {std::pair("tcp_timeout_established", c.tcp_established_timeout),
        {"tcp_timeout_close_wait", c.tcp_close_wait_timeout},
        {"udp_timeout", c.udp_timeout},
        {"udp_timeout_stream", c.udp_stream_timeout}}) {
    const int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout).count();
    if (seconds > 0) wanted.push_back({absl::StrCat("net.netfilter.nf_conntrack_", name), seconds});
  }
  if (c.tcp_be_liberal) wanted.push_back({"net.netfilter.nf_conntrack_tcp_be_liberal", 1});
  return wanted;
}

absl::StatusOr<std::vector<std::string>> WriteSysctls(const std::vector<Sysctl>& wanted,
                                                      const SysctlPaths& paths) {
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& name, int64_t value, int error) {
    warnings.push_back(
        std::string(ErrnoStatus(error, absl::StrCat("set ", name, " to ", value)).message()));
  };
  for (const Sysctl& sysctl : wanted) {
    const std::string path =
        absl::StrCat(paths.sysctls, "/", absl::StrReplaceAll(sysctl.name, {{".", "/"}}));
    int64_t now = 0;
    int error = ReadInteger(path, now);
    // A larger table than requested is never made smaller: the kernel would drop new connections.
    const bool done = now == sysctl.value || (sysctl.name == kConntrackMax && now > sysctl.value);
    if (error == 0 && !done) error = WriteNumber(path, sysctl.value);
    if (error != 0 && !IsForbidden(error)) {
      return ErrnoStatus(error, absl::StrCat("set ", sysctl.name, " to ", sysctl.value));
    }
    if (error != 0) warn(sysctl.name, sysctl.value, error);
    if (error != 0 || sysctl.name != kConntrackMax) continue;
    int64_t slots = 0;
    error = ReadInteger(paths.hash_size, slots);
    const int64_t enough = sysctl.value / kConnectionsPerSlot;
    if (error == 0 && slots < enough) error = WriteNumber(paths.hash_size, enough);
    if (error != 0) warn(paths.hash_size, enough, error);
  }
  return warnings;
}

absl::Status WriteOomScoreAdj(int score, const std::string& path) {
  int64_t now = 0;
  int error = ReadInteger(path, now);
  if (error == 0 && now != score) error = WriteNumber(path, score);
  if (error == 0) return absl::OkStatus();
  return ErrnoStatus(error, absl::StrCat("write ", score, " to ", path));
}

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
  const bool unsupported = std::ranges::any_of(
      *missing, [](const nft::MissingFeature& feature) { return feature.module == "nft_hash"; });
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
