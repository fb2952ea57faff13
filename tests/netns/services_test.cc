// Tests of clusterIPs, including the answering endpoints and the source address that they see.
#include "tests/netns/service_world.h"

namespace svcmap::testing {
namespace {

class ClusterIpTest : public ServiceFlowTest {
 protected:
  absl::Status Serve(const std::vector<const Host*>& endpoints) {
    if (absl::Status status = FlushConntrack(node().netns()); !status.ok()) return status;
    return agent().Apply(Objects{Web("shop/web", kWeb)} + WebSlices("shop/web", endpoints));
  }
};
INSTANTIATE_ALL_FLOWS(ClusterIpTest);

TEST_P(ClusterIpTest, S74_S92_S93_S97_PodsKeepTheirSourceAddress) {
  for (const Host* endpoint : {&pod_a(), &remote_pod()}) {
    SCOPED_TRACE(endpoint->name());
    ASSERT_OK(Serve({endpoint}));
    EXPECT_ANSWERED_BY(Ask(pod_b(), To(kWeb)), endpoint->name(), At(pod_b()));
    EXPECT_ANSWERED_BY(Ask(node(), To(kWeb)), endpoint->name(), At(node()));
    // Masquerading uses the node's primary address, so a request from the second address shows
    // whether it was masqueraded.
    Request request = To(kWeb);
    request.source = kNodeSecond.in(v6());
    EXPECT_ANSWERED_BY(Ask(node(), request), endpoint->name(), At(node()));
    EXPECT_ANSWERED_BY(Ask(client(), To(kWeb)), endpoint->name(), At(node()));
  }
  ASSERT_OK(Serve({&pod_a()}));
  // A pod of another node whose packets arrive with the pod's own address is treated as a pod.
  EXPECT_ANSWERED_BY(Ask(remote_pod(), To(kWeb)), "pod-a", At(remote_pod()));
  EXPECT_ANSWERED_BY(Ask(pod_a(), To(kWeb)), "pod-a", At(node()));
}

// Tests an endpoint in the node's network namespace. Packets to this endpoint never leave the node,
// so packets from other hosts are not masqueraded. The node's own packets come from the node's
// address with and without masquerading.
TEST_P(ClusterIpTest, S74_AnEndpointInTheNodesOwnNetworkIsReachedFromEverywhere) {
  ASSERT_OK_AND_ASSIGN(const auto process, EchoServer::StartAll(node().netns(), kNodeV4, kNodeV6,
                                                                kPodPort, "node-process"));
  ASSERT_OK(
      agent().Apply(Objects{ExternalWeb("shop/web", kWeb)} + WebSlices("shop/web", {&node()})));
  for (const Host* from : {&pod_b(), &client(), &node()}) {
    SCOPED_TRACE(from->name());
    EXPECT_ANSWERED_BY(Ask(*from, To(kWeb)), "node-process", At(*from));
    EXPECT_ANSWERED_BY(Ask(*from, To(kNode, kNodePort)), "node-process", At(*from));
    EXPECT_ANSWERED_BY(Ask(*from, To(kExternalIp)), "node-process", At(*from));
  }
  EXPECT_EQ(process->sctp_bad_checksums(), 0);
}

}  // namespace
}  // namespace svcmap::testing
