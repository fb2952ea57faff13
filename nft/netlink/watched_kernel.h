// A kernel with a monitor that detects changes to svcmap's tables by other processes. During large
// batches the monitor is paused, because notifications make a commit several times slower. The
// generation id shows whether another process committed during the pause: each commit increments
// the id by exactly one.
#pragma once

#include <memory>

#include "nft/netlink/monitor.h"
#include "nft/netlink/netlink_kernel.h"

namespace svcmap::nft {

struct WatchedKernelOptions {
  SessionOptions session = {};  // WatchedKernel sets `on_port`.
  MonitorOptions monitor = {};
};

class WatchedKernel final : public NetlinkKernel {
 public:
  // The monitor's thread calls `on_change` once for each transaction of another process that
  // changed svcmap's tables.
  static absl::StatusOr<std::unique_ptr<WatchedKernel>> Open(TableSpecs tables,
                                                             Monitor::OnChange on_change,
                                                             WatchedKernelOptions options = {});

  ApplyResult Apply(const Transaction& transaction) override;
  // Returns the newest generation id up to which all changes by other processes were reported.
  // Thread-safe.
  uint32_t reported_generation() const { return monitor_->reported(); }

  // Returns false if, for several seconds, the monitor has had no socket or has been waiting for
  // the notification of a commit by any process. The monitor continues to retry. The result becomes
  // true again when the monitor receives the notification of a small commit. Thread-safe.
  bool WatcherAlive() const { return monitor_->alive(); }

 private:
  WatchedKernel(std::unique_ptr<Monitor> monitor, TableSpecs tables, Session session)
      : NetlinkKernel(std::move(tables), std::move(session)), monitor_(std::move(monitor)) {}

  std::unique_ptr<Monitor> monitor_;
};

}  // namespace svcmap::nft
