"""Tests medians, ratios, tables and verdicts of samples. Requires only Python."""

import contextlib
import io
import json
import os
import re
import statistics
import sys
import tempfile
import unittest
import unittest.mock

import bounds
import check
import figures
import made_up_run
import quotes
import report
import tables

HERE = os.path.dirname(os.path.abspath(__file__))


def sync(opponent, number, value, metric="seconds", shape="1000x10"):
    return ("sync", shape, opponent, "load", metric, number, value)


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_of(self, *rows) -> figures.Run:
        made_up_run.write(self.folder, rows)
        return figures.read_run(self.folder)

    def written(self, name, text) -> str:
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def check(self, *stored) -> tuple[int, list[str]]:
        path = self.written("bounds.json", json.dumps({"name": "test", "bounds": stored}))
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            status = check.main([self.folder, "--bounds", path])
        return status, output.getvalue().splitlines()


class FiguresTest(FolderTest):
    def figure(self, run, opponent="svcmap", metric="seconds"):
        return run.figure("sync", "1000x10", opponent, "load", metric)

    def test_a_round_counts_once_however_many_values_it_has(self):
        rows = [sync("svcmap", 0, 1)] * 100 + [sync("svcmap", 1, 5), sync("svcmap", 2, 6)]
        figure = self.figure(self.run_of(*rows))
        self.assertEqual((figure.median, figure.low, figure.high), (5, 1, 6))

    def test_percentiles_are_of_all_values(self):
        figure = self.figure(self.run_of(*[sync("svcmap", value % 2, value)
                                           for value in range(1, 101)]))
        # Interpolated linearly between two values, as in tests/bench/record/statistics.h.
        self.assertAlmostEqual(figure.percentile(99), 99.01)
        self.assertEqual(figure.percentile(50), 50.5)
        self.assertEqual(figure.percentile(100), 100)

    def test_a_ratio_is_the_median_of_those_of_the_rounds(self):
        # The machine was busy in the second round, so both opponents were slow.
        run = self.run_of(sync("svcmap", 0, 1), sync("nftables", 0, 10),
                          sync("svcmap", 1, 8), sync("nftables", 1, 80),
                          sync("svcmap", 2, 2), sync("nftables", 2, 26))
        ratio = self.figure(run, "nftables").ratio_to(self.figure(run))
        self.assertEqual(ratio, figures.Ratio(10, ""))

    def test_a_ratio_without_a_shared_round_is_that_of_the_medians(self):
        run = self.run_of(sync("svcmap", 0, 2), sync("nftables", 1, 8))
        self.assertEqual(self.figure(run, "nftables").ratio_to(self.figure(run)).value, 4)

    def test_differences_are_those_of_the_rounds(self):
        run = self.run_of(sync("svcmap", 0, 1), sync("nftables", 0, 2),
                          sync("svcmap", 1, 8), sync("nftables", 1, 11))
        less = self.figure(run, "nftables").less(self.figure(run))
        self.assertEqual((less.median, less.low, less.high), (2, 1, 3))

    def test_nothing_is_divided_by_zero(self):
        run = self.run_of(sync("svcmap", 0, 0), sync("nftables", 0, 8))
        self.assertIsNone(self.figure(run, "nftables").ratio_to(self.figure(run)))

    def test_over_limit_is_a_lower_bound(self):
        run = self.run_of(sync("svcmap", 0, 2), sync("nftables", 0, 120, "over-limit"))
        slow = self.figure(run, "nftables")
        self.assertTrue(slow.over_limit)
        self.assertEqual(slow.ratio_to(self.figure(run)), figures.Ratio(60, ">"))
        self.assertEqual(self.figure(run).ratio_to(slow).bound, "<")
        self.assertIsNone(slow.ratio_to(slow))

    def test_one_round_of_three_over_the_limit_leaves_the_median_known(self):
        run = self.run_of(sync("nftables", 0, 90), sync("nftables", 1, 120, "over-limit"),
                          sync("nftables", 2, 100))
        figure = self.figure(run, "nftables")
        self.assertFalse(figure.over_limit)
        self.assertEqual(figure.median, 100)
        self.assertIn("over 120 s", tables.no_figures(run))

    def test_absent_figures_are_left_out(self):
        run = self.run_of(sync("svcmap", 0, -1, "cpu_seconds"), sync("svcmap", 0, 1))
        self.assertIsNone(self.figure(run, metric="cpu_seconds"))

    def test_a_difference_below_the_noise_is_no_figure_and_biases_no_median(self):
        rows = [sync("svcmap", number, value, "kernel_memory_kib")
                for number, value in enumerate((900, -40, 1100))] + [sync("svcmap", 0, 1)]
        run = self.run_of(*rows)
        self.assertIsNone(self.figure(run, metric="kernel_memory_kib"))
        self.assertIn("| 1000x10 | load | svcmap | below noise |", tables.others(run, "sync"))
        status, lines = self.check({
            "label": "kernel", "figure": "sync/1000x10/svcmap/load/kernel_memory_kib",
            "at_most": 2000})
        self.assertEqual(status, 1)
        self.assertIn("not measured (below noise: ", lines[0])

    def test_a_load_over_its_limit_is_no_slow_change_packet_or_restart(self):
        rows = [("change", "1x1", "svcmap", "replace", "seconds", 1, 0.01),
                ("change", "1x1", "nftables", "load", "over-limit", 0, 60),
                ("latency", "1x1", "svcmap", "tcp-last", "p50_us", 1, 30),
                ("latency", "1x1", "nftables", "load", "over-limit", 0, 60),
                ("restart", "1x1", "svcmap", "sigterm", "healthy_seconds", 1, 0.1),
                ("restart", "1x1", "iptables-nft", "full-sync", "seconds", 1, 9),
                ("restart", "1x1", "nftables", "full-sync", "over-limit", 0, 60)]
        run = self.run_of(*rows)
        text = tables.overview(run)
        self.assertIn("| change | 1x1 | replace | 10 ms | not loaded in 60 s |", text)
        self.assertIn("| latency | 1x1 | tcp-last | 30 us | not loaded in 60 s |", text)
        self.assertIn("| restart | 1x1 | full-sync |  | not loaded in 60 s | 9 s |", text)
        self.assertNotIn("over 60 s", text + tables.no_figures(run))
        self.assertIn("| restart | 1x1 | nftables | load | not loaded in 60 s |  |",
                      tables.no_figures(run))
        slower = {"label": "change", "figure": "change/1x1/nftables/replace/seconds",
                  "to": "change/1x1/svcmap/replace/seconds", "at_least": 2}
        self.assertIn("not measured (not loaded in 60 s: ", self.check(slower)[1][0])

    def test_a_change_over_its_limit_is_one(self):
        run = self.run_of(("change", "1x1", "svcmap", "replace", "seconds", 1, 0.01),
                          ("change", "1x1", "svcmap", "n-plus-1", "seconds", 1, 0.01),
                          ("change", "1x1", "nftables", "replace", "over-limit", 1, 60))
        text = tables.overview(run)
        self.assertIn("| replace | 10 ms | over 60 s (over 6,000x) |", text)
        self.assertIn("| n-plus-1 | 10 ms | not tried |", text)


class TablesTest(FolderTest):
    def test_everything_stands_in_the_overview(self):
        text = tables.overview(self.run_of(*made_up_run.everything()))
        self.assertIn("| Workload | Cluster | What | direct | netlink | svcmap | nftables | "
                      "iptables-legacy | iptables-nft |", text)
        self.assertIn("| sync | 10000x10 | load |  | 220 ms (0.5x) | 440 ms | 13.2 s (30x) | "
                      "4.4 s (10x) | over 120 s (over 273x) |", text)
        self.assertIn("| sync | 5000x10 | load |  | 110 ms (0.5x) | 220 ms | 6.6 s (30x) | "
                      "2.2 s (10x) | failed |", text)
        self.assertIn("| sync | 44000x1 | load |  |  | 800 ms |  |  | not tried |", text)
        self.assertIn("| restart | 10000x10 | full-sync |  |  |  | 6 s |", text)

    def test_headlines_have_spread_and_ratios(self):
        run = self.run_of(*made_up_run.everything())
        self.assertIn("| 1000x10 | load | nftables | 1.32 s | 1.2 s | 1.44 s | 3 | 30x | 60x |",
                      tables.headline(run, "sync"))
        self.assertIn("| 10000x10 | tcp-last | svcmap | 30 us | 29 us | 31 us | 59 us | 15,000 |  |"
                      " 1.15x | 4 us |",
                      tables.headline(run, "latency"))

    def test_a_hundred_samples_in_all_have_a_p99(self):
        run = self.run_of(*made_up_run.everything())
        self.assertIn("| p99 |", tables.headline(run, "change"))
        self.assertNotIn("| p99 |", tables.headline(run, "sync"))
        text = tables.headline(run, "churn")
        self.assertIn("| rate-10 | svcmap | 225 us | 204 us | 245 us |  | 30 |\n", text)
        self.assertIn("| rate-100 | svcmap | 274 us | 250 us | 299 us | 355 us | 300 |\n", text)
        self.assertNotIn("p99", tables.others(run, "churn") + tables.others(run, "latency"))

    def test_churn_has_no_ratio_of_waiting_times(self):
        run = self.run_of(*made_up_run.everything())
        self.assertNotIn("/ svcmap", tables.headline(run, "churn"))
        churn = [line for line in tables.overview(run).splitlines() if "| churn |" in line]
        self.assertEqual(len(churn), 3)
        self.assertNotIn("x)", "".join(churn))
        self.assertIn("| updates |", tables.others(run, "churn"))

    def test_a_target_that_was_not_measured_is_neither_met_nor_missed(self):
        run = self.run_of(sync("svcmap", 0, 1))
        bound = {"label": "sync", "figure": "sync/1000x10/nftables/load/seconds",
                 "to": "sync/1000x10/svcmap/load/seconds", "at_least": 2}
        self.assertIn("| sync | at least 2x | "
                      "no samples: sync/1000x10/nftables/load/seconds | not measured |",
                      tables.targets([bounds.judge(run, bound)]))


class ReportTest(FolderTest):
    def test_without_matplotlib_the_report_is_an_error_in_one_sentence(self):
        made_up_run.write(self.folder, made_up_run.everything(), {"cores": 2})
        errors = io.StringIO()
        # The import of a module whose entry is None fails, as if the module was not installed.
        with unittest.mock.patch.dict(sys.modules, {"matplotlib": None}), contextlib.redirect_stderr(errors):
            sys.modules.pop("plots", None)
            self.assertEqual(report.main([self.folder]), 2)
        self.assertEqual(errors.getvalue(), "report.py: the Python module matplotlib is missing, so no report "
                                            "was written; run: apt-get install python3-matplotlib\n")


class QuotesTest(unittest.TestCase):
    TABLES = """## Targets

| Target | Required | Measured | Met |
| --- | ---: | ---: | ---: |
| Sync | at most 1 s | 2 s | no |
| Change | at most 1 s | 1 ms | yes |

## Sync

| Cluster | What | Opponent | Median | n |
| --- | --- | --- | ---: | ---: |
| 1x1 | load | svcmap | 900 us | 3 |
| 2x1 | load | svcmap | 1.2 ms | 3 |
| 3x1 | load | svcmap | 1.1 ms | 3 |
"""

    def test_placeholders_are_cells_ranges_and_maxima(self):
        tables_md = quotes.Tables(self.TABLES)
        for template, text in (("- a {Sync/1x1/load/svcmap/Median}.", "- a 900 us."),
                               ("{Sync/*/load/svcmap/Median}", "900 us to 1.2 ms"),
                               ("{Sync/[23]x1/load/svcmap/Median}", "1.1 to 1.2 ms"),
                               ("{Sync/*/load/svcmap/n}", "3"),
                               ("{up to Sync/*/load/svcmap/Median}", "up to 1.2 ms"),
                               ("{missed targets}", "| Target | Required | Measured |\n"
                                "| --- | ---: | ---: |\n| Sync | at most 1 s | 2 s |")):
            self.assertEqual(tables_md.fill(template), text)
        with self.assertRaisesRegex(figures.BadInput, "no figure Sync/9x1"):
            tables_md.fill("{Sync/9x1/load/svcmap/Median}")

    def test_pages_quote_the_published_tables(self):
        with open(os.path.join(quotes.DOCS, "benchmarks/tables.md"), encoding="utf-8") as file:
            published = quotes.Tables(file.read())
        for name, template in quotes.QUOTES.items():
            with open(os.path.join(quotes.DOCS, name), encoding="utf-8") as file:
                _, quoted, _ = quotes.between_marks(name, file.read())
            self.assertEqual(quoted, published.fill(template),
                             f"{name}: run tests/bench/report/quotes.py")

    def test_the_table_of_the_cluster_benchmark_shows_its_samples(self):
        path = os.path.join(quotes.DOCS, "benchmarks/kube-proxy-run.jsonl")
        with open(path, encoding="utf-8") as file:
            samples = [json.loads(line) for line in file]
        for sample in samples:
            # Below 100 ms, the previous endpoints of the Service were still programmed (see the page).
            changes = [change for change in sample["change_ms"]
                       if sample["proxy"] != "kube-proxy-nftables" or change >= 100]
            sample["change_s"] = statistics.median(changes) / 1000
            sample["change_ms"] = statistics.median(changes)
        fields = {"First sync": "first_sync_s", "CPU time of the first sync": "first_sync_cpu_s",
                  "Endpoint change, median": "change_", "CPU at 50 endpoint changes per second":
                  "churn_cpu_percent", "Memory, peak": "peak_mib"}
        with open(os.path.join(quotes.DOCS, "benchmarks.md"), encoding="utf-8") as file:
            rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in file
                    if line.startswith("|")]
        found = [row for row in rows if row[0] in fields and len(row) == 4]
        self.assertEqual(len(found), len(fields))
        for title, *cells in found:
            for proxy, cell in zip(("svcmap", "kube-proxy-nftables", "kube-proxy-iptables"), cells):
                field = fields[title] + (cell.split()[-1] if title.startswith("Endpoint") else "")
                measured = [sample[field] for sample in samples if sample["proxy"] == proxy]
                for number in re.findall(r"[0-9.]+", cell):
                    half = 0.501 * 10 ** -len(number.partition(".")[2])
                    self.assertTrue(any(abs(float(number) - value) <= half for value in measured),
                                    f"{title}, {proxy}: {cell} {measured}")

    def test_the_page_shows_the_overview_of_the_tables(self):
        with open(os.path.join(quotes.DOCS, "benchmarks.md"), encoding="utf-8") as file:
            page = file.read()
        with open(os.path.join(quotes.DOCS, "benchmarks/tables.md"), encoding="utf-8") as file:
            rows = set(file.read().splitlines())
        shown = page[page.index(report.BEGIN):page.index(report.END)].splitlines()
        self.assertEqual([line for line in shown if line.startswith("|") and line not in rows], [])


class BoundsTest(FolderTest):
    FASTER = {"label": "sync", "figure": "sync/1000x10/nftables/load/seconds",
              "to": "sync/1000x10/svcmap/load/seconds", "at_least": 10,
              "summary": "sync {} faster"}

    def test_a_bound_that_is_met(self):
        self.run_of(sync("svcmap", 0, 1), sync("nftables", 0, 14))
        self.assertEqual(self.check(self.FASTER), (
            0, ["met    sync: 14x, required: at least 10x",
                "svcmap-bench test: 1 of 1 bounds met: sync 14x faster"]))

    def test_a_missed_bound_gives_1_and_is_named_last(self):
        self.run_of(sync("svcmap", 0, 1), sync("nftables", 0, 9))
        status, lines = self.check(self.FASTER)
        self.assertEqual(status, 1)
        self.assertEqual(lines[-1], "svcmap-bench test: 0 of 1 bounds met, MISSED: sync 9x "
                                    "(required: at least 10x)")

    def test_a_missing_figure_is_a_miss(self):
        self.run_of(sync("svcmap", 0, 1))
        status, lines = self.check(self.FASTER)
        self.assertEqual(status, 1)
        self.assertEqual(lines, [
            "MISSED sync: not measured (no samples: sync/1000x10/nftables/load/seconds), "
            "required: at least 10x",
            "svcmap-bench test: 0 of 1 bounds met, MISSED: sync not measured"])

    def test_a_failed_one_is_a_miss_and_says_so(self):
        self.run_of(sync("svcmap", 0, 1), sync("nftables", 0, 0, "failed"))
        status, lines = self.check(self.FASTER)
        self.assertEqual(status, 1)
        self.assertIn("not measured (failed: ", lines[0])

    def test_an_opponent_over_its_limit_is_at_least_so_slow(self):
        self.run_of(sync("svcmap", 0, 1), sync("nftables", 0, 120, "over-limit"))
        self.assertEqual(self.check(self.FASTER)[0], 0)
        self.run_of(sync("svcmap", 0, 20), sync("nftables", 0, 120, "over-limit"))
        self.assertEqual(self.check(self.FASTER)[0], 1)  # The true ratio is unknown.

    def test_svcmap_over_the_limit_never_meets_a_bound(self):
        over = [sync("svcmap", 0, 2, "over-limit"), sync("nftables", 0, 100)]
        at_most = {"label": "sync", "figure": "sync/1000x10/svcmap/load/seconds", "at_most": 5}
        self.run_of(*over)
        self.assertEqual(self.check(self.FASTER)[0], 1)
        self.assertEqual(self.check(at_most)[0], 1)

    def test_differences_percentiles_and_absolute_figures(self):
        self.run_of(*made_up_run.everything())
        latency = {"label": "last", "figure": "latency/10000x10/svcmap/tcp-last/p50_us",
                   "minus": "latency/10000x10/direct/tcp-last/p50_us"}
        self.assertEqual(self.check({**latency, "at_most": 4})[0], 0)
        self.assertEqual(self.check({**latency, "at_most": 3.9})[0], 1)
        tail = {"label": "tail", "figure": "change/1000x10/svcmap/replace/seconds@p99"}
        self.assertEqual(self.check({**tail, "at_most": 0.000286})[0], 0)
        self.assertEqual(self.check({**tail, "at_most": 0.000280})[0], 1)
        self.run_of(*[sync("svcmap", 0, 1)] * 99)
        few = {"label": "few", "figure": "sync/1000x10/svcmap/load/seconds@p99", "at_most": 2}
        self.assertIn("not measured (fewer than 100 samples: ", self.check(few)[1][0])

    def test_the_stored_ones_can_be_read(self):
        for name in ("bounds.json", "targets.json"):
            with self.subTest(name=name):
                self.assertTrue(bounds.read_bounds(os.path.join(HERE, name))[1])


if __name__ == "__main__":
    unittest.main()
