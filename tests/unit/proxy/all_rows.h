// Reads all rows and the status of a reconciler at once.
#pragma once

#include "proxy/reconcile/reconciler.h"
#include "proxy/reconcile/row_reader.h"

namespace svcmap::proxy::test {

inline nft::Transaction AllRows(Reconciler& reconciler, RowReader::Rows rows) {
  RowReader reader(rows);
  while (!reader.Read(reconciler, RowReader::kNoLimit)) reader.Merge();
  reader.Merge();
  return reader.Take();
}

inline nft::Transaction DesiredRows(Reconciler& reconciler) {
  return AllRows(reconciler, RowReader::Rows::kDesired);
}
inline nft::Transaction AppliedRows(Reconciler& reconciler) {
  return AllRows(reconciler, RowReader::Rows::kApplied);
}
inline nft::Transaction PendingRows(Reconciler& reconciler) {
  return AllRows(reconciler, RowReader::Rows::kPending);
}

inline LoopStatus StatusOf(const Reconciler& reconciler) {
  LoopStatus status;
  reconciler.FillStatus(status);
  return status;
}

}  // namespace svcmap::proxy::test
