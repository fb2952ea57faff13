// The proxy's interface to nf_tables: applies a transaction atomically, and reads tables and
// elements. The nft/netlink directory implements the interface for the real kernel. FakeKernel in
// tests/support implements the interface in memory, with the same strictness.
//
// Calls block. Only one thread may call a method at a time.
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

// Outcome of a transaction. kUnknown means that acknowledgements were lost, so the kernel may or
// may not have committed the transaction. A marker element in the kernel shows whether the
// transaction was committed.
enum class ApplyOutcome : uint8_t { kCommitted, kRejected, kUnknown };

struct ApplyResult {
  ApplyOutcome outcome = ApplyOutcome::kCommitted;
  absl::Status error;  // OK if and only if the transaction was committed.
  // Index of the element that caused the error. Present only if the outcome is kRejected and the
  // kernel reported the element.
  std::optional<size_t> failed_element;
};

// An element as read from the kernel.
struct Element {
  std::vector<uint8_t> key;  // Empty: matches all other keys ("*" in nft, since Linux 5.13).
  std::vector<uint8_t> data;
  std::string comment;
  bool interval_end = false;
  std::vector<uint8_t> key_end;  // Last key of a range in an interval set with several fields.

  friend auto operator<=>(const Element&, const Element&) = default;
};

class Kernel {
 public:
  virtual ~Kernel() = default;

  // Applies the transaction completely or not at all. The kernel rejects a transaction that adds an
  // existing key with different data, deletes a missing element, or exceeds the size of a set.
  // Returns kCommitted for an empty transaction and sends nothing.
  virtual ApplyResult Apply(const Transaction& transaction) = 0;

  virtual absl::StatusOr<bool> HasTable(Family family) = 0;

  // Returns all elements of one set in unspecified order, from one generation. If a commit happens
  // during the dump, ReadSet repeats the dump. The time of a dump is quadratic in the number of
  // elements, because the kernel skips all elements already sent before each 32 KiB of the dump. A
  // dump of 100,000 elements takes about 0.1 s.
  virtual absl::StatusOr<std::vector<Element>> ReadSet(SetRef set) = 0;

  // Looks up `keys` and returns the elements in the same order. Returns nullopt for each element
  // that does not exist, including when its set or table does not exist. The elements may be from
  // different generations. A lookup takes a few microseconds per key, regardless of the size of the
  // set. In an interval set, the lookup returns the range that contains the key. A key with the
  // wrong length causes an error.
  virtual absl::StatusOr<std::vector<std::optional<Element>>> ReadElements(
      SetRef set, std::span<const FieldBytes> keys) = 0;

  // Looks up a single key, like ReadElements.
  absl::StatusOr<std::optional<Element>> ReadElement(SetRef set, std::span<const uint8_t> key) {
    const FieldBytes bytes = FieldBytes().Append(key);
    absl::StatusOr<std::vector<std::optional<Element>>> elements = ReadElements(set, {&bytes, 1});
    if (!elements.ok()) return elements.status();
    return std::move(elements->front());
  }

  // Returns the structure of svcmap's table from one generation (retried if commits interfere), or
  // nullopt if the table does not exist. Reads the definitions of all chains and rules, but no
  // elements of named sets.
  virtual absl::StatusOr<std::optional<TableContent>> ReadTable(Family family) = 0;

  // Returns nf_tables' generation id of this network namespace. Each commit by any process
  // increments the generation id. A batch that changes nothing (because all its elements exist)
  // does not increment the generation id.
  virtual absl::StatusOr<uint32_t> Generation() = 0;

  // Returns the content that ReadTable would return for a new, unmodified table created from
  // `spec`.
  virtual absl::StatusOr<TableContent> ReferenceContent(const TableSpec& spec) = 0;
};

}  // namespace svcmap::nft
