#include "tests/conformance/tables.h"

namespace svcmap::conformance {

const std::map<int, std::string_view>& OtherTests() {
  static const std::map<int, std::string_view> tests = {
      {138, "ConstancyTest.AThousandChangesLeaveTheRulesetAsItWas"},
      {141,
       "MissingFeatureTest.Expressions "
       "MissingFeatureTest.SetsAndChains "
       "PreflightTest.NothingLacksAndNothingStays"},
      {144,
       "DecisionTable.Row/S82_*_OtherPortOfAClusterIp "
       "DecisionTable.Row/S83_*_UnallocatedClusterIp"},
      {149,
       "LifecycleTest.S345_AFlushedRulesetComesBack "
       "LifecycleTest.S345_ADeletedTableComesBack"},
      {151, "MarkTest.S99_TheMarkBitIsClearedAndTheOthersSurvive"},
      {215, "UniformityTest.S38_EachOfNEndpointsGetsItsShare"},
      {216, "ExternalTest.S94_AnExternalIpThatIsTheNodesWinsOnItsPort"},
      {217,
       "DecisionTable.Row/S76_*_ClusterIpLocalWithRemoteEndpointsOnly "
       "DecisionTable.Row/S77_*_ClusterIpWithoutEndpoints"},
      {218,
       "DecisionTable.Row/S80_*_ExternalLocalWithRemoteEndpointsOnly "
       "DecisionTable.Row/S81_*_ExternalWithoutEndpoints"},
      {219, "PinnedFlows.Row/S164_*_RangesAreNotForNodePorts"},
      {221, "MarkTest.S99_TheMarkBitIsClearedAndTheOthersSurvive"},
      {222, "MarkTest.S99_TheMarkBitIsClearedAndTheOthersSurvive"},
      {226, "CoexistenceTest.S137_S145_S147_S150_NothingIsDecidedThatIsNotAboutServices"},
      {227, "DecisionTable.Row/S87_*_SourceNotAllowed"},
      {228, "LifecycleTest.S345_AFlushedRulesetComesBack"},
      {229, "DecisionTable.Row/S74_*_ClusterIp"},
      {230, "DecisionTable.Row/S75_*_ClusterIpLocal"},
      {231, "DecisionTable.Row/S79_*_ExternalLocal"},
      {232,
       "PinnedFlows.Row/S166_*_RangesNotAllowed "
       "PinnedFlowTest.S168_S118_TheLoadBalancerIpAsSource"},
      {233,
       "DecisionTable.Row/S97_*_Hairpin "
       "AffinityTest.S122_OneEndpointForAllAddressesOfAPort"},
      {234, "AffinityTimeTest.S124_NewConnectionsRestartTheTimer"},
      {236, "LifecycleTest.OtherTablesAreNotModified"},
      {322, "NodeAddressTest.S110_WithoutANodeObjectAllAddressesTakeNodePortsUntilItComes"},
      {323, "ReconcilerNodeTest.S65TheNodesPodCidrIsFollowed"},
      {324, "PinnedFlows.Row/S169_*_NodePortServiceClusterIp"},
      {334,
       "LoopTest.WhatComesDuringACommitIsMergedAndTheLatestWins "
       "LoopTest.ABatchThatChangesNothingIsAnsweredAtOnce"},
      {335, "LoopTest.WhatComesDuringACommitIsMergedAndTheLatestWins"},
      {336,
       "LoopTest.ABatchThatTheKernelRejectsFailsAfterSomePatienceAndGoesInLater "
       "PushTest.KernelThatRejectsIsAckedFailedAndCaughtUpWithLater"},
      {337,
       "RepairTest.AnAuditFindsUnreportedChanges "
       "RepairTest.AnAuditReadsEachRowOnceAndWritesNothingWhereAllIsRight "
       "ReconcilerNodeTest.S29S32AnotherZonePlansServicesWithHintsAgain"},
      {338,
       "ReconcilerTest.AReplacedEndpointCostsTwoElements "
       "ReconcilerTest.WithNothingToWriteTheKernelIsNotAsked"},
      {339,
       "ReconcilerTest.AReplacedEndpointCostsTwoElements "
       "ReconcilerTest.OneEndpointMoreCostsThreeElements"},
      {340,
       "ReconcilerTest.ARejectedBatchLeavesTheAppliedViewAsItWas "
       "ReconcilerTest.TheLimitCutsBetweenServices"},
      {343,
       "ReconcilerNodeTest.S29S32AnotherZonePlansServicesWithHintsAgain "
       "StoreTest.S29_AChangedZoneIsAChangeOfTheNode"},
      {348,
       "LoopMetricsTest.S273_TheStartAndEachBatchAreNoted "
       "SyncClockTest.S251_TheOldestChangeCounts"},
      {349, "PinnedFlows.Row/S164_*_RangesAreNotForNodePorts"},
      {350, "ConvertSliceTest.S20_APortWithoutNumberLeavesTheOthers"},
      {351, "AffinityTest.S122_OneEndpointForAllAddressesOfAPort"},
      {352, "EndpointsTest.S26_WhichOfTwoDuplicatesCounts"},
      {353, "ConstancyTest.AThousandChangesLeaveTheRulesetAsItWas"},
      {354, "DecisionTest.S102_AnExternalIpOfTheNodeWithoutEndpointsIsRejected"},
      {355, "LoopRepairTest.S259HealthChecksAreReportedWhenTheyChangeAndNotOtherwise"},
      {357,
       "NodeAddressTest.S109_TheNodeObjectMovesTheNodePorts "
       "NodeAddressTest.S114_S172_AddressBlocksSayWhereNodePortsAre"},
      {359,
       "ReconcilerTest.ARejectedBatchLeavesTheAppliedViewAsItWas "
       "RejectionTest.TheOthersAreProgrammedAndItIsNamed"},
      {360,
       "DaemonOptionsTest.S64_S69_OneClusterCidrOfEachFamily "
       "ConvertNodeTest.S65_TheFirstPodCidrOfEachFamilyCounts"},
      {361, "DecisionTable.Row/S79_*_ExternalLocal"},
      {362, "CoexistenceTest.S137_S146_AFirewallThatDropsForwardedPacketsMustAllowThem"},
  };
  return tests;
}

}  // namespace svcmap::conformance
