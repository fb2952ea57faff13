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

  // Completes the TLS handshake, and sends the HTTP/2 preface unless the connection is rejected.
  std::optional<Rejection> Identify(const Admitted& admitted, const std::string& name, Role role) {
    const auto rejected = limits_.Identify(admitted.handle, name, role, now_);
    if (!rejected) limits_.Greeted(admitted.handle);
    return rejected;
  }

  ConnectionLimits::Clock::time_point now_ = kNow;
  ConnectionLimits limits_{{.max_connections = 4,
                            .max_connections_per_peer = 2,
                            .max_handshakes = 2,
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

TEST_F(ConnectionLimitsTest, AfterTheHandshakeTheLimitAppliesToTheNameInTheCertificate) {
  std::vector<Admitted> admitted;
  for (const char* address : {"10.0.0.1", "10.0.0.2", "10.0.0.3"}) {
    admitted.push_back(Admit(address, std::nullopt, /*greet=*/false));
  }
  EXPECT_EQ(Identify(admitted[0], "viewer", Role::kRead), std::nullopt);
  EXPECT_EQ(Identify(admitted[1], "viewer", Role::kRead), std::nullopt);
  EXPECT_THAT(Identify(admitted[2], "viewer", Role::kRead), Optional(Rejection::kPeerLimit));
  limits_.Remove(admitted[2].handle);
  limits_.Remove(admitted[0].handle);
  const Admitted next = Admit("10.0.0.4", std::nullopt, /*greet=*/false);
  EXPECT_EQ(Identify(next, "viewer", Role::kRead), std::nullopt);
}

TEST_F(ConnectionLimitsTest, ConnectionsOfACertificateDoNotCountForTheirAddress) {
  std::vector<Admitted> readers;
  for (int i = 0; i < 2; ++i) {
    readers.push_back(Admit("a", std::nullopt, /*greet=*/false));
    EXPECT_EQ(Identify(readers.back(), "viewer", Role::kRead), std::nullopt);
  }
  const Admitted writer = Admit("a", std::nullopt, /*greet=*/false);
  EXPECT_EQ(writer.rejected, std::nullopt);
  EXPECT_EQ(Identify(writer, "controller", Role::kWrite), std::nullopt);
  for (const Admitted& reader : readers) EXPECT_FALSE(reader.closed());
}

TEST_F(ConnectionLimitsTest, OffencesOfACertificateDoNotCountForItsAddress) {
  const Admitted reader = Admit("a", std::nullopt, /*greet=*/false);
  EXPECT_EQ(Identify(reader, "viewer", Role::kRead), std::nullopt);
  limits_.Penalize(reader.handle, now_);
  limits_.Penalize(reader.handle, now_);
  const Admitted writer = Admit("a", std::nullopt, /*greet=*/false);
  EXPECT_EQ(writer.rejected, std::nullopt);
  EXPECT_EQ(Identify(writer, "controller", Role::kWrite), std::nullopt);
  const Admitted again = Admit("a", std::nullopt, /*greet=*/false);
  EXPECT_THAT(Identify(again, "viewer", Role::kRead), Optional(Rejection::kRateLimit));
}

TEST_F(ConnectionLimitsTest, ACertificateWithTheNameOfAnAddressIsAnotherPeer) {
  const Admitted first = Admit("10.0.0.1", std::nullopt, /*greet=*/false);
  const Admitted second = Admit("10.0.0.1", std::nullopt, /*greet=*/false);
  const Admitted third = Admit("10.0.0.2", std::nullopt, /*greet=*/false);
  EXPECT_EQ(Identify(third, "10.0.0.1", Role::kRead), std::nullopt);
  EXPECT_FALSE(first.closed());
}

TEST_F(ConnectionLimitsTest, AtTheTotalLimitEqualRolesAreRejected) {
  std::vector<Admitted> admitted;
  for (const char* peer : {"a", "b", "c", "d"}) admitted.push_back(Admit(peer, Role::kRead));
  EXPECT_THAT(Admit("e", Role::kRead).rejected, Optional(Rejection::kTotalLimit));
  const Admitted unknown = Admit("e", std::nullopt, /*greet=*/false);
  EXPECT_EQ(unknown.rejected, std::nullopt);
  EXPECT_THAT(Identify(unknown, "viewer", Role::kRead), Optional(Rejection::kTotalLimit));
  limits_.Remove(unknown.handle);
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
  }
  EXPECT_THAT(Admit("x", Role::kWrite).rejected, Optional(Rejection::kTotalLimit));
  EXPECT_FALSE(limits_.Remove(next[0].handle));
  for (const Admitted* victim : {&silent, &other, &reader}) {
    EXPECT_TRUE(limits_.Remove(victim->handle));
  }
  EXPECT_EQ(limits_.connections(), 3u);
  next[0] = Admit("w0", Role::kWrite);
  EXPECT_EQ(limits_.connections(), 4u);
  EXPECT_FALSE(writer.closed());
}

TEST_F(ConnectionLimitsTest, AtTheTotalLimitAWriterWithACertificateReplacesAReader) {
  std::vector<Admitted> readers;
  for (const char* peer : {"a", "b", "c", "d"}) readers.push_back(Admit(peer, Role::kRead));
  const Admitted writer = Admit("e", std::nullopt, /*greet=*/false);
  EXPECT_EQ(writer.rejected, std::nullopt);
  EXPECT_EQ(limits_.connections(), 5u);
  EXPECT_FALSE(readers[0].closed());
  EXPECT_EQ(Identify(writer, "controller", Role::kWrite), std::nullopt);
  EXPECT_TRUE(readers[0].closed());
  EXPECT_EQ(limits_.connections(), 4u);
}

TEST_F(ConnectionLimitsTest, HandshakesOfOneAddressReplaceEachOther) {
  std::vector<Admitted> readers;
  for (const char* peer : {"a", "b", "c"}) readers.push_back(Admit(peer, Role::kRead));
  const Admitted writer = Admit("e", std::nullopt, /*greet=*/false);
  std::vector<Admitted> flood;
  for (int i = 0; i < 8; ++i) {
    flood.push_back(Admit("f", std::nullopt, /*greet=*/false));
    EXPECT_EQ(flood.back().rejected, std::nullopt);
    EXPECT_LE(limits_.connections(), 6u);
  }
  EXPECT_FALSE(writer.closed());
  EXPECT_EQ(Identify(writer, "controller", Role::kWrite), std::nullopt);
  EXPECT_THAT(Admit("r", Role::kRead).rejected, Optional(Rejection::kTotalLimit));
}

TEST_F(ConnectionLimitsTest, HandshakesDoNotLockOutClientsWithAKnownRole) {
  std::vector<Admitted> handshakes;
  for (const char* peer : {"a", "a", "b", "b", "c", "c"}) {
    handshakes.push_back(Admit(peer, std::nullopt, /*greet=*/false));
    EXPECT_EQ(handshakes.back().rejected, std::nullopt);
  }
  EXPECT_EQ(limits_.connections(), 6u);
  EXPECT_EQ(Admit("r", Role::kRead).rejected, std::nullopt);
  EXPECT_TRUE(handshakes[0].closed());
  EXPECT_EQ(limits_.connections(), 6u);
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
