#include "api/grpc/workers.h"

#include <system_error>
#include <utility>

namespace svcmap::api {

Workers::Workers(size_t slots, size_t per_peer, size_t threads)
    : slots_(slots), per_peer_(per_peer), max_threads_(threads) {
  threads_.emplace_back([this] { Work(); });
}

Workers::~Workers() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

uint64_t Workers::Start(const std::string& peer, std::function<void(Slot)> start) {
  const std::lock_guard lock(mutex_);
  peers_[peer].waiting.emplace(++last_ticket_, std::move(start));
  const uint64_t ticket = last_ticket_;
  AssignSlots();
  return ticket;
}

bool Workers::Cancel(const std::string& peer, uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  const auto it = peers_.find(peer);
  if (it == peers_.end() || it->second.waiting.erase(ticket) == 0) return false;
  EraseIfUnused(it);
  return true;
}

void Workers::Continue(Task task) {
  const std::lock_guard lock(mutex_);
  Enqueue(std::move(task));
}

void Workers::AssignSlots() {
  while (used_slots_ < slots_) {
    const auto it = NextPeer();
    if (it == peers_.end()) return;
    last_peer_ = it->first;
    ++used_slots_;
    ++it->second.slots;
    const auto call = it->second.waiting.begin();
    Enqueue([start = std::move(call->second), slot = MakeSlot(it->first)]() mutable {
      start(std::move(slot));
    });
    it->second.waiting.erase(call);
  }
}

Workers::Peers::iterator Workers::NextPeer() {
  const auto next = peers_.upper_bound(last_peer_);
  for (const auto& [begin, end] :
       {std::pair(next, peers_.end()), std::pair(peers_.begin(), next)}) {
    for (auto it = begin; it != end; ++it) {
      if (!it->second.waiting.empty() && it->second.slots < per_peer_) return it;
    }
  }
  return peers_.end();
}

Workers::Slot Workers::MakeSlot(const std::string& peer) {
  return Slot(this, [this, peer](void*) {
    const std::lock_guard lock(mutex_);
    const auto it = peers_.find(peer);
    --used_slots_;
    --it->second.slots;
    AssignSlots();
    EraseIfUnused(it);
  });
}

void Workers::EraseIfUnused(Peers::iterator peer) {
  if (peer->second.slots == 0 && peer->second.waiting.empty()) peers_.erase(peer);
}

void Workers::Enqueue(Task task) {
  tasks_.push_back(std::move(task));
  // The destructor waits for the existing threads, so no threads are started after it has begun.
  if (tasks_.size() > idle_ && threads_.size() < max_threads_ && !stopping_) {
    try {
      threads_.emplace_back([this] { Work(); });
    } catch (const std::system_error&) {
      // The existing threads run the task if the system cannot create another thread.
    }
  }
  changed_.notify_one();
}

void Workers::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    --idle_;
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // May destroy the last copy of a slot, which requires mutex_.
    lock.lock();
  }
}

}  // namespace svcmap::api
