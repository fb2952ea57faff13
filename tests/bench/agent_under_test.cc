#include "tests/bench/agent_under_test.h"

#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <unistd.h>

#include "svcmap/v1/control.grpc.pb.h"
#include "tests/support/netns.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::bench {
namespace {

using testing::ChildProcess;
using testing::NetNs;

constexpr std::chrono::seconds kStartTimeout{10};

class Agent final : public AgentUnderTest {
 public:
  Agent(NetNs netns, testing::TemporaryFolder folder)
      : netns_(std::move(netns)), folder_(std::move(folder)) {}

  ~Agent() override {
    if (stream_) {
      context_.TryCancel();
      stream_->Finish();
    }
    if (process_) {
      static_cast<void>(process_->Signal(SIGTERM));
      process_->Wait(std::chrono::seconds(10));
    }
  }

  absl::Status Begin(const std::string& program) {
    auto process =
        ChildProcess::Start({.argv = {program, "--listen", "unix://" + Socket(), "--node-name",
                                      "node-0", "--state-dir", folder_.path() + "/state"},
                             .netns = &netns_});
    if (!process.ok()) return process.status();
    process_ = *std::move(process);
    channel_ = grpc::CreateChannel("unix:" + Socket(), grpc::InsecureChannelCredentials());
    if (!channel_->WaitForConnected(std::chrono::system_clock::now() + kStartTimeout)) {
      return absl::UnavailableError(program + " does not answer: " + process_->err());
    }
    stub_ = v1::Control::NewStub(channel_);
    stream_ = stub_->Push(&context_);
    v1::PushRequest open;
    open.mutable_open()->set_name("svcmap-bench");
    open.mutable_open()->set_protocol_version(1);
    v1::PushResponse opened;
    if (!stream_->Write(open) || !stream_->Read(&opened) || !opened.has_opened()) {
      return absl::UnavailableError(program + " does not open a stream: " + process_->err());
    }
    return absl::OkStatus();
  }

  absl::Status Send(const v1::PushRequest& request) override {
    if (stream_->Write(request)) return absl::OkStatus();
    return absl::UnavailableError("the stream broke: " + process_->err());
  }

  absl::StatusOr<v1::Ack> Await(uint64_t number) override {
    v1::PushResponse response;
    while (stream_->Read(&response)) {
      if (!response.has_ack()) continue;
      const v1::Ack& ack = response.ack();
      if (ack.outcome() == v1::FAILED) return absl::InternalError(ack.error());
      if (ack.results_size() > 0) return absl::InternalError(ack.results(0).message());
      if (ack.number() >= number) return ack;
    }
    return absl::UnavailableError("the stream broke: " + process_->err());
  }

  ProcessMemory Memory() const override { return MemoryOf(process_->pid()); }
  double CpuSeconds() const override { return CpuSecondsOf(process_->pid()); }

 private:
  std::string Socket() const { return folder_.path() + "/svcmap.sock"; }

  NetNs netns_;
  testing::TemporaryFolder folder_;
  std::unique_ptr<ChildProcess> process_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Control::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::PushRequest, v1::PushResponse>> stream_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<AgentUnderTest>> AgentUnderTest::Start(const std::string& program) {
  absl::StatusOr<NetNs> netns = NetNs::Create();
  if (!netns.ok()) return netns.status();
  absl::StatusOr<testing::TemporaryFolder> folder = testing::TemporaryFolder::Make();
  if (!folder.ok()) return folder.status();
  auto agent = std::make_unique<Agent>(*std::move(netns), *std::move(folder));
  if (const absl::Status begun = agent->Begin(program); !begun.ok()) return begun;
  return agent;
}

}  // namespace svcmap::bench
