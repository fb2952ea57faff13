"""Writes one line for each spec of a Ginkgo report that ran: e2e_results.py REPORT.json RESULTS.tsv.

Columns: result, name, seconds, and the first line of a failure. Prints the number of specs by result.
"""

import collections
import json
import sys


def main():
    report, results = sys.argv[1:]
    with open(report, encoding="utf-8") as file:
        suites = json.load(file)
    lines, counts = [], collections.Counter()
    for suite in suites:
        for spec in suite["SpecReports"] or []:
            if spec["LeafNodeType"] != "It":
                continue
            name = " ".join([*(spec["ContainerHierarchyTexts"] or []), spec["LeafNodeText"]])
            failure = spec.get("Failure", {}).get("Message", "").strip().split("\n")[0]
            if spec["State"] == "skipped" and not failure:
                continue  # Not selected.
            counts[spec["State"]] += 1
            lines.append((spec["State"], name, f"{spec['RunTime'] / 1e9:.0f}", failure.replace("\t", " ")))
    with open(results, "w", encoding="utf-8") as file:
        for line in sorted(lines, key=lambda line: line[1]):
            file.write("\t".join(line) + "\n")
    print(", ".join(f"{count} {state}" for state, count in sorted(counts.items())))
    for state, name, _, failure in lines:
        if state not in ("passed", "skipped"):
            print(f"{state}: {name}: {failure}")


main()
