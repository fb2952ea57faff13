"""Tests of the kernel tests without virtual machines, and of the table in docs/install.md."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import groups
import machine
import matrix
import run

REPORT = """@@ booted 6.1.0-56-cloud-amd64 7.86
@@ begin preflight
note: preflight passed

@@ end preflight 0 6327
@@ begin packet
[  FAILED  ] A.B
@@ test passed 12 A.C
@@ test failed 3 A.B
@@ test skipped 0 A.D
@@ test not-run 0 B.E

@@ end packet 1 1500
@@ begin loss
"""


class MachineTest(unittest.TestCase):
    def test_an_interrupted_report_contains_the_finished_groups(self):
        ran = machine.parse_report(REPORT)
        self.assertEqual((ran.release, ran.boot_seconds), ("6.1.0-56-cloud-amd64", 7.86))
        self.assertEqual(list(ran.groups), ["preflight", "packet"])
        self.assertFalse(ran.finished)
        self.assertEqual(ran.groups["packet"].tests,
                         [("passed", "A.C"), ("failed", "A.B"), ("skipped", "A.D"), ("not-run", "B.E")])
        self.assertEqual(ran.groups["packet"].log, "[  FAILED  ] A.B")
        self.assertTrue(machine.parse_report(REPORT + "@@ done\n").finished)

    def test_kernel_warnings_are_listed_once(self):
        console = ("[ 1.0] BUG: soft lockup - CPU#0\n[ 2.0] guest: demo\n"
                   "[ 3.0] BUG: soft lockup - CPU#0\n[ 4.0] WARNING: CPU: 0 at x.c:1\n")
        self.assertEqual(machine.kernel_warnings(console),
                         ["BUG: soft lockup - CPU#0", "WARNING: CPU: 0 at x.c:1"])
        self.assertEqual(run.bad_warnings(machine.kernel_warnings(console)), ["WARNING: CPU: 0 at x.c:1"])

    def test_crashes_on_the_console_are_warnings(self):
        for line in ("kernel BUG at mm/slub.c:1!", "invalid opcode: 0000 [#1]", "Out of memory: Killed process 7",
                     "svcmapd[7]: segfault at 0 ip 1", "unregister_netdevice: waiting for lo to become free"):
            self.assertEqual(len(run.bad_warnings(machine.kernel_warnings(f"[ 1.0] {line}\n"))), 1, line)


class OutcomeTest(unittest.TestCase):
    def outcome(self, name):
        group = next(g for g in groups.GROUPS if g.name == name)
        return run.outcome(group, machine.parse_report(REPORT).groups.get(name))

    def test_outcomes(self):
        self.assertEqual(self.outcome("preflight"), {"result": "passed", "seconds": 6.3,
                                                     "notes": ["preflight passed"]})
        packet = self.outcome("packet")
        self.assertEqual((packet["result"], packet["passed"], packet["failures"], packet["not_run"]),
                         ("failed", 1, ["A.B", "A.D"], 1))
        self.assertEqual(self.outcome("loss")["result"], "failed")

    def contract(self, log):
        group = next(g for g in groups.GROUPS if g.name == "contract")
        tests = [("passed", "All/C.A/IPv4"), ("skipped", "All/C.B/IPv4"), ("skipped", "All/C.B/IPv6")]
        return run.outcome(group, machine.GroupRun(0, 60.0, log, tests))

    def test_a_test_that_is_not_applicable_has_a_reason(self):
        record = self.contract("note: not applicable: All/C.B/IPv4: the kernel accepts it\n"
                               "note: not applicable: All/C.B/IPv6: the kernel accepts it\n")
        self.assertEqual(record, {"result": "passed", "seconds": 60.0, "passed": 1, "failed": 0,
                                  "not_applicable": {"All/C.B/IPv4": "the kernel accepts it",
                                                     "All/C.B/IPv6": "the kernel accepts it"}})
        self.assertEqual(run.cell(record), "ok 1 (2 n/a)")
        self.assertEqual(matrix.cell(record), "1 test, 2 not applicable")
        document = {"kernels": {"x": {"version": "5.10.1-1", "groups": {"contract": record}}}}
        self.assertIn("- contract tests on Linux 5.10.1, `C.B` (2 tests):\n  the kernel accepts it\n",
                      matrix.reasons(document))

    def test_a_skipped_test_without_a_reason_has_failed(self):
        record = self.contract("note: not applicable: All/C.B/IPv4: the kernel accepts it\n")
        self.assertEqual((record["result"], record["failures"]), ("failed", ["All/C.B/IPv6"]))

    def test_a_group_without_tests_has_failed(self):
        """A filter that matches no test must not count as passed."""
        ran = machine.GroupRun(0, 1.0, "", [])
        group = next(g for g in groups.GROUPS if g.name == "packet")
        self.assertEqual(run.outcome(group, ran)["result"], "failed")


    def test_a_group_in_which_nothing_ran_has_failed(self):
        python = next(g for g in groups.GROUPS if g.name == "services")
        program = next(g for g in groups.GROUPS if g.name == "packet")
        for group, log, tests, result in (
                (python, "Ran 3 tests in 1.0s\nOK", [], "passed"),
                (python, "Ran 0 tests in 0.0s\nOK", [], "failed"),
                (python, "Ran 3 tests in 1.0s\nOK (skipped=1)", [], "failed"),
                (python, "", [], "failed"),
                (program, "", [("not-run", "A.B")], "failed"),
                (program, "", [("passed", "A.B"), ("crashed", "A.C")], "failed")):
            with self.subTest(log=log, tests=tests):
                self.assertEqual(run.outcome(group, machine.GroupRun(0, 1.0, log, tests))["result"], result)


# A test program with the suites A and B. The environment variable FAULT selects how B fails.
PROGRAM = """#!/bin/bash
if [[ $1 == --gtest_list_tests ]]; then printf 'A.\\n  One\\nB.\\n  Two\\n  DISABLED_Three\\n'; exit; fi
suite=${1#--gtest_filter=}
[[ $suite != A* ]] || { echo "passed 1 A.One" >"$SVCMAP_TEST_RESULTS"; exit; }
touch "$SVCMAP_TEST_RESULTS.ran"
case $FAULT in
  none) echo "passed 1 B.Two" >"$SVCMAP_TEST_RESULTS" ;;
  crash) kill -SEGV $$ ;;
  crash-after) echo "passed 1 B.Two" >"$SVCMAP_TEST_RESULTS"; kill -SEGV $$ ;;
  teardown) echo "passed 1 B.Two" >"$SVCMAP_TEST_RESULTS"; exit 1 ;;
  no-results) exit 0 ;;
  once) [[ -e $SVCMAP_TEST_RESULTS.once ]] && r=passed || r=failed
        touch "$SVCMAP_TEST_RESULTS.once"; echo "$r 1 B.Two" >"$SVCMAP_TEST_RESULTS"; [[ $r == passed ]] ;;
  always) echo "failed 1 B.Two" >"$SVCMAP_TEST_RESULTS"; exit 1 ;;
  lost) : >"$SVCMAP_TEST_RESULTS"; echo "passed 1 B.Other" >"$SVCMAP_TEST_RESULTS" ;;
esac
"""


class GtestScriptTest(unittest.TestCase):
    def run_with(self, fault):
        """Returns the exit status and the results of guest/gtest.sh."""
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "program"
            program.write_text(PROGRAM)
            program.chmod(0o755)
            results = pathlib.Path(folder) / "results"
            ended = subprocess.run(
                ["bash", run.HERE / "guest/gtest.sh", "60", "program", "*"], check=False, capture_output=True,
                env={**os.environ, "SVCMAP_TEST_PROGRAMS": folder, "SVCMAP_TEST_RESULTS": str(results),
                     "FAULT": fault})
            return ended.returncode, results.read_text().splitlines()

    def test_a_suite_that_passes(self):
        self.assertEqual(self.run_with("none"), (0, ["passed 1 A.One", "passed 1 B.Two"]))
        self.assertEqual(self.run_with("once"), (0, ["passed 1 A.One", "passed 1 B.Two"]))

    def test_each_fault_fails(self):
        for fault in ("crash", "crash-after", "teardown", "no-results", "always", "lost"):
            with self.subTest(fault=fault):
                status, results = self.run_with(fault)
                self.assertEqual(status, 1)
                self.assertTrue(any(line.startswith("failed ") for line in results), results)


class TableTest(unittest.TestCase):
    def test_a_new_result_keeps_the_dates_of_the_other_groups(self):
        stored = {"kernels": {"x": {"version": "5.10.1-1", "date": "2026-01-01",
                                    "groups": {"demo": {"seconds": 30}, "nft": {"seconds": 90}}}}}
        new = {"date": "2026-01-02", "accelerator": "tcg", "kernels": {"x": {
            "version": "5.10.1-1", "release": "5.10.0", "seconds": 9, "groups": {"nft": {"seconds": 30}}}}}
        kernel = matrix.merge(stored, new)["kernels"]["x"]
        self.assertEqual((matrix.dates(kernel), matrix.minutes(kernel)),
                         ("2026-01-01 to 2026-01-02", "1"))

    def test_the_page_contains_the_stored_results(self):
        page = matrix.PAGE.read_text()
        self.assertEqual(page, matrix.rendered(page, json.loads(matrix.RESULTS.read_text())),
                         "run tests/kernels/matrix.py")

    def test_a_failure_is_visible(self):
        record = {"result": "failed", "passed": 3, "failures": ["A.B"]}
        self.assertEqual(matrix.cell(record), "**1 failed**, 3 passed")

    def test_a_reduced_sample_is_visible(self):
        record = {"result": "passed", "passed": 90, "failed": 0, "not_run": 39}
        self.assertEqual(matrix.cell(record), "90 of 129 tests")
        self.assertEqual(run.cell(record), "ok 90/129")

    def test_every_kernel_is_readable(self):
        kernels = run.read_kernels(run.HERE / "kernels.txt")
        self.assertTrue(any(default for *_, default in kernels))
        for _, _, pattern, nft, _ in kernels:
            re.compile(pattern)
            self.assertIn(nft, ("-", *run.NFT_SUITES))


if __name__ == "__main__":
    unittest.main()
