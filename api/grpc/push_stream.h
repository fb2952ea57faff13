// A controller's Push stream: reads messages in order, and acknowledges each batch after the loop
// has processed the batch. No function blocks. The stream stops reading while too many batches are
// unacknowledged. Therefore a controller that sends too fast or does not read uses bounded memory
// and no thread.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "api/grpc/push_limits.h"
#include "api/intake/intake.h"
#include "proxy/saved/object_writer.h"
#include "svcmap/v1/control.grpc.pb.h"

namespace svcmap::api {

// Reads and writes serialized v1::PushRequest and v1::PushResponse messages. A request is decoded
// object by object.
using PushReactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

// The active controller session, whose stream may change the state. The session with the highest
// epoch is active. Among sessions with the same epoch, the newest session is active.
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

  // `leader` is the controller with the highest epoch so far. ActiveSession calls `save` with a new
  // leader before the leader takes effect. A leader that cannot be saved is lost at a restart.
  // ActiveSession calls `notify` for each session that starts or ends, in order. `notify` must not
  // block.
  explicit ActiveSession(proxy::Leader leader = {},
                         std::function<void(const proxy::Leader&)> save = nullptr,
                         std::function<void(const v1::WatchController&)> notify = nullptr)
      : leader_(std::move(leader)), save_(std::move(save)), notify_(std::move(notify)) {}

  // Counts a stream on `connection`. Returns false if the connection has `limit` streams already.
  // Because the limit applies to each connection, a client with idle streams cannot lock out
  // clients on other connections. The stream calls Leave() at its end.
  bool Admit(const std::string& connection, uint32_t limit);

  // Makes the stream `id` active, and calls the `end` of the previously active stream. Returns
  // FAILED_PRECONDITION without a change if a leader with a higher epoch has replaced the
  // controller.
  grpc::Status Take(uint64_t id, Controller controller, OnReplaced end);
  // If the stream `id` is active, returns a lock of the mutex. The stream stays active while the
  // caller holds this lock. Otherwise, returns a lock that is not locked.
  std::unique_lock<std::mutex> Enter(uint64_t id);
  // Ends the stream `id`. Returns true if the stream was active.
  bool Leave(uint64_t id, const std::string& connection);
  // Begins or ends a snapshot of the active stream. Returns false if the snapshot had begun or
  // ended already.
  bool SetInSnapshot(uint64_t id, bool in_snapshot);
  std::optional<Controller> current() const;

 private:
  grpc::Status CheckEpoch(const Controller& controller) const;
  void Notify(v1::WatchController::What what, const Controller& controller,
              const std::string& reason = "") const;

  std::mutex take_mutex_;     // Locked before mutex_. Serializes calls of Take().
  proxy::Leader leader_;      // Guarded by take_mutex_.
  mutable std::mutex mutex_;  // Guards the members below.
  const std::function<void(const proxy::Leader&)> save_;
  const std::function<void(const v1::WatchController&)> notify_;
  std::map<std::string, uint32_t> streams_;  // Number of streams by connection.
  uint64_t id_ = 0;
  std::optional<Controller> controller_;
  OnReplaced end_;
};

// Returns the reactor of a stream that `holder` has admitted. The reactor deletes itself after the
// stream has ended and the last batch has been processed.
PushReactor* NewPushStream(Intake& intake, ActiveSession& holder, const PushLimits& limits,
                           std::string connection, std::string client, v1::Opened opened);

}  // namespace svcmap::api
