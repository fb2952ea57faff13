// A kernel with random failures: a share of the batches is rejected or has an unknown outcome
// (committed or not), and reading the marker sometimes fails. Rejections by the inner kernel are
// recorded, because svcmapd should never send a batch that the kernel rejects.
#pragma once

#include <array>
#include <cerrno>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "nft/base/status.h"
#include "nft/model/kernel.h"

namespace svcmap::nft {

class FaultyKernel final : public Kernel {
 public:
  // `fault_percent` is the percentage of batches that fail. `seed` determines which batches fail.
  FaultyKernel(Kernel& kernel, unsigned fault_percent, uint32_t seed)
      : kernel_(kernel), fault_percent_(fault_percent), random_(seed) {}

  ApplyResult Apply(const Transaction& transaction) override {
    const ApplyResult unknown{ApplyOutcome::kUnknown, ErrnoStatus(ETIMEDOUT, "injected"), {}};
    const bool fault = Chance(fault_percent_);
    const unsigned kind = random_() % 4;
    if (fault && kind == 0) {
      return {ApplyOutcome::kRejected, ErrnoStatus(ENOMEM, "injected"), {}};
    }
    if (fault && kind == 1) {
      return {ApplyOutcome::kRejected, ErrnoStatus(EBUSY, "injected"), {}};
    }
    if (fault && kind == 2) return unknown;
    ApplyResult result = kernel_.Apply(transaction);
    // A rewrite whose table cannot be read assumes that the table has all sets, and deletes them.
    const bool assumed_sets = std::exchange(unread_, false);
    if (result.outcome != ApplyOutcome::kRejected) {
      last_ = transaction;
      if (observer_) observer_(transaction);
    } else if (!assumed_sets && (!excused_ || !excused_())) {
      rejected_.push_back(result.error.ToString());
    }
    return fault ? unknown : result;
  }

  absl::StatusOr<std::vector<std::optional<Element>>> ReadElements(
      SetRef set, std::span<const FieldBytes> keys) override {
    if (Chance(fault_percent_)) return ErrnoStatus(ETIMEDOUT, "injected");
    return kernel_.ReadElements(set, keys);
  }
  absl::StatusOr<std::optional<TableContent>> ReadTable(Family family) override {
    auto content = kernel_.ReadTable(family);
    unread_ |= !content.ok();
    return content;
  }
  absl::StatusOr<TableContent> ReferenceContent(const TableSpec& spec) override {
    return kernel_.ReferenceContent(spec);
  }
  absl::StatusOr<bool> HasTable(Family family) override { return kernel_.HasTable(family); }
  absl::StatusOr<std::vector<Element>> ReadSet(SetRef set) override { return kernel_.ReadSet(set); }
  absl::StatusOr<uint32_t> Generation() override { return kernel_.Generation(); }

  // `excused` returns true if the last rejection was caused by a fault injected in a lower layer.
  void SetExcuse(std::function<bool()> excused) { excused_ = std::move(excused); }

  // `observer` is called after each transaction that the inner kernel has committed.
  void SetObserver(std::function<void(const Transaction&)> observer) {
    observer_ = std::move(observer);
  }

  // Returns the last transaction that may have been committed.
  const Transaction& last() const { return last_; }
  const std::vector<std::string>& rejected() const { return rejected_; }

 private:
  bool Chance(unsigned percent) { return random_() % 100 < percent; }

  Kernel& kernel_;
  unsigned fault_percent_;
  std::mt19937 random_;
  std::function<bool()> excused_;
  std::function<void(const Transaction&)> observer_;
  bool unread_ = false;  // True if reading a table has failed since the last transaction.
  Transaction last_;
  std::vector<std::string> rejected_;
};

}  // namespace svcmap::nft
