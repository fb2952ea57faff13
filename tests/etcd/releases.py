"""Runs etcd_test and the script of `make demo-fleet` with the etcd packages of newer Debian suites.

releases.py FOLDER-OF-THE-BUILD [SUITE]...: downloads the packages to FOLDER-OF-THE-BUILD/etcd. Needs root."""

import os
import pathlib
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/kernels"))

import packages  # noqa: E402


def main(build, *suites):
    build = pathlib.Path(build).resolve()
    failed = []
    for name in suites or ("trixie", "sid"):
        suite = packages.Suite(name, build / "etcd")
        target = build / "etcd" / name / "root"
        suite.extract(["etcd-server", "etcd-client"], target)
        print(f"{name}: etcd {suite.version('etcd-server')}", flush=True)
        environment = {**os.environ, "PATH": f"{target}/usr/bin:{os.environ['PATH']}"}
        for command in ([build / "tests/etcd_test"], [TOP / "tests/demo/fleet.sh", build / "bin"]):
            if subprocess.run(command, env=environment, cwd=TOP, check=False).returncode != 0:
                failed.append(f"{name}: {command[0].name}")
    if failed:
        sys.exit("failed: " + ", ".join(failed))


if __name__ == "__main__":
    main(*sys.argv[1:])
