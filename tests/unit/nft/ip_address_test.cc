#include "nft/types/ip_address.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace svcmap {
namespace {

std::string Canonical(std::string_view text) {
  const std::optional<IpAddress> address = IpAddress::Parse(text);
  return address ? address->ToString() : "refused";
}

std::string CanonicalPrefix(std::string_view text) {
  const std::optional<IpPrefix> prefix = IpPrefix::Parse(text);
  return prefix ? prefix->ToString() : "refused";
}

IpAddress Ip(std::string_view text) { return *IpAddress::Parse(text); }
IpPrefix Prefix(std::string_view text) { return *IpPrefix::Parse(text); }

TEST(IpAddressTest, Ipv4PrintsAsItWasRead) {
  for (const char* text : {"0.0.0.0", "10.96.0.1", "255.255.255.255"}) {
    EXPECT_EQ(Canonical(text), text);
  }
}

TEST(IpAddressTest, Ipv4LeadingZerosAreDecimal) {  // S-5
  EXPECT_EQ(Canonical("172.30.0.041"), "172.30.0.41");
  EXPECT_EQ(Canonical("010.000.000.008"), "10.0.0.8");
  EXPECT_EQ(Canonical("000000001.2.3.4"), "1.2.3.4");
}

TEST(IpAddressTest, WhatIsNoIpv4AddressIsRejected) {
  for (const char* text : {"", ".", "1", "1.2.3", "1.2.3.4.5", "1.2.3.", ".1.2.3", "1..2.3",
                           "1.2.3.256", "1.2.3.-4", "1.2.3.+4", "1.2.3.4 ", " 1.2.3.4", "1.2.3.0x4",
                           "1.2.3.4/32", "1.2.3.4a", "1.2.3.00000000001", "localhost"}) {
    EXPECT_EQ(Canonical(text), "refused") << text;
  }
  EXPECT_EQ(Canonical(std::string("1.2.3.4\0", 8)), "refused");
}

TEST(IpAddressTest, Ipv6PrintsAsRfc5952Wants) {
  EXPECT_EQ(Canonical("FD00:0096::0:0010"), "fd00:96::10");
  EXPECT_EQ(Canonical("0:0:0:0:0:0:0:0"), "::");
  EXPECT_EQ(Canonical("2001:db8:0:0:1:0:0:1"), "2001:db8::1:0:0:1");
  EXPECT_EQ(Canonical("2001:db8:0:1:1:1:1:1"), "2001:db8:0:1:1:1:1:1");
  EXPECT_EQ(Canonical("64:ff9b::192.0.2.33"), "64:ff9b::c000:221");
  EXPECT_EQ(Canonical("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
}

TEST(IpAddressTest, WhatIsNoIpv6AddressIsRejected) {
  for (const char* text :
       {":", ":::", "1::2::3", "fd00::g", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9",
        "12345::", "fe80::1%eth0", "fe80::1%2", "[::1]", " ::1", "::1 ", "::1/128"}) {
    EXPECT_EQ(Canonical(text), "refused") << text;
  }
  EXPECT_EQ(Canonical(std::string("::1\0", 4)), "refused");
  EXPECT_EQ(Canonical(std::string(1000, ':')), "refused");
}

TEST(IpAddressTest, Ipv4MappedIpv6IsRejected) {
  EXPECT_EQ(Canonical("::ffff:10.0.0.1"), "refused");
  EXPECT_EQ(Canonical("::ffff:a00:1"), "refused");
}

TEST(IpAddressTest, FamiliesNeverCompareEqual) {
  EXPECT_NE(Ip("0.0.0.0"), Ip("::"));
  EXPECT_LT(Ip("255.255.255.255"), Ip("::"));
  EXPECT_LT(Ip("10.0.0.9"), Ip("10.0.0.10"));
}

TEST(IpAddressTest, BracketsSeparateAnIpv6AddressFromThePort) {
  EXPECT_EQ(IpAddress::Parse("10.96.0.1")->WithPort(80), "10.96.0.1:80");
  EXPECT_EQ(IpAddress::Parse("fd00::1")->WithPort(65535), "[fd00::1]:65535");
}

TEST(IpAddressTest, SpecialAddressesAreKnown) {
  struct Case {
    const char* address;
    bool loopback, unspecified, multicast, link_local;
  };
  for (const Case& c :
       {Case{"127.0.0.1", true, false, false, false},
        Case{"127.255.255.255", true, false, false, false},
        Case{"128.0.0.1", false, false, false, false}, Case{"::1", true, false, false, false},
        Case{"::2", false, false, false, false}, Case{"1::1", false, false, false, false},
        Case{"0.0.0.0", false, true, false, false}, Case{"::", false, true, false, false},
        Case{"224.0.0.0", false, false, true, false},
        Case{"239.255.255.255", false, false, true, false},
        Case{"240.0.0.0", false, false, false, false}, Case{"ff02::1", false, false, true, false},
        Case{"169.254.0.0", false, false, false, true},
        Case{"169.255.0.0", false, false, false, false}, Case{"fe80::1", false, false, false, true},
        Case{"febf::1", false, false, false, true}, Case{"fec0::1", false, false, false, false},
        Case{"10.0.0.1", false, false, false, false}}) {
    SCOPED_TRACE(c.address);
    const IpAddress address = Ip(c.address);
    EXPECT_EQ(address.IsLoopback(), c.loopback);
    EXPECT_EQ(address.IsUnspecified(), c.unspecified);
    EXPECT_EQ(address.IsMulticast(), c.multicast);
    EXPECT_EQ(address.IsLinkLocal(), c.link_local);
  }
}

TEST(IpPrefixTest, HostBitsAreCleared) {
  EXPECT_EQ(CanonicalPrefix("10.96.77.1/12"), "10.96.0.0/12");
  EXPECT_EQ(CanonicalPrefix("10.111.255.255/13"), "10.104.0.0/13");
  EXPECT_EQ(CanonicalPrefix("fd00:96::1/112"), "fd00:96::/112");
  EXPECT_EQ(CanonicalPrefix("fd00:96:ffff::1/33"), "fd00:96:8000::/33");
}

TEST(IpPrefixTest, LeadingZerosAreDecimal) {  // S-5
  EXPECT_EQ(CanonicalPrefix("203.0.113.000/025"), "203.0.113.0/25");
  EXPECT_EQ(CanonicalPrefix("fd00::/0064"), "fd00::/64");
}

TEST(IpPrefixTest, WhatIsNoPrefixIsRejected) {
  for (const char* text :
       {"", "/", "10.0.0.0", "10.0.0.0/", "/8", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8/8",
        "fd00::/129", "10.0.0.0/ 8", "10.0.0.0/8 ", "10.0.0.0/255.0.0.0", "::ffff:10.0.0.0/104"}) {
    EXPECT_EQ(CanonicalPrefix(text), "refused") << text;
  }
}

TEST(IpPrefixTest, ContainsEndsAtTheLastAddress) {
  EXPECT_TRUE(Prefix("10.96.0.0/12").Contains(Ip("10.111.255.255")));
  EXPECT_FALSE(Prefix("10.96.0.0/12").Contains(Ip("10.112.0.0")));
  EXPECT_FALSE(Prefix("10.96.0.0/12").Contains(Ip("10.95.255.255")));
}

TEST(IpPrefixTest, LastIsTheHighestAddress) {
  EXPECT_EQ(Prefix("0.0.0.0/0").Last(), Ip("255.255.255.255"));
  EXPECT_EQ(Prefix("10.96.0.0/12").Last(), Ip("10.111.255.255"));
  EXPECT_EQ(Prefix("10.96.0.0/15").Last(), Ip("10.97.255.255"));
  EXPECT_EQ(Prefix("10.0.0.1/32").Last(), Ip("10.0.0.1"));
  EXPECT_EQ(Prefix("::/0").Last(), Ip("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"));
  EXPECT_EQ(Prefix("fd00:96::/112").Last(), Ip("fd00:96::ffff"));
  EXPECT_EQ(Prefix("fd00::1/128").Last(), Ip("fd00::1"));
}

TEST(IpPrefixTest, EveryLengthIsConsistent) {
  for (const char* text : {"203.0.113.77", "fd12:3456:789a:bcde:f012:3456:789a:bcde"}) {
    const IpAddress address = Ip(text);
    for (unsigned length = 0; length <= address.size() * 8; ++length) {
      SCOPED_TRACE(length);
      const IpPrefix prefix(address, static_cast<uint8_t>(length));
      EXPECT_TRUE(prefix.Contains(address));
      EXPECT_TRUE(prefix.Contains(prefix.address()));
      EXPECT_TRUE(prefix.Contains(prefix.Last()));
      EXPECT_LE(prefix.address(), prefix.Last());
      EXPECT_EQ(prefix.address() == prefix.Last(), length == address.size() * 8);
      EXPECT_EQ(IpPrefix::Parse(prefix.ToString()), prefix);
    }
  }
}

}  // namespace
}  // namespace svcmap
