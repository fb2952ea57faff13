#!/usr/bin/python3
"""Writes the table of tested kernels in docs/install.md from results.json, the stored results of
`make test-kernels`. `run.py --store` updates results.json and calls this program."""

import json
import pathlib

import groups as group_table

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
PAGE = HERE.parents[1] / "docs/install.md"
BEGIN, END = "<!-- kernels -->", "<!-- end of kernels -->"


def cell(record):
    if record is None:
        return "not run"
    if record["result"] != "passed":
        failed = len(record.get("failures", []))
        return f"**{failed} failed**, {record.get('passed', 0)} passed" if failed else "**failed**"
    if record.get("not_run"):
        return f"{record['passed']} of {record['passed'] + record['not_run']} tests"
    return f"{record['passed']} tests" if record.get("passed") else "passed"


def table(document):
    """Returns the Markdown table with one row per group of tests and one column per kernel."""
    kernels = document["kernels"].values()
    names = [g for g in group_table.GROUPS if any(g.name in k["groups"] for k in kernels)]
    rows = [["Tests", *("Linux " + k["version"].split("-")[0] for k in kernels)],
            ["---"] * (len(kernels) + 1),
            ["Debian package", *(f"{k['version']} ({k['suite']})" for k in kernels)]]
    rows += [[g.title, *(cell(k["groups"].get(g.name)) for k in kernels)] for g in names]
    rows.append(["Date", *(k["date"] for k in kernels)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def rendered(page, document):
    """Returns the text of the page with the table of `document`."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table(document)}\n{END}{after}"


def merge(stored, results):
    """Adds results to stored results. The results of a group replace its previous results."""
    for name, kernel in results["kernels"].items():
        if not kernel.get("release"):
            continue
        old = stored["kernels"].get(name, {})
        same = old.get("version") == kernel["version"]
        groups = {**(old.get("groups", {}) if same else {}), **kernel["groups"]}
        seconds = kernel["seconds"]
        stored["kernels"][name] = {**kernel, "date": results["date"], "groups": groups,
                                   "seconds": seconds, "accelerator": results["accelerator"]}
    return stored


def store(results):
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"kernels": {}}
    document = merge(stored, results)
    order = [line.split()[0] for line in (HERE / "kernels.txt").read_text().splitlines()
             if line.strip() and not line.startswith("#")]
    document["kernels"] = {n: document["kernels"][n] for n in order if n in document["kernels"]}
    RESULTS.write_text(json.dumps(document, indent=1, sort_keys=False) + "\n")
    PAGE.write_text(rendered(PAGE.read_text(), document))


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text(), json.loads(RESULTS.read_text())))
