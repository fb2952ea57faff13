#include "api/intake/intake.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "api/convert/fields.h"
#include "api/intake/deferred_slices.h"
#include "api/log/log_value.h"

namespace svcmap::api {
namespace {

void Append(std::vector<proxy::Finding>& findings, const std::vector<proxy::Finding>& more) {
  findings.insert(findings.end(), more.begin(), more.end());
}

absl::StatusOr<std::vector<ConvertedChange>> ConvertAll(
    int size, const std::function<absl::StatusOr<ConvertedChange>(int)>& convert) {
  std::vector<ConvertedChange> converted;
  converted.reserve(static_cast<size_t>(size));
  for (int i = 0; i < size; ++i) {
    absl::StatusOr<ConvertedChange> change = convert(i);
    if (!change.ok()) return change.status();
    if (!change->change && !change->delta && !IsNamed(change->key)) {
      for (proxy::Finding& finding : change->findings) {
        absl::StrAppend(&finding.reason, finding.reason.empty() ? "" : "; ", "object at index ", i,
                        " in the request");
      }
    }
    converted.push_back(*std::move(change));
  }
  return converted;
}

// Adds a warning to each object of which the request contains several complete versions. A
// controller's stream may contain several versions, because it is a sequence of changes.
void WarnAboutRepeatedObjects(std::vector<ConvertedChange>& converted) {
  struct Versions {
    int count = 0;
    ConvertedChange* last = nullptr;
  };
  absl::flat_hash_map<std::pair<proxy::Kind, absl::string_view>, Versions> objects;
  for (ConvertedChange& change : converted) {
    if (!change.change || change.change->removal()) continue;
    Versions& versions = objects[{change.kind, change.key}];
    ++versions.count;
    versions.last = &change;
  }
  for (const auto& [object, versions] : objects) {
    if (versions.count == 1) continue;
    versions.last->findings.push_back(
        {.severity = proxy::Finding::Severity::kWarning,
         .kind = versions.last->kind,
         .key = versions.last->key,
         .code = proxy::FindingCode::kDuplicate,
         .reason = "the request contains " + std::to_string(versions.count) +
                   " versions of the object; the last version is used"});
  }
}

// Moves everything except the findings out of `converted`.
proxy::Batch MakeBatch(std::vector<ConvertedChange>& converted, const ConvertContext& context) {
  proxy::Batch batch;
  DeferredSlices late;
  for (ConvertedChange& change : converted) {
    if (change.change) {
      late.Forget(*change.change);
      batch.changes.push_back(*std::move(change.change));
    } else if (change.delta) {
      late.Add(change.key, std::move(change.delta));
    } else {
      batch.rejected.emplace_back(change.kind, change.key);
      if (!change.rejected_slice.empty()) late.Reject(change.key, std::move(change.rejected_slice));
    }
  }
  batch.deferred = late.Take(context);
  batch.departures = [context](const std::string& held, const proxy::EndpointSlice& rejected) {
    return ConvertDepartures(held, rejected.message, context);
  };
  return batch;
}

std::vector<proxy::Finding> FindingsOf(const std::vector<ConvertedChange>& converted) {
  std::vector<proxy::Finding> findings;
  for (const ConvertedChange& change : converted) Append(findings, change.findings);
  return findings;
}

}  // namespace

void Intake::Log(const std::string& client, const std::vector<proxy::Finding>& findings) {
  for (const proxy::Finding& finding : findings) {
    if (!client.empty() && !log_limit_.Admit(client)) continue;
    spdlog::warn("{} kind={} name={} error={}",
                 finding.rejected() ? "object rejected" : "object accepted with a warning",
                 std::string(KindName(finding.kind)), LogValue(finding.key),
                 LogValue(finding.ToString()));
  }
}

void Intake::Notify(const std::string& client, const std::vector<proxy::Finding>& findings) {
  Log(client, findings);
  if (found_) found_(findings);
}

// One line for each batch that removes objects, because an empty or incomplete list of a controller
// removes objects without any error.
void Intake::LogRemovals(const Sender& sender, const proxy::BatchResult& result) {
  const auto& [services, slices, nodes, cidrs] = result.removed;
  const bool held = !result.held.empty();
  if (!held && services + slices + nodes + cidrs == 0) return;
  if (!sender.client.empty() && !log_limit_.Admit(sender.client)) return;
  if (held) {
    spdlog::warn(
        "removals of a snapshot held, stored objects and rules stay in effect until \"svcmapctl "
        "accept-snapshot\" {} loss={}",
        sender.fields, LogValue(result.held));
    return;
  }
  spdlog::info(
      "objects deleted {} services={} endpointslices={} nodes={} servicecidrs={} revision={}",
      sender.fields, services, slices, nodes, cidrs, result.revision);
}

absl::Status Intake::Submit(Mark mark, int size,
                            const std::function<absl::StatusOr<ConvertedChange>(int)>& convert,
                            Done done, const Sender& sender, const Gate& gate) {
  const std::string& client = sender.client;
  const auto received = std::chrono::steady_clock::now();
  absl::StatusOr<std::vector<ConvertedChange>> converted = ConvertAll(size, convert);
  if (!converted.ok()) return converted.status();
  if (!gate) WarnAboutRepeatedObjects(*converted);
  // All findings of the batch. Only the loop's thread adds to them.
  const auto reported = std::make_shared<std::vector<proxy::Finding>>(FindingsOf(*converted));
  Notify(client, *reported);  // Logging may take time, so it comes before the lock of `gate`.
  proxy::Batch batch = MakeBatch(*converted, context_);
  std::unique_lock<std::mutex> entered;
  if (gate) {
    entered = gate();
    if (!entered.owns_lock()) return absl::AbortedError("another controller has taken over");
  }
  batch.mark = mark.mark;
  batch.accept_removals = mark.accept_removals;
  batch.out_of_band = !gate;
  batch.received = received;
  // on_accepted updates the book, because the book must follow the order in which the loop accepts
  // batches from all threads.
  batch.on_accepted = [this, mark = mark.mark, reported, client, converted = *std::move(converted)](
                          const std::vector<proxy::Finding>& findings) {
    if (mark == proxy::Batch::Mark::kSnapshotBegin) book_.BeginSnapshot();
    for (const ConvertedChange& change : converted) {
      book_.Set(change.kind, change.key, change.findings);
    }
    book_.Add(findings);
    Notify(client, findings);
    Append(*reported, findings);
  };
  batch.on_snapshot_ended = [this] { book_.EndSnapshot(); };
  batch.done = [this, reported, sender, done = std::move(done)](proxy::BatchResult result) {
    Log(sender.client, result.findings);
    LogRemovals(sender, result);
    result.findings.insert(result.findings.begin(), reported->begin(), reported->end());
    if (done) done(std::move(result));
  };
  loop_.Submit(std::move(batch));
  return absl::OkStatus();
}

absl::StatusOr<proxy::DryRun> Intake::Try(
    int size, const std::function<absl::StatusOr<ConvertedChange>(int)>& convert) {
  absl::StatusOr<std::vector<ConvertedChange>> converted = ConvertAll(size, convert);
  if (!converted.ok()) return converted.status();
  WarnAboutRepeatedObjects(*converted);
  std::vector<proxy::Finding> reported = FindingsOf(*converted);
  proxy::Batch batch = MakeBatch(*converted, context_);
  batch.on_accepted = [&reported](const std::vector<proxy::Finding>& findings) {
    Append(reported, findings);
  };
  std::optional<proxy::DryRun> tried = loop_.Try(batch);
  if (!tried) return absl::UnavailableError("the agent is stopping");
  Append(reported, tried->findings);
  tried->findings = std::move(reported);
  return *std::move(tried);
}

std::vector<proxy::Finding> Intake::Findings() const {
  // The findings of received objects include rejections. They come last, because GetStatus returns
  // the last findings.
  std::vector<proxy::Finding> findings = *loop_.status().findings;
  Append(findings, book_.All());
  return findings;
}

void Intake::SetSourceErrors(std::vector<std::string> errors) {
  const std::lock_guard lock(source_mutex_);
  source_errors_ = std::move(errors);
}

std::vector<std::string> Intake::SourceErrors() const {
  const std::lock_guard lock(source_mutex_);
  return source_errors_;
}

uint64_t CountRejected(const std::vector<proxy::Finding>& findings) {
  absl::flat_hash_set<std::pair<proxy::Kind, absl::string_view>> rejected;
  for (const proxy::Finding& finding : findings) {
    if (finding.rejected()) rejected.emplace(finding.kind, finding.key);
  }
  return rejected.size();
}

void FindingsBook::Set(proxy::Kind kind, const std::string& key,
                       const std::vector<proxy::Finding>& findings) {
  const std::lock_guard lock(mutex_);
  if (findings.empty()) {
    reported_.erase({kind, key});
  } else if (HasRoomFor({kind, key})) {
    reported_[{kind, key}] = {findings, snapshot_};
  }
}

bool FindingsBook::HasRoomFor(const Key& key) const {
  return reported_.size() < kMaxObjects || reported_.contains(key);
}

void FindingsBook::BeginSnapshot() {
  const std::lock_guard lock(mutex_);
  ++snapshot_;
}

void FindingsBook::EndSnapshot() {
  const std::lock_guard lock(mutex_);
  std::erase_if(reported_, [this](const auto& entry) { return entry.second.snapshot < snapshot_; });
}

void FindingsBook::Add(const std::vector<proxy::Finding>& findings) {
  const std::lock_guard lock(mutex_);
  for (const proxy::Finding& finding : findings) {
    if (!HasRoomFor({finding.kind, finding.key})) continue;
    Reported& reported = reported_[{finding.kind, finding.key}];
    reported.snapshot = snapshot_;
    const auto same = [&](const proxy::Finding& other) {
      return other.field == finding.field && other.value == finding.value;
    };
    if (reported.findings.size() < kMaxFindings && std::ranges::none_of(reported.findings, same)) {
      reported.findings.push_back(finding);
    }
  }
}

std::vector<proxy::Finding> FindingsBook::All() const {
  const std::lock_guard lock(mutex_);
  std::vector<proxy::Finding> all;
  for (const auto& [key, reported] : reported_) {
    all.insert(all.end(), reported.findings.begin(), reported.findings.end());
  }
  return all;
}

}  // namespace svcmap::api
