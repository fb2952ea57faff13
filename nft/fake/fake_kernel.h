// The kernel in memory, for tests: as strict as nf_tables of Linux 6.18, which
// tests/contract/kernel_contract_test.cc holds it to. It keeps sets and elements; of chains and
// rules it only knows that they were created.
//
// Beyond the contract of nft::Kernel it can be told to fail, and be changed behind the caller's
// back as other programs do. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nft/fake/fake_set.h"
#include "nft/model/kernel.h"
#include "nft/model/table.h"

namespace svcmap::nft {

class FakeKernel final : public Kernel {
 public:
  enum class Fault : uint8_t {
    kNone,                 // Commit if the transaction is valid.
    kReject,               // Nothing happens: kRejected.
    kUnknownCommitted,     // kUnknown; it was committed, if valid.
    kUnknownNotCommitted,  // kUnknown; nothing happened.
  };
  // Decides for each Apply of a transaction that is not empty.
  using FaultHook = std::function<Fault(const Transaction&)>;

  explicit FakeKernel(TableSpecs tables) : specs_(std::move(tables)) {}

  ApplyResult Apply(const Transaction& transaction) override;
  absl::StatusOr<bool> HasTable(Family family) override;
  absl::StatusOr<std::vector<Element>> ReadSet(SetRef set) override;
  absl::StatusOr<std::optional<Element>> ReadElement(SetRef set,
                                                     std::span<const uint8_t> key) override;
  absl::StatusOr<uint32_t> Generation() override { return generation_; }

  void SetFaultHook(FaultHook hook) { fault_hook_ = std::move(hook); }

  // What other programs do; each is a commit. False (and no commit) where there is nothing to take.
  bool ForeignDropTable(Family family);
  bool ForeignRemoveElement(SetRef set, std::span<const uint8_t> key, bool interval_end = false);
  void ForeignCommit() { ++generation_; }  // Something in a table of theirs.

 private:
  struct Failure {
    int error;
    std::string what;
    std::optional<size_t> element;
  };
  struct Undo {
    SetRef set;
    FakeSet::Change change;
  };
  using Table = std::vector<FakeSet>;

  std::optional<Failure> Run(const Transaction& transaction);
  std::optional<Failure> Create(const Transaction::TableCreation& creation);
  std::optional<Failure> RunElements(const Transaction& transaction);

  TableSpecs specs_;
  std::optional<Table> tables_[2];  // By Index(Family).
  uint32_t generation_ = 1;
  bool changed_ = false;  // By the running transaction.
  FaultHook fault_hook_;
};

}  // namespace svcmap::nft
