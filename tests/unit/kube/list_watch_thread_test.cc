// Tests of ListWatch with its thread, HTTP client and decoders against a scripted server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/kube/watch/list_watch.h"
#include "api/kube/watch/mirror.h"
#include "svcmap/v1/control.pb.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"
#include "tests/unit/kube/tls_server.h"
#include "tests/unit/kube/wire_bytes.h"

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

  static std::string Object(const std::string& name, const std::string& version) {
    return pb::Bytes(1, pb::ObjectMeta(name, "shop", version)) +
           pb::Bytes(2, pb::Bytes(3, "10.96.0.1"));
  }
  static std::string List(const std::vector<std::string>& objects, const std::string& version) {
    std::string list = pb::Bytes(1, pb::ListMeta(version, ""));
    for (const std::string& object : objects) list += pb::Bytes(2, object);
    return pb::Envelope("v1", "ServiceList", list);
  }
  static std::string Event(const std::string& type, const std::string& object) {
    return pb::Frame(type, pb::Envelope("v1", "Service", object));
  }
  static void AnswerList(TlsConnection& connection, const std::string& body) {
    connection.Answer("200 OK", body, "Content-Type: application/vnd.kubernetes.protobuf\r\n");
  }
  static void BeginWatch(TlsConnection& connection,
                         const char* type = "application/vnd.kubernetes.protobuf;stream=watch") {
    connection.Write(absl::StrCat("HTTP/1.1 200 OK\r\nContent-Type: ", type,
                                  "\r\nTransfer-Encoding: chunked\r\n\r\n"));
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

  static void Await(const std::function<bool()>& condition) {
    ASSERT_TRUE(testing::WaitUntil(condition));
  }

  const testing::CertificateAuthority ca_{"list-watch"};
  ListWatchOptions options_;
  Mirror mirror_;
};

TEST_F(ListWatchThreadTest, FollowsTheServerThroughWhatGoesWrong) {
  std::atomic<bool> damaged = false;
  TlsServer server(ca_.Issue("server", "IP:127.0.0.1"), "", [&](TlsConnection& connection) {
    while (true) {
      const std::string request = connection.ReadRequest();
      if (request.empty()) return;
      const bool watch = request.find("&watch=1") != std::string::npos;
      const auto from = [&](const std::string& version) {
        return request.find("resourceVersion=" + version + "&") != std::string::npos ||
               request.find("resourceVersion=" + version + " ") != std::string::npos;
      };
      EXPECT_THAT(request, HasSubstr("Accept: application/vnd.kubernetes.protobuf\r\n"));
      if (!damaged.exchange(true)) {
        AnswerList(connection, "that is none");
      } else if (!watch && request.find("resourceVersion") == std::string::npos) {
        AnswerList(connection, List({Object("web", "3")}, "5"));
      } else if (watch && from("5")) {
        const std::string event = Event("ADDED", Object("new", "6"));
        BeginWatch(connection);
        Chunk(connection, event.substr(0, 50));
        Chunk(connection, event.substr(50));
        return;  // The handler closes the connection without ending the stream.
      } else if (watch && from("6")) {
        BeginWatch(connection);
        const std::string expired = pb::Envelope(
            "v1", "Status", pb::Bytes(3, "too old") + pb::Bytes(4, "Expired") + pb::Int(6, 410));
        Chunk(connection, pb::Frame("ERROR", expired));
        connection.ReadRequest();  // ReadRequest returns when the client closes the connection.
        return;
      } else if (!watch && from("6")) {
        AnswerList(connection, List({Object("new", "6"), Object("last", "8")}, "9"));
      } else if (watch && from("9")) {
        BeginWatch(connection);
        Chunk(connection, Event("DELETED", Object("new", "10")));
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

// A proxy may convert responses, or answer by itself.
TEST_F(ListWatchThreadTest, AnotherContentTypeIsAFailureThatNamesItAndIsRetried) {
  options_.last_retry = std::chrono::milliseconds(5);
  std::atomic<bool> lists_protobuf = false;
  std::atomic<bool> watches_protobuf = false;
  TlsServer server(ca_.Issue("server", "IP:127.0.0.1"), "", [&](TlsConnection& connection) {
    while (true) {
      const std::string request = connection.ReadRequest();
      if (request.empty()) return;
      const bool watch = request.find("&watch=1") != std::string::npos;
      if (!watch && !lists_protobuf) {
        connection.Answer("200 OK", R"({"kind":"ServiceList"})",
                          "Content-Type: application/json\r\n");
      } else if (!watch) {
        AnswerList(connection, List({Object("web", "3")}, "5"));
      } else if (!watches_protobuf) {
        BeginWatch(connection, "application/json;stream=watch");
        Chunk(connection, R"({"type":"ADDED"})");
        return;
      } else {
        BeginWatch(connection);
        Chunk(connection, Event("ADDED", Object("new", "6")));
      }
    }
  });
  std::unique_ptr<ListWatch> watch = Start(server.url());
  const auto expect_error = [&](const std::string& subject, const std::string& type) {
    Await([&] { return watch->facts().last_error.find(subject) == 0; });
    EXPECT_THAT(watch->facts().last_error,
                HasSubstr("failed: the response has content type \"" + type +
                          "\", expected \"application/vnd.kubernetes.protobuf\""));
  };
  expect_error("list of services", "application/json");
  EXPECT_FALSE(watch->facts().listed);
  lists_protobuf = true;
  EXPECT_EQ(NextChange(), "+web");
  expect_error("watch of services", "application/json;stream=watch");
  watches_protobuf = true;
  EXPECT_EQ(NextChange(), "+new");
  EXPECT_EQ(watch->facts().lists, 1u);
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
        AnswerList(connection, List({Object("web", "3")}, "5"));
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
