// The kernel in memory, for tests: as strict as nf_tables of Linux 6.18, which
// tests/contract/*_contract_test.cc hold it to. It keeps sets, elements, and
// which chains and rules there are.
//
// Beyond the contract of nft::Kernel it can be told to fail, and be changed behind the caller's
// back as other programs do. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "nft/fake/fake_chains.h"
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
  absl::StatusOr<std::vector<std::optional<Element>>> ReadElements(
      SetRef set, std::span<const FieldBytes> keys) override;
  absl::StatusOr<std::optional<TableContent>> ReadTable(Family family) override;
  absl::StatusOr<TableContent> ReferenceContent(const TableSpec& spec) override;
  absl::StatusOr<uint32_t> Generation() override { return generation_; }

  void SetFaultHook(FaultHook hook) { fault_hook_ = std::move(hook); }

  // What other programs do; each is a commit. False, and no commit, where the kernel would refuse:
  // there is no such table, chain, rule or element, or it is there, or rules still lead to it.
  bool ForeignDropTable(Family family);
  bool ForeignAddChain(Family family, const std::string& name);
  bool ForeignDeleteChain(Family family, const std::string& chain);  // With its rules.
  bool ForeignAddRule(Family family, const std::string& chain);      // Behind the others.
  bool ForeignDeleteRule(Family family, const std::string& chain);   // The first one.
  bool ForeignAddSet(Family family, const std::string& name);
  bool ForeignAddElement(const ElementView& element);
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
  struct Table {
    std::vector<FakeSet> sets;
    FakeChains chains;
    std::set<std::string> foreign_sets;
  };

  std::optional<Failure> Run(const Transaction& transaction);
  std::optional<Failure> Create(const Transaction::TableCreation& creation);
  std::optional<Failure> Write(const TableSpec& spec, Table& table);
  std::optional<Failure> Repair(const ChainRepair& repair);
  std::optional<Failure> RunElements(const Transaction& transaction);

  const TableSpec& Spec(Family family, const std::shared_ptr<const TableSpec>& spec) const {
    return spec ? *spec : specs_[Index(family)];
  }
  // Runs `change` on the table's chains; a commit if it returns no errno.
  template <typename Fn>
  bool ForeignChainChange(Family family, Fn&& change);

  TableSpecs specs_;
  std::optional<Table> tables_[2];  // By Index(Family).
  uint32_t generation_ = 1;
  bool changed_ = false;  // By the running transaction.
  FaultHook fault_hook_;
};

}  // namespace svcmap::nft
