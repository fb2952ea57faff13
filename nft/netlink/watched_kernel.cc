#include "nft/netlink/watched_kernel.h"

namespace svcmap::nft {
namespace {

// Pausing the monitor for smaller batches costs more system calls than it saves.
constexpr size_t kLargeBatch = 100;

bool IsLarge(const Transaction& transaction) {
  return transaction.element_count() > kLargeBatch || !transaction.creations().empty() ||
         !transaction.repairs().empty();
}

}  // namespace

absl::StatusOr<std::unique_ptr<WatchedKernel>> WatchedKernel::Open(TableSpecs tables,
                                                                   Monitor::OnChange on_change,
                                                                   WatchedKernelOptions options) {
  absl::StatusOr<std::unique_ptr<Monitor>> monitor =
      Monitor::Start(tables, std::move(on_change), options.monitor);
  if (!monitor.ok()) return monitor.status();
  options.session.on_port = [m = monitor->get()](uint32_t port_id) { m->AddOwnPort(port_id); };
  absl::StatusOr<Session> session = Session::Open(std::move(options.session));
  if (!session.ok()) return session.status();
  return std::unique_ptr<WatchedKernel>(
      new WatchedKernel(*std::move(monitor), std::move(tables), *std::move(session)));
}

// Pauses the monitor only after SettledGeneration() has waited for any commit in progress. If the
// monitor were paused during a commit, the commit's notifications would be lost.
ApplyResult WatchedKernel::Apply(const Transaction& transaction) {
  if (!IsLarge(transaction)) return NetlinkKernel::Apply(transaction);

  const absl::StatusOr<uint32_t> before = SettledGeneration();
  monitor_->Pause();
  ApplyResult result = NetlinkKernel::Apply(transaction);
  monitor_->Resume();
  const absl::StatusOr<uint32_t> after = Generation();
  if (before.ok() && after.ok()) {
    const uint32_t commits = *after - *before;
    const bool explained =
        commits == 0 || (commits == 1 && result.outcome == ApplyOutcome::kCommitted);
    monitor_->CloseGap(*before, *after, explained);
  } else {
    monitor_->CloseUnknownGap();
  }
  return result;
}

}  // namespace svcmap::nft
