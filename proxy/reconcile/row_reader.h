// Reads the rows of a dump in portions. The loop's thread copies one portion at a time, so that a
// dump of any size delays changes only briefly. Another thread builds the result.
//
// Each Service is copied at one point in time. Services in different portions may have different
// revisions, if a commit occurs between the portions.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nft/model/transaction.h"
#include "proxy/desired/rows.h"
#include "proxy/diff/plan.h"
#include "proxy/reconcile/planner.h"

namespace svcmap::proxy {

class Reconciler;

class RowReader {
 public:
  enum class Rows : uint8_t {
    kDesired,  // All desired rows except the marker, as if the tables were written completely.
    kApplied,  // All applied rows except the marker.
    kPending,  // The differences that lead from the applied rows to the desired rows.
  };
  static constexpr auto kNoLimit = std::chrono::steady_clock::duration::max();

  explicit RowReader(Rows rows) : rows_(rows) {}
  RowReader(const RowReader&) = delete;
  RowReader& operator=(const RowReader&) = delete;

  // Copies rows until `limit` has passed, but copies at least one Service. Returns true if all rows
  // are merged. Call on the loop's thread.
  bool Read(Reconciler& reconciler, std::chrono::steady_clock::duration limit);
  // Adds the copied rows to the result. Call after each Read() that returned false, on any thread.
  void Merge();
  // Returns the result. Call after the last Read(), on any thread.
  nft::Transaction Take();

 private:
  struct Portion {
    std::string key;
    std::optional<ServiceRows> before;
    ServiceRows after;
  };

  void Start(Reconciler& reconciler);

  const Rows rows_;
  bool started_ = false;
  std::vector<std::string> keys_;  // Services to read.
  size_t next_key_ = 0;
  std::unique_ptr<Numbering> numbering_;
  int64_t source_rows_[2] = {};  // Number of source range rows in addition to the applied rows.
  std::vector<Portion> copied_;
  SharedCounts shared_;
  Plan plan_{shared_};
};

}  // namespace svcmap::proxy
