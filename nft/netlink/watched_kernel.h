// A kernel that is watched: a monitor notices what others do to our tables. Around large batches it
// does not listen, which would make them many times slower; the generation id tells whether
// somebody else committed meanwhile: each commit adds exactly one.
#pragma once

#include <memory>

#include "nft/netlink/monitor.h"
#include "nft/netlink/netlink_kernel.h"

namespace svcmap::nft {

struct WatchedKernelOptions {
  SessionOptions session = {};  // Its `on_port` is the monitor's.
  MonitorOptions monitor = {};
};

class WatchedKernel final : public Kernel {
 public:
  // `on_change` is called on the monitor's thread, once for each foreign transaction that touched
  // our tables.
  static absl::StatusOr<std::unique_ptr<WatchedKernel>> Open(TableSpecs tables,
                                                             Monitor::OnChange on_change,
                                                             WatchedKernelOptions options = {});

  ApplyResult Apply(const Transaction& transaction) override;
  absl::StatusOr<bool> HasTable(Family family) override { return kernel_->HasTable(family); }
  absl::StatusOr<std::vector<Element>> ReadSet(SetRef set) override {
    return kernel_->ReadSet(set);
  }
  absl::StatusOr<std::vector<std::optional<Element>>> ReadElements(
      SetRef set, std::span<const FieldBytes> keys) override {
    return kernel_->ReadElements(set, keys);
  }
  absl::StatusOr<std::optional<TableContent>> ReadTable(Family family) override {
    return kernel_->ReadTable(family);
  }
  absl::StatusOr<TableContent> ReferenceContent(const TableSpec& spec) override {
    return kernel_->ReferenceContent(spec);
  }
  absl::StatusOr<uint32_t> Generation() override { return kernel_->Generation(); }
  std::optional<uint32_t> ReportedGeneration() const override { return monitor_->reported(); }

  // False if the monitor has not heard of the last commit, ours or another's, for some seconds, or
  // has had no socket for so long. It goes on trying; when it was deaf, a small commit that it
  // hears makes it alive again. Any thread.
  bool WatcherAlive() const { return monitor_->alive(); }

 private:
  WatchedKernel(std::unique_ptr<Monitor> monitor, std::unique_ptr<NetlinkKernel> kernel)
      : monitor_(std::move(monitor)), kernel_(std::move(kernel)) {}

  std::unique_ptr<Monitor> monitor_;
  std::unique_ptr<NetlinkKernel> kernel_;
};

}  // namespace svcmap::nft
