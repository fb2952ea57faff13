"""Groups of tests that run in each kernel. With --full, the programs run all their tests, which takes
hours with emulation. Otherwise, they run the tests that depend most on the kernel."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Group:
    name: str
    title: str
    limit: int  # Seconds, with emulation.
    command: str
    smoke: bool = False
    processors: int = 1  # Number of emulated processors.
    full: str = ""  # Command with --full, if it differs.
    on_request: bool = False  # Runs only if it is named.


def gtest(program, only="*", skip="", environment=""):
    return (f"{environment} bash /source/tests/kernels/guest/gtest.sh "
            f"$SECONDS_FOR_TESTS {program} '{only}{'-' + skip if skip else ''}'")


def python(name):
    return f"PYTHONPATH=/source/tests/kernels/guest python3 -B -m unittest -v {name}_test"


# Some other contract tests validate the complete table hundreds of times, which takes minutes on old
# kernels. Tests of the fake kernel do not depend on the kernel.
CONTRACT = ("ElementContract*", "BatchContract*", "TableContract*", "RangeContract*",
            "SeveralFieldsContract*", "FlowTableContract*", "ForeignChangeTest*",
            "SessionFaultsTest*", "WatcherFaultsTest*", "DumpConsistencyTest*")
CONTRACT_SKIPPED = "*Fake*:*AHundredThousandElements*:*ThousandsOfRanges*"
PACKET = ("ClusterIpTest*", "StaleFlowsTest*", "UdpCyclingTest*", "SourceRangesTest*", "CountersTest*",
          "LifecycleTest*", "ListingTest*", "HookTest*", "NodeAddressTest*", "AffinityTimeTest*", "PingTest*",
          "TcpResetTest*", "EndpointPickTest*", "PortRangeTest*", "UdpPortRangeTest*")
RECOVERY = ("UnchangedRestartTest*", "SavedStateTest*", "ForeignChangeTest*", "CrashTest*")
LOSS = ("ChangeLossTest*", "RestartLossTest*", "LossCountTest*")
# A kernel with a rule that traces packets evaluates rules with other code (a static key). If the first such
# rule is added or the last one is deleted while another emulated processor evaluates rules, qemu 7.2 can
# execute the same instruction forever. This rule stays, so the code does not change.
LOSS_ENVIRONMENT = ("nft add table ip traced && nft add chain ip traced unused && "
                    "nft add rule ip traced unused meta nftrace set 0 && SVCMAP_TEST_REPEAT=0")
# The example controller in Python needs gRPC, which the guest does not have.
PACKET_SKIPPED = "Examples/*"


def patterns(names):
    """Returns a gtest filter for test suites with and without parameters."""
    return ":".join(f"{name}:*/{name}" for name in names)


GROUPS = (
    Group("preflight", "preflight", 120,
          "/svcmap/bin/svcmapd --init-only --node-name=n1 && echo note: preflight passed", smoke=True),
    Group("demo", "demo", 180, "/svcmap/bin/svcmap-demo", smoke=True),
    Group("nft", "nft of Debian's releases", 300, python("nft")),
    Group("flowtable", "flowtable of another program", 300, python("flowtable")),
    Group("ranges", "4,096 source ranges", 300, python("ranges")),
    Group("timers", "32 affinity timeouts", 300, python("timers")),
    Group("contract", "contract tests", 900,
          gtest("contract_test", patterns(CONTRACT), CONTRACT_SKIPPED),
          full=gtest("contract_test")),
    Group("packet", "packet tests", 900, gtest("packet_test", patterns(PACKET), PACKET_SKIPPED),
          full=gtest("packet_test", skip=PACKET_SKIPPED)),
    Group("differential", "differential test", 600,
          gtest("differential_test", environment="SVCMAP_SCENARIOS=3"),
          full=gtest("differential_test")),
    Group("recovery", "recovery", 600,
          gtest("recovery_test", patterns(RECOVERY), environment="SVCMAP_CRASHES=10"),
          full=gtest("recovery_test")),
    # Packets can be lost only while another processor commits. A loss is not repeatable, so a failed test
    # is not repeated.
    Group("loss", "packet loss, with two processors", 900,
          gtest("loss_test", patterns(LOSS), environment=LOSS_ENVIRONMENT), processors=2,
          full=gtest("loss_test", environment=LOSS_ENVIRONMENT)),
    # This group loads the SCTP module, whose associations keep it loaded for minutes. The tests of other
    # groups answer SCTP packets in raw sockets, and the module would answer them as well.
    Group("services", "Services with TCP, UDP and SCTP sockets", 300, python("services"), smoke=True),
    Group("bench", "benchmark with IPVS", 1800, "bash /source/tests/kernels/guest/bench.sh",
          on_request=True),
    Group("modules", "kernel modules", 900, python("modules")),
)
