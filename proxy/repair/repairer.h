// Finds and repairs differences between the kernel and the applied state. Checks the objects that
// other processes changed, and audits all rows, a few at a time. Repairs rows and chains in place.
// All other damage needs a rewrite, which reads the tables and writes only what differs.
//
// Elements are looked up by key, so the cost per row is independent of the size of the set. The
// number of elements in a set shows whether the set contains unknown elements.
//
// Not thread-safe. The reconciler owns the Repairer.
#pragma once

#include <array>
#include <bitset>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/model/foreign_change.h"
#include "nft/model/kernel.h"
#include "proxy/applied/applied.h"
#include "proxy/diff/rewrite.h"

namespace svcmap::proxy {

// Outcome of comparing some rows with the kernel.
struct RepairResult {
  enum class Outcome : uint8_t {
    kNothing,   // No differences.
    kRepaired,  // Differences were found and repaired.
    kRewrite,   // Found damage that only a rewrite of the tables repairs.
    kFailed,    // The kernel could not be read, or it rejected the repair.
  };
  Outcome outcome = Outcome::kNothing;
  absl::Status error;   // kFailed only.
  size_t elements = 0;  // Number of missing, wrong and unknown elements.
  // Number of missing, changed and unknown chains, sets, objects and table flags.
  size_t chains = 0;
  std::chrono::nanoseconds duration{0};
  // The last reported change by another process, such as "3 elements deleted from endpoints". May
  // be empty. Set by the loop.
  std::string damage;
  std::string process;  // The process that made the change, if known. Set by the loop.
};

class Repairer {
 public:
  // Maximum number of rows per check of an audit.
  static constexpr size_t kRows = 256;
  // Larger sets without ranges are not dumped, because the time of a dump is quadratic.
  static constexpr int64_t kMaxDump = 100000;

  Repairer(nft::Kernel& kernel, const Applied& applied) : kernel_(kernel), applied_(applied) {}

  // Call after the tables were written from `specs` and contain exactly the applied rows.
  void TablesWritten(std::array<std::shared_ptr<const nft::TableSpec>, 2> specs);

  // Call after chains and rules were changed to those of `specs`. Sets and rows did not change.
  void RulesWritten(std::array<std::shared_ptr<const nft::TableSpec>, 2> specs);

  // Marks the changed objects as suspect.
  void MarkSuspect(const nft::ForeignChange& change);
  void MarkRowsSuspect(const nft::Transaction& transaction);

  // Returns true if there are suspect objects to check.
  bool has_suspects() const { return has_known_suspects() || audits_due_ > 0; }

  // Returns true if chains, sets or single rows are suspect. Their check needs no audit.
  bool has_known_suspects() const {
    return structure_[0] || structure_[1] || !rows_.empty() || sets_[0].any() || sets_[1].any();
  }

  // Checks the next suspect object and repairs it. The object stays suspect if this fails. If no
  // object is suspect, checks the next rows of the audit. After the last row, the next audit starts
  // at the first row.
  RepairResult Repair();
  // Number of repairs that the kernel has rejected since the last success or rewrite.
  int rejected() const { return rejected_; }
  // Number of completed audits.
  uint64_t audits() const { return audits_; }

 private:
  using Touched = nft::ForeignChange::Touched;

  // Detected damage and its repair.
  struct Damage {
    bool rewrite = false;  // True if the tables must be rewritten. `repair` is not used then.
    nft::Transaction repair;
    size_t elements = 0, chains = 0;  // As in RepairResult.
    nft::ForeignChange checked;       // Suspect again if the repair fails.
  };

  absl::StatusOr<Damage> CheckNext();
  absl::StatusOr<Damage> Audit();
  absl::StatusOr<Damage> CheckStructure(Family family);
  void CompareCounts(const nft::TableContent& found, Family family);
  absl::StatusOr<Damage> CheckRows(std::vector<Touched> rows, const nft::Transaction& expected);
  absl::StatusOr<Damage> CheckSet(nft::SetRef set);
  int64_t ExpectedCount(nft::SetRef set) const;
  // `ranges`: only rows of sets of ranges are wanted.
  nft::Transaction ExpectedElements(absl::FunctionRef<bool(const nft::ElementView&)> is_wanted,
                                    bool ranges = false) const;

  nft::Kernel& kernel_;
  const Applied& applied_;
  std::array<std::shared_ptr<const nft::TableSpec>, 2> specs_;
  // Expected content of tables created from `specs_`, read on first use.
  std::array<std::optional<nft::TableContent>, 2> references_;

  std::array<bool, 2> structure_ = {};
  // True if an audit has ended and unknown elements are possible. The next check of the structure
  // then marks the sets whose number of elements the kernel does not report as suspect.
  std::array<bool, 2> search_uncounted_ = {};
  std::vector<Touched> rows_;
  std::array<std::bitset<kRowSetCount>, 2> sets_;
  // Number of audits that must end until all rows have been checked since everything became
  // suspect. If an audit was in progress, it continues. Otherwise, the last rows would never be
  // checked if notifications are lost repeatedly.
  int audits_due_ = 0;

  // Position of the audit in progress.
  std::string at_service_;
  size_t at_row_ = 0;
  uint64_t audits_ = 0;
  int rejected_ = 0;
};

// Creates tables and adds elements in bounded commits, first slots first, so that Services work
// early. A transaction that deletes or changes more than the marker is one commit, because what is
// replaced must not be missing between two commits.
nft::ApplyResult ApplyInParts(nft::Kernel& kernel, nft::Transaction& transaction);

}  // namespace svcmap::proxy
