// Tests of /healthz and /livez over real sockets (S-250..S-258).
#include "absl/strings/numbers.h"
#include "tests/health/health_world.h"

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

}  // namespace
}  // namespace svcmap::api::test
