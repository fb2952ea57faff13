#include "api/access/access.h"

#include <gtest/gtest.h>

namespace svcmap::api {
namespace {

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
    EXPECT_EQ(std::string(CheckListeners(c.options).message()), c.problem);
  }
}

}  // namespace
}  // namespace svcmap::api
