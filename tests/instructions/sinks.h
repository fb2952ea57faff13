// A kernel that accepts all data and stores nothing, so that tests measure only the core.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "nft/model/kernel.h"
#include "nft/netlink/batch.h"

namespace svcmap::instructions {

// A kernel that builds the netlink batch of each transaction like the real kernel interface, and
// commits the transaction.
class SinkKernel final : public nft::Kernel {
 public:
  explicit SinkKernel(nft::TableSpecs tables) : tables_(std::move(tables)) {}

  nft::ApplyResult Apply(const nft::Transaction& transaction) override {
    nft::Batch batch(tables_, sequence_);
    batch.Append(transaction);
    batch.Finish();
    sequence_ = batch.next_sequence();
    return {};
  }
  absl::StatusOr<bool> HasTable(Family) override { return false; }
  absl::StatusOr<std::vector<nft::Element>> ReadSet(nft::SetRef) override {
    return std::vector<nft::Element>();
  }
  absl::StatusOr<std::vector<std::optional<nft::Element>>> ReadElements(
      nft::SetRef, std::span<const nft::FieldBytes> keys) override {
    return std::vector<std::optional<nft::Element>>(keys.size());
  }
  absl::StatusOr<std::optional<nft::TableContent>> ReadTable(Family) override {
    return std::optional<nft::TableContent>();
  }
  absl::StatusOr<uint32_t> Generation() override { return 1; }
  absl::StatusOr<nft::TableContent> ReferenceContent(const nft::TableSpec&) override {
    return nft::TableContent();
  }

 private:
  const nft::TableSpecs tables_;
  uint32_t sequence_ = 1;
};

}  // namespace svcmap::instructions
