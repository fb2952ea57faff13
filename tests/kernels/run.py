#!/usr/bin/python3
"""Runs svcmap's tests on the kernels of Debian, in virtual machines. See README.md."""

import argparse
import concurrent.futures
import datetime
import fcntl
import json
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import threading
import time

import groups as group_table
import image
import machine
import packages

# Debian suites whose nft programs list and load svcmap's tables.
NFT_SUITES = ("bullseye", "bookworm", "trixie", "sid")
HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]


def read_kernels(path):
    """Returns [(name, suite, package, nft, is_default)]."""
    kernels = []
    for line in pathlib.Path(path).read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, suite, package, nft, selection = line.split()
            kernels.append((name, suite, package, nft, selection == "default"))
    return kernels


def fetch(kernel, cache):
    """Returns the folder with the extracted kernel, and its package with version."""
    name, suite_name, pattern, *_ = kernel
    folder = cache / "linux" / name
    stamp = folder / "package"
    if not stamp.exists() or stamp.read_text().split()[2] != suite_name:
        suite = packages.Suite(suite_name, cache / "apt")
        package, version = suite.newest(pattern)
        shutil.rmtree(folder, ignore_errors=True)
        suite.extract([package], folder)
        stamp.write_text(f"{package} {version} {suite_name}\n")
    return folder, stamp.read_text().split()


# The line of tests/support/not_applicable.h: test and reason.
NOT_APPLICABLE = re.compile(r"^not applicable: (\S+): (.*)$")


def outcome(group, ran):
    """Returns the record of a group for results.json."""
    if ran is None:
        return {"result": "failed", "reason": "the virtual machine stopped before the group ended"}
    record = {"result": "passed" if ran.status == 0 else "failed", "seconds": round(ran.seconds, 1)}
    notes = [l.removeprefix("note: ") for l in ran.log.splitlines() if l.startswith("note: ")]
    reasons = dict(m.groups() for n in notes if (m := NOT_APPLICABLE.match(n)))
    notes = [n for n in notes if not NOT_APPLICABLE.match(n)]
    if "unittest" in group.command and record["result"] == "passed" and (
            not re.search(r"^Ran [1-9]", ran.log, re.M) or re.search(r"^OK .*skipped", ran.log, re.M)):
        record.update(result="failed", reason="no test ran, or a test was skipped")
    if ran.tests:
        skipped = [n for r, n in ran.tests if r == "skipped"]
        # A test that was skipped without a reason counts as failed.
        failures = [n for r, n in ran.tests if r not in ("passed", "skipped", "not-run")]
        failures += [n for n in skipped if n not in reasons]
        record["passed"] = sum(1 for r, _ in ran.tests if r == "passed")
        record["failed"] = len(failures)
        if failures:
            record.update(result="failed", failures=failures)
        if not_applicable := {n: reasons[n] for n in skipped if n in reasons}:
            record["not_applicable"] = not_applicable
        if not_run := sum(1 for r, _ in ran.tests if r == "not-run"):
            record["not_run"] = not_run
        if record["passed"] == 0 and not failures:
            record.update(result="failed", reason="no test ran")
    elif record["result"] == "passed" and "gtest.sh" in group.command:
        record.update(result="failed", reason="no test ran")
    if ran.status == 124:
        record["reason"] = "time limit exceeded"
    elif ran.status != 0 and "failures" not in record:
        lines = [l for l in ran.log.splitlines() if l.strip()]
        record["reason"] = lines[-1][:300] if lines else f"exit status {ran.status}"
    if notes:
        record["notes"] = notes
    return record


def bad_warnings(warnings):
    """Returns the kernel warnings that must not occur. An emulated machine is so slow that the kernel
    reports long batches as lockups and stalls."""
    return [w for w in warnings if not re.search("soft lockup|rcu: INFO|blocked for more than", w)]


class Runner:
    def __init__(self, options):
        self.options = options
        self.cache = TOP / "build/kernels"
        self.build = pathlib.Path(options.build).resolve()
        self.logs = self.cache / "logs"
        self.archives = []  # Initial file systems of the machines, without modules.
        self._print = threading.Lock()

    def say(self, text):
        with self._print:
            print(f"{datetime.datetime.now():%H:%M:%S} {text}", flush=True)

    def limit(self, group):
        return group.limit * (10 if self.options.full and group.full else 1) * self.options.slow

    def prepare(self, with_nft):
        """Creates the archives with the programs. `with_nft` includes the nft programs of Debian's suites."""
        with tempfile.TemporaryDirectory(dir=self.cache) as work:
            root = pathlib.Path(work) / "root"
            image.programs_root(self.build, root)
            for name in NFT_SUITES:
                image.nft_wrapper(name, root)
            image.archive(root, self.cache / "programs.cpio")

        self.archives = [self.cache / "programs.cpio"]
        if not with_nft:
            return
        target = self.cache / f"nft-{'-'.join(NFT_SUITES)}.cpio"
        self.archives.append(target)
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=self.cache) as work:
                root = pathlib.Path(work) / "root"
                for name in NFT_SUITES:
                    image.nft_root(packages.Suite(name, self.cache / "apt"), root)
                image.archive(root, target)

    def modules(self, name, folder):
        version = (folder / "package").read_text().split()[1].replace(":", "-")
        target = self.cache / f"modules-{name}-{version}.cpio"
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=self.cache) as work:
                root = pathlib.Path(work) / "root"
                image.modules_root(folder, root)
                image.archive(root, target)
        return target

    def plan_line(self, kernel, group):
        nft = "" if kernel[3] == "-" else (
            f"export PATH=/nft-bin/{kernel[3]}:$PATH SVCMAP_TEST_NFT=nft; ")
        return (group.name, self.limit(group),
                nft + (group.full if self.options.full and group.full else group.command))

    def run_kernel(self, kernel, accelerator, selected):
        name = kernel[0]
        folder, package = fetch(kernel, self.cache)
        logs = self.logs / name
        shutil.rmtree(logs, ignore_errors=True)
        ran = machine.MachineRun()
        for processors in sorted({g.processors for g in selected}):
            part = [g for g in selected if g.processors == processors]
            ran.add(machine.boot(image.vmlinuz(folder), [*self.archives, self.modules(name, folder)],
                                 [self.plan_line(kernel, g) for g in part], logs / f"{processors}-processors",
                                 self.options.memory, machine.accelerator_arguments(accelerator, processors),
                                 sum(self.limit(g) for g in part) + 300))
        record = {"package": package[0], "version": package[1], "suite": package[2],
                  "release": ran.release, "seconds": round(ran.seconds), "groups": {}}
        for group in selected:
            record["groups"][group.name] = outcome(group, ran.groups.get(group.name))
            if group.name in ran.groups and ran.groups[group.name].log:
                (logs / f"{group.name}.log").write_text(ran.groups[group.name].log + "\n")
        if not ran.release:
            record["reason"] = "the kernel did not boot"
        if ran.warnings:
            record["kernel_warnings"] = ran.warnings
        failed = [g for g, r in record["groups"].items() if r["result"] == "failed"]
        failed += bad_warnings(ran.warnings)
        self.say(f"{name} ({ran.release or 'did not boot'}): "
                 f"{'failed: ' + ', '.join(failed) if failed else 'passed'} in {ran.seconds:.0f} s")
        return record

    def main(self):
        names = self.options.kernels
        kernels = [k for k in read_kernels(HERE / "kernels.txt") if (k[0] in names if names else k[4])]
        unknown = set(names) - {k[0] for k in kernels}
        if unknown:
            known = ", ".join(k[0] for k in read_kernels(HERE / "kernels.txt"))
            sys.exit(f"unknown kernels: {', '.join(sorted(unknown))}; kernels.txt contains: {known}")
        if not (self.build / "CMakeCache.txt").exists():
            sys.exit(f"{self.build} contains no build: cmake --preset release && cmake --build --preset kernels")
        selected = [g for g in group_table.GROUPS
                    # Preflight also loads the modules, so that later groups start quickly.
                    if g.name in [*self.options.groups, "preflight"]
                    or not self.options.groups and not g.on_request
                    if g.smoke or not self.options.smoke]
        if missing := set(self.options.groups) - {g.name for g in selected}:
            sys.exit(f"groups that are not part of this run: {', '.join(sorted(missing))}")
        start = time.monotonic()
        self.say("preparing the file systems")
        try:
            self.prepare(any(g.name == "nft" for g in selected) or any(k[3] != "-" for k in kernels))
            first, _ = fetch(kernels[0], self.cache)
        except packages.PackageError as error:
            sys.exit(f"download failed: {error}")
        accelerator = machine.choose_accelerator(
            image.vmlinuz(first), self.cache / "programs.cpio", self.logs / "kvm-probe")
        self.say(f"{len(kernels)} kernels, {len(selected)} groups, {accelerator}")
        results = {}
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            futures = {k[0]: pool.submit(self.run_kernel, k, accelerator, selected) for k in kernels}
            try:
                for name, future in futures.items():
                    try:
                        results[name] = future.result()
                    except Exception as error:  # One kernel must not discard the results of the others.
                        results[name] = {"reason": f"{type(error).__name__}: {error}", "groups": {}}
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                machine.stop_all()
                raise
        document = {"date": f"{datetime.date.today()}", "accelerator": accelerator,
                    "minutes": round((time.monotonic() - start) / 60, 1), "kernels": results}
        out = pathlib.Path(self.options.output or self.cache / "results.json")
        out.write_text(json.dumps(document, indent=1) + "\n")
        print(summary(document))
        print(f"results: {out}; logs: {self.logs}")
        bad = any("reason" in k or any(g["result"] == "failed" for g in k["groups"].values())
                  or bad_warnings(k.get("kernel_warnings", [])) for k in results.values())
        return 1 if bad else 0


def cell(record):
    if record is None:
        return "-"
    counts = f" {record['passed']}" if "passed" in record else ""
    if record.get("not_run"):
        counts += f"/{record['passed'] + record['failed'] + record['not_run']}"
    if record.get("not_applicable"):
        counts += f" ({len(record['not_applicable'])} n/a)"
    if record["result"] == "failed":
        failed = record.get("failed")
        return f"FAILED {failed}/{failed + record['passed']}" if failed else "FAILED"
    return f"ok{counts}"


def summary(document):
    """Returns a table of kernels and groups."""
    names = list(dict.fromkeys(g for k in document["kernels"].values() for g in k["groups"]))
    rows = [["kernel", "release", *names, "minutes"]]
    for name, kernel in document["kernels"].items():
        rows.append([name, kernel.get("release") or "-",
                     *(cell(kernel["groups"].get(g)) for g in names),
                     f"{kernel.get('seconds', 0) / 60:.1f}"])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip()
             for row in rows]
    for name, kernel in document["kernels"].items():
        if "reason" in kernel:
            lines.append(f"{name}: {kernel['reason']}")
        for group, record in kernel["groups"].items():
            for test in record.get("failures", []):
                lines.append(f"{name}: {group}: FAILED {test}")
            if "reason" in record:
                lines.append(f"{name}: {group}: {record['reason']}")
            for note in record.get("notes", []):
                if note.startswith("repeated"):
                    lines.append(f"{name}: {group}: {note}")
            for test, reason in record.get("not_applicable", {}).items():
                lines.append(f"{name}: {group}: not applicable: {test}: {reason}")
        for warning in kernel.get("kernel_warnings", []):
            lines.append(f"{name}: kernel: {warning}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernels", nargs="*", help="names from kernels.txt [all with 'default']")
    names = [g.name for g in group_table.GROUPS]
    parser.add_argument("--groups", nargs="+", default=[], metavar="GROUP", choices=names,
                        help=f"run only these groups: {', '.join(names)} [all]")
    parser.add_argument("--smoke", action="store_true", help="run only the short groups")
    parser.add_argument("--full", action="store_true", help="run all tests of each program; hours")
    parser.add_argument("--build", default=TOP / "build/release", help="build folder [build/release]")
    parser.add_argument("--jobs", type=int, default=2, help="number of parallel machines [2]")
    parser.add_argument("--memory", type=int, default=3072, help="memory of a machine in MiB [3072]")
    parser.add_argument("--slow", type=int, default=1, metavar="FACTOR",
                        help="multiply the time limits, on a busy machine [1]")
    parser.add_argument("--output", help="result file [build/kernels/results.json]")
    options = parser.parse_args()
    # Without an exception, the virtual machines would remain.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    cache = TOP / "build/kernels"
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"another run uses {cache}")
        return Runner(options).main()


if __name__ == "__main__":
    sys.exit(main())
