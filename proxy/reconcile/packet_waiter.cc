#include "proxy/reconcile/packet_waiter.h"

#include <utility>

namespace svcmap::proxy {

PacketWaiter::PacketWaiter(std::function<void()> await, std::function<void(uint64_t)> on_ended)
    : await_(std::move(await)), on_ended_(std::move(on_ended)), thread_([this] { Run(); }) {}

PacketWaiter::~PacketWaiter() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void PacketWaiter::Begin(uint64_t wait) {
  {
    const std::lock_guard lock(mutex_);
    begun_ = wait;
  }
  wake_.notify_one();
}

void PacketWaiter::Run() {
  uint64_t ended = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stopping_ || begun_ != ended; });
    if (stopping_) return;
    ended = begun_;
    lock.unlock();
    await_();
    on_ended_(ended);
    lock.lock();
  }
}

}  // namespace svcmap::proxy
