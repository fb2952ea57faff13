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

constexpr std::chrono::milliseconds kUntilServing{100};
constexpr std::chrono::seconds kUntilRemoved{2};
constexpr std::chrono::seconds kAfterwards{60};  // Kube-proxy writes its rules anew each 30 s.
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
absl::StatusOr<IptablesRead> ReadKubeProxyChains() {
  const absl::StatusOr<std::vector<nft::ForeignChain>> chains = nft::ReadChains();
  if (!chains.ok()) return chains.status();
  return ReadIptables(*chains,
                      [](const nft::ForeignChain& chain) { return IsKubeProxyChain(chain.name); });
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
absl::Status RemoveFrom(IptablesRead::Found found) {
  absl::Status status;
  for (int i = 0; i < kRestores; ++i) {
    const Removal removal = PlanRemoval(found.save);
    if (removal.empty()) return absl::OkStatus();
    status = RestoreIptables(found.flavour, removal.RestoreText());
    if (status.ok()) {
      LogRemoval(found.flavour, removal);
      return status;
    }
    absl::StatusOr<IptablesRead> again = ReadKubeProxyChains();
    if (!again.ok()) return again.status();
    const auto same = std::find_if(again->found.begin(), again->found.end(),
                                   [&](const IptablesRead::Found& other) {
                                     return other.flavour.ToString() == found.flavour.ToString();
                                   });
    if (same == again->found.end()) return absl::OkStatus();
    found = std::move(*same);
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

KubeProxyRemover::KubeProxyRemover(std::function<proxy::LoopStatus()> status)
    : status_(std::move(status)), thread_([this](const std::stop_token& stop) { Run(stop); }) {}

void KubeProxyRemover::Say(const std::string& text) {
  if (text == std::exchange(said_, text) || text.empty()) return;
  spdlog::warn("kube-proxy's rules: {}", text);
}

bool KubeProxyRemover::Serving() {
  const proxy::LoopStatus status = status_();
  if (status.state != proxy::LoopStatus::State::kServing || !status.complete ||
      status.oldest_unsynced) {
    return false;
  }
  if (status.services > 0) return true;
  Say("they stay: the state that we were told is complete and has no Service");
  return false;
}

bool KubeProxyRemover::LookAndRemove() {
  const absl::StatusOr<std::unique_ptr<nft::NetlinkKernel>> kernel = OpenKubeProxyTables();
  const absl::StatusOr<std::vector<Family>> tables =
      kernel.ok() ? KubeProxyTables(**kernel) : kernel.status();
  const absl::StatusOr<IptablesRead> iptables = ReadKubeProxyChains();
  if (!tables.ok() || !iptables.ok()) {
    const absl::Status& status = tables.ok() ? iptables.status() : tables.status();
    Say(absl::StrCat("they could not be looked for: ", std::string(status.message())));
    return false;
  }
  const auto plan_is_empty = [](const IptablesRead::Found& found) {
    return PlanRemoval(found.save).empty();
  };
  const bool nothing =
      tables->empty() && std::all_of(iptables->found.begin(), iptables->found.end(), plan_is_empty);
  if (nothing) {
    Say(UnreadText(*iptables));
    return true;
  }
  if (removed_) {
    Say("they are back: a kube-proxy, or what acts for it, writes them, and two proxies serve "
        "beside each other now; stop it and start svcmapd again to remove them");
    return true;
  }
  if (const std::string ipvs = FindIpvs(); !ipvs.empty()) {
    Say(absl::StrCat("they stay: ", ipvs,
                     ", and what mode ipvs made is not removed here; run kube-proxy --cleanup"));
    return false;
  }
  if (const std::string runs = FindKubeProxy(); !runs.empty()) {
    Say(absl::StrCat("they stay: ", runs,
                     ", and it would write them again; they are removed once it has ended"));
    return false;
  }
  absl::Status status = tables->empty() ? absl::OkStatus() : RemoveTables(**kernel, *tables);
  for (const IptablesRead::Found& found : iptables->found) {
    if (const absl::Status removed = RemoveFrom(found); !removed.ok()) status = removed;
  }
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
  std::mutex mutex;
  std::condition_variable_any wake;
  const auto wait = [&](std::chrono::milliseconds time) {
    std::unique_lock lock(mutex);
    wake.wait_for(lock, stop, time, [] { return false; });
  };
  while (!stop.stop_requested() && !Serving()) wait(kUntilServing);
  while (!stop.stop_requested()) wait(LookAndRemove() ? kAfterwards : kUntilRemoved);
}

}  // namespace svcmap::api
