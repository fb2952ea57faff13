"""Tests the complete report.py with its plots. Only `make bench` runs it: it needs matplotlib."""

import contextlib
import io
import os
import re
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

import made_up_run
import report

ALL_PLOTS = {"sync.svg", "memory.svg", "change-kinds.svg", "change-size.svg", "churn.svg",
             "first-packet.svg", "first-packet-size.svg", "connections.svg"}


class ReportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def report(self, rows, *arguments, name="run", machine=None) -> tuple[int, str]:
        folder = os.path.join(self.folder, name)
        os.makedirs(folder, exist_ok=True)
        made_up_run.write(folder, rows, machine)
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            status = report.main([folder, *arguments])
        return status, output.getvalue()

    def read(self, *path) -> str:
        with open(os.path.join(self.folder, *path), encoding="utf-8") as file:
            return file.read()

    def files(self, *path) -> set:
        return set(os.listdir(os.path.join(self.folder, *path)))

    def test_all_plots_are_small_and_valid(self):
        self.assertEqual(self.report(made_up_run.everything())[0], 0)
        plots = {name for name in self.files("run") if name.endswith(".svg")}
        self.assertEqual(plots, ALL_PLOTS)
        for name in plots:
            text = self.read("run", name)
            self.assertEqual(ElementTree.fromstring(text).tag, "{http://www.w3.org/2000/svg}svg")
            self.assertLess(len(text), 100_000, name)
            self.assertIn(f"]({name})", self.read("run", "report.md"))

    def test_plots_can_be_read_at_the_width_of_a_page(self):
        self.report(made_up_run.everything())
        for name in ALL_PLOTS:
            text = self.read("run", name)
            # Points. A page of documentation shows at least 620 points (826 pixels).
            self.assertLessEqual(float(re.search(r'viewBox="0 0 ([0-9.]+)', text)[1]), 620, name)
            sizes = [float(size) for size in re.findall(r"font: (?:\w+ )*([0-9.]+)px", text)]
            self.assertGreaterEqual(min(sizes), 9, name)
            legend = ElementTree.fromstring(text).find(".//*[@id='legend_1']")
            labels = [label.text for label in legend.iter("{http://www.w3.org/2000/svg}text")]
            self.assertEqual(labels[0], "svcmap", name)
            self.assertIn("lowest and highest round", labels)
            self.assertEqual("over the time limit:" in labels, "over-limit" in text, name)

    def test_each_marker_has_one_meaning(self):
        import plots
        styles = [*plots.STYLES.values(), plots.OTHER_STYLE]
        for part in (0, 1):
            self.assertEqual(len({style[part] for style in styles}), len(styles))

    def test_equal_samples_give_equal_bytes(self):
        for name in ("one", "two"):
            self.report(made_up_run.everything(), name=name, machine={"cores": 2})
        for name in ALL_PLOTS | {"report.md"}:
            self.assertEqual(self.read("one", name), self.read("two", name), name)

    def test_what_was_not_measured_is_said(self):
        rows = [("sync", "1000x10", "svcmap", "load", "seconds", 0, 0.05)]
        self.assertEqual(self.report(rows)[0], 0)
        text = self.read("run", "report.md")
        self.assertIn("This run did not include the workload `repair`.", text)
        self.assertIn("machine.json is missing", text)
        self.assertIn("not measured", text)
        self.assertEqual(self.files("run"), {"samples.csv", "report.md", "sync.svg"})

    def test_the_commands_of_the_run_replace_that_of_its_last_part(self):
        os.makedirs(os.path.join(self.folder, "run"))
        with open(os.path.join(self.folder, "run", "commands.txt"), "w", encoding="utf-8") as file:
            file.write("svcmap-bench sync\nsvcmap-bench change\n")
        self.report([], machine={"cores": 2, "command_line": ["svcmap-bench", "change"]})
        text = self.read("run", "report.md")
        self.assertIn("\n    svcmap-bench sync\n    svcmap-bench change\n", text)
        self.assertIn("| cores | 2 |", text)
        self.assertNotIn("command_line", text)

    def test_a_run_without_figures_has_a_report(self):
        rows = [("sync", "1000x10", "svcmap", "load", "failed", 0, 0),
                ("latency", "1000x10", "svcmap", "load", "over-limit", 0, 9)]
        self.assertEqual(self.report(rows)[0], 0)
        self.assertIn("| latency | 1000x10 | svcmap | load | not loaded in 9 s |  |",
                      self.read("run", "report.md"))

    def test_a_page_is_filled_between_its_marks(self):
        page = os.path.join(self.folder, "page.md")
        with open(page, "w", encoding="utf-8") as file:
            file.write("# Page\n\n<!-- run -->\nof last year\n<!-- end of run -->\n\ntail\n")
        os.makedirs(os.path.join(self.folder, "page"))
        with open(os.path.join(self.folder, "page", "gone.svg"), "w", encoding="utf-8"):
            pass
        self.assertEqual(self.report(made_up_run.everything(), "--into", page)[0], 0)
        text = self.read("page.md")
        self.assertTrue(text.startswith("# Page\n\n<!-- run -->\n\n### Overview\n"), text[:80])
        self.assertTrue(text.endswith("\n<!-- end of run -->\n\ntail\n"), text[-80:])
        self.assertNotIn("of last year", text)
        self.assertIn("](page/sync.svg)", text)
        self.assertEqual(self.files("page"), ALL_PLOTS | {"tables.md"})
        tables = self.read("page", "tables.md")
        self.assertTrue(tables.startswith("# Benchmark tables\n"), tables[:80])
        self.assertIn("](../page.md)", tables)
        self.assertIn("](sync.svg)", tables)
        self.assertIn("| change | 10000x10 | new-service |", tables)
        self.assertNotIn("| change | 10000x10 | new-service |", text)

    def test_a_page_without_marks_is_left_alone(self):
        page = os.path.join(self.folder, "page.md")
        with open(page, "w", encoding="utf-8") as file:
            file.write("# Page\n")
        status, output = self.report(made_up_run.everything(), "--into", page)
        self.assertEqual(status, 2)
        self.assertIn("page.md: needs one line '<!-- run -->'", output)
        self.assertEqual(self.read("page.md"), "# Page\n")


if __name__ == "__main__":
    unittest.main()
