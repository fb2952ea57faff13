#!/usr/bin/python3
"""Reloads host firewalls and changes hostPorts while connections to svcmap's Services are opened.

run.py DIRECTORY-OF-THE-BINARIES [TOOL]...: without TOOL, tests all tools. Prints one row for each action. The
columns are the tool, the action, the number of new connections to Services, the number of failed connections to
Services, the number of failed connections without a Service, and the number of elements that svcmapd wrote during
the action. Numbers of connections are "IPv4, IPv6". The connections without a Service are from a pod and from the
node to another pod. Fails if only connections to Services fail in one family, or if svcmapd writes elements although
its tables were not changed.

The test runs in separate mount, process and network namespaces. It does not use the rules, the configuration
files and the D-Bus of the host. Needs root and the packages of the group `firewalls` in third_party/packages.txt.
"""

import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
TRAFFIC = HERE.parent / "packages" / "traffic.py"
# Each pair of addresses contains one address of each family.
FAMILIES = ("IPv4", "IPv6")
NODE = ("192.0.2.1", "2001:db8::1")
CLIENT = ("192.0.2.2", "2001:db8::2")
NODE_PREFIXES = (24, 64)
POD_GATEWAY = ("10.1.0.1", "fd00:10:1::1")
PODS = {f"pod{n}": (f"10.1.0.{n}", f"fd00:10:1::{n}") for n in (5, 6, 7)}
POD_PREFIXES = (32, 128)
POD_RANGES = ("10.1.0.0/16", "fd00:10:1::/64")
CLUSTER_IP = ("10.96.0.10", "fd00:10:96::10")
NODE_PORT = 30080
HOST_PORT = 8081
SERVICES = 200
LIMIT = 60  # Seconds. Ends only tests that hang.
BEFORE = 1.0  # Seconds of traffic before and after an action.
AFTER = 2.0
PRIVATE = ["/etc/ufw", "/etc/default", "/etc/firewalld", "/var/lib/cni"]
STACK_FILES = "/run/test"


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def until(what, condition):
    end = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"not true after {LIMIT} s: {what}")
        time.sleep(0.05)


def succeeds(*command):
    return subprocess.run(command, capture_output=True).returncode == 0


class Process:
    """A process in a network namespace, or in the namespace of the node if `space` is None."""

    def __init__(self, name, *command, space=None):
        self.log = Path(STACK_FILES, f"{name}.log")
        within = ["ip", "netns", "exec", space] if space else []
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([*within, *command], stdout=log, stderr=log)

    def stop(self):
        self.process.terminate()
        self.process.wait(LIMIT)


def connect(space, link, addresses, gateways, prefixes):
    """Connects the namespace `space` to the node, which has the addresses `gateways` on its interface `link`."""
    run("ip", "netns", "add", space)
    run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
    run("ip", "-n", space, "link", "set", "lo", "up")
    run("ip", "-n", space, "link", "set", "eth0", "up")
    run("ip", "link", "set", link, "up")
    for address, gateway, prefix in zip(addresses, gateways, prefixes):
        run("ip", "-n", space, "address", "add", f"{address}/{prefix}", "dev", "eth0", "nodad")
        run("ip", "address", "add", f"{gateway}/{prefix}", "dev", link, "nodad")
        run("ip", "-n", space, "route", "add", "default", "via", gateway, "dev", "eth0", "onlink")


def make_network():
    run("ip", "link", "set", "lo", "up")
    for setting in ("net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1", "net.ipv4.conf.all.route_localnet=1",
                    # Ports of finished connections are used again after a second, so entries must not accumulate.
                    "net.netfilter.nf_conntrack_tcp_timeout_time_wait=1"):
        run("sysctl", "-qw", setting)
    connect("client", "outside", CLIENT, NODE, NODE_PREFIXES)
    for address in CLIENT:
        run("ip", "route", "add", "default", "via", address)
    for name, addresses in PODS.items():
        connect(name, f"veth-{name}", addresses, POD_GATEWAY, POD_PREFIXES)
        for address in addresses:
            run("ip", "route", "add", address, "dev", f"veth-{name}")
        # Connections of different clients arrive with the same masqueraded address. A socket in TIME-WAIT would
        # reject a connection whose timestamps are lower.
        run("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv4.tcp_max_tw_buckets=0")


def objects():
    """Returns the Service that receives connections, and further Services with ten endpoints each."""
    items = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"},
         "status": {"addresses": [{"type": "InternalIP", "address": address} for address in NODE]}}]
    for n in range(SERVICES):
        name = "web" if n == 0 else f"other-{n}"
        ips = CLUSTER_IP if n == 0 else [f"10.96.1.{n}"]
        spec = {"clusterIP": ips[0], "clusterIPs": ips, "ipFamilies": FAMILIES[:len(ips)],
                "ports": [{"port": 80, "targetPort": 8080}]}
        if n == 0:
            spec["type"] = "NodePort"
            spec["ports"][0]["nodePort"] = NODE_PORT
        slices = zip(PODS["pod6"], PODS["pod7"]) if n == 0 else [[f"10.2.{n}.{i}" for i in range(10)]]
        items.append({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "shop", "name": name}, "spec": spec})
        for family, addresses in zip(FAMILIES, slices):
            items.append({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
                "metadata": {"namespace": "shop", "name": f"{name}-{family.lower()}",
                             "labels": {"kubernetes.io/service-name": name}},
                "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
                "endpoints": [{"addresses": [address], "nodeName": "node"} for address in addresses]})
    return {"apiVersion": "v1", "kind": "List", "items": items}


class Svcmap:
    def __init__(self, binaries):
        self.binaries = binaries
        self.socket = f"unix://{STACK_FILES}/svcmap.sock"
        self.daemon = Process(
            "svcmapd", f"{binaries}/svcmapd", "--node-name", "node", "--listen", self.socket,
            "--state-dir", f"{STACK_FILES}/state", "--cluster-cidr", ",".join(POD_RANGES))
        until("svcmapd accepts calls", lambda: succeeds(f"{binaries}/svcmapctl", "--address", self.socket, "status"))
        manifest = Path(STACK_FILES, "objects.json")
        manifest.write_text(json.dumps(objects()))
        self.ctl("apply", "-f", str(manifest))
        self.ctl("wait")
        until("the Service is programmed", self.settled)

    def ctl(self, *arguments):
        return run(f"{self.binaries}/svcmapctl", "--address", self.socket, *arguments)

    def metric(self, name):
        with urllib.request.urlopen("http://127.0.0.1:10249/metrics", timeout=LIMIT) as page:
            values = re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", page.read().decode(), re.MULTILINE)
        return sum(float(value) for value in values)

    def settled(self):
        return self.metric("svcmap_verified") == 1 and self.metric("svcmap_pending_services") == 0


class Test:
    def __init__(self, svcmap):
        self.svcmap = svcmap
        self.problems = []

    def load(self, space, address, port):
        within = ["ip", "netns", "exec", space] if space else []
        return subprocess.Popen([*within, sys.executable, str(TRAFFIC), "load", address, str(port)],
                                stdout=subprocess.PIPE, text=True)

    def step(self, tool, action, act, damages=False, hits_host_port=False):
        """Performs one action under traffic, and prints its row. `damages` means that the action deletes
        svcmap's tables."""
        written = self.svcmap.metric("svcmap_elements_written_total")
        loads = {(space, to[family], port): self.load(space, to[family], port) for family in range(2)
                 for space, to, port in (
                     ("client", NODE, NODE_PORT), ("pod5", CLUSTER_IP, 80), (None, CLUSTER_IP, 80),
                     ("pod7", PODS["pod6"], 8080), (None, PODS["pod6"], 8080))}
        time.sleep(BEFORE)
        act()
        until("svcmapd has verified its tables", self.svcmap.settled)
        time.sleep(AFTER)
        for load in loads.values():
            load.send_signal(signal.SIGTERM)
        connections, failed, direct = [0, 0], [0, 0], [0, 0]  # For each family.
        for (space, address, port), load in loads.items():
            result = json.loads(load.communicate(timeout=LIMIT)[0])
            if result["failed"]:
                print(f"{tool}, {action}: from {space or 'node'} to {address} port {port}: {result['failed']} failed: "
                      f"{result['errors']}", file=sys.stderr, flush=True)
            family = int(":" in address)
            if address in PODS["pod6"]:
                direct[family] += result["failed"]
            else:
                connections[family] += result["connections"]
                failed[family] += result["failed"]
        written = int(self.svcmap.metric("svcmap_elements_written_total") - written)
        counts = [", ".join(map(str, count)) for count in (connections, failed, direct)]
        print(f"| {tool} | {action} | {' | '.join(counts)} | {written} |", flush=True)
        for family in range(2):
            if failed[family] and not damages and not direct[family]:
                self.problems.append(f"{tool}, {action}: only {FAMILIES[family]} connections to Services failed")
        if written and not damages:
            self.problems.append(f"{tool}, {action}: svcmapd wrote {written} elements")
        if damages and not written:
            self.problems.append(f"{tool}, {action}: svcmapd wrote no elements")

    def host_port(self, expected):
        """Waits until connections to the hostPort are accepted or refused, as expected."""
        def attempt(address):
            command = f"exec 3< /dev/tcp/{address}/{HOST_PORT} && cat <&3"
            done = subprocess.run(["ip", "netns", "exec", "client", "timeout", "5", "bash", "-c", command],
                                  capture_output=True, text=True)
            return (done.stdout + done.stderr).strip()

        text = "svcmap" if expected else "Connection refused"
        for address in NODE:
            until(f"a connection to the hostPort of {address} results in: {text}", lambda: text in attempt(address))


def test_firewalld(test, backend):
    config = Path("/etc/firewalld/firewalld.conf")
    config.write_text(re.sub("^FirewallBackend=.*$", f"FirewallBackend={backend}", config.read_text(), flags=re.M))
    tool = f"firewalld, {backend}"
    daemons = []

    def start():
        daemons.append(Process("firewalld", "firewalld", "--nofork", "--nopid"))
        until("firewalld is running", lambda: succeeds("firewall-cmd", "--state"))

    def stop():
        daemons.pop().stop()

    # Pods need a zone that accepts their packets, as the documentation of firewalld describes for Kubernetes.
    zones = Path("/etc/firewalld/zones")
    zones.mkdir(exist_ok=True)
    (zones / "trusted.xml").write_text(
        '<?xml version="1.0" encoding="utf-8"?>\n<zone target="ACCEPT"><short>Trusted</short>' +
        "".join(f'<interface name="veth-{name}"/>' for name in PODS) + "<forward/></zone>\n")
    test.step(tool, "start", start)
    test.step(tool, "`firewall-cmd --reload`", lambda: run("firewall-cmd", "--reload"))
    test.step(tool, "`firewall-cmd --complete-reload`", lambda: run("firewall-cmd", "--complete-reload"))
    test.step(tool, "stop and start", lambda: (stop(), start()))
    test.step(tool, "stop", stop)


def test_ufw(test):
    tool = "ufw"
    # Service traffic is forwarded, which ufw denies by default.
    run("ufw", "default", "allow", "routed")
    for pods in POD_RANGES:
        run("ufw", "allow", "from", pods)
    test.step(tool, "`ufw enable`", lambda: run("ufw", "--force", "enable"))
    test.step(tool, "`ufw reload`", lambda: run("ufw", "reload"))
    test.step(tool, "`ufw allow 443/tcp`", lambda: run("ufw", "allow", "443/tcp"))
    test.step(tool, "`ufw disable`", lambda: run("ufw", "disable"))
    for iptables in ("iptables", "ip6tables"):
        clear(iptables)


DOCKER = """\
*nat
:DOCKER - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A OUTPUT ! -d {loopback} -m addrtype --dst-type LOCAL -j DOCKER
-A POSTROUTING -s {network} ! -o docker0 -j MASQUERADE
-A DOCKER -i docker0 -j RETURN
-A DOCKER ! -i docker0 -p tcp -m tcp --dport 8443 -j DNAT --to-destination {destination}
COMMIT
*filter
:FORWARD DROP [0:0]
:DOCKER - [0:0]
:DOCKER-ISOLATION-STAGE-1 - [0:0]
:DOCKER-ISOLATION-STAGE-2 - [0:0]
:DOCKER-USER - [0:0]
-A FORWARD -j DOCKER-USER
-A FORWARD -j DOCKER-ISOLATION-STAGE-1
-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -o docker0 -j DOCKER
-A FORWARD -i docker0 ! -o docker0 -j ACCEPT
-A FORWARD -i docker0 -o docker0 -j ACCEPT
-A DOCKER -d {container} ! -i docker0 -o docker0 -p tcp -m tcp --dport 443 -j ACCEPT
-A DOCKER-ISOLATION-STAGE-1 -i docker0 ! -o docker0 -j DOCKER-ISOLATION-STAGE-2
-A DOCKER-ISOLATION-STAGE-1 -j RETURN
-A DOCKER-ISOLATION-STAGE-2 -o docker0 -j DROP
-A DOCKER-ISOLATION-STAGE-2 -j RETURN
-A DOCKER-USER -m conntrack --ctstate DNAT -j ACCEPT
-A DOCKER-USER -s {pods} -j ACCEPT
-A DOCKER-USER -d {pods} -j ACCEPT
-A DOCKER-USER -j RETURN
COMMIT
"""


def test_iptables(test, iptables):
    tool = iptables
    restore = f"{iptables}-restore"
    docker = (DOCKER.format(loopback="::1", network="fd00:17::/64", container="fd00:17::2",
                            destination="[fd00:17::2]:443", pods=POD_RANGES[1])
              if iptables.startswith("ip6") else
              DOCKER.format(loopback="127.0.0.0/8", network="172.17.0.0/16", container="172.17.0.2",
                            destination="172.17.0.2:443", pods=POD_RANGES[0]))

    def load(rules, *flags):
        run(restore, *flags, input=rules)

    def restart():
        # At its start, dockerd deletes its chains and creates them again.
        for table, chains in (("nat", ["DOCKER"]), ("filter", ["DOCKER", "DOCKER-ISOLATION-STAGE-1",
                                                               "DOCKER-ISOLATION-STAGE-2"])):
            for chain in chains:
                run(iptables, "-t", table, "-F", chain)
        load(docker)

    test.step(tool, "load Docker's chains, policy DROP of FORWARD", lambda: load(docker))
    test.step(tool, "flush and load Docker's chains", restart)
    saved = run(f"{iptables}-save")
    test.step(tool, f"`{restore}` of all tables, with flush", lambda: load(saved))
    test.step(tool, f"`{restore}` 20 times", lambda: [load(saved) for _ in range(20)])
    test.step(tool, "remove all rules and chains", lambda: clear(iptables))


def clear(iptables):
    for chain in ("INPUT", "FORWARD", "OUTPUT"):
        run(iptables, "-P", chain, "ACCEPT")
    for table in ("nat", "filter", "mangle", "raw"):
        run(iptables, "-t", table, "-F")
        run(iptables, "-t", table, "-X")


def test_nft(test):
    tool = "nft"
    ruleset = "table inet filter {\n chain input { type filter hook input priority filter; policy accept; }\n}\n"
    test.step(tool, "load a separate table", lambda: run("nft", "-f", "-", input=ruleset))
    test.step(tool, "`flush table` of the separate table and load", lambda: run(
        "nft", "-f", "-", input="flush table inet filter\ndelete table inet filter\n" + ruleset))
    test.step(tool, "`flush ruleset` and load, like nftables.service", lambda: run(
        "nft", "-f", "-", input="flush ruleset\n" + ruleset), damages=True)
    run("nft", "delete", "table", "inet", "filter")


def portmap(command):
    network = {
        "cniVersion": "0.4.0", "name": "test", "type": "portmap", "snat": True,
        "capabilities": {"portMappings": True},
        "runtimeConfig": {"portMappings": [{"hostPort": HOST_PORT, "containerPort": 8080, "protocol": "tcp"}]},
        "prevResult": {
            "cniVersion": "0.4.0", "interfaces": [{"name": "eth0", "sandbox": "/run/netns/pod7"}],
            "ips": [{"version": family[-1], "interface": 0, "address": f"{address}/{prefix}"}
                    for family, address, prefix in zip(FAMILIES, PODS["pod7"], POD_PREFIXES)]}}
    environment = {**os.environ, "CNI_COMMAND": command, "CNI_CONTAINERID": "pod7", "CNI_IFNAME": "eth0",
                   "CNI_NETNS": "/run/netns/pod7", "CNI_PATH": "/usr/lib/cni"}
    run("/usr/lib/cni/portmap", input=json.dumps(network), env=environment)


def test_portmap(test):
    tool = "portmap"
    test.step(tool, "ADD", lambda: portmap("ADD"))
    test.host_port(True)
    test.step("nft", "`flush ruleset` beside hostPorts", lambda: run("nft", "flush", "ruleset"), damages=True)
    test.host_port(False)  # The plugin runs only when a pod starts or stops.
    test.step(tool, "ADD after the flush", lambda: portmap("ADD"))
    test.host_port(True)
    test.step(tool, "DEL", lambda: portmap("DEL"))
    test.host_port(False)
    for iptables in ("iptables", "ip6tables"):
        clear(iptables)


TESTS = {
    "none": lambda test: test.step("none", "none", lambda: None),
    "firewalld": lambda test: test_firewalld(test, "nftables"),
    "firewalld-iptables": lambda test: test_firewalld(test, "iptables"),
    "ufw": test_ufw,
    **{iptables: functools.partial(test_iptables, iptables=iptables)
       for iptables in ("iptables-nft", "iptables-legacy", "ip6tables-nft", "ip6tables-legacy")},
    "nft": test_nft,
    "portmap": test_portmap,
}


def inside(binaries, tools):
    run("mount", "-t", "tmpfs", "tmpfs", "/run")
    for folder in ("/run/dbus", "/run/netns", STACK_FILES):
        os.makedirs(folder)
    for path in PRIVATE:
        copy = f"/run/private{path}"
        if os.path.isdir(path):
            shutil.copytree(path, copy, symlinks=True)
            run("mount", "--bind", copy, path)
    make_network()
    Process("dbus", "dbus-daemon", "--system", "--nofork", "--nopidfile")
    until("the private D-Bus accepts connections", lambda: os.path.exists("/run/dbus/system_bus_socket"))
    for name in ("pod6", "pod7"):
        Process(name, sys.executable, str(TRAFFIC), "serve", "::", "8080", space=name)
    svcmap = Svcmap(binaries)
    test = Test(svcmap)
    print("| Tool | Action | Connections to Services | Failed | Failed without Service | Elements written |")
    print("| --- | --- | ---: | ---: | ---: | ---: |", flush=True)
    for tool in tools:
        TESTS[tool](test)
    for problem in test.problems:
        print(problem, file=sys.stderr)
    if test.problems:
        print(svcmap.daemon.log.read_text()[-4000:], file=sys.stderr)
    return 1 if test.problems else 0


def main():
    if sys.argv[1] == "--inside":
        sys.exit(inside(sys.argv[2], sys.argv[3:]))
    unknown = set(sys.argv[2:]) - set(TESTS)
    if unknown:
        sys.exit(f"unknown tools: {' '.join(sorted(unknown))}; expected: {' '.join(TESTS)}")
    before = run("nft", "list", "ruleset")
    code = subprocess.run(
        ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, __file__,
         "--inside", os.path.realpath(sys.argv[1]), *(sys.argv[2:] or TESTS)]).returncode
    if run("nft", "list", "ruleset") != before:
        sys.exit("the rules of the host have changed during the test")
    sys.exit(code)


main()
