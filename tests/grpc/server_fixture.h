// Runs the agent in the test process, with a fake kernel, the loop, and a gRPC server on a Unix
// socket.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <csignal>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "api/daemon/server.h"
#include "api/grpc/control_service.h"
#include "proxy/reconcile/loop.h"
#include "svcmap/v1/control.grpc.pb.h"
#include "tests/support/builders.h"
#include "tests/support/fake_kernel.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/wait.h"

namespace svcmap::api {

inline v1::Object Web(const std::string& name = "shop/web", const std::string& ip = "10.96.0.10") {
  return svcmap::testing::AService(name).ClusterIp(ip).Port("http", 80);
}

class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // As in svcmapd: the server writes to connections that clients have closed.
    std::signal(SIGPIPE, SIG_IGN);
    spdlog::set_level(spdlog::level::off);
    for (const Family family : kFamilies) tables_.push_back(proxy::MakeTable(family, {}));
    kernel_ = std::make_unique<nft::FakeKernel>(tables_);
    // Inject faults with a hook, because the test thread sets faults while the loop uses the
    // kernel.
    kernel_->SetFaultHook([this](const nft::Transaction&) {
      return rejecting_ ? nft::FakeKernel::Fault::kReject : nft::FakeKernel::Fault::kNone;
    });
    reconciler_ =
        std::make_unique<proxy::Reconciler>(*kernel_, proxy::ReconcilerOptions{.node_name = "n1"});
    StartLoop({});
  }

  // Restarts the loop with other limits. Must be called before Serve().
  void StartLoop(const proxy::StateLimits& limits, unsigned hold_removals = 0) {
    proxy::LoopOptions options;
    options.limits = limits;
    options.hold_removals = hold_removals;
    options.on_sync = [this](const proxy::SyncResult& result, const proxy::LoopStatus& status) {
      hub_.PublishSync(result, status.revision);
    };
    options.on_repair = [this](const proxy::RepairResult& result) { hub_.PublishRepair(result); };
    loop_ = std::make_unique<proxy::Loop>(*reconciler_, options);
    loop_->Start(proxy::Received::kNothing);
    intake_ = std::make_unique<Intake>(
        *loop_, ConvertContext{"n1"},
        [this](const std::vector<proxy::Finding>& findings) { hub_.PublishFindings(findings); });
  }

  void Serve(const std::string& manifests_path = "") { ServeAt({}, manifests_path); }

  // Starts the server on `listeners` and on the Unix socket.
  void ServeAt(ListenOptions listeners, const std::string& manifests_path = "") {
    service_ = std::make_unique<ControlService>(*loop_, *intake_, hub_, tables_,
                                                ControlOptions{.version = "test",
                                                               .node_name = "n1",
                                                               .manifests_path = manifests_path,
                                                               .limits = limits_,
                                                               .save_leader = save_leader_});
    listeners.listen.push_back("unix://" + socket());
    auto server = Server::Start(listeners, limits_, *service_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel("unix:" + socket(), grpc::InsecureChannelCredentials());
    stub_ = v1::Control::NewStub(channel_);
  }

  void TearDown() override {
    rejecting_ = false;
    loop_->Stop();
    hub_.End();
    server_.reset();
  }

  std::string socket() const { return folder_->path() + "/agent.sock"; }

  // Returns a channel with its own connection. Without the probe, gRPC does not enlarge its
  // buffers, so they can hold only about 64 KiB of unread messages of a stream.
  std::shared_ptr<grpc::Channel> ChannelWithSmallBuffers() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    return grpc::CreateCustomChannel("unix:" + socket(), grpc::InsecureChannelCredentials(),
                                     arguments);
  }

  static void SetDeadline(grpc::ClientContext& context) {
    context.set_deadline(std::chrono::system_clock::now() + svcmap::testing::kHangLimit);
  }

  grpc::Status TryApply(v1::ApplyRequest request, v1::Ack& ack,
                        std::chrono::milliseconds time_limit = svcmap::testing::kHangLimit) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + time_limit);
    request.set_protocol_version(2);
    return stub_->Apply(&context, request, &ack);
  }
  v1::Ack Apply(const testing::Objects& objects, bool validate_only = false) {
    v1::ApplyRequest request;
    request.set_validate_only(validate_only);
    for (const v1::Object& object : objects) *request.add_objects() = object;
    v1::Ack ack;
    const grpc::Status status = TryApply(request, ack);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return ack;
  }

  static std::vector<std::string> Messages(const v1::Ack& ack) {
    std::vector<std::string> messages;
    for (const v1::ObjectResult& result : ack.results()) messages.push_back(result.message());
    return messages;
  }

  // Returns the number of IPv4 elements in the kernel.
  size_t Elements(proxy::SetIndex set) {
    size_t count = 0;
    loop_->Call([&](proxy::Reconciler&) {
      count = kernel_->ReadSet({Family::kIpv4, set})->size();
    });
    return count;
  }

  // Waits until the status contains everything that the loop has taken. The first call may run in
  // the same turn as a batch, before the batch is committed.
  void AwaitTurn() {
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(loop_->Call([](proxy::Reconciler&) {}));
  }

  v1::GetStatusResponse GetStatus() {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::GetStatusResponse response;
    const grpc::Status status = stub_->GetStatus(&context, {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  std::vector<v1::Object> List(v1::Kind kind) {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::ListRequest request;
    request.set_kind(kind);
    const auto reader = stub_->List(&context, request);
    std::vector<v1::Object> objects;
    for (v1::ListResponse response; reader->Read(&response);) {
      objects.insert(objects.end(), response.objects().begin(), response.objects().end());
    }
    EXPECT_TRUE(reader->Finish().ok());
    return objects;
  }

  // The stream of a controller.
  struct Stream {
    explicit Stream(v1::Control::Stub& stub) {
      SetDeadline(context);
      stream = stub.Push(&context);
    }
    template <typename... Arguments>
    Stream(v1::Control::Stub& stub, const std::string& name, Arguments... arguments)
        : Stream(stub) {
      EXPECT_TRUE(Open(name, arguments...));
    }
    ~Stream() {
      if (finished) return;
      context.TryCancel();
      stream->Finish();
    }
    bool Open(const std::string& name, uint64_t epoch = 0, const std::string& state_token = "") {
      v1::PushRequest request;
      request.mutable_open()->set_name(name);
      request.mutable_open()->set_protocol_version(2);
      request.mutable_open()->set_epoch(epoch);
      request.mutable_open()->set_state_token(state_token);
      v1::PushResponse response;
      if (!stream->Write(request) || !stream->Read(&response) || !response.has_opened()) {
        return false;
      }
      opened = response.opened();
      return true;
    }
    bool Send(uint64_t number, const std::vector<v1::Change>& changes) {
      v1::PushRequest request;
      request.mutable_batch()->set_number(number);
      for (const v1::Change& change : changes) *request.mutable_batch()->add_changes() = change;
      return stream->Write(request);
    }
    bool BeginSnapshot() {
      v1::PushRequest request;
      request.mutable_snapshot_begin();
      return stream->Write(request);
    }
    bool EndSnapshot(uint64_t number) {
      v1::PushRequest request;
      request.mutable_snapshot_end()->set_number(number);
      return stream->Write(request);
    }
    v1::Ack ReadAck() {
      v1::PushResponse response;
      EXPECT_TRUE(stream->Read(&response));
      return response.ack();
    }
    grpc::Status Finish() {
      finished = true;
      stream->WritesDone();
      for (v1::PushResponse rest; stream->Read(&rest);) {
      }
      return stream->Finish();
    }
    v1::Opened opened;
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<v1::PushRequest, v1::PushResponse>> stream;
    bool finished = false;
  };

  absl::StatusOr<testing::TemporaryFolder> folder_ = testing::TemporaryFolder::Make();
  nft::TableSpecs tables_;
  PushLimits limits_;
  std::function<void(const proxy::Leader&)> save_leader_;
  std::atomic<bool> rejecting_ = false;
  std::unique_ptr<nft::FakeKernel> kernel_;
  WatchHub hub_;
  std::unique_ptr<proxy::Reconciler> reconciler_;
  std::unique_ptr<proxy::Loop> loop_;
  std::unique_ptr<Intake> intake_;
  std::unique_ptr<ControlService> service_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Control::Stub> stub_;
};

}  // namespace svcmap::api
