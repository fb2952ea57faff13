"""Writes a complete report with its plots. Only `make bench` runs it, before it measures: it needs matplotlib."""

import glob
import os
import re
import tempfile
import unittest

import made_up_run
import plots
import report


class ReportTest(unittest.TestCase):
    def test_a_page_gets_the_summary_the_tables_and_all_plots(self):
        with tempfile.TemporaryDirectory() as folder:
            made_up_run.write(folder, made_up_run.everything(), {"cores": 2})
            page = os.path.join(folder, "page.md")
            with open(page, "w", encoding="utf-8") as file:
                file.write(f"# Page\n\n{report.BEGIN}\nof last year\n{report.END}\n\ntail\n")
            self.assertEqual(report.main([folder, "--into", page]), 0)
            with open(page, encoding="utf-8") as file:
                text = file.read()
            self.assertTrue(text.startswith(f"# Page\n\n{report.BEGIN}\n\n### Overview\n"), text[:80])
            self.assertTrue(text.endswith(f"\n{report.END}\n\ntail\n"), text[-80:])
            self.assertEqual(set(os.listdir(os.path.join(folder, "page"))), {
                "sync.svg", "memory.svg", "change-kinds.svg", "change-size.svg", "churn.svg", "first-packet.svg",
                "first-packet-size.svg", "connections.svg", "tables.md"})
            for plot in glob.glob(os.path.join(folder, "page", "*.svg")):
                with open(plot, encoding="utf-8") as file:
                    texts = re.findall(r"font: (?:700 )?([0-9.]+)px[^>]*>([^<]*)<", file.read())
                # The files are shown in their own size, in which 1 px of the SVG file is 1 point.
                self.assertGreaterEqual(min(float(size) for size, _ in texts), 9, plot)
                opponents = [text for _, text in texts if text.split(" (")[0] in plots.STYLES]
                self.assertEqual(opponents[0], "svcmap", plot)


if __name__ == "__main__":
    unittest.main()
