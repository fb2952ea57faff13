"""Kernel modules: loading on demand, missing modules, and a kernel that forbids loading. Must run last in
a virtual machine, because module loading stays disabled."""

import glob
import pathlib
import re
import subprocess
import time
import unittest

from world import BIN, NODE_OBJECT, World, ask, note, run, service

PATTERN = re.compile(r"^(nft?_|nf_|xt_|ip_tables|ip6_tables|iptable|ip6table|x_tables|nfnetlink|br_netf)")
CONF = pathlib.Path("/etc/modprobe.d/test.conf")
HELPER = pathlib.Path("/proc/sys/kernel/modprobe")


def loaded():
    return [line.split()[0] for line in pathlib.Path("/proc/modules").read_text().splitlines()]


def unload():
    """Unloads all modules of netfilter."""
    deadline = time.monotonic() + 60
    while names := [n for n in loaded() if PATTERN.match(n)]:
        for name in names:
            subprocess.run(["rmmod", name], capture_output=True, check=False)
        assert time.monotonic() < deadline, f"still loaded: {names}"


def is_module(name):
    return bool(glob.glob(f"/usr/lib/modules/*/kernel/**/{name}.ko*", recursive=True))


def check(*prefix):
    return run(*prefix, f"{BIN}/svcmapd", "--init-only", "--node-name=n1", check=False)


class ModulesTest(unittest.TestCase):
    def setUp(self):
        CONF.parent.mkdir(exist_ok=True)
        CONF.write_text("")
        HELPER.write_text("/sbin/modprobe")
        unload()

    def test_1_the_kernel_loads_modules_on_demand(self):
        ended = check()
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("nft_masq", loaded())
        note(f"modules loaded on demand: {len([n for n in loaded() if PATTERN.match(n)])}")

    def test_2_cap_net_admin_is_sufficient(self):
        ended = check("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                      "--inh-caps=-all,+net_admin", "--ambient-caps=+net_admin",
                      "--bounding-set=-all,+net_admin")
        self.assertEqual(ended.returncode, 0, ended.stderr)

    def test_3_a_missing_module_is_named(self):
        required = """nfnetlink nf_tables nf_conntrack_netlink nft_ct nft_chain_nat nft_nat
            nft_masq nft_numgen nft_fib_ipv4 nft_fib_ipv6 nft_reject_ipv4 nft_reject_ipv6""".split()
        for name in filter(is_module, required):
            with self.subTest(module=name):
                unload()
                CONF.write_text(f"install {name} /bin/false\n")
                ended = check()
                output = ended.stdout + ended.stderr
                self.assertNotEqual(ended.returncode, 0, output)
                self.assertRegex(output, rf"modprobe -a [a-z0-9_ ]*\b{name}\b", output)
                CONF.write_text("")
                ended = check()
                self.assertEqual(ended.returncode, 0, ended.stderr)

    def test_4_the_remedies_load_all_modules_if_the_kernel_loads_none(self):
        HELPER.write_text("/bin/false")
        ended = check()
        self.assertNotEqual(ended.returncode, 0)
        rounds = 0
        while ended.returncode != 0:
            rounds += 1
            # First nfnetlink, then nf_tables, and then all other modules.
            self.assertLessEqual(rounds, 4, ended.stderr)
            remedy = re.search(r"modprobe -a [a-z0-9_ ]+", ended.stdout + ended.stderr)
            self.assertTrue(remedy, ended.stdout + ended.stderr)
            run(*remedy.group(0).split())
            ended = check()

    def test_5_the_documented_modules_are_sufficient(self):
        page = pathlib.Path("/source/docs/operations.md").read_text(encoding="utf-8")
        block = re.search(r"# /etc/modules-load\.d/svcmap\.conf\n((?: {4}\S+\n)+)", page)
        run("modprobe", "-a", *block.group(1).split())
        with World(agent=False) as world:  # Loads veth.
            HELPER.write_text("/bin/false")
            world.start_agent()
            world.serve(("TCP", "UDP"))
            world.apply(NODE_OBJECT + service("web", 10, ("TCP", "UDP")) +
                        service("sticky", 11, ("TCP",), spec="sessionAffinity: ClientIP"))
            for address in ("10.96.0.10", "fd00:96::10"):
                for protocol in ("TCP", "UDP"):
                    self.assertIn(ask("pod", protocol, address, 80)[0], ("b1", "b2"))
            self.assertIn(ask("ext", "TCP", "203.0.113.10", 80)[0], ("b1", "b2"))

    def test_6_modules_disabled(self):
        pathlib.Path("/proc/sys/kernel/modules_disabled").write_text("1")
        # On a slow machine, the kernel can load nfnetlink again before loading is forbidden.
        # Debian's Linux 7.3 contains nfnetlink, so it is no module.
        first_missing = next(n for n in ("nfnetlink", "nf_tables")
                             if is_module(n) and n not in loaded())
        ended = check()
        self.assertNotEqual(ended.returncode, 0)
        output = ended.stdout + ended.stderr
        self.assertIn("kernel.modules_disabled is 1", output)
        self.assertRegex(output, rf"add the modules [a-z0-9_ ]*\b{first_missing}\b")


if __name__ == "__main__":
    unittest.main(verbosity=2)
