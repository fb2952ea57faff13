#!/usr/bin/python3
"""Counts packets that lose their translation while nftables rules of Services change.

Compares the layout of kube-proxy with the design of kubernetes#140362, in which Services share the chains
dispatch-N and the map endpoints. Needs root, nft with libnftables.so.1, ip, unshare and Python 3. Creates
network namespaces, which disappear when the script ends, and takes about two minutes:

    sudo ./shared_dispatch.py

A client sends UDP datagrams to cluster IPs, each from a new source address, so each datagram is the first packet of a
connection. Each Service always has at least two endpoints. All Services change in each transaction, as if kube-proxy
had collected their changes. A correct proxy translates all datagrams.
"""
import argparse
import ctypes
import os
import re
import socket
import struct
import subprocess
import sys
import time

SOURCES = 16384  # The addresses 10.1.0.0 to 10.1.63.255.
PORT = 53
# Constants of the kernel that the module socket does not contain.
NETLINK_NETFILTER, NFNLGRP_NFTRACE, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP = 12, 9, 270, 1


def cluster_ip(service):
    return f"10.96.0.{service + 1}"


def endpoint(service, number):
    return f"10.2.{service}.{number + 1}"


def run(*command, text=None):
    done = subprocess.run(command, input=text, text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed: {done.stderr}{text or ''}")
    return done.stdout


class Nft:
    """Executes each list of lines as one transaction. Starts no nft process, so that a measurement contains more
    changes."""

    def __init__(self):
        self.library = ctypes.CDLL("libnftables.so.1")
        self.library.nft_ctx_new.restype = ctypes.c_void_p
        self.context = ctypes.c_void_p(self.library.nft_ctx_new(0))

    def commit(self, lines):
        text = "\n".join(lines)
        if self.library.nft_run_cmd_from_buffer(self.context, text.encode()) != 0:
            sys.exit(f"nft rejected this transaction:\n{text}")


class MapPerService:
    """kube-proxy 1.36, and 1.37 for Services with several endpoints: an anonymous map in a chain per Service."""

    name = "map per Service (kube-proxy 1.36 and 1.37)"

    def start(self, services, endpoints):
        lines = []
        for service in services:
            lines.append(f"add chain ip kube-proxy service-{service}")
            lines.append(f"add element ip kube-proxy service-ips {{ {cluster_ip(service)} . udp . {PORT}"
                         f" : goto service-{service} }}")
        return lines + self.change(services, None, endpoints)[0]

    def change(self, services, old, new):
        lines = []
        for service in services:
            elements = ", ".join(f"{i} : {endpoint(service, e)} . {PORT}" for i, e in enumerate(new))
            lines += [f"flush chain ip kube-proxy service-{service}",
                      f"add rule ip kube-proxy service-{service} meta l4proto udp dnat ip addr . port to "
                      f"numgen random mod {len(new)} map {{ {elements} }}"]
        return [lines]


class Shared:
    """The design as described: one transaction, which also empties the chains that are no longer used."""

    name = "shared dispatch, as described"

    @staticmethod
    def chain(size):
        chain = f"chain ip kube-proxy dispatch-{size}"
        return [f"add {chain}", f"flush {chain}",
                f"add rule ip kube-proxy dispatch-{size} ct mark set numgen random mod {size} dnat ip addr . port to "
                "ip daddr . meta l4proto . th dport . ct mark map @endpoints"]

    @staticmethod
    def switch(services, size):
        lines = []
        for service in services:
            key = f"{cluster_ip(service)} . udp . {PORT}"
            lines += [f"delete element ip kube-proxy service-ips {{ {key} }}",
                      f"add element ip kube-proxy service-ips {{ {key} : goto dispatch-{size} }}"]
        return lines

    @staticmethod
    def slots(services, old, new):
        """Returns lines that write new slots, lines that replace slots, and lines that delete slots."""
        add, replace, delete = [], [], []
        for service in services:
            for slot in range(max(len(old), len(new))):
                key = f"{cluster_ip(service)} . udp . {PORT} . {slot}"
                removal = f"delete element ip kube-proxy endpoints {{ {key} }}"
                if slot >= len(new):
                    delete.append(removal)
                    continue
                addition = f"add element ip kube-proxy endpoints {{ {key} : {endpoint(service, new[slot])} . {PORT} }}"
                if slot >= len(old):
                    add.append(addition)
                elif old[slot] != new[slot]:
                    replace += [removal, addition]
        return add, replace, delete

    def start(self, services, endpoints):
        lines = ["add map ip kube-proxy endpoints { type ipv4_addr . inet_proto . inet_service . mark : "
                 "ipv4_addr . inet_service ; }"]
        lines += self.chain(len(endpoints)) + self.slots(services, [], endpoints)[0]
        # Omits the deletions of switch(), because the deleted elements do not exist yet.
        return lines + [line for line in self.switch(services, len(endpoints)) if line.startswith("add")]

    def change(self, services, old, new):
        add, replace, delete = self.slots(services, old, new)
        lines = self.chain(len(new))
        if len(old) != len(new):
            lines += self.switch(services, len(new))
        lines += add + replace
        if len(old) != len(new):
            lines.append(f"flush chain ip kube-proxy dispatch-{len(old)}")
        return [lines + delete]


class SharedChainsStay(Shared):
    """The chains dispatch-N exist beforehand and are never emptied."""

    name = "shared dispatch, chains created beforehand"

    def start(self, services, endpoints):
        lines = super().start(services, endpoints)
        return lines + [line for size in range(1, 5) for line in self.chain(size)]

    def change(self, services, old, new):
        add, replace, delete = self.slots(services, old, new)
        switch = self.switch(services, len(new)) if len(old) != len(new) else []
        return [add + replace + switch + delete]


class SharedMakeBeforeBreak(SharedChainsStay):
    """Additions, the switch and deletions are separate transactions. Deletions wait until all packets have left the
    rules. A pause of 50 ms is sufficient on a kernel that is not overloaded."""

    name = "shared dispatch, make before break"

    def change(self, services, old, new):
        add, replace, delete = self.slots(services, old, new)
        switch = self.switch(services, len(new)) if len(old) != len(new) else []
        return [add, replace + switch, delete]


CHANGES = {
    "scale 3 to 2 to 3": ([0, 1, 2], [0, 1]),
    "replace 1 of 3": ([0, 1, 2], [3, 1, 2]),
}


def build_network():
    for key in ("ip_forward=1", "conf.all.rp_filter=0", "conf.default.rp_filter=0"):
        run("sysctl", "-qw", f"net.ipv4.{key}")
    run("sysctl", "-qw", "net.netfilter.nf_conntrack_udp_timeout=1")
    run("ip", "link", "set", "lo", "up")
    for number, name in enumerate(("client", "pods", "sink")):
        run("ip", "netns", "add", name)
        run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "addr", "add", f"10.0.{number}.1/30", "dev", name)
        run("ip", "link", "set", name, "up")
        for command in (f"addr add 10.0.{number}.2/30 dev eth0", "link set eth0 up", "link set lo up",
                        f"route add default via 10.0.{number}.1"):
            run("ip", "-n", name, *command.split())
    run("ip", "route", "add", "10.1.0.0/16", "via", "10.0.0.2")
    run("ip", "route", "add", "10.2.0.0/16", "via", "10.0.1.2")
    run("ip", "route", "add", "default", "via", "10.0.2.2")  # The route of datagrams that are not translated.
    run("ip", "-n", "pods", "route", "add", "local", "10.2.0.0/16", "dev", "lo")
    # Without a server, the pods would answer with ICMP errors.
    run("ip", "netns", "exec", "pods", "nft", "-f", "-", text="""
        table ip pods { chain arrive { type filter hook prerouting priority -300; ip daddr 10.2.0.0/16 drop; }; }""")


def load(nft, layout, services, endpoints, trace):
    rules = ["table ip kube-proxy", "delete table ip kube-proxy", "table ip watch", "delete table ip watch", """
        table ip watch {
          counter entered { }
          counter untranslated { }
          counter translated { }
          chain prerouting { type filter hook prerouting priority -300; ip daddr 10.96.0.0/16 counter name entered; }
          chain forward { type filter hook forward priority -300; ip daddr 10.96.0.0/16 counter name untranslated; }
          chain postrouting { type filter hook postrouting priority 300; ip daddr 10.2.0.0/16 counter name translated; }
        }
        table ip kube-proxy {
          map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; }
          chain services { ip daddr . meta l4proto . th dport vmap @service-ips; }
          chain nat-prerouting { type nat hook prerouting priority -100; jump services; }
        }"""]
    if trace:
        rules.append("""table ip watch {
          chain trace { type filter hook prerouting priority -101; ip daddr 10.96.0.0/16 meta nftrace set 1; }
          chain untrace { type filter hook prerouting priority -99; meta nftrace set 0; }
        }""")
    nft.commit(rules + layout.start(services, endpoints))


def counters():
    text = run("nft", "list", "counters", "table", "ip", "watch")
    return {name: int(packets) for name, packets in re.findall(r"counter (\w+) \{\s*packets (\d+)", text)}


def measure(nft, layout, endpoints, options):
    services = range(options.services)
    load(nft, layout, services, endpoints[0], options.trace)
    sender = subprocess.Popen(["ip", "netns", "exec", "client", sys.executable, __file__, "--send",
                               "--services", str(options.services), "--rate", str(options.rate),
                               "--seconds", str(options.seconds + 10)])
    try:
        while counters()["translated"] < 1000:  # Until the sender has started.
            time.sleep(0.01)
        end = time.monotonic() + options.seconds
        changes = 0
        while time.monotonic() < end:
            old, new = endpoints[changes % 2], endpoints[1 - changes % 2]
            for lines in layout.change(services, old, new):
                if lines:
                    nft.commit(lines)
                time.sleep(options.pause)
            changes += 1
    finally:
        sender.terminate()
        sender.wait()
    while True:  # Until all datagrams in queues are counted.
        before = counters()
        time.sleep(0.1)
        if counters() == before:
            return changes, before


def send(options):
    """Sends datagrams until the end of --seconds. The kernel fills in lengths and checksums of the IP header."""
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    udp = struct.pack("!HHHH8x", 10000, PORT, 16, 0)
    datagrams = []
    for source in range(SOURCES):
        for service in range(options.services):
            target = cluster_ip(service)
            header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 0, 0, 0, 64, socket.IPPROTO_UDP, 0,
                                 struct.pack("!I", 0x0a010000 + source), socket.inet_aton(target))
            datagrams.append((header + udp, (target, 0)))
    start = time.monotonic()
    sent = 0
    while time.monotonic() < start + options.seconds:
        if sent > (time.monotonic() - start) * options.rate:
            time.sleep(0.001)
            continue
        for _ in range(64):
            raw.sendto(*datagrams[sent % len(datagrams)])
            sent += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=15, help="duration of each measurement [%(default)s]")
    parser.add_argument("--rate", type=int, default=40000, help="datagrams per second [%(default)s]")
    parser.add_argument("--services", type=int, default=5, help="number of Services, at most 250 [%(default)s]")
    parser.add_argument("--pause", type=float, default=0.05,
                        help="seconds after each transaction [%(default)s]")
    parser.add_argument("--no-trace", dest="trace", action="store_false",
                        help="do not trace packets. Tracing lengthens the time between two lookups of a packet")
    parser.add_argument("--send", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.send:
        return send(options)
    if not options.inside:
        os.execvp("unshare", ["unshare", "--mount", "--net", "sh", "-c",
                              'mount -t tmpfs tmpfs /run && exec "$@"', "sh",
                              sys.executable, os.path.abspath(__file__), "--inside", *sys.argv[1:]])
    build_network()
    nft = Nft()
    tracer = None
    if options.trace:  # The kernel creates trace messages only if a process receives them.
        tracer = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
        tracer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        tracer.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, NFNLGRP_NFTRACE)
    print(f"Linux {os.uname().release}, {run('nft', '--version').split('(')[0].strip()}, {os.cpu_count()} CPUs, "
          f"tracing {'on' if options.trace else 'off'}\n")
    print("| Change | Layout | Changes | New connections | Not translated |\n| --- | --- | ---: | ---: | ---: |")
    for change, endpoints in CHANGES.items():
        for layout in (MapPerService(), Shared(), SharedChainsStay(), SharedMakeBeforeBreak()):
            changes, count = measure(nft, layout, endpoints, options)
            lost = count["entered"] - count["translated"]
            if lost != count["untranslated"]:
                sys.exit(f"{lost} datagrams were not translated, but {count['untranslated']} were forwarded "
                         "without translation. The difference was dropped, for example because the conntrack table "
                         "is full.")
            print(f"| {change} | {layout.name} | {changes:,} | {count['entered']:,} | {lost:,} |", flush=True)


if __name__ == "__main__":
    main()
