#include "proxy/reconcile/rejections.h"

#include <algorithm>

namespace svcmap::proxy {
namespace {

// Number of attempts before the tables are rewritten or replaced.
constexpr int kRejectionPatience = 3;
// Like kRejectionPatience, if elements differ from the plan. Another process that changes elements
// all the time would interrupt the reads of a rewrite, but hardly the check of a few rows.
constexpr int kConflictPatience = 6;

enum class Cause : uint8_t {
  kPassing,   // Temporary, such as out of memory, busy or interrupted.
  kFull,      // A set has reached a maximum size, which an earlier version declared.
  kDiffers,   // An element, a set or a table exists or is missing unexpectedly.
  kContents,  // The kernel rejects the content.
};

Cause CauseOf(const absl::Status& error) {
  switch (error.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kDeadlineExceeded:
      return Cause::kPassing;
    case absl::StatusCode::kOutOfRange:
      return Cause::kFull;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
      return Cause::kDiffers;
    default:
      return Cause::kContents;
  }
}

// Returns the place of the element with this number, as SharedKey.
std::string PlaceOf(const nft::Transaction& transaction, size_t element) {
  std::string place;
  size_t number = 0;
  transaction.ForEachElement([&](nft::Verb, const nft::ElementView& view) {
    if (number++ == element) place = SharedKey(view.set, view.key);
  });
  return place;
}

bool HasRowAt(const std::string& place, const std::string& key, const ServiceRows& rows) {
  bool found = false;
  const auto compare = [&](const Row& row) {
    found |= SharedKey(row.set, row.key.bytes()) == place;
  };
  ForEachOwnRow(key, rows, compare);
  for (const Row& row : SharedRows(rows)) compare(row);
  return found;
}

// Returns the Service whose row the error names, or the end of sync_plan.dirty.
std::vector<DirtyService>::iterator FindNamed(SyncPlan& sync_plan, const nft::ApplyResult& result,
                                              const Applied& applied) {
  if (!result.failed_element) return sync_plan.dirty.end();
  const std::string place = PlaceOf(sync_plan.plan.transaction(), *result.failed_element);
  for (size_t i = 0; i < sync_plan.dirty.size(); ++i) {
    const auto& [key, rows] = sync_plan.services[i];
    const ServiceRows* before = applied.Find(key);
    if (HasRowAt(place, key, rows) || (before != nullptr && HasRowAt(place, key, *before))) {
      return sync_plan.dirty.begin() + static_cast<std::ptrdiff_t>(i);
    }
  }
  return sync_plan.dirty.end();
}

}  // namespace

Rejections::Remedy Rejections::Handle(TableState tables, SyncPlan& sync_plan,
                                      const nft::ApplyResult& result, const Applied& applied) {
  if (result.outcome == nft::ApplyOutcome::kUnknown) return Remedy::kRetry;
  const Cause cause = CauseOf(result.error);
  if (cause == Cause::kPassing) return Remedy::kRetry;
  const bool first = ++consecutive_ == 1;
  if (sync_plan.rewrite) {
    // Otherwise, another process may have changed the tables since they were read. A smaller plan
    // is no remedy, because the first rewrite deletes the rows of Services that its plan lacks.
    const bool isolates = cause == Cause::kContents &&
                          (tables == TableState::kReplacing ||
                           FindNamed(sync_plan, result, applied) != sync_plan.dirty.end());
    if (isolates && Isolate(sync_plan, result, applied)) return Remedy::kRetry;
    return consecutive_ % kRejectionPatience == 0 ? Remedy::kRewrite : Remedy::kRetry;
  }
  if (cause == Cause::kFull) return Remedy::kRewrite;
  if (first || (cause == Cause::kDiffers && consecutive_ < kConflictPatience)) {
    return Remedy::kCheckRows;
  }
  if (cause != Cause::kDiffers && Isolate(sync_plan, result, applied)) return Remedy::kRetry;
  return consecutive_ >= kRejectionPatience ? Remedy::kRewrite : Remedy::kRetry;
}

void Rejections::PutOff(const DirtyService& service, const std::string& holder) {
  Reject(service, "an address is still in use by Service " + holder +
                      ", whose new version the kernel rejected, retrying every minute");
}

void Rejections::Reject(const DirtyService& service, const std::string& reason) {
  rejected_.insert(service.key);
  findings_.push_back({.sequence = service.sequence,
                       .service = service.key,
                       .finding = {.severity = Finding::Severity::kRejected,
                                   .kind = Kind::kService,
                                   .key = service.key,
                                   .code = FindingCode::kKernelRejected,
                                   .reason = reason}});
}

void Rejections::Committed(const std::vector<DirtyService>& services) {
  consecutive_ = 0;
  for (const DirtyService& service : services) rejected_.erase(service.key);
  if (service_limit_ < SIZE_MAX / 2) service_limit_ *= 2;
}

// If the kernel's error names no element of a Service, halves the number of Services in the next
// transaction. Returns false if the plan contains no Service.
bool Rejections::Isolate(SyncPlan& sync_plan, const nft::ApplyResult& result,
                         const Applied& applied) {
  if (sync_plan.dirty.empty()) return false;
  const auto culprit =
      sync_plan.dirty.size() == 1 ? sync_plan.dirty.begin() : FindNamed(sync_plan, result, applied);
  if (culprit == sync_plan.dirty.end()) {
    service_limit_ = std::max<size_t>(sync_plan.dirty.size() / 2, 1);
    return true;
  }
  Reject(*culprit, "the kernel rejected the rules, retrying every minute: " +
                       std::string(result.error.message()));
  sync_plan.dirty.erase(culprit);
  consecutive_ = 0;
  return true;
}

void Rejections::MarkDirty(Store& store) const {
  for (const std::string& key : rejected_) store.MarkDirty(key, 0);
}

}  // namespace svcmap::proxy
