#include "tests/conformance/tables.h"

namespace svcmap::conformance {

const std::map<int, std::string_view>& OtherTests() {
  static const std::map<int, std::string_view> tests = {
      {141,
       "MissingFeatureTest.Expressions "
       "MissingFeatureTest.SetsAndChains "
       "PreflightTest.NothingLacksAndNothingStays"},
      {144,
       "DecisionTable.Row/S82_*_OtherPortOfAClusterIp "
       "DecisionTable.Row/S83_S162_*_UnallocatedClusterIp"},
      {149, "DamageTest.S345_IsRepaired"},
      {151, "MarkTest.S99_TheMarkBitIsClearedAndTheOthersSurvive"},
      {215, "UniformityTest.S38_EachOfNEndpointsGetsItsShare"},
      {216, "ExternalTest.S94_AnExternalIpThatIsTheNodesWinsOnItsPort"},
      {217,
       "DecisionTable.Row/S76_S82_S89_S104_S180_*_InternalLocalWithRemoteEndpointsOnly "
       "DecisionTable.Row/S77_S81_S82_S152_S153_S154_*_WithoutEndpoints"},
      {218,
       "DecisionTable.Row/S80_S89_*_ExternalLocalWithRemoteEndpointsOnly "
       "DecisionTable.Row/S77_S81_S82_S152_S153_S154_*_WithoutEndpoints"},
      {219, "SourceRanges.Row/S117_S163_S164_*_NotForOtherAddressesAndPorts"},
      {221, "MarkTest.S99_TheMarkBitIsClearedAndTheOthersSurvive"},
      {222, "MarkTest.S99_TheMarkBitIsClearedAndTheOthersSurvive"},
      {226, "CoexistenceTest.S137_S145_S147_S150_NothingIsDecidedThatIsNotAboutServices"},
      {227, "SourceRanges.Row/S87_S117_*_EverySource"},
      {228, "DamageTest.S345_IsRepaired"},
      {229, "DecisionTable.Row/S74_S78_S155_S169_S170_S175_S176_S177_S190_*_PolicyCluster"},
      {230, "DecisionTable.Row/S75_S89_S178_S179_*_InternalLocal"},
      {231, "DecisionTable.Row/S79_S89_S173_S174_*_ExternalLocal"},
      {232,
       "SourceRanges.Row/S165_S166_S167_*_TwoAddresses "
       "SourceRangesTest.S118_S168_TheLoadBalancerIpAsSource"},
      {233,
       "DecisionTable.Row/S97_S156_*_Hairpin "
       "AffinityTest.S122_OneEndpointForAllAddressesOfAPort"},
      {234, "AffinityTimeTest.S124_NewConnectionsRestartTheTimer"},
      {236, "SavedStateTest.S330_CleanUpRemovesOurTwoTablesAndNoOthers"},
      {322, "NodeAddressTest.S110_WithoutANodeObjectAllAddressesTakeNodePortsUntilItComes"},
      {323, "ReconcilerNodeTest.S65TheNodesPodCidrIsFollowed"},
      {324, "DecisionTable.Row/S74_S78_S155_S169_S170_S175_S176_S177_S190_*_PolicyCluster"},
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
      {349, "SourceRanges.Row/S117_S163_S164_*_NotForOtherAddressesAndPorts"},
      {350, "ConvertSliceTest.S20_APortWithoutNumberLeavesTheOthers"},
      {351, "AffinityTest.S122_OneEndpointForAllAddressesOfAPort"},
      {352, "EndpointsTest.S26_WhichOfTwoDuplicatesCounts"},
      {354, "DecisionTable.Row/S102_*_ExternalIpOfTheNodeWithoutEndpoints"},
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
      {361, "DecisionTable.Row/S79_S89_S173_S174_*_ExternalLocal"},
      {362, "CoexistenceTest.S137_S146_AFirewallThatDropsForwardedPacketsMustAllowThem"},
  };
  return tests;
}

}  // namespace svcmap::conformance
