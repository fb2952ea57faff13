#include "api/daemon/kube_proxy_remover.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/migration/iptables.h"
#include "api/migration/kube_proxy_process.h"
#include "api/migration/kube_proxy_rules.h"
#include "nft/base/status.h"
#include "nft/netlink/netlink_kernel.h"

namespace svcmap::api {
namespace {

// Between two looks.
constexpr std::chrono::milliseconds kShortest{100};
constexpr std::chrono::milliseconds kUntilRemoved{2000};
constexpr int kRests = 2;     // Times the absence, when there is nothing to be done.
constexpr int kRestores = 3;  // Between our look and our change somebody may change the same table.

std::string_view NftFamily(Family family) { return family == Family::kIpv4 ? "ip" : "ip6"; }

// Which of the tables of mode nftables there are.
absl::StatusOr<std::vector<Family>> KubeProxyTables(nft::NetlinkKernel& kernel) {
  std::vector<Family> families;
  for (const Family family : kFamilies) {
    const absl::StatusOr<bool> there = kernel.HasTable(family);
    if (!there.ok()) return there.status();
    if (*there) families.push_back(family);
  }
  return families;
}

absl::StatusOr<std::unique_ptr<nft::NetlinkKernel>> OpenKubeProxyTables() {
  nft::TableSpecs specs(kFamilies.size());
  for (const Family family : kFamilies) {
    specs[Index(family)].family = family;
    specs[Index(family)].name = kKubeProxyTable;
  }
  return nft::NetlinkKernel::Open(specs);
}

// Empty if everything was looked at.
std::string UnreadText(const IptablesRead& iptables) {
  if (iptables.unread.empty()) return "";
  return absl::StrCat("some may be left, not looked at are ", absl::StrJoin(iptables.unread, "; "));
}

// Reads nothing of nf_tables' part of iptables where there is nothing of kube-proxy in it.
absl::StatusOr<IptablesRead> ReadKubeProxyChains(const std::stop_token& stop) {
  const absl::StatusOr<std::vector<nft::ForeignChain>> chains = nft::ReadChains();
  if (!chains.ok()) return chains.status();
  return ReadIptables(
      *chains, [](const nft::ForeignChain& chain) { return IsKubeProxyChain(chain.name); }, stop);
}

// What is to be removed from one flavour.
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
      spdlog::info("kube-proxy's rules: removed from {}, table {}: {}", flavour.ToString(),
                   table.table, jump);
    }
    spdlog::info("kube-proxy's rules: removed from {}, table {}: {}", flavour.ToString(),
                 table.table, ChainsText(table.chains));
  }
  for (const std::string& kept : removal.kept) {
    spdlog::warn("kube-proxy's rules: {} keeps {}; see docs/migration.md", flavour.ToString(),
                 kept);
  }
}

// Looks again before each try but the first.
absl::Status RemoveFrom(Plan plan, const std::stop_token& stop) {
  absl::Status status;
  for (int i = 0; i < kRestores && !stop.stop_requested(); ++i) {
    status = RestoreIptables(plan.flavour, plan.removal.RestoreText(), stop);
    if (status.ok()) {
      LogRemoval(plan.flavour, plan.removal);
      return status;
    }
    const absl::StatusOr<IptablesRead> again = ReadKubeProxyChains(stop);
    if (!again.ok()) return again.status();
    std::vector<Plan> plans = PlansOf(*again);
    const auto same = std::find_if(plans.begin(), plans.end(), [&](const Plan& other) {
      return other.flavour.ToString() == plan.flavour.ToString();
    });
    if (same == plans.end()) return again->unread.empty() ? absl::OkStatus() : status;
    plan = std::move(*same);
  }
  return status;
}

absl::Status RemoveTables(nft::NetlinkKernel& kernel, const std::vector<Family>& families) {
  nft::Transaction transaction;
  for (const Family family : families) transaction.DropTable(family);
  absl::Status removed = kernel.Apply(transaction).error;
  for (const Family family : families) {
    if (removed.ok()) {
      spdlog::info("kube-proxy's rules: removed table {} {}", NftFamily(family), kKubeProxyTable);
    }
  }
  return removed;
}

}  // namespace

KubeProxyRemover::KubeProxyRemover(std::function<proxy::LoopStatus()> status,
                                   std::chrono::milliseconds absence)
    : status_(std::move(status)),
      absence_(absence),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

void KubeProxyRemover::Say(const std::string& text) {
  if (text == std::exchange(said_, text) || text.empty()) return;
  spdlog::warn("kube-proxy's rules: {}", text);
}

bool KubeProxyRemover::Absent() {
  if (const std::string runs = FindKubeProxy(); !runs.empty()) {
    absent_since_.reset();
    rested_ = removed_ = false;
    Say(absl::StrCat("they stay: ", runs,
                     ", and it would write them again; they are removed once it has ended"));
    return false;
  }
  if (!absent_since_) {
    absent_since_ = Clock::now();
    spdlog::info(
        "kube-proxy's rules: no kube-proxy is seen; once that was so for {} s, and we "
        "serve, they are removed",
        absence_.count() / 1000);
  }
  return Clock::now() - *absent_since_ >= absence_;
}

bool KubeProxyRemover::Serving() {
  const proxy::LoopStatus status = status_();
  if (!status.confirmed) {
    Say("they stay, if there are any: since our start nobody has told us all that is to be served; "
        "a snapshot does, as controllers, svcmapctl apply --prune and --manifests send it");
  } else if (status.services == 0) {
    Say("they stay: the state that we were told is complete and has no Service");
  } else if (status.refused_services > 0) {
    Say(absl::StrCat("they stay: the kernel refuses ours of ", status.refused_services,
                     status.refused_services == 1 ? " Service" : " Services"));
  } else {
    return status.state == proxy::LoopStatus::State::kServing && status.verified &&
           !status.oldest_unsynced;
  }
  return false;
}

// What costs little is asked first: iptables-save takes seconds on a large node.
bool KubeProxyRemover::LookAndRemove(const std::stop_token& stop) {
  if (!Absent() || !Serving()) return false;
  if (HasIpvsInterface()) {
    Say(absl::StrCat("they stay: there is an interface ", kIpvsInterface,
                     ", and what mode ipvs made is not removed here; run kube-proxy --cleanup, "
                     "which removes all that there is of ipvs, also what is others'"));
    return false;
  }
  const absl::StatusOr<std::unique_ptr<nft::NetlinkKernel>> kernel = OpenKubeProxyTables();
  const absl::StatusOr<std::vector<Family>> tables =
      kernel.ok() ? KubeProxyTables(**kernel) : kernel.status();
  const absl::StatusOr<IptablesRead> iptables = ReadKubeProxyChains(stop);
  if (stop.stop_requested()) return true;
  if (!tables.ok() || !iptables.ok()) {
    const absl::Status& status = tables.ok() ? iptables.status() : tables.status();
    Say(absl::StrCat("they could not be looked for: ", std::string(status.message())));
    return false;
  }
  std::vector<Plan> plans = PlansOf(*iptables);
  if (tables->empty() && plans.empty()) {
    Say(UnreadText(*iptables));
    return true;
  }
  if (removed_) {
    Say("they are back: a kube-proxy, or what acts for it, writes them, and two proxies serve "
        "beside each other now; stop it and start svcmapd again to remove them");
    return true;
  }
  if (std::exchange(rested_, false)) {  // Who wrote them meanwhile may have ended just now.
    absent_since_.reset();
    return false;
  }
  if (!Absent() || !Serving()) return false;  // Reading took its time.
  absl::Status status = tables->empty() ? absl::OkStatus() : RemoveTables(**kernel, *tables);
  for (Plan& plan : plans) {
    if (const absl::Status removed = RemoveFrom(std::move(plan), stop); !removed.ok()) {
      status = removed;
    }
  }
  if (stop.stop_requested()) return true;
  if (!status.ok()) {
    Say(absl::StrCat("not all could be removed: ", std::string(status.message()),
                     "; trying again"));
    return false;
  }
  removed_ = true;
  Say(UnreadText(*iptables));
  if (iptables->unread.empty()) {
    spdlog::info("kube-proxy's rules are removed, ours serve alone");
  }
  return true;
}

void KubeProxyRemover::Run(const std::stop_token& stop) {
  const auto soon = std::clamp(absence_, kShortest, kUntilRemoved);
  std::mutex mutex;
  std::condition_variable_any wake;
  while (!stop.stop_requested()) {
    const bool rest = LookAndRemove(stop);
    rested_ = rested_ || rest;
    std::unique_lock lock(mutex);
    wake.wait_for(lock, stop, rest ? std::max(kRests * absence_, soon) : soon,
                  [] { return false; });
  }
}

}  // namespace svcmap::api
