#include "tests/conformance/tables.h"

namespace svcmap::conformance {
namespace {

constexpr std::string_view kApiServer = "asks the API server only";
constexpr std::string_view kBridge = "needs the API server: the controller of a cluster decides it";
constexpr std::string_view kHealth = "comes with health checks";

}  // namespace

std::vector<UpstreamTest> UpstreamTests() {
  return {
      {"Services", "secure master service", "", kApiServer},
      {"Services", "basic endpoint",
       "DecisionTable.Row/S74_*_ClusterIp RejectTest.S77_TheLastEndpointLeavesAndComesBack"},
      {"Services", "multiport endpoints", "PinnedFlowTest.S157_S158_S159_EachPortHasItsOwnTarget"},
      {"Services", "same port, different protocols",
       "PinnedFlowTest.S157_S158_S159_EachPortHasItsOwnTarget"},
      {"Services", "functioning NodePort service", "PinnedFlows.Row/S170_*_NodePort"},
      {"Services", "session affinity, ClusterIP and NodePort",
       "AffinityTest.S122_OneEndpointForAllAddressesOfAPort"},
      {"Services", "session affinity switched",
       "AffinityFamilyTest.S126_TurnedOffItIsOffAndForgotten"},
      {"Services", "session affinity timeout", "AffinityTimeTest.S124_RecordsEndWithTheirTimeout"},
      {"Services", "type changes from and to ExternalName",
       "UpstreamTest.S2_S7_S8_TheTypeOfAServiceChanges"},
      {"Services", "status lifecycle", "", kApiServer},
      {"Services", "endpoint lifecycle", "", kApiServer},
      {"Services", "delete a collection", "", kApiServer},
      {"Services", "source of a pod is preserved", "ClusterIpTest.S74_APodKeepsItsSourceAddress"},
      {"Services", "hairpin",
       "DecisionTable.Row/S97_*_Hairpin ExternalTest.S97_APodReachesItselfByEveryAddress"},
      {"Services", "up and down", "UpstreamTest.ServicesComeAndGoAndComeAgain"},
      {"Services", "recreated", "UpstreamTest.ServicesComeAndGoAndComeAgain"},
      {"Services", "the proxy restarts", "RestartTest.S342_ARestartWithTheSameStateIsNotNoticed"},
      {"Services", "the API server restarts",
       "RestartTest.S342_TheOldRulesServeUntilTheFirstSnapshotEnds"},
      {"Services", "ExternalIP that no node has", "ExternalTest.S78_EverySourceIsMasqueraded"},
      {"Services", "nodePort, same number and different protocols",
       "ExternalTest.S78_EverySourceIsMasqueraded"},
      {"Services", "service-proxy-name",
       "ConvertServiceTest.S1_S2_WhatIsNotProxiedIsHeldWhateverElseItSays "
       "StoreTest.S1_AServiceThatIsNoLongerProxiedIsDirtyAndKeepsItsSlices"},
      {"Services", "headless label",
       "ConvertServiceTest.S1_S2_WhatIsNotProxiedIsHeldWhateverElseItSays"},
      {"Services", "rejected without endpoints",
       "RejectTest.S77_S81_S100_WithoutEndpointsEveryAddressSaysPortUnreachable"},
      {"Services", "rejected where pods were evicted",
       "DecisionTable.Row/S77_*_ClusterIpLocalWithoutEndpoints"},
      {"Services", "internal policy Local: pod to pod",
       "PinnedFlows.Row/S178_*_InternalLocalOneLocal"},
      {"Services", "internal policy Local: node to pod", "DecisionTable.Row/S75_*_ClusterIpLocal"},
      {"Services", "internal policy Local: to the node's network",
       "AffinityTest.S79_S122_AnEndpointInTheNodesOwnNetwork"},
      {"Services", "external policy Local: nodePort",
       "PinnedFlows.Row/S174_*_ExternalLocalFromAClient"},
      {"Services", "healthCheckNodePort changes", "", kHealth},
      {"Services", "health check fails if all are terminating", "", kHealth},
      {"Services", "fallback to terminating endpoints",
       "PinnedFlows.Row/S187_*_ClusterTerminatingOnly "
       "PinnedFlows.Row/S188_*_ClusterRemoteTerminatingOnly"},
      {"Services", "fallback to local terminating endpoints",
       "PinnedFlows.Row/S183_*_LocalTerminatingOnly "
       "EndpointChoice.Row/S45_*_OnlyTerminatingOnesElsewhere"},
      {"Services", "publishNotReadyAddresses",
       "UpstreamTest.S24_EndpointsThatAreToBePublishedServe"},
      {"Services", "SCTP service", "ClusterIpTest.S74_APodKeepsItsSourceAddress"},
      {"Granular checks", "pod, node and endpoint to Service: http, udp, sctp",
       "ClusterIpTest.S74_APodKeepsItsSourceAddress ClusterIpTest.S74_TheNodeIsMasqueraded "
       "ClusterIpTest.S97_APodThatReachesItselfIsMasqueraded"},
      {"Granular checks", "update endpoints", "ChangeTest.EndpointsComeGoAndAreReplaced"},
      {"Granular checks", "update nodePort", "UpstreamTest.S4_S8_PortsAndNodePortsChange"},
      {"Granular checks", "ClientIP affinity",
       "AffinityTest.S122_EveryConnectionOfAClientGoesToOneEndpoint"},
      {"Granular checks", "large requests",
       "TransferTest.ALocalEndpointGetsEveryByte TransferTest.ARemoteEndpointGetsEveryByte"},
      {"Granular checks", "endpoints in the node's network",
       "ClusterIpTest.S74_AnEndpointInTheNodesOwnNetworkIsReachedFromEverywhere"},
      {"Granular checks", "several Services with the same endpoints",
       "UpstreamTest.SeveralServicesWithTheSameEndpoints"},
      {"Granular checks", "rules that are deleted come back",
       "LifecycleTest.S345_ADeletedTableComesBack LifecycleTest.S345_AFlushedRulesetComesBack"},
      {"Conntrack",
       "UDP when a server pod cycles: NodePort, ClusterIP, policy Local, from the node",
       "UdpCyclingTest.S240_S245_AClientsFlowFollowsTheServerPod"},
      {"Conntrack", "endpoints that are not ready at first",
       "UdpCyclingTest.S240_S245_AClientsFlowFollowsTheServerPod"},
      {"Conntrack", "invalid packets do not end connections", "",
       "needs net.netfilter.nf_conntrack_tcp_be_liberal, which comes with the configuration; see "
       "S-145"},
      {"LoadBalancer", "TCP and UDP: type and ports change",
       "UpstreamTest.S2_S7_S8_TheTypeOfAServiceChanges UpstreamTest.S4_S8_PortsAndNodePortsChange"},
      {"LoadBalancer", "source ranges", "SourceRangesTest.S116_RangesThatChangeTakeEffectAtOnce"},
      {"LoadBalancer", "affinity, with both policies, switched",
       "AffinityTest.S122_OneEndpointForAllAddressesOfAPort AffinityTest.S123_PoliciesAndAffinity "
       "AffinityFamilyTest.S126_TurnedOffItIsOffAndForgotten"},
      {"LoadBalancer", "no disruption during a rolling update, both policies",
       "UpstreamTest.S33_S34_S340_ARollingUpdateLosesNoConnection"},
      {"LoadBalancer", "only nodes with endpoints are targets", "", kHealth},
      {"LoadBalancer", "from pods",
       "PinnedFlows.Row/S173_*_ExternalLocalFromAPod PinnedFlows.Row/S176_*_ExternalCluster"},
      {"Dual stack", "IPv4, IPv6, both orders",
       "ConvertServiceTest.S3_EachFamilyHasTheClusterIpOfItsPlace"},
      {"Dual stack", "pod, node and endpoint to Service: http, udp, sctp",
       "ClusterIpTest.S74_APodKeepsItsSourceAddress ClusterIpTest.S74_TheNodeIsMasqueraded"},
      {"Topology", "hints spread traffic evenly", "", kBridge},
      {"Topology", "traffic stays close to the client",
       "EndpointChoice.Row/S52_*_SameZone EndpointChoice.Row/S58_*_SameNode"},
      {"Service CIDRs", "several ServiceCIDRs",
       "UpstreamTest.S105_ClusterIpsOfSeveralServiceCidrs"},
  };
}

}  // namespace svcmap::conformance
