#include "api/access/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "api/screen/connection_limits.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {
namespace {

using ::testing::Eq;
using ::testing::Optional;

TEST(AccessTest, WhatChangesTheNodeTakesTheRoleOfAWriter) {
  for (const char* method : {"Push", "Apply", "Remove"}) {
    EXPECT_EQ(NeededRole(method), Role::kWrite) << method;
  }
  for (const char* method : {"List", "GetStatus", "Dump", "Explain", "Watch"}) {
    EXPECT_EQ(NeededRole(method), Role::kRead) << method;
  }
}

TEST(AccessTest, NameHasToBeOfItsKindAndTheSameToTheLetter) {
  const AllowList allow{.write_names = {"spiffe://test/writer", "10.0.0.1", "fd00::1"},
                        .read_names = {"reader.test"}};
  const struct {
    CertificateNames names;
    Role role;
  } cases[] = {
      {{}, Role::kNone},
      {{.uris = {"spiffe://test/writer"}}, Role::kWrite},
      {{.uris = {"spiffe://test/writer/"}}, Role::kNone},
      {{.uris = {"spiffe://test/Writer"}}, Role::kNone},
      {{.uris = {std::string("spiffe://test/writer\0.evil", 26)}}, Role::kNone},
      {{.dns = {"spiffe://test/writer"}}, Role::kNone},
      {{.dns = {"reader.test"}}, Role::kRead},
      {{.dns = {"*.test"}}, Role::kNone},
      {{.uris = {"reader.test"}}, Role::kNone},
      {{.ips = {"10.0.0.1"}}, Role::kWrite},
      {{.ips = {"fd00:0::1"}}, Role::kWrite},
      {{.dns = {"10.0.0.1"}}, Role::kNone},
      {{.uris = {"spiffe://test/x"}, .dns = {"a.test", "reader.test"}}, Role::kRead},
      {{.dns = {"reader.test"}, .ips = {"10.0.0.1"}}, Role::kWrite},
  };
  for (const auto& c : cases) EXPECT_EQ(RoleOf(allow, c.names), c.role) << DisplayName(c.names);
}

TEST(AccessTest, WithoutAnyNameEveryCertificateMayWriteAndWithReadersOnlyNone) {
  EXPECT_EQ(RoleOf(AllowList{}, CertificateNames{}), Role::kWrite);
  EXPECT_EQ(RoleOf({.read_names = {"a"}}, CertificateNames{.dns = {"b"}}), Role::kNone);
  EXPECT_EQ(RoleOf({.read_names = {"a"}}, CertificateNames{.dns = {"a"}}), Role::kRead);
}

TEST(AccessTest, LimitsDistinguishEqualNamesOfDifferentTypes) {
  EXPECT_EQ(LimitKey({.uris = {"spiffe://test/x"}, .dns = {"a.test"}}), "URI spiffe://test/x");
  EXPECT_EQ(LimitKey({.dns = {"spiffe://test/x"}}), "DNS spiffe://test/x");
  EXPECT_EQ(LimitKey({.ips = {"10.0.0.1"}}), "IP 10.0.0.1");
  EXPECT_EQ(LimitKey({}), "without a subject alternative name");
}

TEST(AccessTest, RootAndTheAgentsOwnUidAlwaysWrite) {
  const AllowList allow{.write_uids = {5}, .read_uids = {0, 5, 6, 7}};
  EXPECT_EQ(RoleOf(allow, 7, 0), Role::kWrite);
  EXPECT_EQ(RoleOf(allow, 7, 7), Role::kWrite);
  EXPECT_EQ(RoleOf(allow, 7, 5), Role::kWrite);
  EXPECT_EQ(RoleOf(allow, 7, 6), Role::kRead);
  EXPECT_EQ(RoleOf(allow, 7, 8), Role::kNone);
  EXPECT_EQ(RoleOf(AllowList{}, 7, 8), Role::kNone);
}

TEST(ListenersTest, OptionsThatDoNotGoTogetherAreRejectedByName) {
  const TlsFiles tls{"c", "k", "a"};
  const std::vector<std::string> tcp = {"tcp://h:1"};
  const std::vector<std::string> local = {"unix:///s"};
  const struct {
    ListenOptions options;
    const char* problem;  // Expected error message. Empty if no error is expected.
  } cases[] = {
      {{local}, ""},
      {{tcp, false, tls}, ""},
      {{tcp, true}, ""},
      {{{"unix:///s", "tcp://h:1"}, false, tls, {{"w"}, {"r"}, {1}, {2}}}, ""},
      {{tcp},
       "--tls-cert, --tls-key, --tls-client-ca: Required value: --listen tcp://h:1 needs TLS; use "
       "--insecure to allow read-only access without TLS"},
      {{tcp, false, {.certificate = "c"}},
       "--tls-key, --tls-client-ca: Required value: --listen tcp://h:1 needs TLS; use --insecure "
       "to allow read-only access without TLS"},
      {{tcp, false, {"c", "k", ""}},
       "--tls-client-ca: Required value: --listen tcp://h:1 needs TLS; use --insecure to allow "
       "read-only access without TLS"},
      {{tcp, true, {.certificate = "c", .key = "k"}},
       "--tls-cert, --tls-key: Forbidden: cannot be combined with --insecure"},
      {{local, false, {.key = "k"}}, "--tls-key: Forbidden: no --listen address uses tcp://"},
      {{local, false, {}, {.write_names = {"w"}}},
       "--allow-write: Forbidden: no --listen address uses tcp:// with TLS"},
      {{tcp, true, {}, {.read_names = {"r"}}},
       "--allow-read: Forbidden: no --listen address uses tcp:// with TLS"},
      {{tcp, false, tls, {.write_names = {""}}},
       "--allow-write: Required value: must be a name in a certificate"},
      {{tcp, false, tls, {.read_uids = {1}}},
       "--allow-write-uid, --allow-read-uid: Forbidden: no --listen address uses unix://"},
      {{{"tcp://h:0"}},
       "--listen: Invalid value: \"tcp://h:0\": port must be between 1 and 65535, inclusive"},
      {{{"http://h"}},
       "--listen: Invalid value: \"http://h\": must be unix:///path or tcp://host:port"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(std::string(ParseListeners(c.options).status().message()), c.problem);
  }
}

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

  // Returns true if the connection was closed so that a newer connection could be admitted.
  bool Remove(const Admitted& admitted) {
    const bool made_room = limits_.Close(admitted.handle);
    limits_.Remove(admitted.handle);
    return made_room;
  }

  ConnectionLimits::Clock::time_point now_ = kNow;
  ConnectionLimits limits_{{.max_connections = 4,
                            .max_connections_per_peer = 2,
                            .max_handshakes = 2,
                            .max_shut_down = 3,
                            .burst = 8,
                            .per_second = 1,
                            .role_burst = 20,
                            .role_per_second = 10,
                            .offence_cost = 4}};
};

TEST_F(ConnectionLimitsTest, OnePeerHasItsLimitAndOtherPeersAreUnaffected) {
  const Admitted first = Admit("a", Role::kRead);
  const Admitted second = Admit("a", Role::kRead);
  EXPECT_THAT(Admit("a", Role::kRead).rejected, Optional(Rejection::kPeerLimit));
  EXPECT_THAT(Admit("b", Role::kRead).rejected, Eq(std::nullopt));
  Remove(first);
  EXPECT_THAT(Admit("a", Role::kRead).rejected, Eq(std::nullopt));
}

TEST_F(ConnectionLimitsTest, AfterTheHandshakeTheLimitAppliesToTheNameInTheCertificate) {
  std::vector<Admitted> admitted;
  for (const char* address : {"10.0.0.1", "10.0.0.2", "10.0.0.3"}) {
    admitted.push_back(Admit(address, std::nullopt, /*greet=*/false));
  }
  EXPECT_EQ(Identify(admitted[0], "viewer", Role::kRead), std::nullopt);
  EXPECT_EQ(Identify(admitted[1], "viewer", Role::kRead), std::nullopt);
  EXPECT_THAT(Identify(admitted[2], "viewer", Role::kRead), Optional(Rejection::kPeerLimit));
  Remove(admitted[2]);
  Remove(admitted[0]);
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

TEST_F(ConnectionLimitsTest, AtTheTotalLimitEqualRolesAreRejected) {
  std::vector<Admitted> admitted;
  for (const char* peer : {"a", "b", "c", "d"}) admitted.push_back(Admit(peer, Role::kRead));
  EXPECT_THAT(Admit("e", Role::kRead).rejected, Optional(Rejection::kTotalLimit));
  const Admitted unknown = Admit("e", std::nullopt, /*greet=*/false);
  EXPECT_EQ(unknown.rejected, std::nullopt);
  EXPECT_THAT(Identify(unknown, "viewer", Role::kRead), Optional(Rejection::kTotalLimit));
  Remove(unknown);
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
  EXPECT_FALSE(Remove(next[0]));
  for (const Admitted* victim : {&silent, &other, &reader}) {
    EXPECT_TRUE(Remove(*victim));
  }
  EXPECT_EQ(limits_.connections(), 3u);
  next[0] = Admit("w0", Role::kWrite);
  EXPECT_EQ(limits_.connections(), 4u);
  EXPECT_FALSE(writer.closed());
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
    if (i < 2) continue;
    EXPECT_TRUE(flood[flood.size() - 3].closed());
    Remove(flood[flood.size() - 3]);
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

TEST_F(ConnectionLimitsTest, HandshakesOfManyAddressesDoNotReplaceEachOtherAtOnce) {
  std::vector<Admitted> handshakes;
  for (int i = 0; i < 6; ++i) {
    handshakes.push_back(Admit(std::to_string(i), std::nullopt, /*greet=*/false));
    EXPECT_EQ(handshakes.back().rejected, std::nullopt);
  }
  EXPECT_THAT(Admit("f", std::nullopt).rejected, Optional(Rejection::kTotalLimit));
  EXPECT_EQ(Identify(handshakes[5], "controller", Role::kWrite), std::nullopt);
  EXPECT_THAT(Admit("f", std::nullopt).rejected, Optional(Rejection::kTotalLimit));
  now_ += std::chrono::milliseconds(101);
  EXPECT_EQ(Admit("f", std::nullopt).rejected, std::nullopt);
  EXPECT_TRUE(handshakes[0].closed());
}

TEST_F(ConnectionLimitsTest, ConnectionsThatWereShutDownAreBounded) {
  std::vector<Admitted> others;
  for (const char* peer : {"a", "b", "c", "d"}) others.push_back(Admit(peer, Role::kNone));
  for (const char* peer : {"r0", "r1", "r2"}) {
    EXPECT_EQ(Admit(peer, Role::kRead).rejected, std::nullopt);
  }
  EXPECT_TRUE(others[2].closed());
  EXPECT_TRUE(limits_.WasShutDown(others[2].handle));
  EXPECT_THAT(Admit("r3", Role::kRead).rejected, Optional(Rejection::kTotalLimit));
  EXPECT_FALSE(others[3].closed());
  EXPECT_EQ(Admit("w", Role::kWrite).rejected, std::nullopt);
  EXPECT_TRUE(others[3].closed());
}

TEST_F(ConnectionLimitsTest, NewConnectionsOfAPeerAreLimitedInRate) {
  for (int i = 0; i < 8; ++i) {
    const Admitted admitted = Admit("a", Role::kRead);
    ASSERT_EQ(admitted.rejected, std::nullopt) << i;
    Remove(admitted);
  }
  EXPECT_THAT(Admit("a", Role::kRead).rejected, Optional(Rejection::kRateLimit));
  EXPECT_EQ(Admit("b", Role::kRead).rejected, std::nullopt);
  now_ += std::chrono::seconds(1);
  EXPECT_EQ(Admit("a", Role::kRead).rejected, std::nullopt);
  EXPECT_THAT(Admit("a", Role::kRead).rejected, Optional(Rejection::kRateLimit));
}

TEST_F(ConnectionLimitsTest, NewConnectionsOfAllReadersAreLimitedInRate) {
  const auto open_and_close = [&](int peer, Role role) {
    const Admitted admitted = Admit(std::to_string(peer), role);
    if (!admitted.rejected) Remove(admitted);
    return admitted.rejected;
  };
  for (int i = 0; i < 20; ++i) ASSERT_EQ(open_and_close(i, Role::kRead), std::nullopt) << i;
  EXPECT_THAT(open_and_close(20, Role::kRead), Optional(Rejection::kRoleRateLimit));
  const Admitted unknown = Admit("u", std::nullopt, /*greet=*/false);
  EXPECT_THAT(Identify(unknown, "viewer", Role::kRead), Optional(Rejection::kRoleRateLimit));
  EXPECT_EQ(open_and_close(20, Role::kNone), std::nullopt);
  for (int i = 0; i < 30; ++i) {
    ASSERT_EQ(open_and_close(30 + i, Role::kWrite), std::nullopt) << i;
  }
  now_ += std::chrono::milliseconds(100);
  EXPECT_EQ(open_and_close(21, Role::kRead), std::nullopt);
}

TEST_F(ConnectionLimitsTest, AClosedConnectionCountsUntilItIsRemoved) {
  std::vector<Admitted> readers;
  for (const char* peer : {"a", "b", "c", "d"}) readers.push_back(Admit(peer, Role::kRead));
  EXPECT_FALSE(limits_.Close(readers[0].handle));
  EXPECT_THAT(Admit("e", Role::kRead).rejected, Optional(Rejection::kTotalLimit));
  limits_.Remove(readers[0].handle);
  EXPECT_EQ(Admit("e", Role::kRead).rejected, std::nullopt);
}

TEST_F(ConnectionLimitsTest, AWriterReplacesAClosedConnectionWithoutTouchingItsDescriptor) {
  std::vector<Admitted> readers;
  for (const char* peer : {"a", "b", "c", "d"}) readers.push_back(Admit(peer, Role::kRead));
  EXPECT_FALSE(limits_.Close(readers[0].handle));
  EXPECT_EQ(Admit("w", Role::kWrite).rejected, std::nullopt);
  for (const Admitted& reader : readers) EXPECT_FALSE(reader.closed());
  EXPECT_EQ(limits_.connections(), 4u);
  limits_.Remove(readers[0].handle);
  EXPECT_EQ(limits_.connections(), 4u);
}

TEST_F(ConnectionLimitsTest, ShutDownAllSparesTheDescriptorsOfClosedConnections) {
  const Admitted closed = Admit("a", Role::kWrite);
  const Admitted handshake = Admit("b", std::nullopt, /*greet=*/false);
  const Admitted open = Admit("c", Role::kWrite);
  limits_.Close(closed.handle);
  limits_.ShutDownAll();
  EXPECT_FALSE(closed.closed());
  EXPECT_TRUE(handshake.closed());
  EXPECT_TRUE(open.closed());
}

TEST_F(ConnectionLimitsTest, ManyOffencesRejectConnectionsForALimitedTime) {
  const Admitted first = Admit("a", Role::kRead);
  for (int i = 0; i < 100; ++i) limits_.Penalize(first.handle, now_);
  Remove(first);
  now_ += std::chrono::seconds(8);
  EXPECT_THAT(Admit("a", Role::kRead).rejected, Optional(Rejection::kRateLimit));
  now_ += std::chrono::seconds(1);
  EXPECT_EQ(Admit("a", Role::kRead).rejected, std::nullopt);
}

}  // namespace
}  // namespace svcmap::api
