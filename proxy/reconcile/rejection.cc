// Handles rejected transactions.
#include <algorithm>

#include "proxy/reconcile/sync_plan.h"

namespace svcmap::proxy {
namespace {

// Number of attempts before a larger part of the tables is rewritten.
constexpr int kRejectionPatience = 3;

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

struct Place {
  nft::SetRef set;
  std::string key;
};

Place PlaceOf(const nft::Transaction& transaction, size_t element) {
  Place place;
  size_t number = 0;
  transaction.ForEachElement([&](nft::Verb, const nft::ElementView& view) {
    if (number++ == element) place = {view.set, SharedKey(view.set, view.key)};
  });
  return place;
}

bool HasRowAt(const Place& place, const std::string& key, const ServiceRows& rows) {
  bool found = false;
  const auto compare = [&](const Row& row) {
    found |= row.set == place.set && SharedKey(row.set, row.key.bytes()) == place.key;
  };
  ForEachOwnRow(key, rows, compare);
  for (const Row& row : SharedRows(rows)) compare(row);
  return found;
}

}  // namespace

void Reconciler::HandleRejection(SyncPlan& sync_plan, const nft::ApplyResult& result) {
  ++rejections_;
  if (sync_plan.recreate) ++failed_rewrites_;
  if (result.outcome == nft::ApplyOutcome::kUnknown) {
    if (sync_plan.recreate) in_place_ = false;
    return;
  }
  const Cause cause = CauseOf(result.error);
  if (cause == Cause::kPassing && rejections_ % kRejectionPatience != 0) return;
  if (sync_plan.recreate) {
    // After a rejected rewrite in place, the next rewrite replaces the tables, because their
    // content may differ from the last dump.
    if (!std::exchange(in_place_, false) && cause == Cause::kContents)
      IsolateRejected(sync_plan, result);
    return;
  }
  if (cause == Cause::kPassing) return;
  if (cause == Cause::kFull) {
    recreate_ = true;
  } else if (rejections_ == 1) {
    // Another process may have changed these rows.
    repairer_.MarkRowsSuspect(sync_plan.plan.transaction());
  } else if (cause == Cause::kDiffers || !IsolateRejected(sync_plan, result)) {
    recreate_ = rewrite_unread_ = rejections_ >= kRejectionPatience;
  }
}

// Excludes the Service that the kernel has rejected from the next transactions; its applied rows
// stay in effect. If the kernel's error names no element of a Service, halves the number of
// Services in the next transaction. Returns false if the plan contains no Service.
bool Reconciler::IsolateRejected(SyncPlan& sync_plan, const nft::ApplyResult& result) {
  auto culprit = sync_plan.dirty.end();
  if (sync_plan.dirty.size() == 1) {
    culprit = sync_plan.dirty.begin();
  } else if (result.failed_element) {
    const Place place = PlaceOf(sync_plan.plan.transaction(), *result.failed_element);
    for (size_t i = 0; i < sync_plan.dirty.size() && culprit == sync_plan.dirty.end(); ++i) {
      const auto& [key, rows] = sync_plan.services[i];
      const ServiceRows* before = applied_.Find(key);
      if (HasRowAt(place, key, rows) || (before != nullptr && HasRowAt(place, key, *before))) {
        culprit = sync_plan.dirty.begin() + static_cast<std::ptrdiff_t>(i);
      }
    }
  }
  if (culprit == sync_plan.dirty.end()) {
    if (sync_plan.dirty.empty()) return false;
    take_limit_ = std::max<size_t>(sync_plan.dirty.size() / 2, 1);
    return true;
  }
  rejected_findings_.emplace_back(
      culprit->sequence,
      Finding{.severity = Finding::Severity::kRejected,
              .kind = Kind::kService,
              .key = culprit->key,
              .code = FindingCode::kKernelRejected,
              .reason = "the kernel rejected the rules, retrying every minute: " +
                        std::string(result.error.message())});
  rejected_[culprit->key] = std::string(result.error.message());
  sync_plan.dirty.erase(culprit);
  rejections_ = 0;
  return true;
}

void Reconciler::RetryRejected() {
  for (const auto& [key, error] : rejected_) store_.MarkDirty(key, 0);
}

}  // namespace svcmap::proxy
