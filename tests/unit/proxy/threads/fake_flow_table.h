// An in-memory flow table. A test can delay a listing, let a listing fail, or change flows during a
// listing.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "nft/conntrack/flow_table.h"

namespace svcmap::proxy::test {

class FakeFlowTable : public nft::FlowTable {
 public:
  void Add(nft::Flow flow) {
    const std::lock_guard lock(mutex_);
    flow.id = ++last_id_;
    flows_[flow.id] = flow;
  }
  std::vector<nft::Flow> flows() const {
    const std::lock_guard lock(mutex_);
    return Values();
  }
  int listings() const {
    const std::lock_guard lock(mutex_);
    return listings_;
  }
  size_t largest_deletion() const {
    const std::lock_guard lock(mutex_);
    return largest_deletion_;
  }

  // Makes all later listings fail with the given status.
  void FailListings(absl::Status status) {
    const std::lock_guard lock(mutex_);
    listing_error_ = std::move(status);
  }
  void CutListings(bool cut) {
    const std::lock_guard lock(mutex_);
    complete_ = !cut;
  }
  void FailDeletions(absl::Status status) {
    const std::lock_guard lock(mutex_);
    deletion_error_ = std::move(status);
  }
  // Sets a function that the cleaner's thread calls for each listed flow, before the listing
  // returns the flow.
  void OnListed(std::function<void()> fn) {
    const std::lock_guard lock(mutex_);
    on_listed_ = std::move(fn);
  }

  absl::StatusOr<Listing> ForEach(std::span<const nft::FlowKind> kinds, uint64_t max_entries,
                                  const std::function<bool(const nft::Flow&)>& on_flow) override {
    std::function<void()> on_listed;
    std::vector<nft::Flow> flows;
    Listing listing;
    {
      const std::lock_guard lock(mutex_);
      ++listings_;
      if (!listing_error_.ok()) return listing_error_;
      on_listed = on_listed_;
      flows = Values();
      if (flows.size() > max_entries) {
        flows.resize(max_entries);
        listing.cut = true;
      }
      listing.entries = flows.size();
      listing.complete = complete_;
    }
    for (const nft::Flow& flow : flows) {
      if (std::count(kinds.begin(), kinds.end(), flow.kind()) == 0) continue;
      if (on_listed) on_listed();
      if (!on_flow(flow)) return absl::CancelledError("left");
    }
    return listing;
  }

  Deletion Delete(std::span<const nft::Flow> victims) override {
    const std::lock_guard lock(mutex_);
    Deletion deletion;
    deletion.status = deletion_error_;
    if (!deletion.status.ok()) return deletion;
    largest_deletion_ = std::max(largest_deletion_, victims.size());
    for (const nft::Flow& victim : victims) {
      const auto found = flows_.find(victim.id);
      const bool same = found != flows_.end() && found->second.original == victim.original &&
                        found->second.reply == victim.reply;
      ++(same ? deletion.deleted : deletion.gone);
      if (same) flows_.erase(found);
    }
    return deletion;
  }

 private:
  std::vector<nft::Flow> Values() const {
    std::vector<nft::Flow> flows;
    for (const auto& [id, flow] : flows_) flows.push_back(flow);
    return flows;
  }

  mutable std::mutex mutex_;
  std::map<uint32_t, nft::Flow> flows_;  // Flows by id.
  uint32_t last_id_ = 0;
  int listings_ = 0;
  size_t largest_deletion_ = 0;
  bool complete_ = true;
  absl::Status listing_error_, deletion_error_;
  std::function<void()> on_listed_;
};

}  // namespace svcmap::proxy::test
