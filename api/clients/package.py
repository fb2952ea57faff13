#!/usr/bin/python3
"""Builds the wheel of the Python client and the module archive of the Go client in a folder: package.py FOLDER

The folder `goproxy` has the layout of a Go module proxy, so `go` can read it with GOPROXY=file://FOLDER/goproxy.
"""
import datetime
import json
import os
import pathlib
import shutil
import sys
import tempfile
import tomllib
import zipfile

from setuptools import build_meta

CLIENTS = pathlib.Path(__file__).resolve().parent


def build_wheel(folder):
    with tempfile.TemporaryDirectory() as copy:  # setuptools writes to the source folder.
        shutil.copytree(CLIENTS / "python", copy, dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("__pycache__", "examples"))
        os.chdir(copy)
        return folder / build_meta.build_wheel(str(folder))


def build_module(folder, version):
    text = (CLIENTS / "go/go.mod").read_text()
    module = text.split()[1]
    versions = folder / "goproxy" / module / "@v"
    versions.mkdir(parents=True, exist_ok=True)
    (versions / "list").write_text(f"{version}\n")
    time = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    (versions / f"{version}.info").write_text(json.dumps({"Version": version, "Time": time}))
    (versions / f"{version}.mod").write_text(text)
    with zipfile.ZipFile(versions / f"{version}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(CLIENTS.parents[1] / "LICENSE", f"{module}@{version}/LICENSE")
        for path in sorted((CLIENTS / "go").rglob("*")):
            if path.is_file():
                archive.write(path, f"{module}@{version}/{path.relative_to(CLIENTS / 'go')}")
    return versions / f"{version}.zip"


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    version = tomllib.loads((CLIENTS / "python/pyproject.toml").read_text())["project"]["version"]
    for path in (build_module(folder, f"v{version}"), build_wheel(folder)):
        print(path)


if __name__ == "__main__":
    main()
