// Tests that large transfers arrive completely and without checksum errors, for both families, with
// and without offloads (checksums and segmentation by the device).
#include "tests/support/transfer.h"

#include "absl/strings/str_cat.h"
#include "tests/netns/service_world.h"
#include "tests/support/wait.h"

namespace svcmap::testing {
namespace {

constexpr size_t kBytes = 10'000'000;

// Runs once for each family, with offloads off and on.
class TransferTest : public ServiceTest,
                     public ::testing::WithParamInterface<std::tuple<bool, bool>> {
 protected:
  static bool v6() { return std::get<0>(GetParam()); }
  static bool offloads() { return std::get<1>(GetParam()); }

  void SetUp() override {
    ServiceTest::SetUp();
    if (world() == nullptr) return;
    ASSERT_OK(world()->topology->SetOffloads(offloads()));
    before_ = ReadAll();
  }
  void TearDown() override {
    const std::vector<ErrorCounters> after = ReadAll();
    for (size_t i = 0; i < before_.size(); ++i) {
      ErrorCounters errors = after[i] - before_[i];
      if (redirects_expected_) errors.icmp6_in_errors = 0;
      EXPECT_EQ(errors, ErrorCounters()) << All()[i]->name();
    }
    ServiceTest::TearDown();
  }

  std::vector<const Host*> All() {
    return {&node(), &pod_a(), &pod_b(), &remote_pod(), &client(), &world()->topology->remote()};
  }
  std::vector<ErrorCounters> ReadAll() {
    std::vector<ErrorCounters> counters;
    for (const Host* host : All()) {
      const absl::StatusOr<ErrorCounters> read = ReadErrorCounters(host->netns());
      EXPECT_OK(read);
      counters.push_back(read.ok() ? *read : ErrorCounters());
    }
    return counters;
  }

  // Sends 10 MB over TCP and datagrams of many sizes in both directions, to every kind of address.
  void TransferTo(const Host& endpoint, const std::string& server,
                  const AService& service = ExternalWeb("shop/web", kWeb)) {
    ASSERT_OK(agent().Apply(Objects{service} + WebSlices("shop/web", {&endpoint})));
    ASSERT_OK(FlushConntrack(node().netns()));
    const std::pair<const Address*, uint16_t> destinations[] = {
        {&kWeb, 80}, {&kExternalIp, 80}, {&kNode, kNodePort}};
    for (const Host* from : {&pod_b(), &client(), &node()}) {
      for (const auto& [address, port] : destinations) {
        SCOPED_TRACE(absl::StrCat(from->name(), " -> ", address->in(v6()), " -> ", server));
        const Request request = {
            .destination = address->in(v6()), .port = port, .timeout = kHangLimit};
        // From each source, send kBytes bytes only to kWeb. Connections to other addresses use the
        // same rules, so fewer bytes are sufficient.
        const size_t bytes = address == &kWeb ? kBytes : kBytes / 10;
        ASSERT_OK_AND_ASSIGN(const Answer answer, BulkTcp(from->netns(), request, bytes));
        EXPECT_EQ(answer.server, server);
        for (const size_t size : {1u, 1472u, 1473u, 9000u, 60000u}) {
          EXPECT_OK(BigUdp(from->netns(), request, size)) << size << " bytes";
        }
      }
    }
  }

  std::vector<ErrorCounters> before_;
  bool redirects_expected_ = false;
};
INSTANTIATE_TEST_SUITE_P(, TransferTest, ::testing::Combine(::testing::Bool(), ::testing::Bool()),
                         [](const ::testing::TestParamInfo<std::tuple<bool, bool>>& info) {
                           return absl::StrCat(std::get<0>(info.param) ? "IPv6" : "IPv4",
                                               "_offloads_",
                                               std::get<1>(info.param) ? "on" : "off");
                         });

TEST_P(TransferTest, ALocalEndpointGetsEveryByte) { TransferTo(pod_a(), "pod-a"); }

TEST_P(TransferTest, ARemoteEndpointGetsEveryByte) { TransferTo(remote_pod(), "remote-pod"); }

// Tests packets to the node itself. For received IPv6 datagrams to the node, nf_tables adjusted
// checksums incorrectly (docs/decisions/0001).
TEST_P(TransferTest, AnEndpointInTheNodesOwnNetworkGetsEveryByte) {
  ASSERT_OK_AND_ASSIGN(const auto process, EchoServer::StartAll(node().netns(), kNodeV4, kNodeV6,
                                                                kPodPort, "node-process"));
  TransferTo(node(), "node-process");
}

TEST_P(TransferTest, APodThatReachesItselfGetsEveryByte) {
  // An IPv6 router sends a redirect for packets that leave through the interface on which they
  // arrived. The pod ignores redirects and counts them as errors.
  redirects_expected_ = true;
  ASSERT_OK(
      agent().Apply(Objects{ExternalWeb("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()})));
  for (const Address& address : {kWeb, kExternalIp}) {
    const Request request = {.destination = address.in(v6()), .port = 80, .timeout = kHangLimit};
    ASSERT_OK_AND_ASSIGN(const Answer answer, BulkTcp(pod_a().netns(), request, kBytes));
    EXPECT_ANSWERED_BY(answer, "pod-a", node().address(v6()));
    EXPECT_OK(BigUdp(pod_a().netns(), request, 60000));
  }
}

}  // namespace
}  // namespace svcmap::testing
