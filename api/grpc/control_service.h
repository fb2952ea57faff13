// svcmap.v1.Control: what proto/README.md promises. Whoever calls may: see guarded_control.h. Any
// thread.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "api/grpc/push_stream.h"
#include "api/grpc/rejected_calls.h"
#include "api/grpc/watch_hub.h"
#include "api/intake/intake.h"
#include "api/screen/rejections.h"
#include "nft/netlink/batch.h"
#include "proxy/reconcile/loop.h"
#include "svcmap/v1/control.grpc.pb.h"

namespace svcmap::api {

struct ControlOptions {
  std::string version;
  std::string node_name;
  std::string manifests_path;  // Not empty: the state comes from there and from nowhere else.
  PushLimits limits;
  // Whether changes by others are noticed; any thread. Null: nobody watches.
  std::function<bool()> watching;
  // Reads the kernel's generation id without waiting for a commit; any thread. May be null.
  std::function<absl::StatusOr<uint32_t>()> kernel_generation;
  const proxy::StateLog* log = nullptr;  // Null: no state is kept on disk.
  std::string state_dir;
  // See ActiveSession.
  proxy::Leader leader;
  std::function<void(const proxy::Leader&)> save_leader;
};

class ControlService final : public v1::Control::WithRawCallbackMethod_Push<
                                 v1::Control::WithCallbackMethod_Watch<v1::Control::Service>> {
 public:
  // `hub` hears of controllers from here; it ends (WatchHub::End) before this service does.
  ControlService(proxy::Loop& loop, Intake& intake, WatchHub& hub, const nft::TableSpecs& tables,
                 ControlOptions options);

  PushReactor* Push(grpc::CallbackServerContext* context) override;
  grpc::Status Apply(grpc::ServerContext* context, const v1::ApplyRequest* request,
                     v1::Ack* ack) override;
  grpc::Status Remove(grpc::ServerContext* context, const v1::RemoveRequest* request,
                      v1::Ack* ack) override;
  grpc::Status List(grpc::ServerContext* context, const v1::ListRequest* request,
                    grpc::ServerWriter<v1::ListResponse>* writer) override;
  grpc::Status GetStatus(grpc::ServerContext* context, const v1::GetStatusRequest* request,
                         v1::GetStatusResponse* response) override;
  grpc::Status Dump(grpc::ServerContext* context, const v1::DumpRequest* request,
                    grpc::ServerWriter<v1::DumpResponse>* writer) override;
  grpc::Status Explain(grpc::ServerContext* context, const v1::ExplainRequest* request,
                       v1::ExplainResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchEvent>* Watch(grpc::CallbackServerContext* context,
                                                  const v1::WatchRequest* request) override;

  // `name` returns the client of a connection, for log lines. Null: log lines contain gRPC's name
  // of the connection.
  void SetClientNames(std::function<std::string(const std::string& peer)> name) {
    const std::lock_guard lock(names_mutex_);
    client_name_ = std::move(name);
  }

  // Of whoever stands before this service and lets calls in; GetStatus tells of them.
  RejectedCalls& rejected_calls() { return rejected_calls_; }
  // Connections that were rejected or closed for a limit; GetStatus reports failed handshakes.
  Rejections& rejections() { return rejections_; }
  // Who pushes, if somebody does.
  std::optional<ActiveSession::Controller> controller() const { return active_session_.current(); }

 private:
  std::string ClientName(const std::string& peer) const {
    const std::lock_guard lock(names_mutex_);
    return client_name_ ? client_name_(peer) : peer;
  }
  grpc::Status RejectedByManifests() const;
  grpc::Status AdmitStream(const std::string& connection);
  void FillStatus(v1::GetStatusResponse& response);
  // `Request`: v1::ApplyRequest or v1::RemoveRequest.
  template <typename Request>
  grpc::Status SubmitAndWait(const grpc::ServerContext& context, const Request& request,
                             const std::function<absl::StatusOr<ConvertedChange>(int)>& convert,
                             v1::Ack* ack);

  proxy::Loop& loop_;
  Intake& intake_;
  WatchHub& hub_;
  const nft::TableSpecs& tables_;
  const ControlOptions options_;
  mutable std::mutex names_mutex_;
  std::function<std::string(const std::string& peer)> client_name_;
  const std::chrono::system_clock::time_point started_ = std::chrono::system_clock::now();
  ActiveSession active_session_{
      options_.leader, options_.save_leader,
      [this](const v1::WatchController& event) { hub_.PublishController(event); }};
  std::mutex list_mutex_;
  std::mutex explain_mutex_;
  RejectedCalls rejected_calls_;
  Rejections rejections_;
};

}  // namespace svcmap::api
