#!/usr/bin/python3
"""Writes report.md and SVG plots into the folder of a run, which contains samples.csv, machine.json
and, optionally, commands.txt. With --into PAGE it also writes a summary between the lines
"<!-- run -->" and "<!-- end of run -->" of a page of the documentation, and all tables and plots into
the folder beside it that has the page's name: docs/benchmarks.md, docs/benchmarks/tables.md. For a
page in docs/, it also updates the figures that other pages quote (quotes.py)."""

import argparse
import os
import shutil
import sys

import bounds
import figures
import quotes
import tables

BEGIN, END = "<!-- run -->", "<!-- end of run -->"
OVERVIEW = """Medians, with the ratio to svcmap in the same rounds in parentheses. The generated opponents do not include
kube-proxy's own work.
"""
TARGETS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "targets.json")


def body(run: figures.Run, facts: dict, commands: str, verdicts: list, pictures: dict,
         image_folder: str, level: int) -> str:
    """`pictures` maps a workload to files and captions. `level` is the level of the headings."""
    mark = "#" * level
    parts = [f"{mark} Machine\n", tables.machine(facts) if facts else
             "machine.json is missing, so the machine of this run is unknown.\n"]
    if commands:
        parts += ["Commands of this run:\n", "".join(f"    {line}\n" for line in commands.splitlines())]
    if verdicts:
        parts += [f"{mark} Targets\n", tables.targets(verdicts)]
    parts += [f"{mark} Overview\n", OVERVIEW, tables.overview(run)]
    there = run.workloads()
    for workload in figures.WORKLOADS + [name for name in there if name not in figures.WORKLOADS]:
        parts.append(f"{mark} {tables.TITLES.get(workload, workload)}\n")
        if workload not in there:
            parts.append(f"This run did not include the workload `{workload}`.\n")
            continue
        rounds = run.rounds(workload)
        text = f"`{workload}`, {rounds} round{'s' if rounds != 1 else ''} of each opponent. " + \
            tables.INTRODUCTIONS.get(workload, "")
        parts.append(text.strip() + "\n")
        for name, caption in pictures.get(workload, []):
            parts.append(f"![{caption}]({os.path.join(image_folder, name)})\n")
        parts += [part for part in (tables.headline(run, workload), tables.others(run, workload))
                  if part]
    missing = tables.no_figures(run)
    parts += [f"{mark} Over the limit, failed, not tried\n"]
    if missing:
        parts += ["An opponent that exceeds its limit or fails does not take part in later steps "
                  "and larger clusters.\n",
                  missing]
    else:
        parts.append("None.\n")
    return "\n".join(parts)


def summary(run: figures.Run, facts: dict, verdicts: list, pictures: dict, folder: str) -> str:
    """Returns the summary for a page that explains the benchmark. The plots are in `folder`."""
    parts = [part for part in (tables.machine_line(facts),) if part]
    parts += ["### Overview\n", OVERVIEW, tables.overview(run, tables.SUMMARY)]
    parts += [f"![{caption}]({os.path.join(folder, name)})\n"
              for workload in figures.WORKLOADS for name, caption in pictures.get(workload, [])]
    if verdicts:
        parts += ["### Targets\n", tables.targets(verdicts)]
    return "\n".join(parts)


def put_into(page: str, text: str):
    with open(page, encoding="utf-8") as file:
        old = file.read()
    if old.count(BEGIN) != 1 or old.count(END) != 1 or old.index(BEGIN) > old.index(END):
        raise figures.BadInput(f"{page}: needs one line '{BEGIN}' and after it one '{END}'")
    head, tail = old[:old.index(BEGIN)], old[old.index(END):]
    with open(page, "w", encoding="utf-8") as file:
        file.write(f"{head}{BEGIN}\n\n{text}\n{tail}")


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="of a run")
    parser.add_argument("--into", metavar="PAGE", help="page that contains the two marks")
    options = parser.parse_args(arguments)
    try:
        run = figures.read_run(options.folder)
        machine = os.path.join(options.folder, "machine.json")
        facts = figures.read_json(machine) if os.path.exists(machine) else {}
        commands = ""
        if os.path.exists(os.path.join(options.folder, "commands.txt")):
            with open(os.path.join(options.folder, "commands.txt"), encoding="utf-8") as file:
                commands = file.read()
            facts.pop("command_line", None)  # Only the last run's command line.
        verdicts = [bounds.judge(run, bound) for bound in bounds.read_bounds(TARGETS)[1]]
        try:
            import plots  # Imported late, because loading matplotlib takes a second.
        except ModuleNotFoundError as error:
            raise figures.BadInput(f"the Python module {error.name} is missing, so no report was "
                                   "written; run: apt-get install python3-matplotlib") from error
        drawn = plots.Plots(run, options.folder)
        drawn.write()
        report = os.path.join(options.folder, "report.md")
        with open(report, "w", encoding="utf-8") as file:
            file.write("# svcmap-bench\n\n" +
                       body(run, facts, commands, verdicts, drawn.written, "", level=2))
        print(report)
        if options.into:
            name = os.path.splitext(os.path.basename(options.into))[0]
            folder = os.path.join(os.path.dirname(options.into), name)
            put_into(options.into, summary(run, facts, verdicts, drawn.written, name))
            os.makedirs(folder, exist_ok=True)
            for old in os.listdir(folder):
                if old.endswith(".svg"):
                    os.remove(os.path.join(folder, old))
            every = "# Benchmark tables\n\nGenerated by `tests/bench/report/report.py --into`; " \
                f"[the page above](../{name}.md) describes the method.\n\n" + \
                body(run, facts, commands, verdicts, drawn.written, "", level=2)
            with open(os.path.join(folder, "tables.md"), "w", encoding="utf-8") as file:
                file.write(every)
            for pictures in drawn.written.values():
                for picture, _ in pictures:
                    shutil.copyfile(os.path.join(options.folder, picture),
                                    os.path.join(folder, picture))
            if os.path.samefile(os.path.dirname(options.into) or ".", quotes.DOCS):
                quotes.write(quotes.DOCS, every)
            print(options.into)
    except figures.BadInput as error:
        print(f"report.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
