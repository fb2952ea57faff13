"""The nft programs of Debian's releases list svcmap's tables, and load their listing in an empty
network namespace. The directories /nft/SUITE contain the programs with their libraries."""

import os
import re
import unittest

from world import NODE_OBJECT, World, ask, note, run, service

# nft 0.9.8 aborts when it lists a map whose key contains an integer without a data type, for example
# the slot number of an endpoint.
CANNOT_LIST = {"bullseye": "concat_expr_msort_value"}
# nft 1.0.6 cannot load sets of ranges with several fields on some kernels.
CANNOT_LOAD = {"bookworm": "Operation not supported"}
SUITES = sorted(os.listdir("/nft")) if os.path.isdir("/nft") else []


def nft(suite, *argv, netns, **kwargs):
    return run("chroot", f"/nft/{suite}", "/usr/sbin/nft", *argv, netns=netns, check=False, **kwargs)


def comparable(listing):
    """Returns a listing without lines that change with traffic or with the program."""
    return re.sub(r"expires \S+|packets \d+ bytes \d+", "", listing)


class NftTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = World().__enter__()
        cls.addClassCleanup(cls.world.__exit__)
        cls.world.serve(("TCP",))
        cls.world.apply(
            NODE_OBJECT + service("web", 10) + service("empty", 13, backends=()) +
            service("local", 12, spec="externalTrafficPolicy: Local") +
            service("ranges", 14, spec='loadBalancerSourceRanges: [192.168.77.0/24, "fd00:77::/64"]') +
            service("sticky", 11, spec="sessionAffinity: ClientIP"))
        assert ask("pod", "TCP", "10.96.0.11", 80)[0] in ("b1", "b2")  # Creates an affinity element.

    def test_every_nft_lists_and_loads_the_tables(self):
        self.assertTrue(SUITES)
        for suite in SUITES:
            with self.subTest(suite=suite):
                version = nft(suite, "--version", netns="node").stdout.split()[1]
                listed = nft(suite, "list", "ruleset", netns="node")
                if suite in CANNOT_LIST:
                    # Fails if this program can list the tables, because the documents then are wrong.
                    self.assertIn(CANNOT_LIST[suite], listed.stderr)
                    note(f"nft {version} ({suite}) aborts when it lists the tables")
                    continue
                self.assertEqual(listed.returncode, 0, f"{version}: {listed.stderr}")
                self.assertIn("10.96.0.10", listed.stdout)
                run("ip", "netns", "add", "empty")
                try:
                    loaded = nft(suite, "-f", "-", netns="empty", input=listed.stdout)
                    if suite in CANNOT_LOAD and CANNOT_LOAD[suite] in loaded.stderr:
                        note(f"nft {version} ({suite}) lists the tables, but cannot load the listing")
                        continue
                    self.assertEqual(loaded.returncode, 0, f"{version}: {loaded.stderr[:2000]}")
                    again = nft(suite, "list", "ruleset", netns="empty")
                    self.assertEqual(sorted(comparable(again.stdout).split()),
                                     sorted(comparable(listed.stdout).split()), version)
                finally:
                    run("ip", "netns", "del", "empty")
                note(f"nft {version} ({suite}) lists and loads the tables")


if __name__ == "__main__":
    unittest.main(verbosity=2)
