"""Downloads and extracts packages of any Debian suite. Uses separate package lists, so apt's
configuration of the machine does not change and no package is installed."""

import functools
import pathlib
import re
import subprocess

MIRROR = "http://deb.debian.org"


class PackageError(Exception):
    """A suite or a package is not available."""


def run(*argv, **kwargs):
    ended = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=900, **kwargs)
    if ended.returncode != 0:
        message = (ended.stderr or ended.stdout).strip().splitlines()
        raise PackageError(f"{argv[0]} {argv[-1]}: {message[-1] if message else 'failed'}")
    return ended.stdout


class Suite:
    """The packages of a suite. The package lists are stored in `folder`."""

    def __init__(self, name, folder):
        self.name = name
        self._folder = pathlib.Path(folder) / name
        self._updated = False

    def _apt(self, program, *argv, cwd=None):
        options = {
            "Dir::Etc::sourcelist": self._folder / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::State::lists": self._folder / "lists",
            "Dir::State::status": "/dev/null",
            "Dir::Cache": self._folder / "cache",
            "APT::Sandbox::User": "root",
            "APT::Architecture": "amd64",
        }
        flags = [part for key, value in options.items() for part in ("-o", f"{key}={value}")]
        return run(program, *flags, *argv, cwd=cwd)

    def update(self):
        """Downloads the package lists once."""
        if self._updated:
            return
        for part in ("lists/partial", "cache/archives/partial"):
            (self._folder / part).mkdir(parents=True, exist_ok=True)
        archive = "debian-security" if self.name.endswith("-security") else "debian"
        (self._folder / "sources.list").write_text(f"deb {MIRROR}/{archive} {self.name} main\n")
        self._apt("apt-get", "--error-on=any", "update")
        self._updated = True

    def newest(self, pattern):
        """Returns name and version of the newest package whose name matches `pattern`."""
        self.update()
        names = [n for n in self._apt("apt-cache", "pkgnames", "linux-image-").split()
                 if re.fullmatch(pattern, n)]
        found = [(self.version(name), name) for name in names]
        found = [(version, name) for version, name in found if version]
        if not found:
            raise PackageError(f"{self.name} has no package {pattern}")
        version, name = max(found, key=lambda entry: functools.cmp_to_key(compare)(entry[0]))
        return name, version

    def version(self, package):
        """Returns the newest version of a package, or "" if the package cannot be downloaded."""
        text = self._apt("apt-cache", "--no-all-versions", "show", package)
        found = re.search(r"^Version: (\S+)", text, re.M)
        return found.group(1) if found else ""

    def dependencies(self, package):
        """Returns the packages that installation of `package` in an empty system requires."""
        self.update()
        text = self._apt("apt-get", "--simulate", "--no-install-recommends", "install", package)
        return re.findall(r"^Inst (\S+)", text, re.M)

    def extract(self, packages, target):
        """Downloads the packages and extracts their files in the folder `target`."""
        self.update()
        downloads = self._folder / "cache"
        target.mkdir(parents=True, exist_ok=True)
        for package in packages:
            for old in downloads.glob(f"{package}_*.deb"):
                old.unlink()
            self._apt("apt-get", "download", package, cwd=downloads)
            (deb,) = downloads.glob(f"{package}_*.deb")
            run("dpkg-deb", "-x", deb, target)
            depends = run("dpkg-deb", "-f", deb, "Depends")
            deb.unlink()
            # Linux 7 is split into several packages.
            parts = re.findall(r"\b(linux-(?:binary|modules)-[^ ,]+)", depends)
            if parts:
                self.extract(parts, target)


def compare(one, other):
    """Compares two Debian versions."""
    if one == other:
        return 0
    less = subprocess.run(["dpkg", "--compare-versions", one, "lt", other], check=False)
    return -1 if less.returncode == 0 else 1
