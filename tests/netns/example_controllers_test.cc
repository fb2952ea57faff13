// Runs the controllers in deploy/examples with svcmapd.
#include <filesystem>
#include <fstream>

#include "tests/netns/service_world.h"
#include "tests/support/file.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/wait.h"

namespace svcmap::testing {
namespace {

struct Example {
  const char* name;
  // Command line of the controller. Controller() appends the file, the agent's socket and the
  // epoch.
  std::vector<std::string> argv;
};

class ExampleControllerTest : public ::testing::TestWithParam<Example> {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(NetNs made, NetNs::Create());
    netns_.emplace(std::move(made));
    ASSERT_OK_AND_ASSIGN(agent_, Agent::Start(*netns_));
    ASSERT_OK_AND_ASSIGN(TemporaryFolder folder, TemporaryFolder::Make());
    folder_.emplace(std::move(folder));
    std::filesystem::create_directory(tmp());
  }
  // Replaces the controller's file with a file that contains one Service and one endpoint. The
  // replacement is atomic, because a partial file would be a valid file with fewer objects.
  void WriteObjects(const std::string& endpoint) const {
    std::ofstream(file() + ".new")
        << R"({"service": {"metadata": {"namespace": "shop", "name": "web"}, )"
        << R"("spec": {"clusterIP": "10.96.0.10", "ports": [{"name": "http", "port": 80}]}}})"
           "\n"
        << R"({"endpointSlice": {"metadata": {"namespace": "shop", "name": "web-1", )"
        << R"("labels": {"kubernetes.io/service-name": "web"}}, "addressType": "IPv4", )"
        << R"("ports": [{"name": "http", "port": 8080}], )"
        << R"("endpoints": [{"addresses": [")" << endpoint << "\"]}]}}\n";
    std::filesystem::rename(file() + ".new", file());
  }
  absl::StatusOr<std::unique_ptr<ChildProcess>> Controller(int epoch) const {
    std::vector<std::string> argv = GetParam().argv;
    argv.insert(argv.end(), {file(), agent_->socket(), std::to_string(epoch)});
    return ChildProcess::Start({.argv = argv, .env = {"TMPDIR=" + tmp()}});
  }
  std::string Applied() const {
    const auto applied = agent_->Dump(v1::DumpRequest::APPLIED);
    return applied.ok() ? *applied : applied.status().ToString();
  }
  // Waits until the saved resume token includes `endpoint`.
  bool WaitUntilKept(const std::string& endpoint) const {
    return WaitUntil(
        [&] { return ReadFile(file() + ".sent").find(endpoint) != std::string::npos; });
  }
  std::string file() const { return folder_->path() + "/objects"; }
  std::string tmp() const { return folder_->path() + "/tmp"; }

  std::optional<NetNs> netns_;
  std::unique_ptr<Agent> agent_;
  std::optional<TemporaryFolder> folder_;
};

TEST_P(ExampleControllerTest, SendsWhatChangedAndGoesOnAfterItsRestart) {
  WriteObjects("10.1.0.5");
  ASSERT_OK_AND_ASSIGN(auto controller, Controller(7));
  ASSERT_TRUE(controller->WaitForOutput("1 COMMITTED", kHangLimit)) << controller->err();
  EXPECT_EQ(controller->out().rfind("snapshot\n", 0), 0u) << controller->out();
  EXPECT_TRUE(std::filesystem::is_empty(tmp()));
  EXPECT_NE(Applied().find("10.1.0.5 . 8080"), std::string::npos) << Applied();

  WriteObjects("10.1.0.6");
  ASSERT_TRUE(controller->WaitForOutput("3 COMMITTED", kHangLimit)) << controller->out();
  EXPECT_NE(Applied().find("10.1.0.6 . 8080"), std::string::npos) << Applied();
  EXPECT_EQ(Applied().find("10.1.0.5 . 8080"), std::string::npos) << Applied();

  ASSERT_TRUE(WaitUntilKept("10.1.0.6"));
  controller.reset();
  WriteObjects("10.1.0.7");
  ASSERT_OK_AND_ASSIGN(controller, Controller(7));
  ASSERT_TRUE(controller->WaitForOutput("1 COMMITTED", kHangLimit)) << controller->out();
  EXPECT_EQ(controller->out().rfind("resume\n", 0), 0u) << controller->out();
  EXPECT_NE(Applied().find("10.1.0.7 . 8080"), std::string::npos) << Applied();
}

TEST_P(ExampleControllerTest, LeavesWhenItDoesNotLead) {
  WriteObjects("10.1.0.5");
  ASSERT_OK_AND_ASSIGN(const auto leader, Controller(7));
  ASSERT_TRUE(leader->WaitForOutput("1 COMMITTED", kHangLimit)) << leader->err();
  ASSERT_OK_AND_ASSIGN(const auto deposed, Controller(6));
  const std::optional<ExitStatus> end = deposed->Wait(kHangLimit);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code, 1);
  EXPECT_EQ(deposed->out().rfind("FAILED_PRECONDITION open.epoch 6 is lower than 7", 0), 0u)
      << deposed->out() << deposed->err();
}

INSTANTIATE_TEST_SUITE_P(Examples, ExampleControllerTest,
                         ::testing::Values(Example{"Python",
                                                   {"/usr/bin/python3", SVCMAP_SOURCE_DIR
                                                    "/deploy/examples/python/controller.py"}},
                                           Example{"Cpp",
                                                   {SVCMAP_BIN_DIR "/svcmap-example-controller"}}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace svcmap::testing
