"""A small cluster in network namespaces, for the Python tests that run in a virtual machine: a node,
two backends, a client pod and an external client. Uses the sockets of the kernel, including SCTP."""

import contextlib
import ctypes
import math
import os
import pathlib
import select
import socket
import subprocess
import threading
import time

BIN = "/svcmap/bin"
SCTP = 132
PROTOCOLS = {"TCP": (socket.SOCK_STREAM, 0), "UDP": (socket.SOCK_DGRAM, 0),
             "SCTP": (socket.SOCK_STREAM, SCTP)}
# Namespaces connected to the node: name, IPv4 address, IPv6 address.
HOSTS = {"b1": ("10.244.1.11", "fd00:10:244:1::11"), "b2": ("10.244.1.12", "fd00:10:244:1::12"),
         "pod": ("10.244.1.20", "fd00:10:244:1::20"), "ext": ("192.168.77.2", "fd00:77::2")}
NODE = ("192.168.77.1", "fd00:77::1")


def run(*argv, netns=None, check=True, **kwargs):
    """Runs a command and returns its result. Fails with the output of the command."""
    if netns:
        argv = ("ip", "netns", "exec", netns, *argv)
    ended = subprocess.run(argv, capture_output=True, text=True, **kwargs)
    assert not check or ended.returncode == 0, f"{' '.join(argv)}: {ended.stdout}{ended.stderr}"
    return ended


libc = ctypes.CDLL(None, use_errno=True)


def in_netns(netns, function):
    """Calls the function in a thread of the network namespace and returns its result."""
    result = []

    def body():
        with open(f"/run/netns/{netns}", "rb") as file:
            assert libc.setns(file.fileno(), 0x40000000) == 0, os.strerror(ctypes.get_errno())
        try:
            result.append((True, function()))
        except BaseException as error:  # Raised again by the caller's thread.
            result.append((False, error))

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    fine, value = result[0]
    if not fine:
        raise value
    return value


def family_of(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


class Server:
    """Answers each message with its name, on one address and port."""

    def __init__(self, netns, name, protocol, address, port):
        kind, number = PROTOCOLS[protocol]

        def listen():
            sock = socket.socket(family_of(address), kind, number)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((address, port))
            if kind == socket.SOCK_STREAM:
                sock.listen(64)
            return sock

        self.name = name
        self.received = []  # time of each UDP datagram
        self._protocol = protocol
        self._socket = in_netns(netns, listen)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    def _loop(self):
        connections = []
        while not self._stopped.is_set():
            ready, _, _ = select.select([self._socket, *connections], [], [], 0.1)
            for sock in ready:
                try:
                    if self._protocol == "UDP":
                        _, peer = sock.recvfrom(2048)
                        self.received.append(time.monotonic())
                        sock.sendto(f"{self.name} {peer[0]}".encode(), peer)
                    elif sock is self._socket:
                        connection, peer = sock.accept()
                        connection.sendall(f"{self.name} {peer[0]}".encode())
                        connections.append(connection)
                    elif not sock.recv(2048):
                        sock.close()
                        connections.remove(sock)
                except OSError:
                    if sock in connections:
                        sock.close()
                        connections.remove(sock)

    def close(self):
        self._stopped.set()
        self._thread.join()
        self._socket.close()


def ask(netns, protocol, address, port, timeout=3.0):
    """Opens a connection. Returns (server, source address that the server received), or the name of
    the error."""
    def body():
        kind, number = PROTOCOLS[protocol]
        with socket.socket(family_of(address), kind, number) as sock:
            sock.settimeout(timeout)
            try:
                sock.connect((address, port))
                if protocol == "UDP":
                    sock.send(b"who")
                return tuple(sock.recv(2048).decode().split())
            except TimeoutError:
                return "timeout"
            except OSError as error:
                return error.strerror
    return in_netns(netns, body)


def servers(netns, protocol, address, port, expected):
    """Opens connections until all `expected` servers have answered. Random picks miss one of them in all
    connections with a probability of at most 1e-12 (TriesToReachAll in tests/support/chance.h)."""
    names = set()
    rest = 1 - 1 / len(expected)
    for _ in range(math.ceil(math.log(1e-12 / len(expected)) / math.log(rest))):
        names.add(ask(netns, protocol, address, port)[0])
        if names >= expected:
            break
    return names


def wait_until(condition, seconds=60):
    """Returns False if the condition does not become true. The time limit is for tests that hang."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


class World:
    """The cluster and svcmapd. Use as a context manager."""

    def __init__(self, *flags, agent=True):
        self._flags = flags
        self._start_agent = agent
        self._servers = []
        self.agent = None
        self.socket = "unix:///run/test.sock"

    def __enter__(self):
        for name in ("node", *HOSTS):
            run("ip", "netns", "add", name)
            run("ip", "link", "set", "lo", "up", netns=name)
        for key in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
            run("sysctl", "-qw", f"{key}=1", netns="node")
        for name, (v4, v6) in HOSTS.items():
            run("ip", "link", "add", f"to-{name}", "netns", "node", "type", "veth", "peer", "name",
                "eth0", "netns", name)
            run("ip", "link", "set", f"to-{name}", "up", netns="node")
            run("ip", "link", "set", "eth0", "up", netns=name)
            if name == "ext":
                run("ip", "address", "add", f"{NODE[0]}/24", "dev", "to-ext", netns="node")
                run("ip", "address", "add", f"{NODE[1]}/64", "dev", "to-ext", "nodad", netns="node")
                run("ip", "address", "add", f"{v4}/24", "dev", "eth0", netns=name)
                run("ip", "address", "add", f"{v6}/64", "dev", "eth0", "nodad", netns=name)
                run("ip", "route", "add", "default", "via", NODE[0], netns=name)
                run("ip", "-6", "route", "add", "default", "via", NODE[1], netns=name)
            else:
                run("ip", "address", "add", f"{v4}/32", "dev", "eth0", netns=name)
                run("ip", "address", "add", f"{v6}/128", "dev", "eth0", "nodad", netns=name)
                run("ip", "route", "add", "169.254.1.1", "dev", "eth0", netns=name)
                run("ip", "route", "add", "default", "via", "169.254.1.1", netns=name)
                run("ip", "-6", "route", "add", "fd00::1", "dev", "eth0", netns=name)
                run("ip", "-6", "route", "add", "default", "via", "fd00::1", netns=name)
                run("ip", "address", "add", "169.254.1.1/32", "dev", f"to-{name}", netns="node")
                run("ip", "address", "add", "fd00::1/128", "dev", f"to-{name}", "nodad", netns="node")
                run("ip", "route", "add", v4, "dev", f"to-{name}", netns="node")
                run("ip", "-6", "route", "add", v6, "dev", f"to-{name}", netns="node")
        # Without a default route, the node has no route to Service addresses without endpoints, and
        # the kernel drops the packets before the rules that reject them.
        run("ip", "route", "add", "default", "via", HOSTS["ext"][0], netns="node")
        run("ip", "-6", "route", "add", "default", "via", HOSTS["ext"][1], netns="node")
        if self._start_agent:
            self.start_agent()
        return self

    def start_agent(self):
        self.log = open("/tmp/svcmapd.log", "a+", encoding="utf-8")
        self.agent = subprocess.Popen(
            ["ip", "netns", "exec", "node", f"{BIN}/svcmapd", "--node-name=n1", "--state-dir=",
             f"--listen={self.socket}", "--cluster-cidr=10.244.0.0/16,fd00:10:244::/48",
             "--healthz-bind-address=", "--metrics-bind-address=", *self._flags],
            stdout=self.log, stderr=subprocess.STDOUT)
        assert wait_until(lambda: os.path.exists("/run/test.sock") or self.agent.poll() is not None)
        assert self.agent.poll() is None, self.agent_log()

    def agent_log(self):
        return pathlib.Path("/tmp/svcmapd.log").read_text(encoding="utf-8")

    def __exit__(self, *_):
        for server in self._servers:
            server.close()
        if self.agent:
            self.agent.terminate()
            self.agent.wait()
            with contextlib.suppress(FileNotFoundError):
                os.unlink("/run/test.sock")
        for name in ("node", *HOSTS):
            run("ip", "netns", "del", name)

    def ctl(self, *argv, check=True, **kwargs):
        return run(f"{BIN}/svcmapctl", "--address", self.socket, "--timeout", "60s", *argv,
                   check=check, **kwargs)

    def apply(self, text):
        self.ctl("apply", "-f", "-", input=text)

    def serve(self, protocols=("TCP", "UDP", "SCTP"), port=8080):
        """Starts servers for all protocols in both backends. Returns the UDP servers by name."""
        udp = {}
        for name in ("b1", "b2"):
            for address in HOSTS[name]:
                for protocol in protocols:
                    server = Server(name, name, protocol, address, port)
                    self._servers.append(server)
                    if protocol == "UDP":
                        udp.setdefault(name, []).append(server)
        return udp


NODE_OBJECT = f"""
apiVersion: v1
kind: Node
metadata: {{name: n1}}
status:
  addresses: [{{type: InternalIP, address: {NODE[0]}}}, {{type: InternalIP, address: "{NODE[1]}"}}]
---
"""


def service(name, number, protocols=("TCP", "UDP", "SCTP"), spec="", backends=("b1", "b2")):
    """Returns a Service of type LoadBalancer with all kinds of addresses. `number` is the last part of
    each address, and nodePorts are 30000 + 10 * number, one per protocol."""
    ports = ", ".join(f"{{name: {p.lower()}, protocol: {p}, port: 80, "
                      f"nodePort: {30000 + 10 * number + i}}}" for i, p in enumerate(protocols))
    target = ", ".join(f"{{name: {p.lower()}, protocol: {p}, port: 8080}}" for p in protocols)
    text = f"""
apiVersion: v1
kind: Service
metadata: {{namespace: test, name: {name}}}
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.{number}
  clusterIPs: [10.96.0.{number}, "fd00:96::{number}"]
  ipFamilies: [IPv4, IPv6]
  externalIPs: [198.51.100.{number}, "2001:db8:51::{number}"]
  ports: [{ports}]
  {spec}
status: {{loadBalancer: {{ingress: [{{ip: 203.0.113.{number}}}, {{ip: "2001:db8:71::{number}"}}]}}}}
---
"""
    return text + slices(name, target, backends)


def slices(name, target, backends):
    text = ""
    for family, kind in enumerate(("IPv4", "IPv6")):
        endpoints = ", ".join(f'{{addresses: ["{HOSTS[b][family]}"], nodeName: n1}}' for b in backends)
        text += f"""
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{namespace: test, name: {name}-{kind.lower()}, labels: {{kubernetes.io/service-name: {name}}}}}
addressType: {kind}
ports: [{target}]
endpoints: [{endpoints}]
---
"""
    return text


def note(text):
    """Adds a line to the result of the group."""
    print(f"\nnote: {text}", flush=True)
