#!/usr/bin/python3
"""Compares the clients with the C++ stream of svcmap-bench-push, one after the other on this machine. Needs
root and the release build of svcmapd and svcmap-bench-push. Prints Markdown tables."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import tempfile

import harness
from harness import BIN, PYTHON, Svcmapd

HERE = pathlib.Path(__file__).resolve().parent


def cpp(services, changes):
    """Figures of svcmap-bench-push over the Unix socket: one change per batch."""
    text = subprocess.run([BIN / "svcmap-bench-push", "--services", str(services), "--messages", str(changes)],
                          check=True, capture_output=True, text=True).stdout
    rate, _, p50, p99 = re.search(r"^\| Unix socket \| (\S+) \| (\S+) \| (\S+) ms \| (\S+) ms \|", text, re.M).groups()
    return {"changes_per_s": float(rate), "p50_ms": float(p50), "p99_ms": float(p99)}


def client(command, services, changes, round_trips, state_file):
    with tempfile.TemporaryDirectory() as folder:
        agent = Svcmapd(folder)
        try:
            agent.start()
            agent.status()  # Waits until svcmapd answers.
            environment = {**harness.python_environment(), "STATE_FILE": f"{folder}/sent" if state_file else ""}
            if not state_file:
                del environment["STATE_FILE"]
            return json.loads(subprocess.run(
                [*command, agent.target, str(services), str(changes), str(round_trips)], check=True,
                stdout=subprocess.PIPE, text=True, env=environment).stdout)
        finally:
            agent.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--services", type=int, default=10000)
    parser.add_argument("--changes", type=int, default=20000)
    parser.add_argument("--round-trips", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=5, help="the best value of each figure is printed")
    arguments = parser.parse_args()
    go = harness.go_program("tests/clients/bench")
    python = [PYTHON, str(HERE / "bench_client.py")]
    size = (arguments.services, arguments.changes, arguments.round_trips)
    runs = {"C++ (svcmap-bench-push)": lambda: cpp(*size[:2])}
    for name, command in (("Go", [go]), ("Python", [*python, "blocking"]), ("Python, asyncio", [*python, "asyncio"])):
        runs[name] = lambda command=command: client(command, *size, False)
        runs[f"{name}, with a state file"] = lambda command=command: client(command, *size, True)
    figures = {name: [] for name in runs}
    for _ in range(arguments.rounds):  # In turn, so that other load on the machine affects all.
        for name, run in runs.items():
            figures[name].append(run())
    best = {name: {key: (max if key == "changes_per_s" else min)(f[key] for f in found) for key in found[0]}
            for name, found in figures.items()}
    base = best["C++ (svcmap-bench-push)"]
    print("| client | changes/s | to C++ | p50 of one change | to C++ | p99 |\n|---|---:|---:|---:|---:|---:|")
    for name, f in best.items():
        print(f"| {name} | {f['changes_per_s']:,.0f} | {f['changes_per_s'] / base['changes_per_s']:.2f} "
              f"| {f['p50_ms']:.2f} ms | {f['p50_ms'] / base['p50_ms']:.2f} | {f['p99_ms']:.2f} ms |")


if __name__ == "__main__":
    main()
