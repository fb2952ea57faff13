// Tests of ListWatch with its thread, HTTP client and decoders against a scripted server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "api/kube/mirror.h"
#include "api/kube/watch/list_watch.h"
#include "svcmap/v1/control.pb.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/kube/tls_server.h"

namespace svcmap::kube::test {
namespace {

using ::testing::HasSubstr;

class ListWatchThreadTest : public ::testing::Test {
 protected:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kSoon{20};

  ListWatchThreadTest() {
    options_.selection.node_name = "n1";
    options_.first_retry = std::chrono::milliseconds(2);
    for (const Resource resource : kResources) mirror_.Replace(resource, {});
  }

  std::unique_ptr<ListWatch> Start(const std::string& url) {
    ApiServer server;
    server.url = url;
    server.ca_pem = ca_.certificate();
    auto client = HttpClient::Create(server, "svcmap-kube/test");
    EXPECT_OK(client);
    return ListWatch::Start(Resource::kServices, *std::move(client), options_, mirror_);
  }

  static std::string Service(const std::string& name, const std::string& version) {
    return R"({"kind":"Service","apiVersion":"v1","metadata":{"namespace":"shop","name":")" + name +
           R"(","resourceVersion":")" + version + R"("},"spec":{"clusterIP":"10.96.0.1"}})";
  }
  static std::string List(const std::string& items, const std::string& version) {
    return R"({"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":")" + version +
           R"("},"items":[)" + items + "]}";
  }
  static std::string Event(const std::string& type, const std::string& object) {
    return R"({"type":")" + type + R"(","object":)" + object + "}\n";
  }
  static void AnswerJson(TlsConnection& connection, const std::string& body) {
    connection.Answer("200 OK", body, "Content-Type: application/json\r\n");
  }
  static void BeginWatch(TlsConnection& connection) {
    connection.Write(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\n\r\n");
  }
  static void Chunk(TlsConnection& connection, const std::string& bytes) {
    char size[16];
    std::snprintf(size, sizeof(size), "%zx\r\n", bytes.size());
    connection.Write(size + bytes + "\r\n");
  }

  // Takes the next change from the mirror, as svcmap-kube does before it pushes the change.
  // Examples: "+web", "-web".
  std::string NextChange() {
    if (mirror_.Wait(Clock::now() + kSoon) != Mirror::Wake::kChanges) return "none came";
    v1::Change change;
    EXPECT_TRUE(change.ParseFromString(mirror_.TakeChanges(1).at(0)));
    return change.has_remove() ? "-" + change.remove().name()
                               : "+" + change.service().metadata().name();
  }

  template <typename Condition>
  static void Await(Condition condition) {
    const auto deadline = Clock::now() + kSoon;
    while (!condition()) {
      ASSERT_LT(Clock::now(), deadline);
      std::this_thread::yield();
    }
  }

  const testing::CertificateAuthority ca_{"list-watch"};
  ListWatchOptions options_;
  Mirror mirror_;
};

TEST_F(ListWatchThreadTest, FollowsTheServerThroughWhatGoesWrong) {
  TlsServer server(ca_.Issue("server", "IP:127.0.0.1"), "", [](TlsConnection& connection) {
    while (true) {
      const std::string request = connection.ReadRequest();
      if (request.empty()) return;
      const bool watch = request.find("&watch=1") != std::string::npos;
      const auto from = [&](const std::string& version) {
        return request.find("resourceVersion=" + version + "&") != std::string::npos ||
               request.find("resourceVersion=" + version + " ") != std::string::npos;
      };
      if (request.find("protobuf") != std::string::npos) {
        connection.Answer("200 OK", "that is none",
                          "Content-Type: application/vnd.kubernetes.protobuf\r\n");
      } else if (!watch && request.find("resourceVersion") == std::string::npos) {
        AnswerJson(connection, List(Service("web", "3"), "5"));
      } else if (watch && from("5")) {
        const std::string event = Event("ADDED", Service("new", "6"));
        BeginWatch(connection);
        Chunk(connection, event.substr(0, 50));
        Chunk(connection, event.substr(50));
        return;  // The handler closes the connection without ending the stream.
      } else if (watch && from("6")) {
        BeginWatch(connection);
        Chunk(connection, Event("ERROR", R"({"kind":"Status","apiVersion":"v1","status":"Failure",)"
                                         R"("reason":"Expired","message":"too old","code":410})"));
        connection.ReadRequest();  // ReadRequest returns when the client closes the connection.
        return;
      } else if (!watch && from("6")) {
        AnswerJson(connection, List(Service("new", "6") + "," + Service("last", "8"), "9"));
      } else if (watch && from("9")) {
        BeginWatch(connection);
        Chunk(connection, Event("DELETED", Service("new", "10")));
        connection.ReadRequest();  // ReadRequest returns when the client closes the connection.
        return;
      } else {
        connection.Answer("500 Internal Server Error", "not expected");
      }
    }
  });
  std::unique_ptr<ListWatch> watch = Start(server.url());
  for (const char* change : {"+web", "+new", "+last", "-web", "-new"}) {
    EXPECT_EQ(NextChange(), change);
  }
  // ListWatch updates the mirror before this counter.
  Await([&] { return watch->facts().events == 3; });
  const ListWatchFacts facts = watch->facts();
  EXPECT_EQ(facts.lists, 2u);
  EXPECT_EQ(facts.watches, 3u);
  EXPECT_EQ(facts.expired, 1u);
  // Two failures: the invalid protobuf response and the lost connection.
  EXPECT_EQ(facts.failures, 2u);
  EXPECT_TRUE(facts.listed);
  EXPECT_EQ(facts.last_error, "");
  EXPECT_GT(facts.last_contact, Clock::now() - kSoon);

  // The destructor returns immediately, even if a watch without events is open.
  const auto ended = Clock::now();
  watch.reset();
  EXPECT_LT(Clock::now() - ended, kSoon);
  EXPECT_EQ(server.requests().size(), 6u);
}

TEST_F(ListWatchThreadTest, EndsWhileItWaitsToTryAgain) {
  options_.first_retry = options_.last_retry = std::chrono::hours(1);
  std::unique_ptr<ListWatch> watch =
      Start("https://127.0.0.1:" + std::to_string(testing::FreeTcpPort()));
  Await([&] { return watch->facts().failures > 0; });
  EXPECT_THAT(watch->facts().last_error, HasSubstr("list of services failed: https://127.0.0.1"));
  EXPECT_FALSE(watch->facts().listed);
  const auto ended = Clock::now();
  watch.reset();
  EXPECT_LT(Clock::now() - ended, kSoon);
}

TEST_F(ListWatchThreadTest, AListWithoutEndIsCutOffAndTheNextOneIsRead) {
  options_.bounds.page = 1 << 20;
  std::atomic<uint64_t> sent = 0;
  std::atomic<int> lists = 0;
  TlsServer server(ca_.Issue("server", "IP:127.0.0.1"), "", [&](TlsConnection& connection) {
    while (true) {
      const std::string request = connection.ReadRequest();
      if (request.empty()) return;
      if (request.find("&watch=1") != std::string::npos) {
        BeginWatch(connection);  // Stays open until the client ends.
        continue;
      }
      if (++lists > 2) {
        AnswerJson(connection, List(Service("web", "3"), "5"));
        continue;
      }
      BeginWatch(connection);
      const std::string chunk = "10000\r\n" + std::string(0x10000, ' ') + "\r\n";
      while (connection.Write(chunk)) sent += chunk.size();
      return;
    }
  });
  const auto watch = Start(server.url());
  EXPECT_EQ(NextChange(), "+web");
  EXPECT_LT(sent, 32u << 20);
  Await([&] { return watch->facts().lists == 1; });
  EXPECT_EQ(watch->facts().failures, 2u);
}

}  // namespace
}  // namespace svcmap::kube::test
