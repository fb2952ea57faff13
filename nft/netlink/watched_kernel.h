// A kernel that is watched: between our own commits a monitor notices what others do to our tables.
// Around large batches it does not listen, which would make them many times slower; the generation
// id tells whether somebody else committed meanwhile: each commit adds exactly one.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "nft/netlink/monitor.h"
#include "nft/netlink/netlink_kernel.h"

namespace svcmap::nft {

class WatchedKernel final : public Kernel {
 public:
  // `on_change` is called on the monitor's thread, or on the caller's inside Apply.
  static absl::StatusOr<std::unique_ptr<WatchedKernel>> Open(
      TableSpecs tables, std::function<void(const std::string&)> on_change);

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

 private:
  WatchedKernel(std::unique_ptr<NetlinkKernel> kernel, std::unique_ptr<Monitor> monitor,
                std::function<void(const std::string&)> on_change)
      : kernel_(std::move(kernel)),
        on_change_(std::move(on_change)),
        monitor_(std::move(monitor)) {}

  std::unique_ptr<NetlinkKernel> kernel_;
  std::function<void(const std::string&)> on_change_;
  std::unique_ptr<Monitor> monitor_;
};

}  // namespace svcmap::nft
