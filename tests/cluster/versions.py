"""Checks svcmap and kube-proxy with one API server (versions.sh).

Runs in the machine `outside` as node-1. No kubelet runs: the test creates the Node and Pod objects, and
kube-controller-manager of the tested version writes the EndpointSlices, including their hints. All endpoint addresses
are local, and an endpoint answers with its address. Prints one line for each check: version of the API server, feature
gates, proxy, check, and the result.
"""

import argparse
import os
import shutil
import subprocess
import threading
import time

import dns  # client_of()
from local import (PORT, Api, ApiError, Processes, endpoint_of, kube_proxy_command, serve, svcmap_address,
                   svcmap_cleanup, svcmap_commands)

ZONES = {"node-1": "a", "node-2": "a", "node-3": "b", "node-4": "c"}
OWN = "node-1"
PODS = {f"10.128.{node[-1]}.{number}": node for node in ZONES for number in (1, 2)}
ALL = set(PODS)
IN_ZONE = {address for address, node in PODS.items() if ZONES[node] == ZONES[OWN]}
ON_NODE = {address for address, node in PODS.items() if node == OWN}
# Service: fields of its spec, and the endpoints that connections from the node must reach.
SERVICES = {
    "plain": ({}, ALL),
    "local": ({"internalTrafficPolicy": "Local"}, ON_NODE),
    "prefer-close": ({"trafficDistribution": "PreferClose"}, IN_ZONE),
    "prefer-same-zone": ({"trafficDistribution": "PreferSameZone"}, IN_ZONE),
    "prefer-same-node": ({"trafficDistribution": "PreferSameNode"}, ON_NODE),
    "topology-auto": ({}, None),  # The controller chooses the endpoints of the zone.
}
NEW_VALUES = {"prefer-same-zone", "prefer-same-node"}  # API servers before 1.34 reject them by default.
LEAVES = "10.128.1.1"  # The pod that is deleted in the second phase.
UNUSED = "10.96.200.200"  # A cluster IP that no Service has. Answers, unless the proxy drops the packets.
NAMESPACE = "/api/v1/namespaces/default"


def until(condition, patience=30):
    """Repeats the condition until it is true, or for `patience` seconds. Returns its last value."""
    deadline = time.monotonic() + patience
    while not (value := condition()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return value


class Cluster:
    """The objects in the API server."""

    def __init__(self, kubeconfig):
        server, context = dns.client_of(kubeconfig)
        self.api = Api(server, context)
        self.addresses, self.refused = {}, set()

    def create(self):
        for node, zone in ZONES.items():
            self.api.request("POST", "/api/v1/nodes", {"metadata": {
                "name": node, "labels": {"topology.kubernetes.io/zone": zone}}})
            self.put_status(f"/api/v1/nodes/{node}", {
                "addresses": [{"type": "InternalIP", "address": f"172.31.0.{int(node[-1]) + 1}"}],
                "allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]})
        if not until(lambda: self.exists(f"{NAMESPACE}/serviceaccounts/default")):
            raise SystemExit("no ServiceAccount: kube-controller-manager does not run")
        for address in PODS:
            self.create_pod(address)
        for name, (spec, _) in SERVICES.items():
            self.create_service(name, spec)
        self.create_service("headless", {"clusterIP": "None"})

    def exists(self, path):
        try:
            self.api.request("GET", path)
            return True
        except ApiError as error:
            if error.status != 404:
                raise
            return False

    def create_service(self, name, spec):
        body = {"metadata": {"name": name}, "spec": {"selector": {"app": "web"}, "ports": [
            {"port": 80, "targetPort": PORT}], **spec}}
        if name == "topology-auto":
            body["metadata"]["annotations"] = {"service.kubernetes.io/topology-mode": "Auto"}
        try:
            self.addresses[name] = self.api.request("POST", f"{NAMESPACE}/services", body)["spec"]["clusterIP"]
        except ApiError as error:
            if name not in NEW_VALUES or error.status != 422:
                raise
            self.refused.add(name)

    @staticmethod
    def pod(address):
        return "web-" + address.replace(".", "-")

    def create_pod(self, address):
        self.api.request("POST", f"{NAMESPACE}/pods", {
            "metadata": {"name": self.pod(address), "labels": {"app": "web"}},
            "spec": {"nodeName": PODS[address], "containers": [{"name": "web", "image": "web"}]}})
        self.put_status(f"{NAMESPACE}/pods/{self.pod(address)}", {
            "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}]})

    def delete_pod(self, address):
        self.api.request("DELETE", f"{NAMESPACE}/pods/{self.pod(address)}", {"gracePeriodSeconds": 0})

    def put_status(self, path, status):
        thing = self.api.request("GET", path)
        thing["status"].update(status)
        self.api.request("PUT", f"{path}/status", thing)

    def set_distribution(self, name, distribution):
        path = f"{NAMESPACE}/services/{name}"
        service = self.api.request("GET", path)
        service["spec"].pop("trafficDistribution", None)
        if distribution:
            service["spec"]["trafficDistribution"] = distribution
        self.api.request("PUT", path, service)

    def hinted(self, name, addresses):
        """The endpoints of a Service with a hint for the own zone. None until exactly `addresses` have hints."""
        slices = self.api.request("GET", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
                                  f"?labelSelector=kubernetes.io/service-name%3D{name}")["items"]
        zones = {endpoint["addresses"][0]: {zone["name"] for zone in endpoint["hints"]["forZones"]}
                 for item in slices for endpoint in item["endpoints"] or []
                 if endpoint.get("hints") and endpoint["conditions"].get("ready")}
        if set(zones) != addresses:
            return None
        return {address for address, names in zones.items() if ZONES[OWN] in names}

    def service_cidrs(self):
        """The API version in which the API server has ServiceCIDRs."""
        return next((version for version in ("v1", "v1beta1")
                     if self.exists(f"/apis/networking.k8s.io/{version}/servicecidrs/kubernetes")), "none")


class Checks:
    def __init__(self, cluster, version, feature_gates):
        self.cluster, self.version, self.feature_gates = cluster, version, feature_gates
        self.proxy, self.processes = "-", None

    def report(self, check, good, result):
        print(self.version, self.feature_gates or "-", self.proxy, check, f"{'ok' if good else 'failed'}: {result}",
              sep="\t", flush=True)

    def reaches(self, check, name, expected):
        """Waits until connections to a Service reach exactly the expected endpoints."""
        seen = set()

        def as_expected():
            nonlocal seen
            self.processes.check()
            # With 8 endpoints, a missing one stays unnoticed in one of 60 million runs.
            for connections in (20, 150):
                seen = {endpoint_of(self.cluster.addresses[name], 1) for _ in range(connections)}
                if not seen <= expected:
                    return False
            return seen == expected

        good = until(as_expected)
        self.report(check, good, f"{len(expected)} endpoints" if good else
                    f"{sorted(map(str, seen))} instead of {sorted(expected)}")

    def services(self, phase, gone, changed):
        """`changed`: the Service "plain" has trafficDistribution PreferClose."""
        for name, (_, expected) in SERVICES.items():
            check = f"{phase}: {name}"
            if name in self.cluster.refused:
                self.report(check, True, "not applicable, the API server rejects this value")
                continue
            if name == "topology-auto":
                expected = until(lambda: self.cluster.hinted("topology-auto", ALL - gone))
                if not expected:
                    self.report(check, False, "the endpoints have no hints")
                    continue
            elif name == "plain" and changed:
                expected = IN_ZONE
            self.reaches(check, name, expected - gone)

    def unused_address(self, dropped):
        """Call after the Services work."""
        self.processes.check()
        good = until(lambda: (endpoint_of(UNUSED, 0.3, PORT) is None) == dropped, 15)
        what = "dropped" if dropped else "not dropped"
        self.report("packets to an unused cluster IP", good, what if good else f"expected: {what}")


def main():
    parser = argparse.ArgumentParser()
    for flag in ("kubeconfig", "kubernetes", "programs", "logs", "version", "service-cidrs", "feature-gates"):
        parser.add_argument(f"--{flag}", required=True)
    arguments = parser.parse_args()
    shutil.rmtree(f"{arguments.logs}/svcmap-state", ignore_errors=True)
    gates = ["--feature-gates", arguments.feature_gates] if arguments.feature_gates else []
    kube_proxy = kube_proxy_command(arguments, OWN, "--proxy-mode", "nftables", *gates)
    log = f"{arguments.logs}/{arguments.version}{arguments.feature_gates}"
    subprocess.run(["ip", "route", "add", "local", UNUSED, "dev", "lo"], check=True)
    threading.Thread(target=serve, daemon=True).start()
    if not until(lambda: endpoint_of(UNUSED, 1, PORT) is not None, 10):
        raise SystemExit(f"no answer from {UNUSED} without a proxy")
    cluster = Cluster(arguments.kubeconfig)
    cluster.create()
    checks = Checks(cluster, arguments.version, arguments.feature_gates)
    cidrs = cluster.service_cidrs()
    checks.report("ServiceCIDRs", cidrs == arguments.service_cidrs, cidrs)
    has_cidrs = cidrs != "none"

    checks.proxy, checks.processes = "svcmap", Processes(svcmap_commands(arguments, OWN), f"{log}-svcmap.log")
    try:
        checks.services("start", set(), False)
        checks.unused_address(has_cidrs)
        stored = subprocess.run([f"{arguments.programs}/svcmapctl", "--address", svcmap_address(arguments), "get",
                                 "services", "-o", "name"], check=True, capture_output=True, text=True).stdout.split()
        checks.report("headless Services are not sent", not any("headless" in name for name in stored),
                      f"{len(stored)} Services")
        cluster.delete_pod(LEAVES)
        cluster.set_distribution("plain", "PreferClose")
        checks.services("changed", {LEAVES}, True)
    finally:
        checks.processes.stop()
    subprocess.run(svcmap_cleanup(arguments), check=True)
    if any(endpoint_of(service) for service in cluster.addresses.values() if service != "None"):
        raise SystemExit("rules of svcmap are left")

    if not os.path.exists(kube_proxy[0]):
        return
    checks.proxy, checks.processes = "kube-proxy", Processes([kube_proxy], f"{log}-kube-proxy.log")
    try:
        checks.services("start", {LEAVES}, True)
        checks.unused_address(has_cidrs)
        cluster.create_pod(LEAVES)
        cluster.set_distribution("plain", None)
        checks.services("changed", set(), False)
    finally:
        checks.processes.stop()


main()
