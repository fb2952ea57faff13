#include "api/screen/connection_limits.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "nft/base/unique_fd.h"

namespace svcmap::api {
namespace {

using ::testing::Eq;
using ::testing::Optional;

const auto kNow = ConnectionLimits::Clock::time_point() + std::chrono::hours(1);

class ConnectionLimitsTest : public ::testing::Test {
 protected:
  struct Admitted {
    std::optional<Rejection> rejected;
    ConnectionLimits::Handle handle = {};
    UniqueFd ours = {}, theirs = {};

    // Returns true if the server has shut down the connection.
    bool closed() const {
      char byte = 0;
      return recv(theirs.get(), &byte, 1, MSG_DONTWAIT) == 0;
    }
  };

  Admitted Admit(const std::string& key, std::optional<Role> role, bool greet = true) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    Admitted admitted{.rejected = {}, .ours = UniqueFd(ends[0]), .theirs = UniqueFd(ends[1])};
    admitted.rejected = limits_.Admit(key, role, ends[0], now_, admitted.handle);
    if (!admitted.rejected && greet) limits_.Greeted(admitted.handle);
    return admitted;
  }

  ConnectionLimits::Clock::time_point now_ = kNow;
  ConnectionLimits limits_{{.max_connections = 4,
                            .max_connections_per_peer = 2,
                            .burst = 8,
                            .per_second = 1,
                            .offence_cost = 4}};
};

TEST_F(ConnectionLimitsTest, OnePeerHasItsLimitAndOtherPeersAreUnaffected) {
  const Admitted first = Admit("a", Role::kRead);
  const Admitted second = Admit("a", Role::kRead);
  EXPECT_THAT(Admit("a", Role::kRead).rejected, Optional(Rejection::kPeerLimit));
  EXPECT_THAT(Admit("b", Role::kRead).rejected, Eq(std::nullopt));
  limits_.Remove(first.handle);
  EXPECT_THAT(Admit("a", Role::kRead).rejected, Eq(std::nullopt));
}

TEST_F(ConnectionLimitsTest, SilentConnectionsOfAPeerDoNotLockItOut) {
  const Admitted first = Admit("a", Role::kRead, /*greet=*/false);
  const Admitted second = Admit("a", Role::kRead, /*greet=*/false);
  EXPECT_EQ(Admit("a", Role::kRead).rejected, std::nullopt);
  EXPECT_TRUE(first.closed());
  EXPECT_FALSE(second.closed());
  EXPECT_EQ(Admit("a", Role::kRead).rejected, std::nullopt);
  EXPECT_TRUE(second.closed());
  EXPECT_THAT(Admit("a", Role::kRead).rejected, Optional(Rejection::kPeerLimit));
  limits_.Remove(first.handle);
  limits_.Remove(second.handle);
  EXPECT_EQ(limits_.connections(), 2u);
  EXPECT_THAT(Admit("a", Role::kRead).rejected, Optional(Rejection::kPeerLimit));
}

TEST_F(ConnectionLimitsTest, CertificateNameIsAPeerToo) {
  std::vector<Admitted> admitted;
  for (const char* address : {"10.0.0.1", "10.0.0.2", "10.0.0.3"}) {
    admitted.push_back(Admit(address, std::nullopt, /*greet=*/false));
  }
  EXPECT_EQ(limits_.Identify(admitted[0].handle, "viewer", Role::kRead), std::nullopt);
  EXPECT_EQ(limits_.Identify(admitted[1].handle, "viewer", Role::kRead), std::nullopt);
  EXPECT_THAT(limits_.Identify(admitted[2].handle, "viewer", Role::kRead),
              Optional(Rejection::kPeerLimit));
  limits_.Remove(admitted[2].handle);
  limits_.Remove(admitted[0].handle);
  const Admitted next = Admit("10.0.0.4", std::nullopt, /*greet=*/false);
  EXPECT_EQ(limits_.Identify(next.handle, "viewer", Role::kRead), std::nullopt);
}

TEST_F(ConnectionLimitsTest, AtTheTotalLimitEqualRolesAreRejected) {
  std::vector<Admitted> admitted;
  for (const char* peer : {"a", "b", "c", "d"}) admitted.push_back(Admit(peer, Role::kRead));
  EXPECT_THAT(Admit("e", Role::kRead).rejected, Optional(Rejection::kTotalLimit));
  EXPECT_THAT(Admit("e", std::nullopt).rejected, Optional(Rejection::kTotalLimit));
  for (const Admitted& a : admitted) EXPECT_FALSE(a.closed());
  EXPECT_EQ(limits_.connections(), 4u);
}

TEST_F(ConnectionLimitsTest, AtTheTotalLimitAWriterReplacesTheOldestOfTheLowestRole) {
  const Admitted writer = Admit("w", Role::kWrite);
  const Admitted reader = Admit("r", Role::kRead);
  const Admitted other = Admit("o", Role::kNone);
  const Admitted silent = Admit("s", Role::kWrite, /*greet=*/false);
  std::vector<Admitted> next;
  for (const Admitted* victim : {&silent, &other, &reader}) {
    EXPECT_FALSE(victim->closed());
    next.push_back(Admit("w" + std::to_string(next.size()), Role::kWrite));
    EXPECT_EQ(next.back().rejected, std::nullopt);
    EXPECT_TRUE(victim->closed());
    EXPECT_TRUE(limits_.made_room(victim->handle));
  }
  EXPECT_THAT(Admit("x", Role::kWrite).rejected, Optional(Rejection::kTotalLimit));
  for (const Admitted* victim : {&silent, &other, &reader}) limits_.Remove(victim->handle);
  EXPECT_EQ(limits_.connections(), 4u);
  EXPECT_FALSE(writer.closed());
}

TEST_F(ConnectionLimitsTest, AtTheTotalLimitAnUnknownClientReplacesOneWithoutAGreeting) {
  std::vector<Admitted> admitted;
  for (const char* peer : {"a", "b", "c"}) admitted.push_back(Admit(peer, Role::kRead));
  const Admitted silent = Admit("d", std::nullopt, /*greet=*/false);
  EXPECT_EQ(Admit("e", std::nullopt).rejected, std::nullopt);
  EXPECT_TRUE(silent.closed());
}

TEST_F(ConnectionLimitsTest, NewConnectionsOfAPeerAreLimitedInRate) {
  for (int i = 0; i < 8; ++i) {
    const Admitted admitted = Admit("a", Role::kRead);
    ASSERT_EQ(admitted.rejected, std::nullopt) << i;
    limits_.Remove(admitted.handle);
  }
  EXPECT_THAT(Admit("a", Role::kRead).rejected, Optional(Rejection::kRateLimit));
  EXPECT_EQ(Admit("b", Role::kRead).rejected, std::nullopt);
  now_ += std::chrono::seconds(1);
  EXPECT_EQ(Admit("a", Role::kRead).rejected, std::nullopt);
  EXPECT_THAT(Admit("a", Role::kRead).rejected, Optional(Rejection::kRateLimit));
}

TEST_F(ConnectionLimitsTest, OffencesCountAsSeveralConnections) {
  const Admitted first = Admit("a", Role::kRead);
  limits_.Penalize(first.handle, now_);
  limits_.Remove(first.handle);
  for (int i = 0; i < 3; ++i) {
    const Admitted admitted = Admit("a", Role::kRead);
    ASSERT_EQ(admitted.rejected, std::nullopt) << i;
    limits_.Remove(admitted.handle);
  }
  EXPECT_THAT(Admit("a", Role::kRead).rejected, Optional(Rejection::kRateLimit));
}

}  // namespace
}  // namespace svcmap::api
