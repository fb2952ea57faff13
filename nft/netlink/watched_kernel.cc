#include "nft/netlink/watched_kernel.h"

namespace svcmap::nft {
namespace {

// Below this a batch is not worth the four system calls of not listening.
constexpr size_t kLargeBatch = 500;

}  // namespace

absl::StatusOr<std::unique_ptr<WatchedKernel>> WatchedKernel::Open(
    TableSpecs tables, std::function<void(const std::string&)> on_change) {
  const std::string table = tables.front().name;
  absl::StatusOr<std::unique_ptr<NetlinkKernel>> kernel = NetlinkKernel::Open(std::move(tables));
  if (!kernel.ok()) return kernel.status();
  absl::StatusOr<std::unique_ptr<Monitor>> monitor =
      Monitor::Start(table, (*kernel)->port_id(), on_change);
  if (!monitor.ok()) return monitor.status();
  return std::unique_ptr<WatchedKernel>(
      new WatchedKernel(*std::move(kernel), *std::move(monitor), std::move(on_change)));
}

ApplyResult WatchedKernel::Apply(const Transaction& transaction) {
  const bool large = transaction.element_count() > kLargeBatch || !transaction.creations().empty();
  if (!large) return kernel_->Apply(transaction);

  const absl::StatusOr<uint32_t> before = kernel_->Generation();
  monitor_->Pause();
  ApplyResult result = kernel_->Apply(transaction);
  monitor_->Resume();
  const absl::StatusOr<uint32_t> after = kernel_->Generation();
  const uint32_t own = result.outcome == ApplyOutcome::kCommitted ? 1 : 0;
  if (!before.ok() || !after.ok() || *after - *before != own) {
    on_change_("somebody else committed during a large batch");
  }
  return result;
}

}  // namespace svcmap::nft
