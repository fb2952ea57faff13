"""Stand-in for a cloud provider's load balancer, for tests. Runs in the network namespace of `control`.

loadbalancer.py SERVER PKI POOL4,POOL6 NODE4,NODE6...

Assigns an address of each pool to each Service of type LoadBalancer, and sets status.loadBalancer.
The network namespace routes packets for the address to all nodes that pass the health check: the
Service's healthCheckNodePort with the external traffic policy Local, otherwise the proxy's /healthz.
The source and destination ports select the node, so nodes receive packets of existing connections until
they fail the health check. With session affinity, one node receives all packets.
"""

import concurrent.futures
import http.client
import ipaddress
import itertools
import json
import signal
import ssl
import subprocess
import sys
import time

FINALIZER = "service.kubernetes.io/load-balancer-cleanup"
PERIOD = 0.5  # Seconds between health checks, and between two lists of all Services.
FAILURES = 3  # A node receives no more packets after this number of failed health checks.
PROXY_HEALTH_PORT = 10256
# Kernel: a flow of one of the buckets moves to another node after 1 s without packets.
GROUP_TYPE = "type resilient buckets 1024 idle_timer 1 unbalanced_timer 0".split()


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


class Api:
    def __init__(self, server, pki):
        self._address = server.removeprefix("https://")
        self._tls = ssl.create_default_context(cafile=f"{pki}/ca.crt")
        self._tls.load_cert_chain(f"{pki}/admin.crt", f"{pki}/admin.key")

    def call(self, method, path, body=None):
        connection = http.client.HTTPSConnection(self._address, context=self._tls, timeout=10)
        try:
            connection.request(method, path, body and json.dumps(body),
                               {"Content-Type": "application/merge-patch+json"})
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status in (404, 409):  # Deleted or changed since the list.
            return None
        if response.status != 200:
            raise OSError(f"{method} {path}: {response.status} {content[:300]!r}")
        return json.loads(content)

    def patch(self, service, subresource, fields):
        """Changes a Service if it has not changed since the list."""
        metadata = service["metadata"]
        fields.setdefault("metadata", {})["resourceVersion"] = metadata["resourceVersion"]
        self.call("PATCH", f"/api/v1/namespaces/{metadata['namespace']}/services/{metadata['name']}{subresource}",
                  fields)


def passes(address, port):
    connection = http.client.HTTPConnection(address, port, timeout=3)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


class Balancer:
    def __init__(self, pools, nodes):
        # IP family of the Service: its addresses and the nodes' addresses.
        self._pools = {self._family(pool): ipaddress.ip_network(pool) for pool in pools.split(",")}
        self._nodes = {family: [next(a for a in node.split(",") if self._family(a) == family) for node in nodes]
                       for family in self._pools}
        self._ids = {}  # Address of a node or Service: ID of its nexthop.
        self._routed = {}  # Address of a Service: the nodes that receive its packets.
        self._failures = {}  # Node's address and port: consecutive failed health checks.
        ip("nexthop", "flush")  # And the routes of a previous run.
        for family, addresses in self._nodes.items():
            version = "ipv4" if family == "IPv4" else "ipv6"
            with open(f"/proc/sys/net/{version}/fib_multipath_hash_policy", "w", encoding="ascii") as policy:
                policy.write("1")
            for address in addresses:
                ip("nexthop", "replace", "id", self._id(address), "via", address, "dev", "nodes")

    @staticmethod
    def _family(address):
        return "IPv6" if ":" in address else "IPv4"

    def _id(self, address):
        return str(self._ids.setdefault(address, len(self._ids) + 1))

    def new_address(self, family, assigned):
        for address in itertools.islice(self._pools[family], 100, None):
            if str(address) not in assigned:
                return str(address)
        raise OSError(f"no free {family} address")

    def checked(self, port, family):
        return [(node, port) for node in self._nodes[family]]

    def check(self, pool, targets):
        """Runs the health checks of `targets`, and forgets other results."""
        results = zip(targets, pool.map(lambda target: passes(*target), targets))
        # A new target counts as failed until its first success.
        self._failures = {target: 0 if passed else self._failures.get(target, FAILURES) + 1
                          for target, passed in results}

    def healthy(self, targets):
        return [node for node, port in targets if self._failures.get((node, port), FAILURES) < FAILURES]

    def route(self, address, nodes):
        if self._routed.get(address, []) == nodes:
            return
        print(time.strftime("%T"), address, *(nodes or ["no healthy node"]), flush=True)
        group = self._id(address)
        if nodes:
            ip("nexthop", "replace", "id", group, "group", "/".join(map(self._id, nodes)), *GROUP_TYPE)
            if address not in self._routed:
                ip("route", "replace", address, "nhid", group)
            self._routed[address] = nodes
        else:
            ip("nexthop", "delete", "id", group)  # And the route.
            del self._routed[address]

    def one_of(self, address, nodes):
        """Prefers the node that receives the packets already."""
        return [node for node in self._routed.get(address, []) if node in nodes][:1] or nodes[:1]

    def keep_only(self, addresses):
        for address in set(self._routed) - addresses:
            self.route(address, [])


def reconcile(api, balancer, threads):
    assigned = {}  # Address: the Service's health check port, IP family, and whether it has session affinity.
    services = api.call("GET", "/api/v1/services")["items"]
    used = {entry["ip"] for service in services for entry in service["status"]["loadBalancer"].get("ingress", [])}
    for service in services:
        metadata, spec = service["metadata"], service["spec"]
        ingress = service["status"]["loadBalancer"].get("ingress", [])
        finalizers = metadata.get("finalizers", [])
        if spec["type"] != "LoadBalancer" or "deletionTimestamp" in metadata or "loadBalancerClass" in spec:
            if ingress and "loadBalancerClass" not in spec:
                api.patch(service, "/status", {"status": {"loadBalancer": {"ingress": None}}})
            elif FINALIZER in finalizers:
                api.patch(service, "", {"metadata": {"finalizers": [f for f in finalizers if f != FINALIZER]}})
            continue
        if FINALIZER not in finalizers:
            api.patch(service, "", {"metadata": {"finalizers": finalizers + [FINALIZER]}})
        elif not ingress:
            addresses = [balancer.new_address(family, used) for family in spec["ipFamilies"]]
            used.update(addresses)
            api.patch(service, "/status",
                      {"status": {"loadBalancer": {"ingress": [{"ip": address} for address in addresses]}}})
        port = spec.get("healthCheckNodePort", PROXY_HEALTH_PORT)
        for entry in ingress:
            family = "IPv6" if ":" in entry["ip"] else "IPv4"
            assigned[entry["ip"]] = port, family, spec.get("sessionAffinity") == "ClientIP"
    targets = {address: balancer.checked(port, family) for address, (port, family, _) in assigned.items()}
    balancer.check(threads, sorted({target for group in targets.values() for target in group}))
    for address, (_, _, affinity) in assigned.items():
        nodes = balancer.healthy(targets[address])
        balancer.route(address, balancer.one_of(address, nodes) if affinity else nodes)
    balancer.keep_only(set(assigned))


def main():
    server, pki, pools, *nodes = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    api = Api(server, pki)
    balancer = Balancer(pools, nodes)
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        while True:
            try:
                reconcile(api, balancer, threads)
            except (OSError, http.client.HTTPException) as error:  # For example, the API server restarts.
                print(time.strftime("%T"), error, file=sys.stderr, flush=True)
            time.sleep(PERIOD)


main()
