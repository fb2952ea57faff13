// Time limit for the message Open on a stream. Either Meet() or the deadline takes effect,
// depending on which comes first. Thread-safe.
#pragma once

#include <grpcpp/alarm.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace svcmap::api {

class OpenDeadline {
 public:
  ~OpenDeadline() { Meet(); }

  // Call Start once. At the deadline, calls `missed` with an error message on a gRPC thread.
  void Start(std::chrono::milliseconds within, std::function<void(const std::string&)> missed) {
    const auto deadline = std::chrono::system_clock::now() + within;
    alarm_.Set(deadline, [over = over_, within, missed = std::move(missed)](bool expired) {
      if (!expired || over->exchange(true)) return;
      missed("open not received within " + std::to_string(within.count()) + " ms");
    });
  }

  // Call Meet when Open has been received. Returns false if the deadline has passed.
  bool Meet() {
    if (met_) return true;
    if (over_->exchange(true)) return false;
    met_ = true;
    alarm_.Cancel();
    return true;
  }

 private:
  std::shared_ptr<std::atomic<bool>> over_ = std::make_shared<std::atomic<bool>>(false);
  bool met_ = false;
  grpc::Alarm alarm_;
};

}  // namespace svcmap::api
