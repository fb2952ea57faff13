#include "tests/conformance/tables.h"

namespace svcmap::conformance {
namespace {

constexpr std::string_view kApiServer = "asks the API server only";
constexpr std::string_view kBridge = "needs the API server: the controller of a cluster decides it";

}  // namespace

std::vector<UpstreamTest> UpstreamTests() {
  return {
      {"Services", "secure master service", "", kApiServer},
      {"Services", "basic endpoint",
       "DecisionTable.Row/S74_S78_S155_S169_S170_S175_S176_S177_S190_*_PolicyCluster "
       "WeightsTest.ADrainedEndpointKeepsWhatItHasAndGetsNothingNew"},
      {"Services", "multiport endpoints", "PinnedFlowTest.S157_S158_S159_EachPortHasItsOwnTarget"},
      {"Services", "same port, different protocols",
       "PinnedFlowTest.S157_S158_S159_EachPortHasItsOwnTarget"},
      {"Services", "functioning NodePort service",
       "DecisionTable.Row/S74_S78_S155_S169_S170_S175_S176_S177_S190_*_PolicyCluster"},
      {"Services", "session affinity, ClusterIP and NodePort",
       "AffinityTest.S122_OneEndpointForAllAddressesOfAPort"},
      {"Services", "session affinity switched",
       "AffinityFamilyTest.S14_S126_TurnedOffItIsOffAndForgotten"},
      {"Services", "session affinity timeout", "AffinityTimeTest.S124_RecordsEndWithTheirTimeout"},
      {"Services", "type changes from and to ExternalName",
       "UpstreamTest.S2_S7_S8_TheTypeOfAServiceChanges"},
      {"Services", "status lifecycle", "", kApiServer},
      {"Services", "endpoint lifecycle", "", kApiServer},
      {"Services", "delete a collection", "", kApiServer},
      {"Services", "source of a pod is preserved",
       "DecisionTable.Row/S74_S78_S155_S169_S170_S175_S176_S177_S190_*_PolicyCluster"},
      {"Services", "hairpin", "DecisionTable.Row/S97_S156_*_Hairpin"},
      {"Services", "up and down", "UpstreamTest.ServicesComeAndGoAndComeAgain"},
      {"Services", "recreated", "UpstreamTest.ServicesComeAndGoAndComeAgain"},
      {"Services", "the proxy restarts",
       "UnchangedRestartTest.S342_AControllerThatSaysTheSameChangesNothing"},
      {"Services", "the API server restarts",
       "SavedStateTest.S342_WithoutAStateFolderTheOldRulesServeUntilItIsReported"},
      {"Services", "ExternalIP that no node has",
       "DecisionTable.Row/S74_S78_S155_S169_S170_S175_S176_S177_S190_*_PolicyCluster"},
      {"Services", "nodePort, same number and different protocols",
       "DecisionTable.Row/S74_S78_S155_S169_S170_S175_S176_S177_S190_*_PolicyCluster"},
      {"Services", "service-proxy-name",
       "ConvertServiceTest.S1_S2_WhatIsNotProxiedIsStoredWhateverElseItSays "
       "StoreTest.S1_AServiceThatIsNoLongerProxiedIsDirtyAndKeepsItsSlices"},
      {"Services", "headless label",
       "ConvertServiceTest.S1_S2_WhatIsNotProxiedIsStoredWhateverElseItSays"},
      {"Services", "rejected without endpoints",
       "RejectTest.S77_S81_S100_WithoutEndpointsEveryAddressRejects"},
      {"Services", "rejected where pods were evicted",
       "DecisionTable.Row/S46_S77_S81_S86_S185_S189_*_LocalWithoutServingEndpoints"},
      {"Services", "internal policy Local: pod to pod",
       "DecisionTable.Row/S75_S89_S178_S179_*_InternalLocal"},
      {"Services", "internal policy Local: node to pod",
       "DecisionTable.Row/S75_S89_S178_S179_*_InternalLocal"},
      {"Services", "internal policy Local: to the node's network",
       "AffinityTest.S79_S122_AnEndpointInTheNodesOwnNetwork"},
      {"Services", "external policy Local: nodePort",
       "DecisionTable.Row/S79_S89_S173_S174_*_ExternalLocal"},
      {"Services", "healthCheckNodePort changes",
       "ServicePointsTest.S259_FiveHundredListenersComeChangeAndGo "
       "LoopRepairTest.S259HealthChecksAreReportedWhenTheyChangeAndNotOtherwise"},
      {"Services", "health check fails if all are terminating",
       "HealthChecksTest.S260_S262_S266_TheAnswerFollowsTheEndpoints"},
      {"Services", "fallback to terminating endpoints",
       "EndpointChoice.Row/S187_*_ClusterTerminatingOnly "
       "EndpointChoice.Row/S47_S188_*_OnlyARemoteTerminatingOneServes"},
      {"Services", "fallback to local terminating endpoints",
       "EndpointChoice.Row/S34_S43_S183_*_TerminatingLocalEndpointsWhileRemoteOnesAreReady "
       "EndpointChoice.Row/S45_S184_*_OnlyTerminatingOnesElsewhere"},
      {"Services", "publishNotReadyAddresses",
       "ConvertSliceTest.S22_S23_S24_CarriesEndpointsAndPorts"},
      {"Services", "SCTP service", "PinnedFlowTest.S157_S158_S159_EachPortHasItsOwnTarget"},
      {"Granular checks", "pod, node and endpoint to Service: http, udp, sctp",
       "DecisionTable.Row/S74_S78_S155_S169_S170_S175_S176_S177_S190_*_PolicyCluster "
       "DecisionTable.Row/S97_S156_*_Hairpin "
       "PinnedFlowTest.S157_S158_S159_EachPortHasItsOwnTarget"},
      {"Granular checks", "update endpoints",
       "UpstreamTest.S33_S34_S340_ARollingUpdateLosesNoConnection"},
      {"Granular checks", "update nodePort", "UpstreamTest.S4_S8_PortsAndNodePortsChange"},
      {"Granular checks", "ClientIP affinity",
       "AffinityTest.S122_OneEndpointForAllAddressesOfAPort"},
      {"Granular checks", "large requests",
       "TransferTest.ALocalEndpointGetsEveryByte TransferTest.ARemoteEndpointGetsEveryByte"},
      {"Granular checks", "endpoints in the node's network",
       "AffinityTest.S79_S122_AnEndpointInTheNodesOwnNetwork"},
      {"Granular checks", "several Services with the same endpoints",
       "UpstreamTest.ServicesComeAndGoAndComeAgain"},
      {"Granular checks", "rules that are deleted come back", "DamageTest.S345_IsRepaired"},
      {"Conntrack",
       "UDP when a server pod cycles: NodePort, ClusterIP, policy Local, from the node",
       "UdpCyclingTest.S240_S245_AClientsFlowFollowsTheServerPod "
       "StaleFlowsTest.S245_AFlowFollowsWhenItsEndpointIsReplaced"},
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
       "AffinityFamilyTest.S14_S126_TurnedOffItIsOffAndForgotten"},
      {"LoadBalancer", "no disruption during a rolling update, both policies",
       "UpstreamTest.S33_S34_S340_ARollingUpdateLosesNoConnection"},
      {"LoadBalancer", "only nodes with endpoints are targets",
       "HealthChecksTest.S260_S262_S266_TheAnswerFollowsTheEndpoints"},
      {"LoadBalancer", "from pods",
       "DecisionTable.Row/S79_S89_S173_S174_*_ExternalLocal "
       "DecisionTable.Row/S74_S78_S155_S169_S170_S175_S176_S177_S190_*_PolicyCluster"},
      {"Dual stack", "IPv4, IPv6, both orders",
       "ConvertServiceTest.S3_EachFamilyHasTheClusterIpOfItsPlace"},
      {"Dual stack", "pod, node and endpoint to Service: http, udp, sctp",
       "DecisionTable.Row/S74_S78_S155_S169_S170_S175_S176_S177_S190_*_PolicyCluster "
       "PinnedFlowTest.S157_S158_S159_EachPortHasItsOwnTarget"},
      {"Topology", "hints spread traffic evenly", "", kBridge},
      {"Topology", "traffic stays close to the client",
       "EndpointChoice.Row/S52_*_SameZone EndpointChoice.Row/S58_*_SameNode"},
      {"Service CIDRs", "several ServiceCIDRs",
       "ReconcilerNodeTest.S105ServiceCidrsAreTheUnionOfAllObjects"},
  };
}

}  // namespace svcmap::conformance
