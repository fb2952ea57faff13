// The calls of the service svcmap.v1.Control (proto/README.md). GuardedControl authorizes clients
// before the calls. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "api/grpc/answered_call.h"
#include "api/grpc/push_stream.h"
#include "api/grpc/watch_hub.h"
#include "api/intake/intake.h"
#include "api/screen/rejections.h"
#include "nft/netlink/batch.h"
#include "proxy/reconcile/loop.h"
#include "proxy/saved/object_store.h"
#include "svcmap/v1/control.grpc.pb.h"

namespace svcmap::api {

struct ControlOptions {
  std::string version;
  std::string node_name;
  // Path of --manifests. If not empty, clients cannot change the state.
  std::string manifests_path;
  PushLimits limits;
  // Returns true if svcmapd receives notifications about changes by other processes. Thread-safe.
  // Null if svcmapd does not subscribe to notifications.
  std::function<bool()> watching;
  // Reads the kernel's generation ID without waiting for a commit. Thread-safe. May be null.
  std::function<absl::StatusOr<uint32_t>()> kernel_generation;
  const proxy::ObjectStore* disk = nullptr;  // Null if no state is saved.
  std::string state_dir;
  // See ActiveSession.
  proxy::Leader leader;
  std::function<void(const proxy::Leader&)> save_leader;
};

// The client of a call that GuardedControl has authorized.
struct Caller {
  const grpc::CallbackServerContext& context;
  const std::string& client;  // Name for log lines.
};

class ControlService {
 public:
  // Publishes controller sessions to `hub`. Call WatchHub::End before the destructor.
  ControlService(proxy::Loop& loop, Intake& intake, WatchHub& hub, const nft::TableSpecs& tables,
                 ControlOptions options);

  PushReactor* Push(grpc::CallbackServerContext* context, const std::string& client);
  grpc::ServerWriteReactor<v1::WatchEvent>* Watch(const std::string& peer);
  grpc::Status GetStatus(const Caller& caller, const v1::GetStatusRequest& request,
                         v1::GetStatusResponse& response);  // Never waits.
  // The functions below wait for the loop.
  grpc::Status Apply(const Caller& caller, const envelope::v1::ApplyRequest& request, v1::Ack& ack);
  grpc::Status Remove(const Caller& caller, const v1::RemoveRequest& request, v1::Ack& ack);
  grpc::Status AcceptSnapshot(const Caller& caller, const v1::AcceptSnapshotRequest& request,
                              v1::Ack& ack);
  grpc::Status Explain(const Caller& caller, const v1::ExplainRequest& request,
                       v1::ExplainResponse& response);
  // List and Dump set the function that fills the messages of the response.
  grpc::Status List(const Caller& caller, const v1::ListRequest& request,
                    NextMessage<v1::ListResponse>& next);
  grpc::Status Dump(const Caller& caller, const v1::DumpRequest& request,
                    NextMessage<v1::DumpResponse>& next);

  // Calls that GuardedControl rejected. GetStatus reports their number.
  RejectedCalls& rejected_calls() { return rejected_calls_; }
  // Connections that were rejected or closed because of a limit. GetStatus reports failed
  // handshakes.
  Rejections& rejections() { return rejections_; }
  // Returns the active controller. Returns nullopt if no controller is connected.
  std::optional<ActiveSession::Controller> controller() const { return active_session_.current(); }

 private:
  grpc::Status RejectedByManifests() const;
  grpc::Status AdmitStream(const std::string& connection);
  void FillStatus(v1::GetStatusResponse& response);
  // `Request`: envelope::v1::ApplyRequest or v1::RemoveRequest.
  template <typename Request>
  grpc::Status SubmitAndWait(const Request& request, const std::string& client,
                             const std::function<absl::StatusOr<ConvertedChange>(int)>& convert,
                             v1::Ack& ack);
  grpc::Status SubmitBatch(proxy::Batch::Mark mark, int size,
                           const std::function<absl::StatusOr<ConvertedChange>(int)>& convert,
                           const std::string& client, v1::Ack& ack);

  proxy::Loop& loop_;
  Intake& intake_;
  WatchHub& hub_;
  const nft::TableSpecs& tables_;
  const ControlOptions options_;
  const std::chrono::system_clock::time_point started_ = std::chrono::system_clock::now();
  ActiveSession active_session_{
      options_.leader, options_.save_leader,
      [this](const v1::WatchController& event) { hub_.PublishController(event); }};
  RejectedCalls rejected_calls_;
  Rejections rejections_;
};

}  // namespace svcmap::api
