// Parts of the reconciler that its files share. Not for others.
#pragma once

#include <utility>
#include <vector>

#include "proxy/reconcile/reconciler.h"

namespace svcmap::proxy {

struct Reconciler::Draft {
  explicit Draft(const SharedCounts& shared) : plan(shared) {}

  Plan plan;
  bool recreate = false;
  std::vector<Store::Dirty> taken;
  Applied::ServiceChanges services;
  std::vector<Number> new_numbers;
  std::vector<Number> old_numbers;
  std::vector<Row> node_rows;
  std::vector<std::pair<uint64_t, Finding>> findings;
  int64_t source_rows[2] = {};  // More than applied, by Index(Family).
};

// What the others leave of the room for source ranges, who have `more` than is applied.
void AllowSources(const Applied& applied, const int64_t (&more)[2], const ServiceRows* before,
                  DesiredContext& context);
size_t SourceRowsBefore(const ServiceRows* before, Family family);

}  // namespace svcmap::proxy
