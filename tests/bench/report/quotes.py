#!/usr/bin/python3
"""Writes the figures that pages quote from docs/benchmarks/tables.md, between the lines
"<!-- generated: benchmarks -->" and "<!-- end -->" of each page. report.py --into does the same after
a new run, and report_test.py compares. Requires only Python.

A placeholder {Sync/10000x10/load/svcmap/Median} is a cell of the section "Sync": cluster, step,
opponent and column. A pattern with * gives the range of its cells, and {up to ...} the largest."""

import fnmatch
import os
import re
import sys
import textwrap

from figures import BadInput

BEGIN, END = "<!-- generated: benchmarks -->", "<!-- end -->"
DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../docs")

QUOTES = {  # Page, relative to docs/.
    "../README.md": """
| Measurement (2 cores, Linux 6.18, 10,000 Services with 10 endpoints each) | svcmap, complete | kube-proxy's nftables rules, loading only |
| --- | ---: | ---: |
| First sync | {Sync/10000x10/load/svcmap/Median} | {Sync/10000x10/load/nftables/Median} |
| Median time to replace one endpoint | {Change/10000x10/replace/svcmap/Median} | {Change/10000x10/replace/nftables/Median} |
| The same with 100,000 Services | {Change/100000x10/replace/svcmap/Median} | not measured: the rules of 30,000 Services did not load within 60 s |
| First sync of 44,000 Services with 1 endpoint each | {Sync/44000x1/load/svcmap/Median} | did not load within 60 s; rules of kube-proxy 1.37: {Sync/44000x1/load/nftables-single/Median} |
| Time during which new connections fail after `nft flush ruleset` | {Repair/10000x10/FlushedRuleset-running/svcmap/Median} | until the next failed or hourly full sync of kube-proxy (not measured) |
| CPU at 1,000 endpoint changes per second, of one core | {Churn/10000x10/rate-1000/svcmap/cpu share} | not measured: the rules did not load within 30 s |
| Time that a proxy adds to the first TCP round trip of a connection | {First packet/10000x10/tcp-[fml]*/svcmap/over direct} | {First packet/10000x10/tcp-[fml]*/nftables/over direct} |
""",
    "benchmarks.md": """
- **First sync** of 10000x10: svcmap {Sync/10000x10/load/svcmap/Median}, nftables rules {Sync/10000x10/load/nftables/Median}, iptables rules (legacy) {Sync/10000x10/load/iptables-legacy/Median}. svcmap loads 100000x10 in {Sync/100000x10/load/svcmap/Median}.
- **One endpoint replaced** in 10000x10: svcmap {Change/10000x10/replace/svcmap/Median}, nftables rules {Change/10000x10/replace/nftables/Median}, iptables rules {Change/10000x10/replace/iptables-legacy/Median}. With svcmap, the time is nearly independent of the number of Services: {Change/1000x10/replace/svcmap/Median} in 1000x10 and {Change/100000x10/replace/svcmap/Median} in 100000x10.
- **Memory** of svcmapd: {Sync/10000x10/load/svcmap/rss} for 10000x10 and {Sync/100000x10/load/svcmap/rss} for 100000x10. The maps in the kernel need {Sync/10000x10/load/svcmap/kernel memory} for 10000x10.
- **New connections**: in 10000x10, svcmap adds {First packet/10000x10/tcp-[fml]*/svcmap/over direct} to the first TCP round trip, and kube-proxy's nftables rules add {First packet/10000x10/tcp-[fml]*/nftables/over direct}. svcmap needs more time because it performs one more lookup and rewrites the destination of the packet twice ([parts of the rules](benchmarks/first-packet.md)). kube-proxy's iptables rules add {up to First packet/10000x10/*-[fml]*/iptables-legacy/over direct}. In 100000x10, svcmap adds {First packet/100000x10/tcp-[fml]*/svcmap/over direct}.
- **Repair**: after `nft flush ruleset` in 10000x10, new connections fail for {Repair/10000x10/FlushedRuleset-running/svcmap/Median}.

svcmap misses these [targets of `make bench`](#targets):

{missed targets}
""",
    "install.md": """
| Services x endpoints | svcmapd | Kernel maps | svcmap-kube |
| --- | --- | --- | --- |
| up to 100 x 10 | {Sync/100x10/load/svcmap/rss} | {Sync/100x10/load/svcmap/kernel memory} | 31 MiB |
| 10,000 x 10 | {Sync/10000x10/load/svcmap/rss} | {Sync/10000x10/load/svcmap/kernel memory} | 49 MiB (peak) |
| 100,000 x 10 | {Sync/100000x10/load/svcmap/rss} | see below | not measured |

At 1,000 updates per second in 10,000 x 10, svcmapd uses {Churn/10000x10/rate-1000/svcmap/cpu share} of a core ([benchmarks](benchmarks.md)).
""",
}


class Tables:
    def __init__(self, text: str):
        self.cells: dict[str, str] = {}  # "Sync/10000x10/load/svcmap/Median" -> "316 ms"
        self.missed: list[str] = []
        section, head = "", []
        for line in text.splitlines():
            if line.startswith("## "):
                section = line[3:]
            if not line.startswith("|"):
                head = []
                continue
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])]
            if not head:
                head = cells
                continue
            row = dict(zip(head, cells))
            if section == "Targets" and row["Met"] == "no":
                # Figures are rounded, so a figure beyond a limit can look equal to the limit.
                rounded = " (rounded)" if row["Required"].endswith(" " + row["Measured"]) else ""
                self.missed.append(
                    f"| {row['Target']} | {row['Required']} | {row['Measured']}{rounded} |")
            if {"Cluster", "What", "Opponent"} <= row.keys():
                place = "/".join((section, row["Cluster"], row["What"], row["Opponent"]))
                self.cells.update({f"{place}/{column}": cell for column, cell in row.items()})

    def quote(self, wanted: str) -> str:
        if wanted == "missed targets":
            if not self.missed:
                return "None."
            return "\n".join(["| Target | Required | Measured |", "| --- | ---: | ---: |", *self.missed])
        pattern = wanted.removeprefix("up to ")
        found = sorted({cell for name, cell in self.cells.items()
                        if cell and fnmatch.fnmatchcase(name, pattern)}, key=_size)
        if not found:
            raise BadInput(f"the tables have no figure {wanted}")
        low, high = found[0], found[-1]
        if pattern != wanted:
            return f"up to {high}"
        if low == high:
            return low
        unit = high.split(" ")[-1]
        return f"{low.removesuffix(' ' + unit)} to {high}"

    def fill(self, template: str) -> str:
        text = re.sub(r"\{([^}]+)\}", lambda match: self.quote(match[1]), template.strip())
        return "\n".join(
            line if line.startswith("|") else
            textwrap.fill(line, 120, subsequent_indent="  " if line.startswith("- ") else "",
                          break_long_words=False, break_on_hyphens=False)
            for line in text.splitlines())


def _size(cell: str) -> float:
    number, _, unit = cell.partition(" ")
    scale = {"us": 1e-6, "ms": 1e-3, "KiB": 2 ** 10, "MiB": 2 ** 20}.get(unit, 1)
    try:
        return float(number.replace(",", "")) * scale
    except ValueError as error:
        raise BadInput(f"'{cell}' is not a figure") from error


def between_marks(page: str, text: str) -> tuple[str, str, str]:
    """Returns the parts of `text` before, between and after the marks."""
    head, mark, rest = text.partition(BEGIN + "\n")
    middle, end, tail = rest.partition("\n" + END)
    if not mark or not end:
        raise BadInput(f"{page}: needs one line '{BEGIN}' and after it one '{END}'")
    return head + mark, middle.strip("\n"), end + tail


def write(docs: str, tables: str):
    """Writes the quotes of all pages. `tables` is the text of tables.md."""
    filled = Tables(tables)
    for name, template in QUOTES.items():
        page = os.path.normpath(os.path.join(docs, name))
        with open(page, encoding="utf-8") as file:
            head, _, tail = between_marks(page, file.read())
        with open(page, "w", encoding="utf-8") as file:
            file.write(f"{head}\n{filled.fill(template)}\n{tail}")


def main() -> int:
    try:
        with open(os.path.join(DOCS, "benchmarks/tables.md"), encoding="utf-8") as file:
            write(DOCS, file.read())
    except BadInput as error:
        print(f"quotes.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
