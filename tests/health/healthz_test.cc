// Tests of /healthz and /livez, and of the health check node ports of Services, over real sockets
// (S-250..S-258).
#include <dirent.h>

#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/health/health_world.h"
#include "tests/support/log_capture.h"
#include "tests/support/process.h"

namespace svcmap::api::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Pair;

class HealthzTest : public HealthServerTest {
 protected:
  void SetUp() override {
    HealthServerTest::SetUp();
    if (!netns_) return;
    ASSERT_OK(Start());
  }

  int CodeOf(const std::string& path, const std::string& method = "GET") {
    const absl::StatusOr<HttpAnswer> answer = Ask(path, method);
    EXPECT_OK(answer);
    return answer.ok() ? answer->code : 0;
  }
};

TEST_F(HealthzTest, S250_BothPathsAreServedWithTheirHeaders) {
  for (const char* path : {"/healthz", "/livez", "/livez?verbose"}) {
    ASSERT_OK_AND_ASSIGN(const HttpAnswer answer, Ask(path));
    EXPECT_EQ(answer.code, 200) << path;
    EXPECT_THAT(answer.headers, IsSupersetOf({Pair("Content-Type", "application/json"),
                                              Pair("X-Content-Type-Options", "nosniff")}));
  }
  SetHealth(Stuck());
  ASSERT_OK_AND_ASSIGN(const HttpAnswer answer, Ask("/healthz"));
  EXPECT_EQ(answer.code, 503);
  EXPECT_THAT(answer.headers, IsSupersetOf({Pair("Content-Type", "application/json"),
                                            Pair("X-Content-Type-Options", "nosniff")}));
}

TEST_F(HealthzTest, S250_EveryMethodIsAnswered) {
  for (const char* method : {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE",
                             "PROPFIND", "WHATEVER"}) {
    EXPECT_EQ(CodeOf("/livez", method), 200) << method;
  }
}

TEST_F(HealthzTest, S250_HeadIsAnsweredWithoutBody) {
  ASSERT_OK_AND_ASSIGN(RawConnection connection, RawConnection::Open(netns(), kV4, kHealthPort));
  ASSERT_OK(connection.Send("HEAD /livez HTTP/1.1\r\n\r\nGET /livez HTTP/1.1\r\n\r\n"));
  ASSERT_OK_AND_ASSIGN(const HttpAnswer head, connection.Read(/*head=*/true));
  ASSERT_OK_AND_ASSIGN(const HttpAnswer get, connection.Read());
  EXPECT_EQ(head.code, 200);
  EXPECT_EQ(get.code, 200);
  // Both bodies contain two times of their request, each with up to 9 digits after a point.
  int64_t length = 0;
  for (const auto& [name, value] : head.headers) {
    if (name != "Content-Length") continue;
    ASSERT_TRUE(absl::SimpleAtoi(value, &length)) << value;
  }
  EXPECT_NEAR(length, get.body.size(), 20);
}

TEST_F(HealthzTest, S250_OtherPathsAreNotFound) {
  for (const char* path : {"/", "/metrics", "/healthz/", "/livezz", "/%", "//"}) {
    EXPECT_EQ(CodeOf(path), 404) << path;
  }
}

TEST_F(HealthzTest, S251_S252_AStuckFamilyMakesBothUnhealthy) {
  SetHealth(Stuck());
  EXPECT_EQ(CodeOf("/livez"), 503);
  EXPECT_EQ(CodeOf("/healthz"), 503);
  SetHealth(AllIsWell());
  EXPECT_EQ(CodeOf("/livez"), 200);
  EXPECT_EQ(CodeOf("/healthz"), 200);
}

TEST_F(HealthzTest, S252_S253_S254_ANodeThatIsNotEligibleIsStillAlive) {
  proxy::Health health = AllIsWell();
  health.node_eligible = false;
  health.reason = "Node n1 unknown";
  SetHealth(health);
  EXPECT_EQ(CodeOf("/livez"), 200);
  ASSERT_OK_AND_ASSIGN(const HttpAnswer answer, Ask("/healthz"));
  EXPECT_EQ(answer.code, 503);
  EXPECT_THAT(answer.body, HasSubstr(R"("nodeEligible":false,"healthy":true)"));
  EXPECT_THAT(answer.body, HasSubstr(R"("reason":"Node n1 unknown"})"));
}

class HealthzBindTest : public HealthServerTest {
 protected:
  // Returns a listening socket that occupies the port, as another process would.
  UniqueFd Squatter() {
    return netns().Run([] {
      absl::StatusOr<UniqueFd> fd =
          Listen({*IpAddress::Parse("0.0.0.0"), kHealthPort}, Stack::kOne);
      EXPECT_OK(fd);
      return fd.ok() ? *std::move(fd) : UniqueFd();
    });
  }
};

TEST_F(HealthzBindTest, S250_S295_AnUnspecifiedAddressServesBothFamilies) {
  for (const char* address : {"0.0.0.0:10256", "[::]:10256"}) {
    server_.reset();
    ASSERT_OK(Start({.bind_address = *BindAddress::Parse(address, 1)}));
    for (const char* ip : {kV4, kV6}) {
      ASSERT_OK_AND_ASSIGN(const HttpAnswer answer,
                           HttpRequest(netns(), ip, kHealthPort, "/livez"));
      EXPECT_EQ(answer.code, 200) << address << " " << ip;
    }
  }
}

TEST_F(HealthzBindTest, S295_AnotherAddressServesItsFamilyOnly) {
  ASSERT_OK(Start({.bind_address = *BindAddress::Parse(std::string(kV4) + ":10256", 1)}));
  EXPECT_TRUE(Closed(kHealthPort, kV6));
  EXPECT_FALSE(Closed(kHealthPort, kV4));
}

TEST_F(HealthzBindTest, S258_AnAddressThatIsTakenIsRetried) {
  UniqueFd squatter = Squatter();
  ASSERT_OK(Start({.retry = std::chrono::milliseconds(20)}));
  squatter.Close();
  ASSERT_TRUE(SoonOpen(kHealthPort));
  ASSERT_OK_AND_ASSIGN(const HttpAnswer answer, Ask("/livez"));
  EXPECT_EQ(answer.code, 200);
}

TEST_F(HealthzBindTest, S258_WithHardFailAnAddressThatIsTakenIsAnError) {
  const UniqueFd squatter = Squatter();
  const absl::Status status = Start({.bind_hard_fail = true});
  EXPECT_EQ(status.message(), "listen on 0.0.0.0:10256: Address already in use (EADDRINUSE)");
}

TEST_F(HealthzBindTest, WithoutAnAddressOnlyServicesAreServed) {
  auto server = netns().Run([] { return HealthServer::Start({.health = AllIsWell}); });
  ASSERT_OK(server);
  (*server)->SetListenAddresses({*IpAddress::Parse("0.0.0.0")});
  (*server)->Update({{"shop/web", CheckAt(30001)}});
  EXPECT_TRUE(SoonOpen(30001));
  EXPECT_TRUE(Closed(kHealthPort));
}

// Tests of healthCheckNodePorts over real sockets (S-259..S-266).

constexpr char kWeight[] = "X-Load-Balancing-Endpoint-Weight";
constexpr char kWeb[] = "shop/web";
constexpr uint16_t kPort = 30500;

// Returns the number of open file descriptors. Tests compare only the number of descriptors,
// because their values vary.
size_t OpenDescriptors() {
  size_t count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

class ServicePointsTest : public HealthServerTest {
 protected:
  void SetUp() override {
    HealthServerTest::SetUp();
    if (!netns_) return;
    ASSERT_OK(Start({.retry = std::chrono::milliseconds(50)}));
  }

  void Set(const std::string& service, std::optional<proxy::HealthCheck> check) {
    server().Update({{service, check}});
  }
  // Waits until the response on `port` has this status and weight. Returns false after a timeout.
  bool SoonAnswers(uint16_t port, int code, const std::string& weight,
                   const std::string& ip = kV4) {
    return testing::WaitUntil([&] {
      const auto answer = AskService(port, ip);
      return answer.ok() && answer->code == code && answer->headers.at(kWeight) == weight;
    });
  }
  UniqueFd Occupy(uint16_t port, const std::string& ip) {
    return netns().Run([&] {
      absl::StatusOr<UniqueFd> fd = Listen({*IpAddress::Parse(ip), port}, Stack::kOne);
      EXPECT_OK(fd);
      return fd.ok() ? *std::move(fd) : UniqueFd();
    });
  }
};

TEST_F(ServicePointsTest, S259_EveryPathAndMethodIsAnswered) {
  Set(kWeb, CheckAt(kPort));
  ASSERT_TRUE(SoonOpen(kPort));
  for (const char* path : {"/", "/healthz", "/a/b?c=d", "*", "//x", "/%zz", "http://node/x"}) {
    for (const char* method : {"GET", "HEAD", "POST", "OPTIONS", "WHATEVER"}) {
      ASSERT_OK_AND_ASSIGN(const HttpAnswer answer, HttpRequest(netns(), kV4, kPort, path, method));
      EXPECT_EQ(answer.code, 200) << method << " " << path;
    }
  }
}

TEST_F(ServicePointsTest, S259_EachFamilyHasItsOwnListener) {
  Set("shop/both", CheckAt(kPort, 1, 2));
  Set("shop/four", proxy::HealthCheck{kPort + 1, {true, false}, {3, 9}});
  Set("shop/six", proxy::HealthCheck{kPort + 2, {false, true}, {9, 4}});
  EXPECT_TRUE(SoonAnswers(kPort, 200, "1", kV4));
  EXPECT_TRUE(SoonAnswers(kPort, 200, "2", kV6));
  EXPECT_TRUE(SoonAnswers(kPort + 1, 200, "3", kV4));
  EXPECT_TRUE(SoonAnswers(kPort + 2, 200, "4", kV6));
  EXPECT_TRUE(Closed(kPort + 1, kV6));
  EXPECT_TRUE(Closed(kPort + 2, kV4));
}

TEST_F(ServicePointsTest, S259_OnePortCanBelongToAServiceInEachFamily) {
  Set("shop/four", proxy::HealthCheck{kPort, {true, false}, {3, 0}});
  Set("shop/six", proxy::HealthCheck{kPort, {false, true}, {0, 4}});
  EXPECT_TRUE(SoonAnswers(kPort, 200, "3", kV4));
  EXPECT_TRUE(SoonAnswers(kPort, 200, "4", kV6));
}

TEST_F(ServicePointsTest, S259_UnchangedListenersAreNotModified) {
  Set(kWeb, CheckAt(kPort, 1));
  ASSERT_TRUE(SoonOpen(kPort));
  ASSERT_OK_AND_ASSIGN(RawConnection connection, RawConnection::Open(netns(), kV4, kPort));
  for (const uint32_t weight : {1, 5, 0}) {
    Set(kWeb, CheckAt(kPort, weight));
    Set("shop/other", CheckAt(kPort + 1, weight));
    ASSERT_TRUE(SoonAnswers(kPort + 1, weight > 0 ? 200 : 503, std::to_string(weight)));
    // A connection that was opened before the change receives the new response.
    ASSERT_OK(connection.Send("GET / HTTP/1.1\r\n\r\n"));
    ASSERT_OK_AND_ASSIGN(const HttpAnswer answer, connection.Read());
    EXPECT_EQ(answer.headers.at(kWeight), std::to_string(weight));
  }
}

TEST_F(ServicePointsTest, S260_OnlyTheGivenAddressesAreListenedOn) {
  ASSERT_OK(svcmap::testing::RunOk(
      {.argv = {"ip", "address", "add", "fd00::7/128", "dev", "lo"}, .netns = &netns()}));
  server().SetListenAddresses({*IpAddress::Parse("127.0.0.2"), *IpAddress::Parse("127.0.0.3"),
                               *IpAddress::Parse("fd00::7")});
  Set(kWeb, CheckAt(kPort));
  ASSERT_TRUE(SoonOpen(kPort, "fd00::7"));
  EXPECT_FALSE(Closed(kPort, "127.0.0.2"));
  EXPECT_FALSE(Closed(kPort, "127.0.0.3"));
  EXPECT_TRUE(Closed(kPort, kV4));
  EXPECT_TRUE(Closed(kPort, kV6));
}

TEST_F(ServicePointsTest, S260_AddressesAreFollowed) {
  Set(kWeb, CheckAt(kPort));
  ASSERT_TRUE(SoonOpen(kPort, kV6));
  ASSERT_OK_AND_ASSIGN(RawConnection connection, RawConnection::Open(netns(), kV6, kPort));
  server().SetListenAddresses({*IpAddress::Parse("127.0.0.2"), *IpAddress::Parse("::")});
  EXPECT_TRUE(testing::WaitUntil([&] { return Closed(kPort, kV4); }));
  EXPECT_TRUE(SoonOpen(kPort, "127.0.0.2"));
  // The connection belongs to the address family that did not change.
  ASSERT_OK(connection.Send("GET / HTTP/1.1\r\n\r\n"));
  EXPECT_OK(connection.Read());
  server().SetListenAddresses({});
  EXPECT_TRUE(testing::WaitUntil([&] { return Closed(kPort, "127.0.0.2") && Closed(kPort, kV6); }));
  server().SetListenAddresses({*IpAddress::Parse("0.0.0.0")});
  EXPECT_TRUE(SoonOpen(kPort));
}

TEST_F(ServicePointsTest, S261_AnAddressThatIsTakenClosesThatServiceAndNoOther) {
  server().SetListenAddresses({*IpAddress::Parse("127.0.0.1"), *IpAddress::Parse("127.0.0.2")});
  UniqueFd squatter = Occupy(kPort, "127.0.0.2");
  server().Update({{kWeb, CheckAt(kPort)}, {"shop/other", CheckAt(kPort + 1)}});
  ASSERT_TRUE(SoonOpen(kPort + 1, "127.0.0.2"));
  EXPECT_TRUE(Closed(kPort, "127.0.0.1"));
  squatter.Close();
  EXPECT_TRUE(SoonOpen(kPort, "127.0.0.1"));
  EXPECT_TRUE(SoonOpen(kPort, "127.0.0.2"));
}

TEST_F(ServicePointsTest, S261_AServiceThatGoesIsNotRetried) {
  UniqueFd squatter = Occupy(kPort, "0.0.0.0");
  Set(kWeb, proxy::HealthCheck{kPort, {true, false}, {1, 0}});
  Set(kWeb, std::nullopt);
  Set("shop/other", CheckAt(kPort + 1));
  ASSERT_TRUE(SoonOpen(kPort + 1));
  squatter.Close();
  Set(kWeb, proxy::HealthCheck{kPort + 2, {true, false}, {1, 0}});
  ASSERT_TRUE(SoonOpen(kPort + 2));
  EXPECT_TRUE(Closed(kPort));
}

TEST_F(ServicePointsTest, S261_TheWarningNamesObjectFieldAndValueOnce) {
  const testing::LogCapture log;
  const UniqueFd squatter = Occupy(kPort, "0.0.0.0");
  Set(kWeb, proxy::HealthCheck{kPort, {true, false}, {1, 0}});
  for (uint16_t i = 1; i < 4; ++i) {  // Each update also retries the failed port.
    Set("shop/other", CheckAt(kPort + i));
    EXPECT_TRUE(SoonOpen(kPort + i));
  }
  server_.reset();
  EXPECT_THAT(
      log.Text(),
      HasSubstr(
          "cannot listen on healthCheckNodePort, retrying service=shop/web port=30500 family=IPv4 "
          "error=\"listen on 0.0.0.0:30500: Address already in use (EADDRINUSE)\""));
  EXPECT_EQ(log.Text().find("shop/web"), log.Text().rfind("shop/web"));
}

TEST_F(ServicePointsTest, S263_TheAnswerNeedsAnEndpointAndAHealthyProxy) {
  const struct {
    const char* name;
    proxy::Health health;
    uint32_t endpoints;
    int code;
  } cases[] = {
      {"all is well", AllIsWell(), 1, 200},
      {"no endpoint", AllIsWell(), 0, 503},
      {"a change has waited too long", Stuck(), 1, 503},
  };
  for (const auto& c : cases) {
    SetHealth(c.health);
    Set(kWeb, CheckAt(kPort, c.endpoints));
    EXPECT_TRUE(SoonAnswers(kPort, c.code, std::to_string(c.endpoints))) << c.name;
  }
  proxy::Health tainted = AllIsWell();
  tainted.node_eligible = false;
  SetHealth(tainted);
  Set(kWeb, CheckAt(kPort));
  EXPECT_TRUE(SoonAnswers(kPort, 200, "1")) << "eligibility does not count";
}

TEST_F(ServicePointsTest, S264_S265_S266_HeadersAndBodyAreExact) {
  Set(kWeb, CheckAt(kPort, 3));
  ASSERT_TRUE(SoonAnswers(kPort, 200, "3"));
  ASSERT_OK_AND_ASSIGN(const HttpAnswer good, AskService(kPort));
  EXPECT_EQ(good.code, 200);
  EXPECT_THAT(good.headers,
              IsSupersetOf({Pair("Content-Type", "application/json"),
                            Pair("X-Content-Type-Options", "nosniff"), Pair(kWeight, "3")}));
  EXPECT_EQ(good.body,
            "{\n\t\"service\": {\n\t\t\"namespace\": \"shop\",\n\t\t\"name\": \"web\"\n\t},\n"
            "\t\"localEndpoints\": 3,\n\t\"serviceProxyHealthy\": true\n}");
  Set(kWeb, CheckAt(kPort, 0));
  ASSERT_TRUE(SoonAnswers(kPort, 503, "0"));
  ASSERT_OK_AND_ASSIGN(const HttpAnswer bad, AskService(kPort));
  EXPECT_THAT(bad.headers,
              IsSupersetOf({Pair("Content-Type", "application/json"),
                            Pair("X-Content-Type-Options", "nosniff"), Pair(kWeight, "0")}));
  EXPECT_EQ(bad.body,
            "{\n\t\"service\": {\n\t\t\"namespace\": \"shop\",\n\t\t\"name\": \"web\"\n\t},\n"
            "\t\"localEndpoints\": 0,\n\t\"serviceProxyHealthy\": true\n}");
}

TEST_F(ServicePointsTest, S259_FiveHundredListenersComeChangeAndGo) {
  constexpr uint16_t kCount = 500;
  const size_t before = OpenDescriptors();
  const auto update = [&](auto check_of) {
    proxy::HealthCheckChanges changes;
    for (uint16_t i = 0; i < kCount; ++i) {
      changes.emplace_back(absl::StrCat("shop/web-", i), check_of(i));
    }
    server().Update(std::move(changes));
  };
  update([](uint16_t i) { return CheckAt(kPort + i, i); });
  for (uint16_t i = 0; i < kCount; ++i) {
    ASSERT_TRUE(SoonAnswers(kPort + i, i > 0 ? 200 : 503, std::to_string(i))) << i;
  }
  // Each Service gets the port that another Service had before.
  update([&](uint16_t i) { return CheckAt(kPort + (i + 1) % kCount, i); });
  for (uint16_t i = 0; i < kCount; ++i) {
    ASSERT_TRUE(SoonAnswers(kPort + (i + 1) % kCount, i > 0 ? 200 : 503, std::to_string(i))) << i;
  }
  update([](uint16_t) { return std::nullopt; });
  for (uint16_t i = 0; i < kCount; ++i) {
    ASSERT_TRUE(testing::WaitUntil([&] { return Closed(kPort + i); })) << i;
  }
  EXPECT_TRUE(testing::WaitUntil([&] { return OpenDescriptors() <= before; }));
}

class FewSocketsTest : public ServicePointsTest {
 protected:
  static constexpr size_t kSockets = 10;

  void SetUp() override {
    HealthServerTest::SetUp();
    if (!netns_) return;
    log_.emplace();
    ASSERT_OK(Start({.retry = std::chrono::milliseconds(50), .max_service_sockets = kSockets}));
  }
  void TearDown() override {
    server_.reset();
    log_.reset();
  }
  static std::string Name(size_t i) { return absl::StrCat("shop/web-", i); }
  static uint16_t PortOf(size_t i) { return static_cast<uint16_t>(kPort + i); }
  // Returns how many ports of the first `services` Services are open, in both families.
  size_t OpenCount(size_t services) {
    size_t count = 0;
    for (size_t i = 0; i < services; ++i) {
      count += (Closed(PortOf(i), kV4) ? 0 : 1) + (Closed(PortOf(i), kV6) ? 0 : 1);
    }
    return count;
  }

  std::optional<testing::LogCapture> log_;
};

TEST_F(FewSocketsTest, MoreServicesThanSocketsDoNotSilenceTheAgent) {
  constexpr size_t kServices = 20;
  proxy::HealthCheckChanges changes;
  for (size_t i = 0; i < kServices; ++i) changes.emplace_back(Name(i), CheckAt(PortOf(i)));
  server().Update(changes);
  EXPECT_TRUE(testing::WaitUntil([&] { return OpenCount(kServices) == kSockets; }));
  EXPECT_OK(Ask("/livez"));
  // Deleting a Service makes room for another Service.
  changes.clear();
  for (size_t i = 0; i < kServices / 2; ++i) changes.emplace_back(Name(i), std::nullopt);
  server().Update(changes);
  EXPECT_TRUE(testing::WaitUntil([&] { return OpenCount(kServices) == kSockets; }));
  server().Update({{Name(15), CheckAt(PortOf(30))}});
  EXPECT_TRUE(
      testing::WaitUntil([&] { return Closed(PortOf(15), kV4) && Closed(PortOf(15), kV6); }));
  // Removing a listen address also makes room for another Service.
  server().SetListenAddresses({*IpAddress::Parse("0.0.0.0")});
  EXPECT_TRUE(testing::WaitUntil([&] { return OpenCount(kServices) == kServices / 2 - 1; }));
  EXPECT_TRUE(SoonOpen(PortOf(30)));
  server_.reset();
  EXPECT_THAT(log_->Text(), HasSubstr("shop/web-19"));
  EXPECT_THAT(log_->Text(),
              HasSubstr("all 10 file descriptors for healthCheckNodePorts are in use"));
}

}  // namespace
}  // namespace svcmap::api::test
