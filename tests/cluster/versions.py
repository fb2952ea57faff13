"""Checks svcmap and kube-proxy with one API server (versions.sh).

Runs in the machine `outside` as node-1. The nodes and pods are only objects: the EndpointSlice controller of the
version writes the EndpointSlices of the pods, with the hints of the version. All endpoint addresses are local, and
an endpoint answers with its address. Prints one line for each check: version of the API server, feature gates,
proxy, check, and the result.
"""

import argparse
import subprocess
import sys
import threading
import time

import dns  # client_of()
from local import PORT, Api, Processes, endpoint_of, serve

ZONES = {"node-1": "a", "node-2": "a", "node-3": "b", "node-4": "c"}
OWN = "node-1"
PODS = {f"10.128.{node[-1]}.{number}": node for node in ZONES for number in (1, 2)}
ALL = set(PODS)
IN_ZONE = {address for address, node in PODS.items() if ZONES[node] == ZONES[OWN]}
ON_NODE = {address for address, node in PODS.items() if node == OWN}
# Service: fields of its spec, endpoints that it reaches in the first phase.
SERVICES = {
    "plain": ({}, ALL),
    "local": ({"internalTrafficPolicy": "Local"}, ON_NODE),
    "prefer-close": ({"trafficDistribution": "PreferClose"}, IN_ZONE),
    "prefer-same-zone": ({"trafficDistribution": "PreferSameZone"}, IN_ZONE),
    "prefer-same-node": ({"trafficDistribution": "PreferSameNode"}, ON_NODE),
    "topology-auto": ({}, None),  # Known from the hints.
}
LEAVES = "10.128.1.1"  # The pod that the second phase deletes.
UNUSED = "10.96.200.200"  # A cluster IP that no Service has. Answers, unless the proxy drops the packets.


class Cluster:
    def __init__(self, kubeconfig):
        server, context = dns.client_of(kubeconfig)
        self.api = Api(server, context)
        self.version = self.api.request("GET", "/version")["gitVersion"]
        self.addresses, self.refused = {}, {}

    def create(self):
        for node, zone in ZONES.items():
            self.api.request("POST", "/api/v1/nodes", {"metadata": {
                "name": node, "labels": {"topology.kubernetes.io/zone": zone}}})
            self.put_status(f"/api/v1/nodes/{node}", {
                "addresses": [{"type": "InternalIP", "address": f"172.31.0.{int(node[-1]) + 1}"}],
                "allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]})
        self.until(lambda: self.api.request("GET", "/api/v1/namespaces/default/serviceaccounts/default"))
        for address in PODS:
            self.create_pod(address)
        for name, (spec, _) in SERVICES.items():
            body = {"metadata": {"name": name}, "spec": {"selector": {"app": "web"}, "ports": [
                {"port": 80, "targetPort": PORT}], **spec}}
            if name == "topology-auto":
                body["metadata"]["annotations"] = {"service.kubernetes.io/topology-mode": "Auto"}
            self.create_service(name, body)
        self.create_service("headless", {"metadata": {"name": "headless"}, "spec": {
            "clusterIP": "None", "selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": PORT}]}})
        del self.addresses["headless"]

    def create_service(self, name, body):
        """A server rejects values of trafficDistribution that it does not know."""
        try:
            made = self.api.request("POST", "/api/v1/namespaces/default/services", body)
            self.addresses[name] = made["spec"]["clusterIP"]
        except OSError as error:
            if "trafficDistribution" not in str(error):
                raise
            self.refused[name] = True

    def create_pod(self, address):
        name = "web-" + address.replace(".", "-")
        self.api.request("POST", "/api/v1/namespaces/default/pods", {
            "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"nodeName": PODS[address], "containers": [{"name": "web", "image": "web"}]}})
        self.put_status(f"/api/v1/namespaces/default/pods/{name}", {
            "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}]})

    def delete_pod(self, address):
        name = "web-" + address.replace(".", "-")
        self.api.request("DELETE", f"/api/v1/namespaces/default/pods/{name}", {"gracePeriodSeconds": 0})

    def put_status(self, path, status):
        thing = self.api.request("GET", path)
        thing["status"].update(status)
        self.api.request("PUT", f"{path}/status", thing)

    def set_distribution(self, name, distribution):
        path = f"/api/v1/namespaces/default/services/{name}"
        service = self.api.request("GET", path)
        service["spec"].pop("trafficDistribution", None)
        if distribution:
            service["spec"]["trafficDistribution"] = distribution
        self.api.request("PUT", path, service)

    def hinted(self, name):
        """The endpoints of a Service with a hint for the own zone, or all if an endpoint has no hints."""
        slices = self.api.request("GET", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
                                  f"?labelSelector=kubernetes.io/service-name%3D{name}")["items"]
        endpoints = [endpoint for item in slices for endpoint in item["endpoints"]]
        in_zone = {endpoint["addresses"][0] for endpoint in endpoints
                   for zone in (endpoint.get("hints") or {}).get("forZones", []) if zone["name"] == ZONES[OWN]}
        without = [endpoint for endpoint in endpoints if not endpoint.get("hints")]
        return {endpoint["addresses"][0] for endpoint in endpoints} if without or not in_zone else in_zone

    def service_cidrs(self):
        """The version of the API that has ServiceCIDRs, or None."""
        for version in ("v1", "v1beta1"):
            try:
                if self.api.request("GET", f"/apis/networking.k8s.io/{version}/servicecidrs")["items"]:
                    return version
            except OSError as error:
                if " 404 " not in str(error):
                    raise
        return None

    @staticmethod
    def until(condition, patience=30):
        deadline = time.monotonic() + patience
        while True:
            try:
                if condition():
                    return True
            except OSError:
                pass
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)


def reached(address, connections=150):
    """The endpoints that answer connections to a Service. "None" stands for connections without an answer."""
    return {endpoint_of(address, 1) for _ in range(connections)}


class Checks:
    def __init__(self, cluster, feature_gates):
        self.cluster, self.feature_gates = cluster, feature_gates
        self.proxy = ""

    def report(self, check, result):
        print(self.cluster.version, self.feature_gates or "-", self.proxy, check, result, sep="\t", flush=True)

    def endpoints(self, phase, name, expected):
        """Waits until connections to a Service reach the expected endpoints."""
        if name in self.cluster.refused:
            return self.report(f"{phase}: {name}", "not applicable: the API server rejects this value")
        last = set()

        def as_expected():
            nonlocal last
            last = reached(self.cluster.addresses[name], 20)
            if last <= expected:
                last = reached(self.cluster.addresses[name])
            return last == expected

        right = Cluster.until(as_expected)
        self.report(f"{phase}: {name}", f"ok, {len(expected)} endpoints" if right else
                    f"failed: {sorted(map(str, last))} instead of {sorted(expected)}")

    def phase(self, name, gone, distribution):
        for service, (_, expected) in SERVICES.items():
            if service == "topology-auto":
                self.cluster.until(lambda: gone.isdisjoint(self.cluster.hinted("topology-auto")))
                expected = self.cluster.hinted("topology-auto")
            elif service == "plain" and distribution:
                expected = IN_ZONE
            self.endpoints(name, service, expected - gone)

    def unused_address(self, has_cidrs):
        dropped = Cluster.until(lambda: (endpoint_of_unused() is None) == has_cidrs, 15)
        what = "dropped" if has_cidrs else "not dropped"
        self.report("packets to an unused cluster IP", f"ok, {what}" if dropped else f"failed: expected {what}")


def endpoint_of_unused():
    return endpoint_of(UNUSED, 0.3, PORT)


def main():
    parser = argparse.ArgumentParser()
    for flag in ("kubeconfig", "kubernetes", "programs", "logs", "feature-gates"):
        parser.add_argument(f"--{flag}", required=True)
    arguments = parser.parse_args()
    socket_path = f"unix://{arguments.logs}/svcmap.sock"
    state = f"{arguments.logs}/svcmap-state"
    svcmap = [[f"{arguments.programs}/svcmapd", "--node-name", OWN, "--listen", socket_path, "--state-dir", state],
              [f"{arguments.programs}/svcmap-kube", "--kubeconfig", arguments.kubeconfig, "--agent", socket_path,
               "--node-name", OWN]]
    gates = ["--feature-gates", arguments.feature_gates] if arguments.feature_gates else []
    kube_proxy = [[f"{arguments.kubernetes}/kube-proxy", "--kubeconfig", arguments.kubeconfig, "--hostname-override",
                   OWN, "--proxy-mode", "nftables", "--conntrack-max-per-core", "0", "--conntrack-min", "0", *gates]]
    subprocess.run(["ip", "route", "add", "local", UNUSED, "dev", "lo"], check=True)
    threading.Thread(target=serve, daemon=True).start()
    cluster = Cluster(arguments.kubeconfig)
    cluster.create()
    checks = Checks(cluster, arguments.feature_gates)
    cidrs = cluster.service_cidrs()
    print(f"{cluster.version}: ServiceCIDRs in {cidrs}", file=sys.stderr, flush=True)
    if endpoint_of_unused() is None:
        raise SystemExit(f"no answer from {UNUSED} without a proxy")

    checks.proxy = "svcmap"
    processes = Processes(svcmap, f"{arguments.logs}/{cluster.version}{arguments.feature_gates}-svcmap.log")
    try:
        checks.phase("start", set(), "")
        checks.unused_address(cidrs is not None)
        cluster.delete_pod(LEAVES)
        cluster.set_distribution("plain", "PreferClose")
        checks.phase("changed", {LEAVES}, "PreferClose")
    finally:
        processes.stop()
    subprocess.run([f"{arguments.programs}/svcmapd", "--cleanup", "--state-dir", state], check=True)

    checks.proxy = "kube-proxy"
    processes = Processes(kube_proxy, f"{arguments.logs}/{cluster.version}{arguments.feature_gates}-kube-proxy.log")
    try:
        checks.phase("start", {LEAVES}, "PreferClose")
        checks.unused_address(cidrs is not None)
        cluster.create_pod(LEAVES)
        cluster.set_distribution("plain", "")
        checks.phase("changed", set(), "")
    finally:
        processes.stop()
    subprocess.run([f"{arguments.kubernetes}/kube-proxy", "--cleanup"], check=False, stderr=subprocess.DEVNULL)


main()
