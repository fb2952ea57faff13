"""Runs a virtual machine under qemu and reads its report."""

import dataclasses
import pathlib
import re
import subprocess
import time


_running = set()  # The qemu processes.


def stop_all():
    """Ends all virtual machines."""
    for process in list(_running):
        process.kill()


@dataclasses.dataclass
class GroupRun:
    """The result of one group of tests in a virtual machine."""
    status: int
    seconds: float
    log: str
    tests: list  # (result, name)


@dataclasses.dataclass
class MachineRun:
    release: str = ""  # `uname -r`. Empty if the kernel did not boot.
    boot_seconds: float = 0.0
    seconds: float = 0.0
    finished: bool = False
    groups: dict = dataclasses.field(default_factory=dict)
    warnings: list = dataclasses.field(default_factory=list)  # Kernel warnings on the console.

    def add(self, other):
        """Adds the results of another machine with the same kernel."""
        self.release = self.release or other.release
        self.seconds += other.seconds
        self.groups |= other.groups
        self.warnings = list(dict.fromkeys(self.warnings + other.warnings))


def parse_report(text):
    """Reads the report of guest/init, which may be incomplete."""
    result = MachineRun()
    group, log, tests = None, [], []
    for line in text.split("\n"):
        line = line.rstrip("\r")
        words = line.split(" ")
        if words[0] != "@@" or len(words) < 2:
            log.append(line)
        elif words[1] == "booted":
            result.release, result.boot_seconds = words[2], float(words[3])
        elif words[1] == "begin":
            group, log, tests = words[2], [], []
        elif words[1] == "test":
            tests.append((words[2], " ".join(words[4:])))
        elif words[1] == "end" and words[2] == group:
            result.groups[group] = GroupRun(int(words[3]), int(words[4]) / 1000,
                                            "\n".join(log).strip("\n"), tests)
        elif words[1] == "done":
            result.finished = True
    return result


def kernel_warnings(console):
    """Returns the kernel's warnings and crashes, without duplicates."""
    pattern = re.compile(r"(?:\b(?:kernel BUG at|BUG: |WARNING: |Oops: |Kernel panic|general protection fault|"
                         r"invalid opcode|divide error|Out of memory|UBSAN: |unregister_netdevice: waiting|"
                         r"INFO: task .* blocked|rcu: INFO: rcu|watchdog: BUG)|\S+: segfault at).*")
    return list(dict.fromkeys(m.group(0).strip() for m in pattern.finditer(console)))


def boot(kernel, initrds, plan, folder, memory, accelerator, limit, cmdline=""):
    """Boots `kernel` and runs `plan`, which guest/init describes. Writes the logs to `folder`."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    initrd = folder / "initrd"
    job = folder / "job"
    (job / "job").mkdir(parents=True, exist_ok=True)
    (job / "job/plan").write_text("".join(f"{n}\t{s}\t{c}\n" for n, s, c in plan))
    with open(initrd, "wb") as out:
        for part in initrds:
            out.write(pathlib.Path(part).read_bytes())
        names = subprocess.run(["find", ".", "-print0"], cwd=job, check=True, capture_output=True)
        subprocess.run(["cpio", "--null", "--create", "--format=newc", "--quiet"], cwd=job,
                       input=names.stdout, stdout=out, check=True)
    # no_timer_check: if other programs use the processors, an emulated timer can fail the kernel's check,
    # and the kernel panics ("IO-APIC + timer doesn't work").
    parameters = ("console=ttyS0 panic=-1 mitigations=off no_timer_check random.trust_cpu=on loglevel=5 "
                  f"{cmdline}").strip()
    report, console = folder / "report", folder / "console"
    report.write_bytes(b"")
    argv = ["qemu-system-x86_64", "-machine", "pc", *accelerator, "-m", str(memory),
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-serial", f"file:{console}", "-serial", f"file:{report}",
            "-kernel", str(kernel), "-initrd", str(initrd), "-append", parameters]
    start = time.monotonic()
    with open(folder / "qemu.log", "wb") as log:
        machine = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        _running.add(machine)
        try:
            machine.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            pass
        finally:
            machine.kill()
            machine.wait()
            _running.discard(machine)
    initrd.unlink()
    result = parse_report(report.read_text(errors="replace"))
    result.seconds = time.monotonic() - start
    result.warnings = kernel_warnings(console.read_text(errors="replace"))
    return result


def choose_accelerator(kernel, initrd, probe_folder, seconds=20):
    """Returns "kvm" if a kernel boots with KVM, and "tcg" (emulation) otherwise. /dev/kvm alone is not
    sufficient: in some virtual machines, nested guests do not start."""
    if pathlib.Path("/dev/kvm").exists():
        arguments = accelerator_arguments("kvm", 2)
        if boot(kernel, [initrd], [], probe_folder, 1024, arguments, seconds).finished:
            return "kvm"
    return "tcg"


def accelerator_arguments(accelerator, processors):
    """Returns qemu's arguments for a machine with at least `processors` processors."""
    if accelerator == "kvm":
        return ["-accel", "kvm", "-cpu", "host", "-smp", str(max(processors, 2))]
    # With several emulated processors, Linux 6.12 can crash when it patches its code (static keys) under
    # qemu 7.2. Emulation of a processor without AVX is faster.
    return ["-accel", "tcg,thread=multi", "-cpu", "Nehalem", "-smp", str(processors)]
