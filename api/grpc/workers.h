// Limits the number of calls that are processed at the same time, and provides the threads that
// compute the responses. gRPC sends the responses in the background, so no thread waits for a
// client to read a response.
//
// Each call needs a slot. If no slot is free, calls wait in one queue for each peer. Peers receive
// free slots in turn, and a peer has at most `per_peer` slots. Therefore a peer can neither use all
// slots nor delay the calls of other peers with its own waiting calls. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace svcmap::api {

class Workers {
 public:
  using Task = std::function<void()>;
  // The slot of a call. The slot is free after all copies are destroyed.
  using Slot = std::shared_ptr<void>;

  // Starts threads when they are needed, up to `threads`.
  Workers(size_t slots, size_t per_peer, size_t threads);
  // Runs all tasks first, including those of waiting calls. No other thread may own a slot.
  ~Workers();

  // Runs `start` on a thread as soon as `peer` has a slot. Returns a ticket for Cancel().
  uint64_t Start(const std::string& peer, std::function<void(Slot)> start);
  // Returns true if the call still waited for a slot. `start` is not called in this case.
  bool Cancel(const std::string& peer, uint64_t ticket);
  // Runs `task` on a thread. The task belongs to a call that has a slot.
  void Continue(Task task);

 private:
  struct Peer {
    std::map<uint64_t, std::function<void(Slot)>> waiting;  // By ticket.
    size_t slots = 0;
  };
  using Peers = std::map<std::string, Peer>;

  void Work();
  // The functions below require mutex_.
  void AssignSlots();
  Peers::iterator NextPeer();
  Slot MakeSlot(const std::string& peer);
  void EraseIfUnused(Peers::iterator peer);
  void Enqueue(Task task);

  const size_t slots_;
  const size_t per_peer_;
  const size_t max_threads_;
  std::mutex mutex_;
  // The members below are guarded by mutex_.
  std::condition_variable changed_;
  Peers peers_;            // Peers with slots or waiting calls.
  std::string last_peer_;  // Peer that received the last slot.
  size_t used_slots_ = 0;
  uint64_t last_ticket_ = 0;
  std::deque<Task> tasks_;  // Tasks of calls with a slot, for the next idle thread.
  size_t idle_ = 0;         // Number of threads that wait for a task.
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace svcmap::api
