#include "api/daemon/kube_proxy_remover.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/log/log_value.h"
#include "api/migration/iptables.h"
#include "api/migration/kube_proxy_process.h"
#include "api/migration/kube_proxy_rules.h"
#include "api/process/wait.h"
#include "nft/netlink/netlink_kernel.h"

namespace svcmap::api {
namespace {

// Minimum and maximum time between two checks until kube-proxy's rules are removed.
constexpr std::chrono::milliseconds kShortest{100};
constexpr std::chrono::milliseconds kUntilRemoved{2000};
// Time between checks if there is nothing to remove, in units of `absence`.
constexpr int kRests = 2;
// Maximum number of attempts to remove chains. An attempt fails if another process changes the
// table during the attempt.
constexpr int kRestores = 3;

std::string_view NftFamily(Family family) { return family == Family::kIpv4 ? "ip" : "ip6"; }

// Returns a warning if some iptables rules could not be read, or else an empty string.
std::string UnreadText(const IptablesRead& iptables) {
  if (iptables.unread.empty()) return "";
  return absl::StrCat(
      "kube-proxy rules may remain because not all iptables rules could be read error=",
      LogValue(absl::StrJoin(iptables.unread, "; ")));
}

struct KubeProxyRules {
  std::vector<Family> tables;  // Families in which the table of kube-proxy's nftables mode exists.
  IptablesRead iptables;
};

// Reads the rules of iptables-nft only if one of its chains belongs to kube-proxy.
absl::StatusOr<KubeProxyRules> ReadKubeProxyRules(const std::stop_token& stop) {
  const absl::StatusOr<std::vector<nft::ForeignChain>> chains = nft::ReadChains();
  if (!chains.ok()) return chains.status();
  KubeProxyRules rules;
  for (const Family family : kFamilies) {
    const auto in_table = [family](const nft::ForeignChain& chain) {
      return chain.family == NftFamily(family) && chain.table == kKubeProxyTable;
    };
    if (std::any_of(chains->begin(), chains->end(), in_table)) rules.tables.push_back(family);
  }
  rules.iptables = ReadIptables(
      *chains, [](const nft::ForeignChain& chain) { return IsKubeProxyChain(chain.name); }, stop);
  return rules;
}

// The chains and rules to remove from one iptables backend.
struct Plan {
  IptablesFlavour flavour;
  Removal removal;
};

std::vector<Plan> PlansOf(const IptablesRead& iptables) {
  std::vector<Plan> plans;
  for (const IptablesRead::Found& found : iptables.found) {
    Removal removal = PlanRemoval(found.save);
    if (!removal.empty()) plans.push_back({found.flavour, std::move(removal)});
  }
  return plans;
}

void LogRemoval(const IptablesFlavour& flavour, const Removal& removal) {
  for (const RemovalOfTable& table : removal.tables) {
    for (const std::string& jump : table.jumps) {
      spdlog::info("kube-proxy rule removed backend={} table={} rule={}",
                   LogValue(flavour.ToString()), table.table, LogValue(jump));
    }
    spdlog::info("kube-proxy chains removed backend={} table={} chains={}",
                 LogValue(flavour.ToString()), table.table, LogValue(ChainsText(table.chains)));
  }
}

// Logs the chains that are not removed, including chains of backends without rules to remove, and
// that the removal is complete.
void LogEnd(const IptablesRead& iptables) {
  size_t kept = 0;
  for (const IptablesRead::Found& found : iptables.found) {
    for (const std::string& chain : PlanRemoval(found.save).kept) {
      spdlog::warn(
          "kube-proxy chain and jumps to it kept, see docs/migration.md backend={} chain={}",
          LogValue(found.flavour.ToString()), LogValue(chain));
      ++kept;
    }
  }
  if (!iptables.unread.empty()) return;
  if (kept == 0) {
    spdlog::info("all kube-proxy rules removed");
  } else {
    spdlog::info("kube-proxy rules removed except kept chains count={}", kept);
  }
}

// Reads the rules again before each retry.
absl::Status RemoveFrom(Plan plan, const std::stop_token& stop) {
  absl::Status status;
  for (int i = 0; i < kRestores && !stop.stop_requested(); ++i) {
    status = RestoreIptables(plan.flavour, plan.removal.RestoreText(), stop);
    if (status.ok()) {
      LogRemoval(plan.flavour, plan.removal);
      return status;
    }
    const absl::StatusOr<KubeProxyRules> again = ReadKubeProxyRules(stop);
    if (!again.ok()) return again.status();
    std::vector<Plan> plans = PlansOf(again->iptables);
    const auto same = std::find_if(plans.begin(), plans.end(), [&](const Plan& other) {
      return other.flavour.ToString() == plan.flavour.ToString();
    });
    if (same == plans.end()) return again->iptables.unread.empty() ? absl::OkStatus() : status;
    plan = std::move(*same);
  }
  return status;
}

absl::Status RemoveTables(const std::vector<Family>& families) {
  nft::TableSpecs specs(kFamilies.size());
  for (const Family family : kFamilies) {
    specs[Index(family)].family = family;
    specs[Index(family)].name = kKubeProxyTable;
  }
  const auto kernel = nft::NetlinkKernel::Open(specs);
  if (!kernel.ok()) return kernel.status();
  nft::Transaction transaction;
  for (const Family family : families) transaction.DropTable(family);
  absl::Status removed = (*kernel)->Apply(transaction).error;
  if (!removed.ok()) return removed;
  for (const Family family : families) {
    spdlog::info("kube-proxy table deleted family={} table={}", NftFamily(family), kKubeProxyTable);
  }
  return removed;
}

}  // namespace

KubeProxyRemover::KubeProxyRemover(std::function<proxy::LoopStatus()> status,
                                   std::chrono::milliseconds absence)
    : status_(std::move(status)),
      absence_(absence),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

void KubeProxyRemover::Log(const std::string& line) {
  if (line == std::exchange(reported_, line) || line.empty()) return;
  spdlog::warn("{}", line);
}

bool KubeProxyRemover::Absent() {
  if (const std::string runs = FindKubeProxy(); !runs.empty()) {
    absent_since_.reset();
    rested_ = removed_ = false;
    Log(absl::StrCat("kube-proxy rules kept until kube-proxy has exited reason=", LogValue(runs)));
    return false;
  }
  if (!absent_since_) {
    absent_since_ = Clock::now();
    spdlog::info(
        "no kube-proxy process found, kube-proxy rules will be removed after a waiting time and "
        "after all Services are programmed wait_s={}",
        absence_.count() / 1000);
  }
  return Clock::now() - *absent_since_ >= absence_;
}

bool KubeProxyRemover::Serving() {
  const proxy::LoopStatus status = status_();
  if (!status.confirmed) {
    Log("kube-proxy rules kept reason=\"no complete state received since start\" "
        "remedy=\"connect a controller, or run svcmapctl apply --prune\"");
  } else if (status.services == 0) {
    Log("kube-proxy rules kept reason=\"the complete state contains no Service\"");
  } else if (status.rejected_services > 0) {
    Log(absl::StrCat("kube-proxy rules kept reason=\"the kernel rejected Services\" count=",
                     status.rejected_services));
  } else {
    return status.phase == proxy::Phase::kServing && status.verified && !status.oldest_unsynced;
  }
  return false;
}

// Inexpensive checks come first, because iptables-save takes seconds on a large node.
bool KubeProxyRemover::FindAndRemove(const std::stop_token& stop) {
  if (!Absent() || !Serving()) return false;
  if (HasIpvsInterface()) {
    Log(absl::StrCat("kube-proxy rules kept reason=\"interface ", kIpvsInterface,
                     " exists, svcmapd does not remove rules of IPVS mode\" remedy=\"run "
                     "kube-proxy --cleanup, which removes all IPVS virtual servers, including "
                     "virtual servers of other programs\""));
    return false;
  }
  const absl::StatusOr<KubeProxyRules> rules = ReadKubeProxyRules(stop);
  if (stop.stop_requested()) return true;
  if (!rules.ok()) {
    Log(absl::StrCat("search for kube-proxy rules failed, retrying error=",
                     LogValue(rules.status())));
    return false;
  }
  std::vector<Plan> plans = PlansOf(rules->iptables);
  if (rules->tables.empty() && plans.empty()) {
    Log(UnreadText(rules->iptables));
    return true;
  }
  if (removed_) {
    Log("kube-proxy rules reappeared and are kept reason=\"another process writes them\" "
        "remedy=\"stop that process, then restart svcmapd\"");
    return true;
  }
  // After a long pause, waits for `absence_` again, because the process that wrote the rules may
  // have exited only recently.
  if (std::exchange(rested_, false)) {
    absent_since_.reset();
    return false;
  }
  // Checks both conditions again, because reading the rules may have taken seconds.
  if (!Absent() || !Serving()) return false;
  absl::Status status = rules->tables.empty() ? absl::OkStatus() : RemoveTables(rules->tables);
  for (Plan& plan : plans) {
    if (const absl::Status removed = RemoveFrom(std::move(plan), stop); !removed.ok()) {
      status = removed;
    }
  }
  if (stop.stop_requested()) return true;
  if (!status.ok()) {
    Log(absl::StrCat("removal of kube-proxy rules failed, retrying error=", LogValue(status)));
    return false;
  }
  removed_ = true;
  Log(UnreadText(rules->iptables));
  LogEnd(rules->iptables);
  return true;
}

void KubeProxyRemover::Run(const std::stop_token& stop) {
  const auto soon = std::clamp(absence_, kShortest, kUntilRemoved);
  while (!stop.stop_requested()) {
    const bool rest = FindAndRemove(stop);
    rested_ = rested_ || rest;
    WaitUntil(stop, Clock::now() + (rest ? std::max(kRests * absence_, soon) : soon));
  }
}

}  // namespace svcmap::api
