#!/usr/bin/python3
"""Writes the table of tested kernels in docs/install.md from results.json, the stored results of
`make test-kernels`. With the result file of a run as argument, first adds these results."""

import json
import pathlib
import sys

import groups as group_table

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
PAGE = HERE.parents[1] / "docs/install.md"
BEGIN, END = "<!-- kernels -->", "<!-- end of kernels -->"


def cell(record):
    if record is None:
        return "not run"
    not_applicable = len(record.get("not_applicable", {}))
    suffix = f", {not_applicable} not applicable" if not_applicable else ""
    repeated = sum(1 for note in record.get("notes", []) if note.startswith("repeated"))
    suffix += f", {repeated} repeated" if repeated else ""
    if record["result"] != "passed":
        failed = len(record.get("failures", []))
        return f"**{failed} failed**, {record.get('passed', 0)} passed{suffix}" if failed else "**failed**"
    if record.get("not_run"):
        return f"{record['passed']} of {record['passed'] + record['not_run']} tests{suffix}"
    passed = record.get("passed")
    return f"{passed} {'test' if passed == 1 else 'tests'}{suffix}" if passed else "passed"


def dates(kernel):
    """Returns the dates of the oldest and the newest result of a kernel."""
    days = {record.get("date", kernel["date"]) for record in kernel["groups"].values()}
    return min(days) if len(days) == 1 else f"{min(days)} to {max(days)}"


def minutes(kernel):
    return f"{sum(record.get('seconds', 0) for record in kernel['groups'].values()) / 60:.0f}"


def table(document):
    """Returns the Markdown table with one row per group of tests and one column per kernel."""
    kernels = document["kernels"].values()
    names = [g for g in group_table.GROUPS if any(g.name in k["groups"] for k in kernels)]
    rows = [["Tests", *("Linux " + release(k) for k in kernels)],
            ["---"] * (len(kernels) + 1),
            ["Debian package", *(f"{k['version']} ({k['suite']})" for k in kernels)]]
    rows += [[g.title, *(cell(k["groups"].get(g.name)) for k in kernels)] for g in names]
    rows.append(["Minutes", *(minutes(k) for k in kernels)])
    rows.append(["Date", *(dates(k) for k in kernels)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def release(kernel):
    return kernel["version"].split("-")[0]


def reasons(document):
    """Returns a Markdown list of the tests that are not applicable, with one line for each reason."""
    lines = []
    for kernel in document["kernels"].values():
        for group in group_table.GROUPS:
            tests = {}
            for name, reason in kernel["groups"].get(group.name, {}).get("not_applicable", {}).items():
                tests.setdefault((without_parameters(name), reason), []).append(name)
            for (test, reason), names in tests.items():
                count = f"{len(names)} tests" if len(names) > 1 else "1 test"
                lines.append(f"- {group.title} on Linux {release(kernel)}, `{test}` ({count}):\n"
                             f"  {reason}\n")
    if not lines:
        return ""
    return "\nTests that are not applicable, and the reasons:\n\n" + "".join(lines)


def without_parameters(name):
    """Returns "Suite.Test" for "Instance/Suite.Test/Parameter"."""
    suite, test = name.split(".")
    return f"{suite.split('/')[-1]}.{test.split('/')[0]}"


def rendered(page, document):
    """Returns the text of the page with the table of `document`."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table(document)}{reasons(document)}\n{END}{after}"


def merge(stored, results):
    """Adds results to stored results. The results of a group replace its previous results."""
    for name, kernel in results["kernels"].items():
        if "version" not in kernel:  # The package could not be downloaded.
            continue
        old = stored["kernels"].get(name, {})
        same = old.get("version") == kernel["version"]
        new = {n: {**group, "date": results["date"]} for n, group in kernel["groups"].items()}
        previous = {n: {"date": old["date"], **group} for n, group in old.get("groups", {}).items()}
        groups = {**(previous if same else {}), **new}
        warnings = [*(old.get("kernel_warnings", []) if same else []), *kernel.get("kernel_warnings", [])]
        seconds = kernel["seconds"]
        if warnings:
            kernel["kernel_warnings"] = list(dict.fromkeys(warnings))
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
    store(json.loads(pathlib.Path(sys.argv[1]).read_text()) if len(sys.argv) > 1 else {"kernels": {}})
