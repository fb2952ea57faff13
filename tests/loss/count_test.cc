// The counters of the packet-loss tests detect each kind of loss.
#include "absl/strings/str_cat.h"
#include "tests/loss/loss_world.h"

namespace svcmap::testing {
namespace {

using LossCountTest = LossTest;

std::string PortOf(const CountedService& service) { return absl::StrCat(service.source_port()); }

// Another process breaks three Services while svcmapd is stopped.
TEST_F(LossCountTest, EachKindOfLossIsCounted) {
  constexpr int64_t kMinimum = 10;
  const CountedService& untranslated = counted(0);
  const CountedService& dropped = counted(1);
  const CountedService& misdirected = counted(2);
  const CountedService& other = counted(3);
  ASSERT_OK(EndAgent(/*kill=*/true));
  ASSERT_NO_FATAL_FAILURE(StartTraffic());
  ASSERT_OK(RunNft(
      node().netns(),
      absl::StrCat("delete element ip svcmap service-ips { ", untranslated.cluster_ip(),
                   " . udp . ", kCountedPort, " }\n", "insert rule ip svcmap services ip daddr ",
                   dropped.cluster_ip(), " drop\n", "insert rule ip svcmap services ip daddr ",
                   misdirected.cluster_ip(), " udp dport ", kCountedPort, " dnat to ",
                   CountedEndpoint(*other.endpoints.begin()), ":", other.target_port(), "\n",
                   "flush chain ip svcmap cluster-ips-check\n")));
  ASSERT_OK(LetTrafficFlow());
  LossCounts counts;
  TrafficReport tcp;
  ASSERT_NO_FATAL_FAILURE(StopTraffic(counts, tcp));
  EXPECT_GT(counts.untranslated[PortOf(untranslated)], kMinimum);
  EXPECT_EQ(counts.untranslated.size(), 1u);
  EXPECT_EQ(counts.escaped, counts.untranslated);  // Without the reject of svcmapd.
  for (int i = 0; i < static_cast<int>(counted_services()); ++i) {
    const int64_t count = counts.dropped[PortOf(counted(i))];
    if (i == dropped.number) {
      EXPECT_GT(count, kMinimum);
    } else {
      EXPECT_EQ(count, 0) << "Service " << i;
    }
  }
  ASSERT_EQ(counts.misdirected.size(), 1u);
  EXPECT_EQ(counts.misdirected.begin()->first.find(PortOf(misdirected)), 0u);
  EXPECT_GT(counts.misdirected.begin()->second, kMinimum);
}

}  // namespace
}  // namespace svcmap::testing
