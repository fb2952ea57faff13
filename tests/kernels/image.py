"""Creates the initial RAM file system of the virtual machines: the release binaries, the test binaries,
the files that they use, the programs of this machine that they run, and the modules of a kernel."""

import os
import pathlib
import re
import shutil
import subprocess

from packages import run

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]

# Programs that the tests and the guest's scripts run.
PROGRAMS = """bash sh nft ip tc ss ethtool ipvsadm kmod setpriv unshare nsenter sysctl timeout tail env sleep
  cat comm grep sed sort tar iptables-nft iptables-legacy iptables-nft-save iptables-legacy-save
  iptables-nft-restore iptables-legacy-restore iptables-save iptables-restore iptables ip6tables
  ip6tables-nft-save ip6tables-legacy-save ip6tables-legacy ip6tables-nft ip6tables-restore
  ip6tables-nft-restore ip6tables-legacy-restore""".split()
TESTS = """contract_test packet_test differential_test recovery_test loss_test preflight_test
  migrate_test""".split()
BINARIES = "svcmapd svcmapctl svcmap-demo svcmap-example-controller svcmap-bench".split()
FILES = """/etc/passwd /etc/group /etc/services /etc/protocols /etc/nsswitch.conf /etc/hosts
  /etc/iproute2 /usr/lib/locale/C.utf8
  /usr/lib/x86_64-linux-gnu/xtables""".split()
# Directories of modules. The remaining modules are drivers of hardware.
MODULES = """kernel/net kernel/lib kernel/crypto kernel/arch/x86/crypto kernel/drivers/net/veth
  kernel/drivers/net/dummy kernel/drivers/net/ifb kernel/drivers/net/tun
  kernel/drivers/net/macvlan kernel/drivers/net/vrf""".split()
# The Python interpreter for the tests in guest/, without parts that need much space.
PYTHON = pathlib.Path("/usr/lib/python3.11")
PYTHON_SKIPPED = ("test", "idlelib", "lib2to3", "ensurepip", "pydoc_data", "tkinter", "distutils",
                  "dist-packages", "config-3*", "__pycache__")
TEXT = ("deploy", "docs", "proto", "api", "tests/kernels")


def libraries(programs):
    """Returns the shared libraries and the loader of the programs."""
    found = set()
    for program in programs:
        ended = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
        found |= set(re.findall(r"(/\S+) \(0x", ended.stdout))
    return found


def copy(source, root, name=None):
    """Copies a file or folder to the same path below `root`."""
    target = root / str(name or source).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if os.path.isdir(source):
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    elif not target.exists():
        shutil.copy2(source, target)


def merged_usr(root):
    for folder in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / folder).mkdir(parents=True, exist_ok=True)
        (root / folder).symlink_to(f"usr/{folder}")
    for folder in "proc sys dev tmp run root etc var/lib job".split():
        (root / folder).mkdir(parents=True, exist_ok=True)


def source_folder(build):
    """Returns the source folder that was compiled into the test binaries."""
    text = (build / "CMakeCache.txt").read_text()
    return pathlib.Path(re.search(r"^CMAKE_HOME_DIRECTORY:\w+=(.*)$", text, re.M).group(1))


def programs_root(build, root):
    """Fills the folder `root` with everything except the modules."""
    merged_usr(root)
    path = "/usr/sbin:/usr/bin:/sbin:/bin"
    copied = []
    for name in PROGRAMS:
        found = shutil.which(name, path=path)
        if found is None:
            raise FileNotFoundError(f"program not found: {name}")
        real = os.path.realpath(found)
        folder = root / "usr" / ("sbin" if "sbin" in found else "bin")
        target = folder / os.path.basename(real)
        if not target.exists():
            shutil.copy2(real, target)
            copied.append(real)
        if not (folder / name).exists():
            (folder / name).symlink_to(target.name)
    copied.append("/usr/bin/python3.11")
    shutil.copy2("/usr/bin/python3.11", root / "usr/bin/python3")
    shutil.copytree(PYTHON, root / "usr/lib/python3.11",
                    ignore=shutil.ignore_patterns(*PYTHON_SKIPPED))
    for name in ("modprobe", "insmod", "lsmod", "rmmod", "depmod", "modinfo"):
        (root / "usr/sbin" / name).symlink_to("../bin/kmod")
    shutil.copy2("/bin/busybox", root / "usr/bin/busybox")
    for line in run("/bin/busybox", "--list").split():
        applet = root / "usr/bin" / line
        if not applet.exists() and not (root / "usr/sbin" / line).exists():
            applet.symlink_to("busybox")
    for file in FILES:
        if os.path.exists(file):
            copy(file, root)
    plugins = [*pathlib.Path("/usr/lib/x86_64-linux-gnu/xtables").glob("*.so"),
               *(PYTHON / "lib-dynload").glob("*.so")]

    home = source_folder(build)
    installed = home / build.relative_to(build.parents[1])
    for folder, names in (("tests", TESTS), ("bin", BINARIES)):
        for name in names:
            binary = build / folder / name
            target = root / str(installed / folder / name).lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            run("strip", "--strip-debug", "-o", target, binary)
            copied.append(binary)
    for library in libraries([*copied, *plugins]):
        copy(os.path.realpath(library), root, library)
    for folder in TEXT:
        copy(TOP / folder, root, home / folder)
    (root / "svcmap").symlink_to(installed)
    (root / "source").symlink_to(home)
    shutil.copy2(HERE / "guest/init", root / "init")
    (root / "init").chmod(0o755)


def nft_root(suite, root):
    """Fills `root`/nft/SUITE with the nft program of a Debian suite and its libraries."""
    target = root / "nft" / suite.name
    suite.extract(suite.dependencies("nftables"), target)
    for folder in ("usr/share", "var", "usr/lib/python3"):
        shutil.rmtree(target / folder, ignore_errors=True)
    for folder in ("bin", "sbin", "lib", "lib64"):
        if (target / folder).is_symlink() or not (target / folder).exists():
            continue
        # Before Debian 13, packages contain files in both /lib and /usr/lib.
        shutil.copytree(target / folder, target / "usr" / folder, symlinks=True, dirs_exist_ok=True)
        shutil.rmtree(target / folder)
    for folder in ("sbin", "lib", "lib64"):
        if (target / "usr" / folder).exists() and not (target / folder).is_symlink():
            (target / folder).symlink_to(f"usr/{folder}")
    run("chroot", target, "/usr/sbin/nft", "--version")


def nft_wrapper(suite, root):
    """Creates /nft-bin/SUITE/nft, which runs the nft program of a suite with this suite's libraries."""
    libraries = f"/nft/{suite}/usr/lib/x86_64-linux-gnu"
    wrapper = root / "nft-bin" / suite / "nft"
    # The kernel names the process after the executed file, so the loader needs the name nft.
    loader = wrapper.parent / "loader" / "nft"
    loader.parent.mkdir(parents=True)
    loader.symlink_to(f"{libraries}/ld-linux-x86-64.so.2")
    wrapper.write_text(f"""#!/bin/sh
exec /{loader.relative_to(root)} --library-path {libraries} /nft/{suite}/usr/sbin/nft "$@"
""")
    wrapper.chmod(0o755)


def modules_root(kernel, root):
    """Fills `root` with the modules for tests. `kernel` is a folder with an extracted kernel package."""
    modules = next(p for p in (*kernel.glob("lib/modules/*"), *kernel.glob("usr/lib/modules/*")))
    target = root / "usr/lib/modules" / modules.name
    target.mkdir(parents=True)
    for name in MODULES:
        if (modules / name).is_dir():
            shutil.copytree(modules / name, target / name)
        for file in modules.glob(f"{name}.ko*"):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, (target / name).parent)
    # The emulated processor takes seconds to decompress a module.
    compressed = [str(p) for p in target.rglob("*.ko.xz")]
    if compressed:
        run("xz", "--decompress", *compressed)
    for file in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        if (modules / file).exists():
            shutil.copy2(modules / file, target)
    run("depmod", "-b", root / "usr", "-e", "-F", system_map(kernel, root), modules.name)


def system_map(kernel, root):
    """Returns a symbol table for depmod. Debian's file is a placeholder, so an empty one is used."""
    empty = root.parent / "System.map"
    empty.write_text("")
    return empty


def archive(root, target):
    """Writes the folder `root` as a cpio archive. The kernel unpacks concatenated archives."""
    part = target.with_suffix(".part")
    with open(part, "wb") as out:
        names = subprocess.run(["find", ".", "-print0"], cwd=root, check=True, capture_output=True)
        subprocess.run(["cpio", "--null", "--create", "--format=newc", "--quiet", "--owner=0:0"],
                       cwd=root, input=names.stdout, stdout=out, check=True)
    part.rename(target)


def vmlinuz(kernel):
    return next(p for p in (*kernel.glob("boot/vmlinuz-*"), *kernel.glob("usr/lib/modules/*/vmlinuz")))
