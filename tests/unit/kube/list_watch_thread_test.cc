// Tests of ListWatches with its thread, HTTP client and decoders against a scripted server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "api/kube/watch/list_watch.h"
#include "api/source/mirror.h"
#include "svcmap/v1/control.pb.h"
#include "tests/support/kube_encoding.h"
#include "tests/support/wait.h"
#include "tests/unit/kube/tls_server.h"
#include "tests/unit/kube/wire_bytes.h"

namespace svcmap::kube::test {
namespace {

using svcmap::testing::Enveloped;
using ::testing::HasSubstr;

class ListWatchThreadTest : public ::testing::Test {
 protected:
  using Clock = std::chrono::steady_clock;

  ListWatchThreadTest() {
    options_.selection.node_name = "n1";
    options_.first_retry = std::chrono::milliseconds(2);
    for (const Resource resource : kResources) mirror_.Replace(resource, {});
  }

  std::unique_ptr<ListWatches> Start(const std::string& url) {
    ApiServer server;
    server.url = *ParseServerUrl(url);
    server.tls_text.ca = ca_.certificate();
    return std::make_unique<ListWatches>(server, "svcmap-kube/test", options_, mirror_);
  }
  static ListWatchFacts Services(const ListWatches& watches) {
    return watches.facts()[static_cast<size_t>(Resource::kServices)];
  }

  static std::string Object(const std::string& name, const std::string& version) {
    return pb::Bytes(1, pb::ObjectMeta(name, "shop", version)) +
           pb::Bytes(2, pb::Bytes(3, "10.96.0.1"));
  }
  static std::string List(const std::vector<std::string>& objects, const std::string& version) {
    std::string list = pb::Bytes(1, pb::ListMeta(version, ""));
    for (const std::string& object : objects) list += pb::Bytes(2, object);
    return Enveloped("v1", "ServiceList", list);
  }
  static void AnswerList(TlsConnection& connection, const std::string& body) {
    connection.Answer("200 OK", body, "Content-Type: application/vnd.kubernetes.protobuf\r\n");
  }
  static void BeginWatch(TlsConnection& connection) {
    connection.Write(
        "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.kubernetes.protobuf;stream=watch\r\n"
        "Transfer-Encoding: chunked\r\n\r\n");
  }
  // Takes the next change from the mirror, as svcmap-kube does before it pushes the change.
  // Examples: "+web", "-web".
  std::string NextChange() {
    if (mirror_.Wait(Clock::now() + svcmap::testing::kHangLimit) != Mirror::Wake::kChanges)
      return "none came";
    v1::Change change;
    EXPECT_TRUE(change.ParseFromString(mirror_.TakeChanges(1).at(0)));
    return change.has_remove() ? "-" + change.remove().name()
                               : "+" + change.service().metadata().name();
  }

  static void Await(const std::function<bool()>& condition) {
    ASSERT_TRUE(testing::WaitUntil(condition));
  }

  const testing::CertificateAuthority ca_{"list-watch"};
  ListWatchOptions options_;
  Mirror mirror_;
};

TEST_F(ListWatchThreadTest, EndsWhileItWaitsToTryAgain) {
  options_.first_retry = options_.last_retry = std::chrono::hours(1);
  std::unique_ptr<ListWatches> watches =
      Start("https://127.0.0.1:" + std::to_string(testing::FreeTcpPort()));
  Await([&] { return Services(*watches).failures > 0; });
  EXPECT_THAT(Services(*watches).last_error,
              HasSubstr("list of services failed: https://127.0.0.1"));
  EXPECT_FALSE(Services(*watches).listed);
  const auto ended = Clock::now();
  watches.reset();
  EXPECT_LT(Clock::now() - ended, svcmap::testing::kHangLimit);
}

TEST_F(ListWatchThreadTest, AListWithoutEndIsCutOffAndTheNextOneIsRead) {
  options_.bounds.page = 1 << 20;
  std::atomic<uint64_t> sent = 0;
  std::atomic<int> lists = 0;
  TlsServer server(ca_.Issue("server", "IP:127.0.0.1"), "", [&](TlsConnection& connection) {
    while (true) {
      const std::string request = connection.ReadRequest();
      if (request.empty()) return;
      if (request.find("/services?") == std::string::npos) continue;  // Is not answered.
      if (request.find("&watch=1") != std::string::npos) {
        BeginWatch(connection);  // Stays open until the client ends.
        continue;
      }
      if (++lists > 2) {
        AnswerList(connection, List({Object("web", "3")}, "5"));
        continue;
      }
      BeginWatch(connection);
      const std::string chunk = "10000\r\n" + std::string(0x10000, ' ') + "\r\n";
      while (connection.Write(chunk)) sent += chunk.size();
      return;
    }
  });
  const auto watches = Start(server.url());
  EXPECT_EQ(NextChange(), "+web");
  EXPECT_LT(sent, 32u << 20);
  Await([&] { return Services(*watches).lists == 1; });
  EXPECT_EQ(Services(*watches).failures, 2u);
}

}  // namespace
}  // namespace svcmap::kube::test
