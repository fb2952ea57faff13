// Finds where the kernel is not what is applied: at places that somebody is known to have touched,
// and by going through everything, a few rows at a time. Says what to write; who owns it writes.
//
// Elements are asked for by their keys, so that looking at a row costs the same in a set of any
// size (reading a whole set costs the square of it); how many a set holds tells whether there are
// more than ours.
//
// Not thread-safe; owned by the reconciler.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nft/model/foreign_change.h"
#include "nft/model/kernel.h"
#include "proxy/reconcile/applied.h"

namespace svcmap::proxy {

// What a look has found, and what makes it right again.
struct Damage {
  enum class Rewrite : uint8_t {
    kNo,       // The transaction mends it.
    kInPlace,  // More than is worth mending: all elements are to be written anew,
    kAnew,     // or the tables.
  };
  Rewrite rewrite = Rewrite::kNo;
  nft::Transaction repair;
  size_t elements = 0;  // Missing, wrong or not ours.
  size_t chains = 0;    // Missing, changed or not ours; sets that are not ours, too.

  bool found() const { return rewrite != Rewrite::kNo || elements > 0 || chains > 0; }
};

class Repairer {
 public:
  // Rows of one look.
  static constexpr size_t kRows = 256;
  // Sets with more elements than this are not read whole but written anew.
  static constexpr size_t kMaxRead = 200000;

  Repairer(nft::Kernel& kernel, const Applied& applied) : kernel_(kernel), applied_(applied) {}

  // The tables are as these say, and everything in them is as applied.
  void TablesWritten(std::array<std::shared_ptr<const nft::TableSpec>, 2> specs);

  // What may be wrong.
  void Doubt(const nft::ForeignChange& change);
  void DoubtRows(const nft::Transaction& transaction);
  void DoubtEverything();

  // True while there is something to look at in a hurry.
  bool in_doubt() const;

  // Looks at the next thing that is in doubt; it is no longer if nothing is found.
  absl::StatusOr<Damage> Look();
  // The next rows of a walk through everything, which begins again when it has come to its end.
  absl::StatusOr<Damage> Audit();
  // What was found is not repaired: it is in doubt again.
  void NotRepaired();

  // Walks that came to their end.
  uint64_t audits() const { return audits_; }

 private:
  using Touched = nft::ForeignChange::Touched;

  absl::StatusOr<Damage> LookAtStructure(Family family);
  absl::Status CompareStructure(const nft::TableContent& found, Family family, Damage& damage);
  void CompareCounts(const nft::TableContent& found, Family family);
  absl::StatusOr<Damage> LookAtRows(std::vector<Touched> rows);
  absl::StatusOr<Damage> LookAtSet(nft::SetRef set);
  absl::StatusOr<const nft::TableContent*> Reference(Family family);
  std::vector<Touched> NextRows();

  nft::Kernel& kernel_;
  const Applied& applied_;
  std::array<std::shared_ptr<const nft::TableSpec>, 2> specs_;
  // What tables of these specs look like; made when it is first needed.
  std::array<std::optional<nft::TableContent>, 2> references_;

  std::array<bool, 2> structure_ = {};
  std::array<bool, 2> recount_ = {};  // The structure is right; counts are for when rows are.
  std::deque<Touched> rows_;
  std::array<std::array<bool, kSetCount>, 2> sets_ = {};
  bool everything_ = false;    // Until a walk that began after it was doubted has ended,
  bool audit_covers_ = false;  // which the one under way did.

  // What Look or Audit returned last.
  std::array<bool, 2> looked_structure_ = {};
  std::vector<Touched> looked_rows_;
  std::optional<nft::SetRef> looked_set_;

  // Where the walk is.
  std::string at_service_;
  size_t at_row_ = 0;
  uint64_t audits_ = 0;
};

}  // namespace svcmap::proxy
