// Tests of the deletion of stale UDP flows from a real conntrack table in a network namespace. The
// tests check which flows are deleted and which flows are kept.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nft/conntrack/netlink_flow_table.h"
#include "tests/contract/private_netns.h"
#include "tests/contract/scripted_faults.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tracked_flows.h"

namespace svcmap::nft {
namespace {

using ::svcmap::testing::AddTrackedFlows;
using ::svcmap::testing::AFlow;
using ::svcmap::testing::FlowProtocol;
using ::svcmap::testing::TrackedFlow;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAreArray;

// Addresses that differ only in the last byte.
struct Addresses {
  Family family;
  const char* prefix;

  FlowEnd operator()(int last, uint16_t port) const {
    return {*IpAddress::Parse(prefix + std::to_string(last)), port};
  }
};

std::vector<FlowKind> Kinds(TransportProtocol protocol,
                            const std::vector<Family>& families = {Family::kIpv4, Family::kIpv6}) {
  std::vector<FlowKind> kinds;
  for (const Family family : families) kinds.push_back({protocol, family});
  return kinds;
}

class FlowTableContract : public ::testing::TestWithParam<Family> {
 protected:
  void SetUp() override { testing::MakePrivateNetNs(netns_); }

  Addresses at() const {
    return GetParam() == Family::kIpv4 ? Addresses{Family::kIpv4, "10.0.0."}
                                       : Addresses{Family::kIpv6, "fd00::"};
  }
  FlowEnd Client(uint16_t port = 40000) const { return at()(9, port); }

  void Add(const std::vector<TrackedFlow>& flows) {
    ASSERT_OK(netns_->Run([&] { return AddTrackedFlows(flows); }));
  }
  std::vector<Flow> List(const std::vector<Family>& families = {Family::kIpv4, Family::kIpv6},
                         uint64_t* entries = nullptr) {
    return List(Kinds(TransportProtocol::kUdp, families), entries);
  }
  std::vector<Flow> List(const std::vector<FlowKind>& kinds, uint64_t* entries = nullptr) {
    std::vector<Flow> flows;
    const auto listing = netns_->Run([&] {
      return table_.ForEach(kinds, FlowTable::kAllEntries, [&](const Flow& flow) {
        flows.push_back(flow);
        return true;
      });
    });
    EXPECT_OK(listing);
    if (entries != nullptr && listing.ok()) *entries = listing->entries;
    return flows;
  }
  FlowTable::Deletion Delete(const std::vector<Flow>& flows) {
    return netns_->Run([&] { return table_.Delete(flows); });
  }

  std::optional<testing::NetNs> netns_;
  ScriptedFaults faults_;
  NetlinkFlowTable table_{&faults_};
};

std::vector<std::string> Texts(const std::vector<Flow>& flows) {
  std::vector<std::string> texts;
  for (const Flow& flow : flows) {
    texts.push_back(TrackedFlow{static_cast<FlowProtocol>(flow.protocol), flow.original, flow.reply}
                        .ToString());
  }
  return texts;
}

TEST_P(FlowTableContract, AFlowIsReadAsItIs) {
  if (!netns_) return;
  TrackedFlow flow = AFlow(Client(40001), at()(10, 53), at()(1, 5353));
  flow.reply.destination = at()(8, 50001);  // The flow's source address was also translated.
  flow.original.zone = flow.reply.zone = 7;
  Add({flow});
  const std::vector<Flow> flows = List();
  ASSERT_THAT(flows, SizeIs(1));
  EXPECT_EQ(flows[0].original, flow.original);
  EXPECT_EQ(flows[0].reply, flow.reply);
  EXPECT_NE(flows[0].id, 0u);
}

TEST_P(FlowTableContract, S249OnlyUdpFlowsOfTheWantedFamilyAreReported) {
  if (!netns_) return;
  TrackedFlow udp = AFlow(Client(), at()(10, 53), at()(1, 53)), tcp = udp, sctp = udp;
  tcp.protocol = FlowProtocol::kTcp;
  sctp.protocol = FlowProtocol::kSctp;
  Add({udp, tcp, sctp});
  // Request the listing twice. The kernel filters only the second listing, because the first count
  // has shown that UDP flows are not rare.
  uint64_t entries = 0;
  EXPECT_THAT(Texts(List({GetParam()}, &entries)), ElementsAre(udp.ToString()));
  EXPECT_EQ(entries, 3u);
  EXPECT_THAT(Texts(List({GetParam()}, &entries)), ElementsAre(udp.ToString()));
  EXPECT_EQ(entries, 1u);
  const Family other = GetParam() == Family::kIpv4 ? Family::kIpv6 : Family::kIpv4;
  EXPECT_THAT(List({other}), IsEmpty());
}

// If UDP flows are rare, the listing does not use the kernel's filter, because the kernel would
// search the complete table in one step and delay packets.
TEST_P(FlowTableContract, WhereUdpFlowsAreRareTheKernelDoesNotFilter) {
  if (!netns_) return;
  std::vector<TrackedFlow> flows = {AFlow(Client(), at()(10, 53), at()(1, 53))};
  for (uint16_t i = 0; i < 40; ++i) {
    flows.push_back(AFlow(Client(static_cast<uint16_t>(1000 + i)), at()(10, 80), at()(1, 80)));
    flows.back().protocol = FlowProtocol::kTcp;
  }
  Add(flows);
  for (int i = 0; i < 2; ++i) {
    uint64_t entries = 0;
    EXPECT_THAT(List({GetParam()}, &entries), SizeIs(1));
    EXPECT_EQ(entries, flows.size());
  }
}

TEST_P(FlowTableContract, S243ADeletionHitsThatFlowAndNoOther) {
  if (!netns_) return;
  const TrackedFlow victim = AFlow(Client(40001), at()(10, 53), at()(1, 53));
  TrackedFlow tcp = victim, sctp = victim, in_zone = victim;
  tcp.protocol = FlowProtocol::kTcp;
  sctp.protocol = FlowProtocol::kSctp;
  in_zone.original.zone = in_zone.reply.zone = 3;
  const TrackedFlow other_client = AFlow(Client(40002), at()(10, 53), at()(1, 53));
  const TrackedFlow other_endpoint = AFlow(Client(40003), at()(10, 53), at()(2, 53));
  const TrackedFlow other_service = AFlow(Client(40004), at()(11, 53), at()(1, 53));
  Add({victim, tcp, sctp, in_zone, other_client, other_endpoint, other_service});
  std::vector<Flow> victims;
  for (const Flow& flow : List()) {
    if (flow.original == victim.original) victims.push_back(flow);
  }
  ASSERT_THAT(victims, SizeIs(1));
  const FlowTable::Deletion deletion = Delete(victims);
  EXPECT_OK(deletion.status);
  EXPECT_EQ(deletion.deleted, 1u);
  EXPECT_EQ(deletion.gone, 0u);
  EXPECT_THAT(Texts(List()),
              UnorderedElementsAreArray({in_zone.ToString(), other_client.ToString(),
                                         other_endpoint.ToString(), other_service.ToString()}));
  // The count includes TCP and SCTP flows and flows in the other zone.
  EXPECT_EQ(netns_->Run([] { return testing::TrackedFlowCount(); }), 6u);
  std::vector<Flow> others = List();
  std::erase_if(others, [](const Flow& flow) { return flow.original.zone != 3; });
  EXPECT_EQ(Delete(others).deleted, 1u);
  EXPECT_THAT(Texts(List()),
              UnorderedElementsAreArray(
                  {other_client.ToString(), other_endpoint.ToString(), other_service.ToString()}));
}

// Between the listing and the deletion, the same client sends again and reaches another endpoint,
// or the endpoint itself sends from its port to the client's port. The reply tuple of that flow is
// the original tuple of the listed flow.
TEST_P(FlowTableContract, S243AFlowThatCameBackToAnotherEndpointOrInTheOppositeDirectionIsNotHit) {
  if (!netns_) return;
  const TrackedFlow stale = AFlow(Client(), at()(10, 53), at()(1, 53));
  for (const TrackedFlow& other :
       {AFlow(Client(), at()(10, 53), at()(2, 53)), AFlow(at()(1, 53), Client(), Client())}) {
    Add({stale});
    const std::vector<Flow> listed = List();
    ASSERT_EQ(Delete(listed).deleted, 1u);
    Add({other});
    const FlowTable::Deletion deletion = Delete(listed);
    EXPECT_OK(deletion.status);
    EXPECT_EQ(deletion.deleted, 0u);
    EXPECT_EQ(deletion.gone, 1u);
    EXPECT_THAT(Texts(List()), ElementsAre(other.ToString()));
    ASSERT_EQ(Delete(List()).deleted, 1u);
  }
}

// Each failure is reported, and the next call succeeds.
TEST_P(FlowTableContract, FailedCallsAreReportedAndLeaveNothingBehind) {
  if (!netns_) return;
  Add({AFlow(Client(), at()(10, 53), at()(1, 53))});
  const auto listing = [&] {
    return netns_->Run([&] {
      return table_.ForEach({}, FlowTable::kAllEntries, [](const Flow&) { return true; });
    });
  };
  faults_.open = [](int) { return EMFILE; };
  EXPECT_FALSE(listing().ok());
  faults_.Clear();
  const std::vector<Flow> flows = List();
  ASSERT_THAT(flows, SizeIs(1));
  faults_.open = [](int) { return EMFILE; };
  EXPECT_FALSE(Delete(flows).status.ok());
  faults_.Clear();
  faults_.send = [](uint32_t, std::span<const uint8_t>) { return ENOMEM; };
  EXPECT_EQ(listing().status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Delete(flows).status.code(), absl::StatusCode::kResourceExhausted);
  faults_.Clear();
  faults_.receive = [](uint32_t, std::span<const uint8_t>) {
    return SocketFaults::Receipt{.error = ENOBUFS};
  };
  EXPECT_FALSE(listing().ok());
  EXPECT_FALSE(Delete(flows).status.ok());
  faults_.Clear();
  EXPECT_THAT(List(), IsEmpty()) << "deleted, but the answer was lost";
  const FlowTable::Deletion deletion = Delete(flows);
  EXPECT_OK(deletion.status);
  EXPECT_EQ(deletion.gone, 1u);
}

// The end of a netfilter socket delays commits to nf_tables.
TEST_P(FlowTableContract, TheSocketIsUsedAgainAfterACompleteListing) {
  if (!netns_) return;
  Add({AFlow(Client(), at()(10, 53), at()(1, 53)),
       AFlow(Client(40001), at()(10, 53), at()(1, 53))});
  int opened = 0;
  faults_.open = [&](int) {
    ++opened;
    return 0;
  };
  EXPECT_THAT(List(), SizeIs(2));
  EXPECT_THAT(List(), SizeIs(2));
  EXPECT_EQ(opened, 1);
  const auto cut = netns_->Run([&] {
    return table_.ForEach(Kinds(TransportProtocol::kUdp, {GetParam()}), 1,
                          [](const Flow&) { return true; });
  });
  EXPECT_TRUE(cut.ok() && cut->cut);
  EXPECT_THAT(List(), SizeIs(2));
  EXPECT_EQ(opened, 2);
}

TEST_P(FlowTableContract, DeletionsOfManyAreCountedOneByOne) {
  if (!netns_) return;
  std::vector<TrackedFlow> flows;
  for (uint16_t i = 0; i < 1000; ++i) {
    flows.push_back(AFlow(Client(static_cast<uint16_t>(1000 + i)), at()(10, 53), at()(1, 53)));
  }
  Add(flows);
  std::vector<Flow> listed = List();
  ASSERT_THAT(listed, SizeIs(1000));
  const std::vector<Flow> every_third = [&] {
    std::vector<Flow> some;
    for (size_t i = 0; i < listed.size(); i += 3) some.push_back(listed[i]);
    return some;
  }();
  EXPECT_EQ(Delete(every_third).deleted, every_third.size());
  const FlowTable::Deletion rest = Delete(listed);
  EXPECT_OK(rest.status);
  EXPECT_EQ(rest.gone, every_third.size());
  EXPECT_EQ(rest.deleted, listed.size() - every_third.size());
  EXPECT_THAT(List(), IsEmpty());
}

TEST_P(FlowTableContract, AListingMayBeLeftAndDeletesWhileItRuns) {
  if (!netns_) return;
  std::vector<TrackedFlow> flows;
  for (uint16_t i = 0; i < 2000; ++i) {
    flows.push_back(AFlow(Client(static_cast<uint16_t>(1000 + i)), at()(10, 53), at()(1, 53)));
  }
  Add(flows);
  int reported = 0;
  const auto left = netns_->Run([&] {
    return table_.ForEach(Kinds(TransportProtocol::kUdp), FlowTable::kAllEntries,
                          [&](const Flow&) { return ++reported < 5; });
  });
  EXPECT_TRUE(absl::IsCancelled(left.status())) << left.status();
  EXPECT_EQ(reported, 5);
  // The callback deletes each listed flow. The listing covers all flows despite these deletions.
  size_t deleted = 0;
  EXPECT_OK(netns_->Run([&] {
    return table_.ForEach(Kinds(TransportProtocol::kUdp), FlowTable::kAllEntries,
                          [&](const Flow& flow) {
                            deleted += table_.Delete({&flow, 1}).deleted;
                            return true;
                          });
  }));
  EXPECT_EQ(deleted, flows.size());
  EXPECT_THAT(List(), IsEmpty());
}

TEST_P(FlowTableContract, AListingEndsAfterTheMaximumNumberOfEntries) {
  if (!netns_) return;
  std::vector<TrackedFlow> flows;
  for (uint16_t i = 0; i < 10; ++i) {
    flows.push_back(AFlow(Client(static_cast<uint16_t>(1000 + i)), at()(10, 53), at()(1, 53)));
  }
  Add(flows);
  for (const auto& [max_entries, listed] : {std::pair{4, 4}, {10, 10}, {11, 10}}) {
    int reported = 0;
    const auto listing = netns_->Run([&, max = static_cast<uint64_t>(max_entries)] {
      return table_.ForEach(Kinds(TransportProtocol::kUdp), max, [&](const Flow&) {
        ++reported;
        return true;
      });
    });
    ASSERT_OK(listing);
    EXPECT_EQ(reported, listed);
    EXPECT_EQ(listing->cut, listed < 10);
    EXPECT_TRUE(listing->complete);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, FlowTableContract, ::testing::ValuesIn(kFamilies),
                         [](const auto& info) { return std::string(FamilyName(info.param)); });

}  // namespace
}  // namespace svcmap::nft
