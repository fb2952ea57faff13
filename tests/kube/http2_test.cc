// Tests svcmap-kube with an API server that supports HTTP/2.
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/kube/bridge_world.h"

namespace svcmap::testing {
namespace {

class Http2Test : public BridgeTest {
 protected:
  void SetUp() override {
    BridgeTest::SetUp();
    if (HasFatalFailure()) return;
    const std::string certificate = folder() + "/server.crt";
    const std::string key = folder() + "/server.key";
    ASSERT_OK(server().WriteIdentity(certificate, key));
    ASSERT_OK_AND_ASSIGN(proxy_, ChildProcess::Start({.argv = {SVCMAP_BIN_DIR "/http2-proxy",
                                                               certificate, key, server().url()},
                                                      .netns = &node().netns()}));
    ASSERT_TRUE(proxy_->WaitForOutput("\n", kHangLimit)) << proxy_->err();
  }

  std::vector<std::string> ProxyLines() const {
    return absl::StrSplit(proxy_->out(), '\n', absl::SkipEmpty());
  }
  std::string ProxyUrl() const {
    return absl::StrCat("https://127.0.0.1:", ProxyLines().at(0).substr(strlen("port ")));
  }
  // Opened and closed connections, in order.
  std::vector<std::string> Connections() const {
    std::vector<std::string> lines = ProxyLines();
    lines.erase(lines.begin());
    return lines;
  }

 private:
  std::unique_ptr<ChildProcess> proxy_;
};

TEST_F(Http2Test, AllWatchesShareOneConnection) {
  Objects objects;
  for (int i = 0; i < 1000; ++i) {
    const std::string key = absl::StrCat("many/s", i);
    objects.push_back(
        AService(key).ClusterIp(absl::StrCat("10.96.", 4 + i / 250, ".", i % 250)).Port("tcp", 80));
    objects.push_back(ASlice(key).Endpoint("10.244.2.1", "n2").Port("tcp", kPodPort));
  }
  server().AlwaysPage(300);
  server().Put(objects + Objects{Web("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()}));
  ASSERT_OK(StartBridge({"--master", ProxyUrl()}));
  ASSERT_OK(Eventually("four watches", [&] { return server().open_watches() == 4; }));
  EXPECT_OK(Until(kWeb, "pod-a"));
  EXPECT_OK(UntilTheAgentHasAll());
  EXPECT_THAT(Connections(), ::testing::ElementsAre("new"));

  // Many events on two watches at the same time.
  for (int round = 0; round < 5; ++round) {
    server().Put(WebSlices("shop/web", {round % 2 == 0 ? &pod_b() : &pod_a()}));
    for (v1::Object& object : objects) {
      v1::ObjectMeta& meta = object.has_service()
                                 ? *object.mutable_service()->mutable_metadata()
                                 : *object.mutable_endpoint_slice()->mutable_metadata();
      (*meta.mutable_annotations())["round"] = absl::StrCat(round);
    }
    server().Put(objects);
  }
  EXPECT_OK(Until(kWeb, "pod-b"));
  server().EndWatches();
  server().Put(WebSlices("shop/web", {&pod_a()}));
  EXPECT_OK(Until(kWeb, "pod-a"));
  ASSERT_OK(Eventually("four watches", [&] { return server().open_watches() == 4; }));
  EXPECT_THAT(Connections(), ::testing::ElementsAre("new"));
}

}  // namespace
}  // namespace svcmap::testing
