"""Runs the examples of docs/svcmapctl.md with svcmapd in a network namespace. Needs root."""

import ctypes
import fcntl
import os
import pty
import re
import struct
import subprocess
import tempfile
import termios
import time
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
EXAMPLES = f"{ROOT}/deploy/examples/svcmapctl"
BIN = os.environ["SVCMAP_BIN"]
CLONE_NEWNET = 0x40000000


def examples():
    """Returns for each command its examples in the manual: output, and exit code or None."""
    with open(f"{ROOT}/docs/svcmapctl.md", encoding="utf-8") as manual:
        blocks = re.findall(
            r"(?m)^    \$ (.*)\n((?:\n?    (?!\$ ).*\n)*)(?:    \$ echo \$\?\n    (\d+)\n)?", manual.read())
    found = {}
    for command, output, code in blocks:
        found.setdefault(command, []).append((re.sub("(?m)^    ", "", output), int(code) if code else None))
    return found


def run_on_terminal(argv, **options):
    """Returns the output on a terminal that breaks no line, and the exit code."""
    terminal, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 100, 500, 0, 0))
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=side, stderr=side, **options)
    os.close(side)
    output = b""
    while True:
        try:
            output += os.read(terminal, 65536)
        except OSError:  # The process has closed the terminal.
            break
    os.close(terminal)
    return output.decode().replace("\r\n", "\n"), process.wait()


def without_measurements(text):
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    text = re.sub(r"\d+(\.\d+)? (us|ms|s)\b", "DURATION", text)
    return re.sub(r"\d+ bytes", "BYTES", text)


class ManualTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.examples = examples()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")
        for command in ("link set lo up", "link add eth0 type veth peer name peer", "address add 10.0.0.1/24 dev eth0",
                        "link set eth0 up", "link set peer up"):
            subprocess.run(["ip", *command.split()], check=True)

    def start_agent(self, *flags):
        agent = subprocess.Popen(
            [f"{BIN}/svcmapd", "--node-name=n1", "--cluster-cidr=10.1.0.0/16", f"--state-dir={self.folder}/state",
             f"--listen=unix://{self.folder}/socket", *flags], cwd=EXAMPLES, stderr=subprocess.DEVNULL)
        self.addCleanup(agent.wait)
        self.addCleanup(agent.terminate)
        self.assertEqual(self.ctl("wait", "--for", "revision=1")[1], 0)

    def ctl(self, *arguments):
        output, code = run_on_terminal(
            [f"{BIN}/svcmapctl", *arguments], cwd=EXAMPLES,
            env=dict(os.environ, SVCMAP_ADDRESS=f"unix://{self.folder}/socket"))
        output = output.replace(f"{self.folder}/state", "/var/lib/svcmap")
        return output.replace(f"{self.folder}/socket", "/run/svcmap/svcmap.sock"), code

    def check(self, command, example=0):
        """Fails if the output of `svcmapctl command` or its exit code differs from the example in the manual."""
        expected, expected_code = self.examples["svcmapctl " + command][example]
        output, code = self.ctl(*command.split())
        self.assertEqual(without_measurements(output), without_measurements(expected))
        if expected_code is not None:
            self.assertEqual(code, expected_code)

    def start_examples(self):
        self.start_agent()
        self.check("apply -f manifests/")
        self.check("apply -f bad.yaml")

    def test_commands_that_change_nothing(self):
        self.start_examples()
        for command in ("apply --dry-run -f web-endpoints.yaml", "get svc,eps", "get no", "get svc -o name",
                        "get svc shop/web -o yaml", "get svc shop/nothing", "explain 10.96.0.10:80",
                        "explain 10.96.0.10:80 --from 10.1.0.5 --verbose", "wait",
                        "wait --for controller --timeout 300ms"):
            with self.subTest(command):
                self.check(command)

    def test_status(self):
        self.start_examples()
        deadline = time.monotonic() + 60
        while "synced at" not in self.ctl("status")[0]:  # svcmapd saves its state after the commit.
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        self.check("status", example=1)

    def test_unknown_field(self):
        self.start_examples()
        self.check("apply -f web.yaml")

    def test_prune(self):
        self.start_examples()
        self.check("apply --prune -f manifests/")

    def test_delete(self):
        self.start_examples()
        self.check("delete svc shop/mail web")

    def test_agent_with_manifests(self):
        self.start_agent("--manifests=manifests")
        self.check("apply -f manifests/", example=1)


if __name__ == "__main__":
    unittest.main()
