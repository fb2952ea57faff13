// In-memory kernel for tests, as strict as nf_tables in Linux 6.18. The tests in
// tests/contract/*_contract_test.cc verify that FakeKernel and the real kernel behave identically.
// FakeKernel stores sets and elements, and tracks which chains and rules exist.
//
// Tests can inject failures and simulate changes by another process. Only one thread may call a
// method at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "nft/model/kernel.h"
#include "nft/model/table.h"

namespace svcmap::nft {

// Tracks the chains and rules of one FakeKernel table: existence, order, and jumps between chains.
// FakeChains does not simulate packet processing.
class FakeChains {
 public:
  // Each method returns an errno, or 0 on success. Adds a chain, or keeps an existing chain.
  // Returns EOPNOTSUPP if the existing chain has a different hook.
  int Add(const ChainSpec& chain);
  int AddRule(const RuleSpec& rule);
  int DeleteRules(const std::string& chain);
  int Remove(const std::string& chain);      // Deletes the chain and its rules.
  int DeleteRule(const std::string& chain);  // Deletes the chain's first rule.

  // See TableContent::chains.
  std::map<std::string, uint64_t> Digests() const;
  // See TableContent::bases.
  std::map<std::string, BaseChain> Bases() const;

 private:
  struct Rule {
    uint64_t digest;
    std::vector<std::string> targets;  // Target chains of the rule's jumps and gotos.
  };
  struct Chain {
    uint64_t digest = 0;
    std::optional<BaseChain> base;
    std::vector<Rule> rules;
  };

  std::map<std::string, Chain> chains_;
};

// One set or map of FakeKernel. Stores elements and accepts or rejects changes as nf_tables does.
class FakeSet {
 public:
  // If one range ends where the next range starts, the end element comes first.
  struct Key {
    std::string bytes;
    bool start = true;  // False for the end element of an interval.
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Value {
    std::string data;
    std::string comment;
    std::string key_end;  // Last key of a range with several fields. Otherwise empty.
  };
  // The effect of one operation on the set. `before` is the previous value of `key`, or nullopt if
  // the key did not exist.
  struct Change {
    Key key;
    std::optional<Value> before;
  };
  struct Outcome {
    int error = 0;                 // The errno, or 0 on success.
    std::optional<Change> change;  // Nullopt if the operation failed or changed nothing.
  };

  explicit FakeSet(const SetSpec& spec);

  Outcome Add(const ElementView& element);
  Outcome Delete(const ElementView& element);
  void Undo(const Change& change);

  // Returns the element with this key. In an interval set, returns the start element of the range
  // that contains the key.
  std::optional<Element> Find(std::span<const uint8_t> key) const;
  bool IsKey(std::span<const uint8_t> key) const { return key.size() == key_size_; }
  std::vector<Element> All() const;
  size_t size() const { return elements_.size(); }

 private:
  using Elements = absl::btree_map<Key, Value>;

  int CheckOverlap(const Key& key) const;
  int CheckRanges(const ElementView& element) const;
  Elements::const_iterator RangeOf(std::span<const uint8_t> key) const;
  static Element ToElement(const Elements::value_type& entry);

  size_t key_size_;
  size_t data_size_;
  std::vector<size_t> field_sizes_;  // Size of each key field in bytes, with padding.
  bool interval_;
  bool ranges_;  // True for an interval set with several fields.
  Elements elements_;
};

class FakeKernel final : public Kernel {
 public:
  enum class Fault : uint8_t {
    kNone,                 // No fault: commit a valid transaction.
    kReject,               // Do nothing and return kRejected.
    kUnknownCommitted,     // Commit a valid transaction and return kUnknown.
    kUnknownNotCommitted,  // Do nothing and return kUnknown.
  };
  // FakeKernel calls the hook in each Apply() call with a non-empty transaction. The hook returns
  // the fault to inject.
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

  // Afterwards, ReadTable does not return the numbers of elements, like kernels before Linux 6.16.
  void HideCounts() { reports_counts_ = false; }
  // The next `reads` calls of ReadSet return UNAVAILABLE, as if commits of other processes
  // interrupted them. Calls for sets other than `set` are not interrupted if `set` is present.
  void InterruptReads(int reads, std::optional<SetRef> set = std::nullopt) {
    interrupted_reads_ = reads;
    interrupted_set_ = set;
  }

  // Simulates changes by another process. Each successful change increments the generation id.
  // Returns false if the kernel would reject the change, for example because a chain does not
  // exist, already exists, or is still referenced by rules.
  bool ForeignDropTable(Family family);
  bool ForeignAddChain(Family family, const std::string& name);
  // Deletes the chain and its rules.
  bool ForeignDeleteChain(Family family, const std::string& chain);
  bool ForeignAddRule(Family family, const std::string& chain);  // Appends a rule to the chain.
  // Deletes the chain's first rule.
  bool ForeignDeleteRule(Family family, const std::string& chain);
  bool ForeignAddSet(Family family, const std::string& name);
  bool ForeignAddObject(Family family, const std::string& name);
  bool ForeignSetFlags(Family family, uint32_t flags);
  bool ForeignAddElement(const ElementView& element);
  bool ForeignRemoveElement(SetRef set, std::span<const uint8_t> key, bool interval_end = false);

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
    std::set<std::string> foreign_objects;
    uint32_t flags = 0;
  };

  std::optional<Failure> Run(const Transaction& transaction);
  std::optional<Failure> Create(const Transaction::TableCreation& creation);
  int DeleteSet(Family family, Table& table, const std::string& name);
  static int DeleteObjects(const std::vector<ForeignObject>& objects, Table& table);
  std::optional<Failure> Write(const TableSpec& spec, Table& table);
  std::optional<Failure> Repair(const ChainRepair& repair);
  std::optional<Failure> RunElements(const Transaction& transaction);

  const TableSpec& Spec(Family family, const std::shared_ptr<const TableSpec>& spec) const {
    return spec ? *spec : specs_[Index(family)];
  }
  // Runs `change` on the table's chains. Increments the generation id if `change` returns 0.
  template <typename Fn>
  bool ForeignChainChange(Family family, Fn&& change);

  TableSpecs specs_;
  std::optional<Table> tables_[2];  // Indexed by Index(Family).
  bool reports_counts_ = true;
  int interrupted_reads_ = 0;
  std::optional<SetRef> interrupted_set_;
  uint32_t generation_ = 1;
  bool changed_ = false;  // True if the current transaction has made a change.
  FaultHook fault_hook_;
};

}  // namespace svcmap::nft
