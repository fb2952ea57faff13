#include "proxy/conntrack/cleaner.h"

#include <algorithm>
#include <utility>

namespace svcmap::proxy {
namespace {

using Clock = std::chrono::steady_clock;

// Number of stale flows per family to collect before a deletion.
constexpr size_t kChunk = 4096;

}  // namespace

Cleaner::Cleaner(nft::FlowTable& table, CleanerOptions options)
    : table_(table), options_(std::move(options)) {}

Cleaner::~Cleaner() { Stop(); }

void Cleaner::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Cleaner::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Cleaner::Update(std::vector<std::pair<std::string, UdpPorts>> services) {
  bool due = false;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [key, ports] : services) book_.Update(key, std::move(ports));
    due = book_.due();
  }
  if (due) wake_.notify_one();  // Commits without UDP changes do not wake the thread.
}

void Cleaner::StateIsComplete() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(complete_, true)) return;
  }
  wake_.notify_one();
}

CleanerStatus Cleaner::status() const {
  const std::lock_guard lock(mutex_);
  CleanerStatus status = status_;
  status.services = book_.services();
  return status;
}

// Waits until a Service or a second scan is due.
void Cleaner::AwaitWork(std::unique_lock<std::mutex>& lock) {
  const auto ready = [this] { return stopping_ || (complete_ && book_.due()); };
  if (second_scans_.empty()) {
    wake_.wait(lock, ready);
  } else {
    wake_.wait_until(lock, second_scan_at_, ready);
  }
}

void Cleaner::Run() {
  std::unique_lock lock(mutex_);
  const auto stopping = [this] { return stopping_.load(); };
  for (;;) {
    AwaitWork(lock);
    next_ = std::max(next_, Clock::now() + options_.settle);
    if (wake_.wait_until(lock, next_, stopping)) return;

    const bool second_scan = !second_scans_.empty() && Clock::now() >= second_scan_at_;
    if (second_scan) {
      for (const UdpBook::Round& earlier : second_scans_) book_.Return(earlier);
      second_scans_.clear();
    }
    if (!book_.due()) continue;  // Skips a second scan if its Services have no flows left.
    UdpBook::Round round = book_.Take();
    lock.unlock();
    StaleFlows flows = round.MakeStaleFlows();
    const Cleanup cleanup = Clean(round, flows);
    lock.lock();
    if (stopping_) return;
    Settle(round, flows, cleanup, second_scan);
    lock.unlock();
    if (options_.on_round) options_.on_round(cleanup);
    lock.lock();
  }
}

Cleanup Cleaner::Clean(UdpBook::Round& round, StaleFlows& flows) {
  const auto start = Clock::now();
  Cleanup cleanup{.services = round.services()};
  std::vector<Family> families;
  for (const Family family : kFamilies) {
    if (flows.HasFamily(family)) families.push_back(family);
  }
  std::array<std::vector<nft::UdpFlow>, 2> stale;
  // The listing of flows is paused during the deletion. A paused listing holds no resources in the
  // kernel and resumes where it stopped.
  const auto delete_stale = [&](Family family) {
    std::vector<nft::UdpFlow>& chunk = stale[Index(family)];
    const nft::FlowTable::Deletion deletion = table_.Delete(chunk);
    cleanup.deleted[Index(family)] += deletion.deleted;
    cleanup.gone += deletion.gone;
    cleanup.error.Update(deletion.status);
    chunk.clear();
    return deletion.status.ok();
  };
  const auto listing = table_.ForEachUdp(families, [&](const nft::UdpFlow& flow) {
    if (stopping_) return false;
    if (!flows.IsStale(flow)) return true;
    std::vector<nft::UdpFlow>& chunk = stale[Index(flow.family())];
    chunk.push_back(flow);
    return chunk.size() < kChunk || delete_stale(flow.family());
  });
  cleanup.error.Update(listing.status());
  if (listing.ok()) cleanup.entries = listing->entries;
  for (const Family family : families) {
    if (!stopping_ && cleanup.error.ok()) delete_stale(family);
  }
  cleanup.complete = cleanup.error.ok() && listing->complete;
  cleanup.duration = Clock::now() - start;
  return cleanup;
}

void Cleaner::Settle(const UdpBook::Round& round, const StaleFlows& flows, const Cleanup& cleanup,
                     bool second_scan) {
  auto rest = std::chrono::duration_cast<Clock::duration>(cleanup.duration * options_.rest_factor);
  if (cleanup.complete) {
    backoff_.Success();
    book_.Finish(round, flows);
    if (!second_scan && cleanup.deleted[0] + cleanup.deleted[1] > 0) {
      second_scans_.push_back(round);
      second_scan_at_ = Clock::now() + options_.second_scan;
    }
  } else {
    rest = std::max<Clock::duration>(rest, backoff_.Failure());
    book_.Return(round);
  }
  next_ = Clock::now() + rest;
  ++status_.rounds;
  status_.failures += cleanup.error.ok() ? 0 : 1;
  status_.entries += cleanup.entries;
  status_.gone += cleanup.gone;
  for (size_t i = 0; i < cleanup.deleted.size(); ++i) status_.deleted[i] += cleanup.deleted[i];
  status_.last = cleanup;
}

}  // namespace svcmap::proxy
