#!/usr/bin/python3
"""Measures how many nanoseconds each part of the rules adds to the first packet of a connection.

Compares the rules of svcmap with the rules of kube-proxy 1.36, both written as text for nft. Needs root, nft, ip,
sysctl, unshare and Python 3. Creates network namespaces, which disappear when the script ends:

    sudo ./first_packet.py

A client sends UDP datagrams to a Service, each from a new source port. The kernel processes a datagram completely
during send(), up to the socket of the endpoint. Therefore, the duration of send() includes all rules. The endpoint
answers, and the duration of its send() is the time of the reply. All rulesets take turns in each round. A rule that
does not change a packet is measured with --copies copies of the rule. The printed values are medians of the
differences within a round.
"""
import argparse
import ctypes
import gc
import os
import socket
import statistics
import struct
import subprocess
import sys
import time

ENDPOINTS = 10
CLASSES = 37  # Number of svcmap's pick classes.
PORT, TARGET_PORT = 80, 8080
CLONE_NEWNET = 0x40000000
NETLINK_NETFILTER, CONNTRACK_DELETE = 12, 0x102
LIBC = ctypes.CDLL(None, use_errno=True)


def run(*command, text=None):
    done = subprocess.run(command, input=text, text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed: {done.stderr[:2000]}")
    return done.stdout


class Family:
    def __init__(self, version, services):
        v4 = version == 4
        self.name = f"IPv{version}"
        self.socket = socket.AF_INET if v4 else socket.AF_INET6
        self.ip, self.type = ("ip", "ipv4_addr") if v4 else ("ip6", "ipv6_addr")
        self.client, self.endpoint = ("10.1.0.2", "10.2.0.2") if v4 else ("fd00:1::2", "fd00:2::2")
        self.pods, self.services_range = ("10.1.0.0/16", "10.96.0.0/12") if v4 else ("fd00:1::/64", "fd00:96::/108")
        self.group = "@nh,136,24" if v4 else "@nh,288,32"  # The endpoint group in the descriptor.
        self.byte = "@nh,128,8" if v4 else "@nh,192,8"  # The class in the descriptor.
        self.first_byte = 10 if v4 else 0xfd  # Of the addresses of Services.
        self.services = services
        self.service = self.address(services // 2)

    def address(self, service):
        return f"10.96.{service >> 8}.{service & 255}" if self.ip == "ip" else f"fd00:96::{service:x}"

    def descriptor(self, service):
        return f"10.0.{service >> 8}.{service & 255}" if self.ip == "ip" else f"a00::{service:x}"

    def group_of(self, service):
        return (0x600000 if self.ip == "ip" else 0) + service

    def fill(self, text):
        for name in ("ip", "type", "group", "byte", "service", "endpoint", "pods"):
            text = text.replace(f"<{name}>", getattr(self, name))
        return text.replace("<range>", self.services_range)


# Rule, its number on the path of a packet with svcmap and with kube-proxy, and the description. The packet is a
# datagram of a pod to a cluster IP. All rules are evaluated at the hook `prerouting`, and change nothing.
KEY = "<ip> daddr . meta l4proto . th dport"
PIECES = [
    ("ct state new jump empty", 3, 3, "`ct state new jump` to an empty chain"),
    (f"{KEY} @no-keys", 2, 2, "lookup of address, protocol and port in an empty set"),
    ("ct status ! confirmed", 1, 0, "`ct status ! confirmed`"),
    ("jump empty", 3, 4, "`jump` to an empty chain, instead of `jump`, `goto` and verdicts of maps"),
    ("<ip> daddr @cluster-ips", 1, 1, "lookup of the address in `cluster-ips`, found"),
    ("<ip> saddr != <pods>", 1, 1, "comparison of the source with the CIDR of the pods"),
    (f"{KEY} @keys", 1, 1, "lookup of address, protocol and port in `service-ips`, found"),
    ("<ip> daddr set <service>", 1, 0, "write of the descriptor"),
    ("<byte> vmap @classes", 1, 0, "verdict map of the 37 classes"),
    ("meta l4proto { tcp, udp, sctp }", 1, 0, "`meta l4proto { tcp, udp, sctp }`"),
    ("meta l4proto udp", 0, 1, "`meta l4proto udp`"),
    (f"<group> . numgen random mod {ENDPOINTS} @slots", 1, 0, "random number, lookup in `endpoints`"),
    (f"numgen random mod {ENDPOINTS} @ten", 0, 1, "random number, lookup in a map of 10 elements"),
    ("<ip> daddr @cluster-ips-empty", 1, 1, "lookup of the address in `cluster-ips`, not found"),
    ("<ip> daddr @other-range", 1, 1, "lookup of the address in a set of CIDRs, not found"),
    ("meta mark & 0x4000 != 0", 1, 1, "`meta mark & 0x4000 != 0`"),
    (f"ct status ! snat <ip> saddr . {KEY} @no-hairpins", 1, 1, "lookup in `hairpin-connections`, not found"),
]

FILTERS = """
    chain firewall-prerouting { type filter hook prerouting priority -110; ct state new jump firewall-check; }
    chain filter-forward {
      type filter hook forward priority 0
      ct state new jump service-endpoints-check
      ct state new jump cluster-ips-check
    }
    set firewall-ips { type <type> . inet_proto . inet_service; }
    set no-endpoint-services { type <type> . inet_proto . inet_service; }
    set hairpin-connections { type <type> . <type> . inet_proto . inet_service; }
    set service-cidrs { type <type>; flags interval; elements = { <range> }; }
    chain firewall-check { """ + KEY + """ @firewall-ips drop; }
    chain service-endpoints-check { """ + KEY + """ @no-endpoint-services drop; }
    chain cluster-ips-check { <ip> daddr @cluster-ips reject; <ip> daddr @service-cidrs drop; }
    chain masquerading {
      meta mark & 0x4000 != 0 meta mark set meta mark ^ 0x4000 masquerade fully-random
      ct status dnat <ip> saddr . """ + KEY + """ @hairpin-connections masquerade fully-random
    }
    chain mark-masq { meta mark set meta mark | 0x4000; }"""


class Rulesets:
    """The rulesets of a family, as text."""

    def __init__(self, family, copies):
        self.family = family
        self.copies = copies

    def elements(self, make):
        return "elements = { " + ", ".join(make(service) for service in range(1, self.family.services)) + " }; "

    def table(self, *parts):
        return self.family.fill("table <ip> t {\n" + "\n".join(parts) + "\n}\n")

    def cluster_ips(self):
        return "set cluster-ips { type <type>; " + self.elements(self.family.address) + "}"

    def key(self, service):
        return f"{self.family.address(service)} . udp . {PORT}"

    def keys(self, make_slot):
        return ", ".join(make_slot(slot) for slot in range(ENDPOINTS))

    def dnat(self, before=""):
        return ("chain postrouting { type nat hook postrouting priority 100; }\n"
                "chain prerouting { type nat hook prerouting priority -100; " + before +
                f"<ip> daddr <service> meta l4proto udp dnat to {self.target()}; }}")

    def target(self):
        address = self.family.endpoint
        return f"{address}:{TARGET_PORT}" if self.family.ip == "ip" else f"[{address}]:{TARGET_PORT}"

    def sets(self):
        """The sets of PIECES."""
        continues = ", ".join(f"{number} : continue" for number in range(1, CLASSES))
        return (
            "chain empty { }\n" + self.cluster_ips() + """
            set no-keys { type <type> . inet_proto . inet_service; }
            set no-hairpins { type <type> . <type> . inet_proto . inet_service; }
            set cluster-ips-empty { type <type>; elements = { <endpoint> }; }
            set other-range { type <type>; flags interval; elements = { <pods> }; }
            set keys { type <type> . inet_proto . inet_service; """ + self.elements(self.key) + """}
            set slots { typeof <group> . numgen random mod 65536; """ + self.elements(lambda service: self.keys(
                lambda slot: f"{self.family.group_of(service)} . {slot}")) + """}
            set ten { typeof numgen random mod 65536; elements = { """ + self.keys(str) + " }; }\n"
            f"map classes {{ typeof <byte> : verdict; elements = {{ {continues}"
            + (f", {self.family.first_byte} : continue" if self.family.first_byte > CLASSES else "") + " }; }")

    def piece(self, rule):
        return self.table(self.sets(), self.dnat((rule + "\n") * self.copies))

    def svcmap(self):
        verdicts = ", ".join(f"{number} : goto pick-{number}" for number in range(1, CLASSES + 1))
        picks = "\n".join(f"chain pick-{number} {{ }}" for number in range(1, CLASSES + 1) if number != ENDPOINTS)
        return self.table(
            FILTERS, self.cluster_ips(), picks,
            "map service-ips { type <type> . inet_proto . inet_service : <type>; " +
            self.elements(lambda service: f"{self.key(service)} : {self.family.descriptor(service)}") + "}",
            "map endpoints { typeof <group> . numgen random mod 65536 : <ip> daddr . th dport; " +
            self.elements(lambda service: self.keys(
                lambda slot: f"{service} . {slot} : {self.family.endpoint} . {TARGET_PORT}")) + "}",
            "chain nat-prerouting { type nat hook prerouting priority -100; ct status ! confirmed jump services; }",
            "chain dnat-prerouting { type filter hook prerouting priority -99; }",
            "chain nat-postrouting { type nat hook postrouting priority 100",
            "  meta mark & 0x4000 != 0 meta mark set meta mark ^ 0x4000 masquerade fully-random",
            f"  ct status dnat <ip> saddr . {KEY} @hairpin-connections masquerade fully-random; }}",
            "chain services {", "  <ip> daddr @cluster-ips <ip> saddr != <pods> jump mark-masq",
            f"  <ip> daddr set {KEY} map @service-ips goto dispatch; }}",
            f"chain dispatch {{ <byte> vmap {{ {verdicts} }}; drop; }}",
            f"chain pick-{ENDPOINTS} {{ meta l4proto {{ tcp, udp, sctp }} dnat <ip> to <group> . numgen random mod "
            f"{ENDPOINTS} map @endpoints; drop; }}")

    def kube_proxy(self):
        slots = self.keys(lambda slot: f"{slot} : {self.family.endpoint} . {TARGET_PORT}")
        chains = "\n".join(
            f"chain service-{service} {{ meta l4proto udp dnat <ip> addr . port to numgen random mod {ENDPOINTS} map "
            f"{{ {slots} }}; }}" for service in range(1, self.family.services))
        return self.table(
            FILTERS, self.cluster_ips(), chains,
            "map service-ips { type <type> . inet_proto . inet_service : verdict; " +
            self.elements(lambda service: f"{self.key(service)} : goto service-{service}") + "}",
            "chain nat-prerouting { type nat hook prerouting priority -100; jump services; }",
            "chain nat-postrouting { type nat hook postrouting priority 100; jump masquerading; }",
            "chain services {", "  <ip> daddr @cluster-ips <ip> saddr != <pods> jump mark-masq",
            f"  {KEY} vmap @service-ips; }}")


class World:
    """A client, a node and pods in separate network namespaces."""

    def __init__(self):
        self.namespaces = {"node": os.open("/proc/self/ns/net", os.O_RDONLY)}
        for key in ("ipv4.ip_forward", "ipv6.conf.all.forwarding"):
            run("sysctl", "-qw", f"net.{key}=1")
        for number, name in enumerate(("client", "pods"), start=1):
            if LIBC.unshare(CLONE_NEWNET) != 0:
                sys.exit(f"unshare: {os.strerror(ctypes.get_errno())}")
            self.namespaces[name] = os.open("/proc/self/ns/net", os.O_RDONLY)
            run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", name,
                "netns", f"/proc/{os.getpid()}/fd/{self.namespaces['node']}")
            self.set_up("eth0", f"10.{number}.0.2/16", f"fd00:{number}::2/64")
            run("ip", "link", "set", "lo", "up")
            for route in (f"-4 route add default via 10.{number}.0.1", f"-6 route add default via fd00:{number}::1"):
                run("ip", *route.split())
            self.enter("node")
            self.set_up(name, f"10.{number}.0.1/16", f"fd00:{number}::1/64")
        self.netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)

    @staticmethod
    def set_up(interface, *addresses):
        run("ip", "link", "set", interface, "up")
        for address in addresses:
            run("ip", "addr", "add", address, "dev", interface, *(["nodad"] if ":" in address else []))

    def enter(self, name):
        if LIBC.setns(self.namespaces[name], CLONE_NEWNET) != 0:
            sys.exit(f"setns: {os.strerror(ctypes.get_errno())}")

    def forget_flows(self):
        """Deletes all entries of the connection tracking table."""
        flags = 0x5  # NLM_F_REQUEST | NLM_F_ACK
        self.netlink.send(struct.pack("=IHHIIBBH", 20, CONNTRACK_DELETE, flags, 0, 0, 0, 0, 0))
        self.netlink.recv(4096)


def measure(world, family, target, flows):
    """Returns the median durations of the first packets and of the replies in nanoseconds."""
    world.enter("pods")
    server = socket.socket(family.socket, socket.SOCK_DGRAM)
    server.bind((family.endpoint, TARGET_PORT))
    server.settimeout(10)
    world.enter("client")
    clients = []
    for _ in range(flows):
        client = socket.socket(family.socket, socket.SOCK_DGRAM)
        client.bind((family.client, 0))
        client.connect(target)
        clients.append(client)
    requests, replies = [], []
    now = time.perf_counter_ns
    for client in clients:
        begin = now()
        client.send(b"x")
        middle = now()
        _, source = server.recvfrom(16)
        start = now()
        server.sendto(b"y", source)
        end = now()
        requests.append(middle - begin)
        replies.append(end - start)
    if clients[-1].recv(16) != b"y":
        sys.exit("the client received another reply")
    for closed in clients + [server]:
        closed.close()
    world.enter("node")
    return statistics.median(requests), statistics.median(replies)


def measure_all(world, family, options):
    """Returns the medians of each ruleset by name."""
    rulesets = Rulesets(family, options.copies)
    service, endpoint = (family.service, PORT), (family.endpoint, TARGET_PORT)
    contents = {
        "none": ("", endpoint),
        "conntrack": (rulesets.table("chain forward { type filter hook forward priority 0; ct state invalid drop; }"),
                      endpoint),
        "nat": (rulesets.table(rulesets.dnat()), endpoint),
        "dnat": (rulesets.table(rulesets.dnat()), service),
        "svcmap": (rulesets.svcmap(), service),
        "kube-proxy": (rulesets.kube_proxy(), service),
        "base": (rulesets.piece(""), service),
        "chains": (rulesets.table(rulesets.dnat(), *(f"chain base-{n} {{ type filter hook prerouting priority -110; }}"
                                                    for n in range(options.copies))), service),
    }
    contents.update({rule: (rulesets.piece(rule), service) for rule, *_ in PIECES})
    results = {name: [] for name in contents}
    for number in range(options.rounds):
        for name, (text, target) in contents.items():
            run("nft", "-f", "-", text="flush ruleset\n" + text)
            world.forget_flows()
            measure(world, family, target, options.flows)  # Fills caches.
            world.forget_flows()
            results[name].append(measure(world, family, target, options.flows))
        print(f"\r{family.name}: round {number + 1} of {options.rounds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=30, help="rounds in which each ruleset is used [%(default)s]")
    parser.add_argument("--flows", type=int, default=400, help="connections of a ruleset in a round [%(default)s]")
    parser.add_argument("--services", type=int, default=1000, help="number of Services [%(default)s]")
    parser.add_argument("--copies", type=int, default=32, help="copies of a measured rule [%(default)s]")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.inside:
        os.execvp("unshare", ["unshare", "--net", sys.executable, os.path.abspath(__file__), "--inside",
                              *sys.argv[1:]])
    # Other programs do not interrupt this process. The processes of nft have the default priority.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    gc.disable()
    world = World()
    results = {version: measure_all(world, Family(version, options.services), options) for version in (4, 6)}

    def difference(version, name, other, part=0):
        pairs = zip(results[version][name], results[version][other])
        return statistics.median(a[part] - b[part] for a, b in pairs)

    def cells(make):
        return " | ".join(f"{make(version):,.0f}" for version in (4, 6))

    def piece(name):
        base = "dnat" if name == "chains" else "base"
        return lambda version: difference(version, name, base) / options.copies

    print(f"Linux {os.uname().release}, {run('nft', '--version').split('(')[0].strip()}, {options.services} Services, "
          f"{options.rounds} rounds of {options.flows} connections\n")
    print("| Ruleset | first packet, IPv4 | first packet, IPv6 | reply, IPv4 | reply, IPv6 |\n"
          "| --- | ---: | ---: | ---: | ---: |")
    for name, title in (("conntrack", "connection tracking"), ("nat", "nat chains without a rule that matches"),
                        ("dnat", "a constant `dnat` (the floor)"), ("kube-proxy", "kube-proxy"),
                        ("svcmap", "svcmap")):
        print(f"| {title} | " + " | ".join(cells(lambda version: difference(version, name, "none", part))
                                           for part in (0, 1)) + " |")
    print("\n| Part | IPv4 | IPv6 | svcmap | kube-proxy |\n| --- | ---: | ---: | ---: | ---: |")
    pieces = PIECES + [("chains", 3, 2, "a base chain without rules")]
    for rule, in_svcmap, in_kube_proxy, title in pieces:
        print(f"| {title} | {cells(piece(rule))} | {in_svcmap} | {in_kube_proxy} |")
    for title, column, name in (("svcmap", 1, "svcmap"), ("kube-proxy", 2, "kube-proxy")):
        total = cells(lambda version: sum(p[column] * piece(p[0])(version) for p in pieces))
        measured = cells(lambda version: difference(version, name, "dnat"))
        print(f"\n{title}: sum of all parts {total.replace(' | ', ' and ')} ns, measured above the floor "
              f"{measured.replace(' | ', ' and ')} ns (IPv4 and IPv6)")


if __name__ == "__main__":
    main()
