// The kernel as the proxy sees it: something that takes a transaction whole or not at all, and can
// be asked what it holds. nft/netlink is the real one, nft/fake one in memory that is as strict.
//
// Calls block and may come from one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/model/field.h"
#include "nft/model/table_content.h"
#include "nft/model/transaction.h"

namespace svcmap::nft {

// What we know once a batch was sent. kUnknown is no failure: acks were lost, the kernel may have
// committed; only a marker in the kernel can tell.
enum class ApplyOutcome : uint8_t { kCommitted, kRejected, kUnknown };

struct ApplyResult {
  ApplyOutcome outcome = ApplyOutcome::kCommitted;
  absl::Status error;  // OK exactly when committed.
  // kRejected: which element the kernel named, counted over the transaction's elements.
  std::optional<size_t> failed_element;
};

// An element read back.
struct Element {
  std::vector<uint8_t> key;
  std::vector<uint8_t> data;
  std::string comment;
  bool interval_end = false;
  std::vector<uint8_t> key_end;  // Of interval sets with several fields.

  friend auto operator<=>(const Element&, const Element&) = default;
};

class Kernel {
 public:
  virtual ~Kernel() = default;

  // All or nothing. A transaction that adds what is there with other data, deletes what is not
  // there, or overfills a sized set is rejected. An empty one is committed without asking the
  // kernel.
  virtual ApplyResult Apply(const Transaction& transaction) = 0;

  virtual absl::StatusOr<bool> HasTable(Family family) = 0;

  // All elements of one set, in no order, as of one generation (the dump is repeated while commits
  // interfere). Costs O(n^2 / 32 KiB) in the kernel: about 0.1 s for 100,000 elements.
  virtual absl::StatusOr<std::vector<Element>> ReadSet(SetRef set) = 0;

  // The elements under `keys`, in their order; nothing for one that is not there, or whose set or
  // table is not. Each is as it was at some moment of the call, which need not be the same for all.
  // Costs a few microseconds per key, however large the set is. In an interval set a key finds the
  // range that it lies in. Keys of a wrong length are an error.
  virtual absl::StatusOr<std::vector<std::optional<Element>>> ReadElements(
      SetRef set, std::span<const FieldBytes> keys) = 0;

  // The same for one.
  absl::StatusOr<std::optional<Element>> ReadElement(SetRef set, std::span<const uint8_t> key);

  // What our table is made of, as of one generation (repeated while commits interfere); nothing if
  // it is not there. Reads the definitions of all chains and rules, no elements of named sets.
  virtual absl::StatusOr<std::optional<TableContent>> ReadTable(Family family) = 0;

  // nf_tables' generation id of this network namespace; each commit of anybody adds one, a batch
  // that changes nothing (all its elements were there) adds none.
  virtual absl::StatusOr<uint32_t> Generation() = 0;

  // What ReadTable tells of a table that was just created from `spec`, as long as nobody touched
  // it.
  virtual absl::StatusOr<TableContent> ReferenceContent(const TableSpec& spec) = 0;

  // The newest generation up to which every foreign change to our tables has been handed to whoever
  // watches; nothing where nobody does. Any thread.
  virtual std::optional<uint32_t> ReportedGeneration() const { return std::nullopt; }
};

}  // namespace svcmap::nft
