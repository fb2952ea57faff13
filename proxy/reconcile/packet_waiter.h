// A thread that waits for packets in the rules, so that the loop does not wait: a wait usually
// takes 10 to 30 ms.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace svcmap::proxy {

class PacketWaiter {
 public:
  // The thread calls `await`, and then `on_ended` with the number of the wait. Begin() may be
  // called before the previous wait has ended.
  PacketWaiter(std::function<void()> await, std::function<void(uint64_t)> on_ended);
  ~PacketWaiter();  // Blocks until the wait in progress has ended.

  void Begin(uint64_t wait);

 private:
  void Run();

  const std::function<void()> await_;
  const std::function<void(uint64_t)> on_ended_;
  std::mutex mutex_;
  std::condition_variable wake_;
  uint64_t begun_ = 0;  // The last wait that was begun.
  bool stopping_ = false;
  std::thread thread_;  // Last, because the thread uses all members above.
};

}  // namespace svcmap::proxy
