#!/usr/bin/python3
"""Tests of the Debian packages in a clean Debian 12 root that .ci/deb.sh has started under systemd.

packages_test.py CONTAINER OLD_VERSION NEW_VERSION: installs the packages to the first connection through a
Service, upgrades and downgrades agent and bridge in all orders while clients open new connections, removes
and purges the packages. Prints one line for each step and exits with 1 after the first failed check.
"""

import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SERVICE = ("10.96.0.10", "80")
ENDPOINT = ("10.244.0.5", "8080")
API_PORT = "6443"
# systemd starts svcmapd again within a second (docs/compatibility.md).
MAXIMUM_TIME_WITHOUT_AGENT = 1.0

# The log line of a svcmapd that uses its saved state.
STATE_USED = "saved state found, comparing the tables in the kernel with it"

container, old, new = sys.argv[1:]
state = json.loads(subprocess.check_output(["podman", "inspect", container]))[0]["State"]
started = []


def fail(message):
    raise SystemExit(f"packages_test: {message}")


def inside(*argv, check=True, stdin=None):
    ended = subprocess.run(["podman", "exec", "--interactive", container, *argv], text=True,
                           capture_output=True, input=stdin)
    if check and ended.returncode != 0:
        fail(f"{' '.join(argv)}: {ended.stdout}{ended.stderr}")
    return ended.stdout if check else ended.returncode


def on_network(*argv):
    """Returns the command in the network namespace of the container, with the programs of the host."""
    return ["nsenter", "--net", "--target", str(state["Pid"]), *argv]


def on_network_run(*argv):
    ended = subprocess.run(on_network(*argv), text=True, capture_output=True)
    if ended.returncode != 0:
        fail(f"{' '.join(argv)}: {ended.stderr}")
    return ended.stdout


def start(*argv):
    process = subprocess.Popen(on_network(*argv), stdout=subprocess.PIPE, text=True)
    started.append(process)
    return process


def until(seconds, what, condition):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            fail(f"not reached within {seconds} s: {what}")
        time.sleep(0.05)


def connects(address=SERVICE[0]):
    sys.path.insert(0, str(HERE))
    return subprocess.run(on_network("/usr/bin/python3", "-B", "-c",
                                     f"import sys; sys.path.insert(0, {str(HERE)!r}); import traffic; "
                                     f"sys.exit(traffic.connect({address!r}, {SERVICE[1]}) is not None)")
                          ).returncode == 0


def apt(*argv):
    inside("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-y", "-q", "--allow-downgrades", *argv)


def versions():
    text = inside("dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Abbrev}\n", "svcmap-*")
    return {line.split()[0]: line.split()[1] for line in text.splitlines() if line.endswith("ii ")}


def timestamp(unit, name):
    text = inside("systemctl", "show", "--property", name + "TimestampMonotonic", "--value", unit)
    return int(text) / 1e6


def tables():
    """Returns the rules and chains, without counters and elements."""
    return on_network_run("nft", "--stateless", "--terse", "list", "ruleset")


def service(name, address):
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "shop", "name": name},
            "spec": {"clusterIP": address, "clusterIPs": [address], "ipFamilies": ["IPv4"],
                     "type": "ClusterIP",
                     "ports": [{"name": "http", "protocol": "TCP", "port": int(SERVICE[1])}]}}


def endpoint_slice(name):
    return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"namespace": "shop", "name": name + "-1",
                         "labels": {"kubernetes.io/service-name": name}},
            "ports": [{"name": "http", "protocol": "TCP", "port": int(ENDPOINT[1])}],
            "endpoints": [{"addresses": [ENDPOINT[0]], "nodeName": "node-1"}]}


NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"},
        "status": {"addresses": [{"type": "InternalIP", "address": "192.168.77.1"}]}}
SERVICE_CIDR = {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
                "metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.96.0.0/16"]}}
KUBECONFIG = {"apiVersion": "v1", "kind": "Config", "current-context": "default",
              "clusters": [{"name": "default", "cluster": {"server": f"http://127.0.0.1:{API_PORT}"}}],
              "contexts": [{"name": "default", "context": {"cluster": "default", "user": "default"}}],
              "users": [{"name": "default", "user": {}}]}


class Cluster:
    """The objects of the simulated API server."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.count = 0

    def put(self, object):
        name = f"{object['kind']}-{object['metadata']['name']}.json"
        partial = self.folder / (name + ".partial")
        partial.write_text(json.dumps(object))
        partial.rename(self.folder / name)

    def add_service(self):
        """Adds a Service and returns its address."""
        self.count += 1
        name, address = f"web-{self.count}", f"10.96.1.{self.count}"
        self.put(endpoint_slice(name))
        self.put(service(name, address))
        return address


def prepare_network():
    for command in ("link set lo up", "link add outside type veth peer name beyond",
                    "link set outside up", "link set beyond up",
                    "address add 192.168.77.1/24 dev outside", "route add default dev outside",
                    f"address add {ENDPOINT[0]}/32 dev lo"):
        on_network_run("ip", *command.split())
    start("/usr/bin/python3", "-B", str(HERE / "traffic.py"), "serve", *ENDPOINT)


def test_install():
    """Follows docs/install.md: two commands from a clean root to the first connection."""
    objects = [NODE, SERVICE_CIDR, service("web", SERVICE[0]), endpoint_slice("web")]
    manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    begin = time.monotonic()
    apt("install", f"svcmap-agent={old}", f"svcmap-ctl={old}")
    installed = time.monotonic()
    inside("svcmapctl", "apply", "-f", "-", stdin=manifest)
    if not connects():
        fail("the first connection fails")
    end = time.monotonic()
    print(f"install: first connection after 2 commands and {end - begin:.1f} s "
          f"(apt-get install {installed - begin:.1f} s, without downloads)")
    user = inside("systemctl", "show", "--property", "User", "--value", "svcmapd").strip()
    if user != "svcmap" or inside("id", "-un", "svcmap").strip() != "svcmap":
        fail("svcmapd does not run as the user svcmap")
    if inside("stat", "-c", "%a %U", "/var/lib/svcmap").strip() != "700 svcmap":
        fail("other users can read the state directory")


def test_bridge(cluster):
    """Replaces the manifest with svcmap-kube and a simulated API server."""
    for object in (NODE, SERVICE_CIDR, endpoint_slice("web"), service("web", SERVICE[0])):
        cluster.put(object)
    start("/usr/bin/python3", "-B", str(HERE / "api_server.py"), API_PORT, str(cluster.folder))
    apt("install", f"svcmap-kube={old}", f"svcmap-agent={old}", f"svcmap-ctl={old}")
    if inside("systemctl", "is-active", "svcmap-kube", check=False) == 0:
        fail("svcmap-kube was started without a kubeconfig file")
    inside("tee", "/etc/svcmap/kubeconfig.conf", stdin=json.dumps(KUBECONFIG))
    inside("chown", "svcmap:", "/etc/svcmap/kubeconfig.conf")
    # A changed configuration file must survive all upgrades.
    inside("sed", "-i", 's/^SVCMAPD_FLAGS=.*/SVCMAPD_FLAGS="--node-name=node-1 --service-counters"/',
           "/etc/default/svcmap")
    inside("systemctl", "restart", "svcmapd")
    inside("systemctl", "enable", "--now", "svcmap-kube")
    address = cluster.add_service()
    until(20, "a Service of the API server is programmed", lambda: connects(address))
    print("bridge: svcmap-kube sends the Services of the API server")


def test_change(cluster, package, version):
    """Installs one package in another version under traffic."""
    before = versions()
    rules = tables()
    load = start("/usr/bin/python3", "-B", str(HERE / "traffic.py"), "load", *SERVICE)
    time.sleep(1)
    # apt upgrades all packages of a source together, unless their versions are given.
    apt("install", *(f"{p}={v}" for p, v in {**before, package: version}.items()))
    time.sleep(2)
    line = f"{package} {before[package]} -> {version}:"
    if version == before[package] or versions() != {**before, package: version}:
        fail(f"{line} not installed, or other packages changed: {versions()}")
    unit = {"svcmap-agent": "svcmapd", "svcmap-kube": "svcmap-kube"}[package]
    until(10, f"{unit} is active", lambda: inside("systemctl", "is-active", unit, check=False) == 0)
    gap = timestamp(unit, "ActiveEnter") - timestamp(unit, "ActiveExit")
    if gap < 0:
        fail(f"{line} {unit} was not restarted")
    address = cluster.add_service()
    until(30, "a new Service is programmed", lambda: connects(address))
    load.send_signal(signal.SIGTERM)
    result = json.loads(load.communicate(timeout=30)[0])
    print(f"{line} {unit} restarted in {gap * 1000:.0f} ms, {result['connections']} connections, "
          f"{result['failed']} failed, slowest {result['slowest_ms']} ms", *result["errors"])
    if result["failed"] or result["connections"] < 100:
        fail("connections failed")
    if package == "svcmap-agent":
        if gap > MAXIMUM_TIME_WITHOUT_AGENT:
            fail(f"the agent was away for {gap:.2f} s")
        log = inside("journalctl", "--no-pager", "--unit", "svcmapd", "--output", "cat",
                     "_PID=" + inside("systemctl", "show", "-p", "MainPID", "--value", "svcmapd").strip())
        if STATE_USED not in log:
            fail(f"svcmapd has not used its saved state: {log}")
        # Without OLD, both packages contain the same binaries.
        if old == f"{new}~before" and tables() != rules:
            fail("the rules have changed")


def test_remove_and_purge():
    """Tests the scripts of the new packages."""
    apt("install", *(f"{package}={new}" for package in versions()))
    inside("systemctl", "reload", "svcmapd")
    apt("remove", "svcmap-agent", "svcmap-kube")
    for unit in ("svcmapd", "svcmap-kube"):
        if inside("systemctl", "is-active", unit, check=False) == 0:
            fail(f"{unit} is active after its removal")
    if not connects():
        fail("connections fail after the removal of the packages")
    if inside("test", "-e", "/etc/default/svcmap", check=False):
        fail("remove has deleted the configuration")
    print("remove: svcmapd is stopped, the rules stay in effect")
    apt("purge", "svcmap-agent", "svcmap-kube")
    for path in ("/var/lib/svcmap", "/etc/default/svcmap", "/etc/default/svcmap-kube"):
        if inside("test", "-e", path, check=False) == 0:
            fail(f"purge has not removed {path}")
    if not connects():
        fail("purge has removed the tables without a request")
    print("purge: state and configuration are removed, the rules stay in effect")

    apt("install", f"svcmap-agent={new}")
    inside("debconf-set-selections", stdin="svcmap-agent svcmap-agent/remove-tables boolean true\n")
    apt("purge", "svcmap-agent")
    if "svcmap" in on_network_run("nft", "list", "tables"):
        fail("purge has not removed the tables")
    print("purge with svcmap-agent/remove-tables: the tables are removed")


def main():
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(folder)
        prepare_network()
        test_install()
        test_bridge(cluster)
        agent, bridge = "svcmap-agent", "svcmap-kube"
        for package, version in ((agent, new), (bridge, new), (agent, old), (bridge, old),
                                 (bridge, new), (agent, new), (bridge, old), (agent, old)):
            test_change(cluster, package, version)
        if "--service-counters" not in inside("cat", "/etc/default/svcmap"):
            fail("an upgrade has overwritten the configuration")
        test_remove_and_purge()
    print("packages_test: all checks passed")


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    try:
        main()
    finally:
        for process in started:
            process.kill()
