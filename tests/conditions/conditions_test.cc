// Tests of svcmapd after system clock changes and with too little memory.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>

#include "absl/strings/str_join.h"
#include "svcmap/v1/control.grpc.pb.h"
#include "tests/support/agent.h"
#include "tests/support/shim_clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/wait.h"

namespace svcmap::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr char kSvcmapd[] = SVCMAP_BIN_DIR "/svcmapd";
const std::vector<std::string> kFlags = {"--healthz-bind-address=", "--metrics-bind-address="};

class ConditionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(NetNsAvailable());
    ASSERT_OK_AND_ASSIGN(netns_, NetNs::Create());
    ASSERT_OK_AND_ASSIGN(folder_, TemporaryFolder::Make());
  }

  // Writes a script that runs the shell command `prepare`, then svcmapd.
  std::string Program(const std::string& prepare) const {
    const std::string path = folder_->path() + "/svcmapd";
    std::ofstream(path) << "#!/bin/sh\n" << prepare << "\nexec " << kSvcmapd << " \"$@\"\n";
    EXPECT_EQ(chmod(path.c_str(), 0700), 0);
    return path;
  }

  std::optional<NetNs> netns_;
  std::optional<TemporaryFolder> folder_;
};

// ---- Changes of the system clock ----

class ClockTest : public ConditionsTest {
 protected:
  void SetUp() override {
    ConditionsTest::SetUp();
    if (HasFatalFailure()) return;
    ASSERT_OK_AND_ASSIGN(clock_, ShimClock::Make(folder_->path()));
    absl::StatusOr<std::unique_ptr<Agent>> agent = Agent::Launch(
        *netns_, kFlags, Program("export " + absl::StrJoin(clock_->environment(), " ")));
    ASSERT_OK(agent);
    agent_ = *std::move(agent);
    ASSERT_OK(agent_->WaitUntilItAnswers());
  }

  // Opens a stream, sends nothing, sets the clock, and returns the time until svcmapd closes the
  // stream.
  std::chrono::duration<double> TimeWithoutOpen(std::chrono::nanoseconds change) {
    const auto stub = v1::Control::NewStub(
        grpc::CreateChannel("unix:" + agent_->socket().substr(sizeof("unix://") - 1),
                            grpc::InsecureChannelCredentials()));
    const auto start = std::chrono::steady_clock::now();
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + testing::kHangLimit);
    const auto stream = stub->Push(&context);
    // svcmapd receives the requests of a connection in order.
    grpc::ClientContext status_context;
    v1::GetStatusResponse response;
    EXPECT_TRUE(stub->GetStatus(&status_context, {}, &response).ok());
    clock_->Step(change);
    const grpc::Status status = stream->Finish();
    EXPECT_THAT(status.error_message(), HasSubstr("open not received")) << agent_->log();
    return std::chrono::steady_clock::now() - start;
  }

  std::unique_ptr<ShimClock> clock_;
  std::unique_ptr<Agent> agent_;
};

TEST_F(ClockTest, StreamWithoutOpenEndsInTimeAfterTheClockWasSetBack) {
  TimeWithoutOpen(-1h);
  EXPECT_THAT(agent_->log(), HasSubstr("system clock set change_s=-3600."));
  ASSERT_OK(agent_->Apply({AService("shop/web")}));
  EXPECT_OK(agent_->CheckServing());
  EXPECT_OK(agent_->Stop());
}

TEST_F(ClockTest, StreamWithoutOpenGetsItsTimeAfterTheClockWasSetForward) {
  EXPECT_GT(TimeWithoutOpen(1h), 9s);
  EXPECT_THAT(agent_->log(), HasSubstr("system clock set change_s=3600."));
  ASSERT_OK(agent_->Apply({AService("shop/web")}));
  EXPECT_OK(agent_->CheckServing());
  EXPECT_OK(agent_->Stop());
}

// ---- Memory ----

using MemoryTest = ConditionsTest;

TEST_F(MemoryTest, StartWithTooLittleAddressSpaceIsAnErrorWithItsReason) {
  // Slightly higher memory limits are not tested, because gRPC aborts if it cannot start a thread.
  for (const int mib : {40, 60}) {
    const absl::StatusOr<std::unique_ptr<ChildProcess>> process = ChildProcess::Start(
        {.argv = {Program("ulimit -v " + std::to_string(mib * 1024)), "--state-dir=",
                  "--listen=unix://" + folder_->path() + "/socket", kFlags[0], kFlags[1]},
         .netns = &*netns_});
    ASSERT_OK(process);
    const std::optional<ExitStatus> exit = (*process)->Wait(kHangLimit);
    ASSERT_TRUE(exit.has_value());
    EXPECT_EQ(exit->ToString(), (ExitStatus{.code = 1}).ToString()) << (*process)->err();
    EXPECT_THAT((*process)->err(), HasSubstr("svcmapd: exiting error=\""));
    EXPECT_THAT((*process)->err(),
                AnyOf(HasSubstr("cannot start a thread"), HasSubstr("out of memory")));
  }
}

}  // namespace
}  // namespace svcmap::testing
