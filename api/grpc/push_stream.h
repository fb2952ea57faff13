// One controller's stream: reads its messages in order, answers each batch when the loop has.
// Nothing here waits: reading stops while too many batches are unanswered, so a controller that
// floods or does not read costs bounded memory and no thread.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "api/grpc/push_limits.h"
#include "api/intake/intake.h"
#include "svcmap/v1/control.grpc.pb.h"

namespace svcmap::api {

// Who holds the stream; the newest one does.
class PushHolder {
 public:
  struct Controller {
    std::string name;
    std::string instance;
    std::chrono::system_clock::time_point since;
    bool in_snapshot = false;
  };

  // One more stream, unless there are `limit`. It calls Leave() in the end.
  bool Admit(uint32_t limit);

  // Makes `id` the holder and ends the stream that was: its `end` is called with the reason.
  // `by` names the new one for people.
  void Take(uint64_t id, const std::string& by, Controller controller,
            std::function<void(const std::string&)> end);
  void Leave(uint64_t id);
  void SetInSnapshot(uint64_t id, bool in_snapshot);
  std::optional<Controller> current() const;

 private:
  mutable std::mutex mutex_;
  uint32_t streams_ = 0;
  uint64_t id_ = 0;
  std::optional<Controller> controller_;
  std::function<void(const std::string&)> end_;
};

// For a stream that `holder` admitted. Deletes itself when it is over and the last batch is
// answered.
grpc::ServerBidiReactor<v1::PushRequest, v1::PushResponse>* NewPushStream(Intake& intake,
                                                                          PushHolder& holder,
                                                                          const PushLimits& limits,
                                                                          v1::Opened opened);

}  // namespace svcmap::api
