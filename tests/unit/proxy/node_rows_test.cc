// Tests the rows that detect pod traffic, the rows for masquerading traffic to clusterIPs
// (docs/specification.md, section 3.1), and the rows for ServiceCIDRs.
#include "proxy/desired/node_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/proxy/desired_world.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;

// Returns the rows from NodeRows as ranges, for example "pod-sources 10.244.0.0/16".
Lines Ranges(const RulesetOptions& options, const Change& node = {}, const Store& store = {}) {
  Lines lines;
  const nft::ElementView* start = nullptr;
  nft::ElementView held;
  const auto flush = [&](std::span<const uint8_t> end) {
    if (start == nullptr) return;
    const nft::SetSpec& set = Tables()[Index(start->set.family)].sets[start->set.set];
    lines.push_back(set.name + " " + nft::RangeText(set.key, start->key, end));
    start = nullptr;
  };
  const std::vector<Row> rows = NodeRows(options, node.node.get(), {}, store);
  for (const Row& row : rows) {
    if (row.interval_end) {
      flush(row.key.bytes());
      continue;
    }
    flush({});
    held = row.view();
    start = &held;
  }
  flush({});
  return lines;
}

const Change kNode = ANode("n1", {"192.0.2.7"}, "za", {"10.244.3.0/24", "fd00:244:0:3::/64"});

TEST(NodeRowsTest, S65NodeCidrIsTheBlockOfThePodsHere) {
  const RulesetOptions options{.detect_local = DetectLocal::kNodeCidr};
  EXPECT_THAT(
      Ranges(options, kNode),
      ElementsAre("pod-sources 10.244.3.0/24", "masquerade-sources 0.0.0.0-10.244.2.255",
                  "masquerade-sources 10.244.4.0-255.255.255.255", "pod-sources fd00:244:0:3::/64",
                  "masquerade-sources ::-fd00:244:0:2:ffff:ffff:ffff:ffff",
                  "masquerade-sources "
                  "fd00:244:0:4::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"));
}

TEST(NodeRowsTest, ABlockOfEverythingMasqueradesNoSource) {
  RulesetOptions options;
  options.cluster_cidr[0] = Cidr("0.0.0.0/0");
  EXPECT_THAT(Ranges(options), ElementsAre("pod-sources 0.0.0.0/0"));
}

TEST(NodeRowsTest, S105ServiceCidrsAreTheUnionOfAllObjects) {
  Store store;
  store.Apply(AServiceCidr("a", {"10.96.0.0/16", "fd00:96::/112"}), 1);
  store.Apply(AServiceCidr("b", {"10.96.0.0/16", "10.97.0.0/16"}), 1);
  EXPECT_THAT(Ranges({}, kNode, store),
              ElementsAre("service-cidrs 10.96.0.0/15", "service-cidrs fd00:96::/112"));
  store.Apply(Removal(Kind::kServiceCidr, "b"), 2);
  EXPECT_THAT(Ranges({}, kNode, store),
              ElementsAre("service-cidrs 10.96.0.0/16", "service-cidrs fd00:96::/112"));
}

}  // namespace
}  // namespace svcmap::proxy
