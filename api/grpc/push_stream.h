// One controller's stream: reads its messages in order, answers each batch when the loop has.
// Nothing here waits: reading stops while too many batches are unanswered, so a controller that
// floods or does not read costs bounded memory and no thread.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "api/grpc/push_limits.h"
#include "api/intake/intake.h"
#include "proxy/saved/leader_file.h"
#include "svcmap/v1/control.grpc.pb.h"

namespace svcmap::api {

// The bytes of v1::PushRequest and v1::PushResponse. A request is decoded object by object.
using PushReactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

// Who holds the stream: the newest one of those with the highest epoch that ever came.
class ActiveSession {
 public:
  using OnReplaced = std::function<void(const grpc::Status&)>;

  struct Controller {
    std::string name;
    std::string instance;
    uint64_t epoch = 0;
    std::chrono::system_clock::time_point since;
    bool in_snapshot = false;
  };

  // `leader` came with the highest epoch so far. A new one is given to `save` before it counts;
  // what cannot be saved is forgotten by a restart. `tell` hears who came and went, in that order;
  // it must not block.
  explicit ActiveSession(proxy::Leader leader = {},
                         std::function<void(const proxy::Leader&)> save = nullptr,
                         std::function<void(const v1::WatchController&)> notify = nullptr)
      : leader_(std::move(leader)), save_(std::move(save)), notify_(std::move(notify)) {}

  // One more stream on `connection`, unless it has `limit` streams already: a client without a
  // message on its streams cannot lock out clients on other connections. The stream calls Leave()
  // in the end.
  bool Admit(const std::string& connection, uint32_t limit);

  // Makes `id` the holder and ends the stream that was: its `end` is called with the status.
  // FAILED_PRECONDITION, and nothing changes, for a controller that another one has deposed.
  grpc::Status Take(uint64_t id, Controller controller, OnReplaced end);
  // Owned while `id` is the holder, and it stays that for as long as it is.
  std::unique_lock<std::mutex> Enter(uint64_t id);
  bool Leave(uint64_t id,
             const std::string& connection);  // False if it was not the holder any more.
  // Begins or ends a snapshot of the holder. Returns false if its state was the same before.
  bool SetInSnapshot(uint64_t id, bool in_snapshot);
  std::optional<Controller> current() const;

 private:
  grpc::Status CheckEpoch(const Controller& controller) const;
  void Notify(v1::WatchController::What what, const Controller& controller,
              const std::string& reason = "") const;

  std::mutex take_mutex_;     // Taken before mutex_; one Take() at a time.
  proxy::Leader leader_;      // Guarded by take_mutex_.
  mutable std::mutex mutex_;  // Guards what follows.
  const std::function<void(const proxy::Leader&)> save_;
  const std::function<void(const v1::WatchController&)> notify_;
  std::map<std::string, uint32_t> streams_;  // By connection.
  uint64_t id_ = 0;
  std::optional<Controller> controller_;
  OnReplaced end_;
};

// For a stream of `client` on `connection` that `holder` admitted. Deletes itself when it is over
// and the last batch is answered.
PushReactor* NewPushStream(Intake& intake, ActiveSession& holder, const PushLimits& limits,
                           std::string connection, std::string client, v1::Opened opened);

}  // namespace svcmap::api
