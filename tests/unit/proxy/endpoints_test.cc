#include "proxy/resolve/endpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/proxy/objects.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Names = std::vector<std::string>;

Names Texts(const std::vector<EndpointAddress>& endpoints) {
  Names texts;
  for (const EndpointAddress& endpoint : endpoints) {
    texts.push_back(endpoint.ip.ToString() + ":" + std::to_string(endpoint.port));
  }
  return texts;
}

struct Resolved {
  Names usable, local;
};

Resolved Resolve(const std::vector<ASlice>& slices, Family family = Family::kIpv4,
                 const ServicePort& port = {.port = 80}) {
  ServiceEntry entry;
  for (const ASlice& slice : slices) entry.slices.push_back(slice.Build());
  const ResolvedEndpoints resolved = ResolveEndpoints(entry, family, port);
  return {Texts(resolved.usable), Texts(resolved.local)};
}

ASlice Slice(const std::string& name = "ns/a-1") { return ASlice(name, "ns/a"); }

TEST(EndpointsTest, PortsMatchByNameAndProtocol) {  // S-21
  const struct {
    const char* name;
    ServicePort port;
    Names usable;
  } cases[] = {
      {"same name", {.name = "http", .port = 80}, {"10.0.0.1:8080"}},
      {"numbers need not match", {.name = "dns", .port = 8080}, {"10.0.0.1:53"}},
      {"other protocol", {.name = "http", .protocol = Protocol::kUdp, .port = 80}, {}},
      {"UDP", {.name = "dns", .protocol = Protocol::kUdp, .port = 53}, {"10.0.0.1:5353"}},
      {"unnamed matches only unnamed", {.port = 80}, {"10.0.0.1:9"}},
      {"no such name", {.name = "https", .port = 80}, {}},
  };
  const ASlice slice = Slice()
                           .Port(8080, "http")
                           .Port(53, "dns")
                           .Port(5353, "dns", Protocol::kUdp)
                           .Port(9)
                           .Ready("10.0.0.1");
  for (const auto& c : cases) {
    EXPECT_EQ(Resolve({slice}, Family::kIpv4, c.port).usable, c.usable) << c.name;
  }
}

TEST(EndpointsTest, SlicesOfTheOtherFamilyDoNotCount) {  // S-19
  const ASlice v4 = Slice().Port(80).Ready("10.0.0.1");
  const ASlice v6 = ASlice("ns/a-2", "ns/a", Family::kIpv6).Port(80).Ready("fd00::1");
  EXPECT_THAT(Resolve({v4, v6}, Family::kIpv4).usable, ElementsAre("10.0.0.1:80"));
  EXPECT_THAT(Resolve({v4, v6}, Family::kIpv6).usable, ElementsAre("fd00::1:80"));
}

TEST(EndpointsTest, SlicesMayGiveTheSamePortDifferentNumbers) {  // S-22
  EXPECT_THAT(Resolve({Slice().Port(8080).Ready("10.0.0.1"),
                       Slice("ns/a-2").Port(9090).Ready("10.0.0.1").Ready("10.0.0.2")})
                  .usable,
              ElementsAre("10.0.0.1:8080", "10.0.0.1:9090", "10.0.0.2:9090"));
}

TEST(EndpointsTest, AreAscendingAndEachOnce) {
  EXPECT_THAT(Resolve({Slice().Port(80).Ready("10.0.0.9").Ready("10.0.0.1"),
                       Slice("ns/a-2").Port(80).Ready("10.0.0.9").Ready("10.0.0.10")})
                  .usable,
              ElementsAre("10.0.0.1:80", "10.0.0.9:80", "10.0.0.10:80"));
}

TEST(EndpointsTest, OnlyUsableLocalOnesAreLocal) {  // S-23
  const Resolved resolved = Resolve(
      {Slice().Port(80).Local("10.0.0.1").Ready("10.0.0.2").Endpoint("10.0.0.3", kDown, true)});
  EXPECT_THAT(resolved.usable, ElementsAre("10.0.0.1:80", "10.0.0.2:80"));
  EXPECT_THAT(resolved.local, ElementsAre("10.0.0.1:80"));
}

TEST(EndpointsTest, NoSlicesMeanNoEndpoints) {
  EXPECT_THAT(Resolve({}).usable, IsEmpty());
  EXPECT_THAT(Resolve({Slice().Port(80)}).usable, IsEmpty());
  EXPECT_THAT(Resolve({Slice().Ready("10.0.0.1")}).usable, IsEmpty());
}

// The table of semantics.md section 2, for the cluster set: L are local and R remote endpoints,
// r is ready, st serves while terminating, x neither.
TEST(EndpointsTest, ClusterSet) {
  struct Given {
    const char* ip;
    EndpointConditions conditions;
    bool local;
  };
  const Given lr{"10.0.0.1", kReady, true}, rr{"10.0.0.2", kReady, false};
  const Given lst{"10.0.0.3", kServingTerminating, true};
  const Given rst{"10.0.0.4", kServingTerminating, false};
  const Given lx{"10.0.0.5", kDown, true}, rx{"10.0.0.6", kDownTerminating, false};
  const struct {
    const char* name;
    std::vector<Given> given;
    std::vector<Given> wanted;
  } cases[] = {
      {"S-39", {}, {}},
      {"S-40", {lr, rr}, {lr, rr}},
      {"S-41", {rr}, {rr}},
      {"S-42", {lr, lst, rr, rst}, {lr, rr}},
      {"S-43", {lst, rr}, {rr}},
      {"S-44", {lst, rst}, {lst, rst}},
      {"S-45", {rst}, {rst}},
      {"S-46", {lx, rx}, {}},
      {"S-47", {lx, rst}, {rst}},
      {"S-48", {{"10.0.0.7", kServingOnly, true}}, {}},
      {"S-49", {{"10.0.0.8", kServingTerminating, true}}, {{"10.0.0.8", kReady, true}}},
      {"S-24, ready is taken verbatim",
       {{"10.0.0.9", kReadyTerminating, false}, rst},
       {{"10.0.0.9", kReady, false}}},
  };
  for (const auto& c : cases) {
    ASlice slice = Slice().Port(80);
    for (const Given& g : c.given) slice.Endpoint(g.ip, g.conditions, g.local);
    Resolved wanted;
    for (const Given& w : c.wanted) {
      wanted.usable.push_back(std::string(w.ip) + ":80");
      if (w.local) wanted.local.push_back(wanted.usable.back());
    }
    const Resolved resolved = Resolve({slice});
    EXPECT_EQ(resolved.usable, wanted.usable) << c.name;
    EXPECT_EQ(resolved.local, wanted.local) << c.name;
  }
}

// S-26: the same address in two slices that disagree, in both orders of arrival.
TEST(EndpointsTest, WhichOfTwoDuplicatesCounts) {
  const struct {
    const char* name;
    EndpointConditions a, b;
    Names usable;
  } cases[] = {
      {"ready over serving while terminating", kReady, kServingTerminating, {"10.0.0.1:80"}},
      {"down over serving while terminating", kDown, kServingTerminating, {}},
      {"down over ready while terminating", kDown, kReadyTerminating, {}},
      {"ready over down", kReady, kDown, {"10.0.0.1:80"}},
      {"of two terminating the serving one",
       kServingTerminating,
       kDownTerminating,
       {"10.0.0.1:80"}},
  };
  for (const auto& c : cases) {
    const ASlice a = Slice().Port(80).Endpoint("10.0.0.1", c.a);
    const ASlice b = Slice("ns/a-2").Port(80).Endpoint("10.0.0.1", c.b);
    EXPECT_EQ(Resolve({a, b}).usable, c.usable) << c.name;
    EXPECT_EQ(Resolve({b, a}).usable, c.usable) << c.name << ", the other way round";
  }
}

TEST(EndpointsTest, OfDuplicatesOneOnThisNodeMakesItLocal) {
  const ASlice local = Slice().Port(80).Local("10.0.0.1");
  const ASlice remote = Slice("ns/a-2").Port(80).Ready("10.0.0.1");
  for (const auto& slices : {std::vector{local, remote}, std::vector{remote, local}}) {
    EXPECT_THAT(Resolve(slices).local, ElementsAre("10.0.0.1:80"));
  }
}

}  // namespace
}  // namespace svcmap::proxy
