"""Formats the figures of a run as Markdown."""

import textwrap

import bounds
import units
from figures import FLOORS, HEADLINES, NOT_TOLD_APART, REFERENCE, Run, WITHOUT_RATIOS

TITLES = {
    "sync": "Sync",
    "change": "Change",
    "churn": "Churn",
    "latency": "First packet",
    "connections": "New connections",
    "restart": "Restart, and full sync",
    "repair": "Repair",
}

INTRODUCTIONS = {
    "sync": "Time to load all Services into a node that has none.",
    "change": "Time from the update message to the kernel commit. `rolling` is one step of a "
              "rolling update: ten of a Service's 1,000 endpoints are replaced.",
    "churn": "Updates at a fixed rate: latency from the scheduled time of each update, CPU usage "
             "as a share of one core, and the number of kernel updates per round. The latency of "
             "kube-proxy's modes is mostly its minSyncPeriod, 1 s by default, so the table has no "
             "ratio of latencies.",
    "latency": "First round trip of a new flow. `first`, `middle` and `last` are the position of "
               "the Service in the list from which the rules were written. `tcp-sync` and "
               "`tcp-repair` open connections at a fixed rate during a complete rewrite and during "
               "the repair of flushed tables, which only svcmapd performs; latency counts from the "
               "scheduled time. `tcp-quiet` is the same without rewrite or repair. For `tcp-sync`, "
               "svcmapd alternates between two clusters, so that each sync writes everything. `n` "
               "is the number of flows, p99 is the median of the p99 of all rounds.",
    "connections": "TCP connections that are opened and closed sequentially.",
    "restart": "svcmapd restarts with unchanged state after `sigterm` or `sigkill`; the time ends "
               "when it is healthy. The other opponents perform a `full-sync` over their existing "
               "rules, without process start and without a list from an API server.",
    "repair": "Another process damages the tables of svcmapd while svcmapd runs or is stopped. The "
              "first table shows how long a Service is interrupted, the second one the time until "
              "all tables are restored.",
}

# The part of the overview that the page with the summary shows.
SUMMARY = {
    "sync": {"load"},
    "change": {"replace"},
    "churn": {"rate-1000"},
    "latency": {"tcp-first", "tcp-last"},
    "connections": {"last"},
    "restart": {"sigterm"},
    "repair": {"FlushedRuleset-running", "DeletedThousandElements-running"},
}


def table(head: list[str], rows: list[list[str]], numbers_from: int) -> str:
    """Columns from `numbers_from` on are aligned to the right."""
    rule = ["---" if column < numbers_from else "---:" for column in range(len(head))]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
                     for row in [head, rule, *rows]) + "\n"


def machine(facts: dict) -> str:
    rows = []

    def add(prefix: str, value):
        if isinstance(value, dict):
            for key in value:
                add(f"{prefix} {key}".strip(), value[key])
        elif isinstance(value, list):
            rows.append([prefix, ", ".join(str(item) for item in value)])
        else:
            rows.append([prefix, str(value).replace("\n", " ")])

    add("", facts)
    return table(["Fact", "Value"], rows, 2)


def _median(metric, figure) -> str:
    return ("over " if figure.over_limit else "") + units.text(metric, figure.median)


def _ratio(figure, other) -> str:
    found = figure.ratio_to(other) if other is not None else None
    if found is None:
        return ""
    return {">": "over ", "<": "under ", "": ""}[found.bound] + units.ratio(found.value)


def machine_line(facts: dict) -> str:
    """The facts that a reader of the summary needs, as one sentence."""
    def fact(*names):
        value = facts
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return None if value is None else str(value)

    parts = [fact("cpu"), fact("cpus") and f"{fact('cpus')} CPUs", fact("memory"),
             fact("kernel", "release") and f"Linux {fact('kernel', 'release')}",
             fact("distribution"), fact("commit") and f"commit {fact('commit')}", fact("date")]
    known = ", ".join(part for part in parts if part)
    return textwrap.fill(f"Machine: {known}.", 120) + "\n" if known else ""


def overview(run: Run, only=None) -> str:
    """Returns a table with a line for each step and a column for each opponent. `only` maps a
    workload to its shown steps."""
    opponents = run.opponents()
    rows = []
    for workload in run.workloads():
        for shape in run.shapes(workload=workload):
            whats = run.whats(workload=workload, shape=shape)
            # Opponents that could not be loaded are listed in the other lines.
            told = [what for what in whats
                    if any(run.headline(workload, shape, opponent, what) for opponent in opponents)]
            for what in told or whats:
                if only is not None and what not in only.get(workload, ()):
                    continue
                reference = run.headline(workload, shape, REFERENCE, what)
                cells = []
                for opponent in opponents:
                    found = run.headline(workload, shape, opponent, what)
                    if found is None:
                        cells.append(run.why_not(workload, shape, opponent, what))
                        continue
                    cell = _median(*found)
                    if opponent != REFERENCE and reference is not None and \
                            workload not in WITHOUT_RATIOS:
                        ratio = _ratio(found[1], reference[1])
                        cell += f" ({ratio})" if ratio else ""
                    cells.append(cell)
                if any(cells):
                    rows.append([workload, shape, what, *cells])
    return table(["Workload", "Cluster", "What", *opponents], rows, 3)


def headline(run: Run, workload: str) -> str:
    """Shows the main metric of the workload with its spread."""
    floor = FLOORS.get(workload)
    found = [(shape, what, opponent, *entry)
             for shape in run.shapes(workload=workload)
             for what in run.whats(workload=workload, shape=shape)
             for opponent in run.opponents(workload=workload, shape=shape, what=what)
             if (entry := run.headline(workload, shape, opponent, what)) is not None]
    if not found:
        return ""
    many = any(run.p99(workload, shape, opponent, what, metric) is not None
               for shape, what, opponent, metric, _ in found)
    differs = workload == "latency"
    compared = workload not in WITHOUT_RATIOS
    head = ["Cluster", "What", "Opponent", "Median", "Rounds from", "to"]
    head += ["p99"] if many else []
    head += ["n"]
    head += [f"/ {REFERENCE}"] if compared else []
    head += [f"/ {floor}"] if floor else []
    head += [f"over {floor}"] if differs else []
    rows = []
    for shape, what, opponent, metric, figure in found:
        reference = run.headline(workload, shape, REFERENCE, what)
        least = run.headline(workload, shape, floor, what) if floor else None
        row = [shape, what, opponent, _median(metric, figure), units.text(metric, figure.low),
               units.text(metric, figure.high)]
        if many:
            p99 = run.p99(workload, shape, opponent, what, metric)
            row.append("" if p99 is None else units.text(metric, p99))
        row.append(f"{run.samples(workload, shape, opponent, what, metric):,}")
        if compared:
            row.append("" if opponent == REFERENCE or not reference
                       else _ratio(figure, reference[1]))
        if floor:
            row.append("" if opponent == floor or not least else _ratio(figure, least[1]))
        if differs:
            row.append("" if opponent == floor or not least
                       else units.text(metric, figure.less(least[1]).median))
        rows.append(row)
    return table(head, rows, 3)


_P99 = ("p99_us", "p99_seconds")


def others(run: Run, workload: str) -> str:
    """Shows the medians of all other metrics. The p99 column is next to n."""
    names = [name for name in run.figures if name[0] == workload]
    first = HEADLINES.get(workload, ["seconds"])
    shown = {name: (run.headline(*name) or ("",))[0] for name in names}
    there = {(*name, metric) for name in names for metric in run.figures[name]
             if metric != shown[name]} | \
        {place for place in run.not_told_apart if place[0] == workload}
    metrics = sorted({metric for *_, metric in there if not metric.endswith(_P99)},
                     key=lambda metric: (metric not in first, metric))
    if not metrics:
        return ""
    rows = []
    for shape in run.shapes(workload=workload):
        for what in run.whats(workload=workload, shape=shape):
            for opponent in run.opponents(workload=workload, shape=shape, what=what):
                found = run.figures.get((workload, shape, opponent, what), {})
                hidden = shown.get((workload, shape, opponent, what))
                cells = [NOT_TOLD_APART
                         if (workload, shape, opponent, what, metric) in run.not_told_apart else
                         units.text(metric, found[metric].median)
                         if metric in found and metric != hidden else "" for metric in metrics]
                if any(cells):
                    rows.append([shape, what, opponent, *cells])
    return table(["Cluster", "What", "Opponent", *map(units.name, metrics)], rows, 3)


def no_figures(run: Run) -> str:
    """Lists all steps that exceeded their limit or failed."""
    rows = []
    for name in sorted({*run.over_limit, *run.failed, *run.not_tried}):
        workload, shape, opponent, what = name
        if name[:3] in run.never_loaded:
            if run.outcome(name):
                rows.append([workload, shape, opponent, "load", run.outcome(name), ""])
            continue
        if name in run.over_limit:
            rows.append([workload, shape, opponent, what, f"over {run.limits[name]:g} s",
                         str(len(run.over_limit[name]))])
        if name in run.failed:
            rows.append([workload, shape, opponent, what, "failed", str(len(run.failed[name]))])
        if name in run.not_tried:
            rows.append([workload, shape, opponent, what, "not tried", ""])
    return table(["Workload", "Cluster", "Opponent", "What", "Outcome", "Rounds"], rows, 5) \
        if rows else ""


def targets(verdicts: list[bounds.Verdict]) -> str:
    rows = [[verdict.bound["label"], verdict.wanted, verdict.why or verdict.seen,
             verdict.seen if verdict.why else "yes" if verdict.met else "no"] for verdict in verdicts]
    return table(["Target", "Required", "Measured", "Met"], rows, 1)
