"""Measures service proxies on one API server: kube-proxy in its modes, and svcmapd with svcmap-kube.

Runs in the network namespace of the machine `outside` (measure.sh). Every endpoint address is local, so the
measurement opens a real connection to each Service. For each proxy: the time from the start of its processes
until the last Service answers, the time from the request that changes an endpoint until connections reach the
new endpoint, CPU time, and memory.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time

import dns  # client_of()
from local import (PORT, Api, Processes, endpoint_of, kube_proxy_command, serve, svcmap_cleanup,
                   svcmap_commands)

LABEL = "kubernetes.io/service-name"


def endpoint_address(service, endpoint):
    number = service * 16 + endpoint
    return f"10.{128 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"


class Cluster:
    """The objects in the API server."""

    def __init__(self, kubeconfig, services, endpoints):
        self.server, self.context = dns.client_of(kubeconfig)
        self.services, self.endpoints = services, endpoints
        self.addresses = {}  # The ClusterIP of each Service.

    def api(self):
        return Api(self.server, self.context)

    def slice(self, service, endpoints):
        return {
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": f"web-{service}", "labels": {LABEL: f"web-{service}"}},
            "endpoints": [{"addresses": [endpoint_address(service, e)], "nodeName": "elsewhere",
                           "conditions": {"ready": True}} for e in endpoints],
            "ports": [{"name": "http", "port": PORT, "protocol": "TCP"}],
        }

    def create(self, threads=8):
        api = self.api()
        api.request("POST", "/api/v1/nodes", {"metadata": {"name": "measured"}})
        node = api.request("GET", "/api/v1/nodes/measured")
        node["status"]["addresses"] = [{"type": "InternalIP", "address": "172.31.0.2"}]
        api.request("PUT", "/api/v1/nodes/measured/status", node)

        def work(first):
            own = self.api()
            for i in range(first, self.services, threads):
                made = own.request("POST", "/api/v1/namespaces/default/services", {
                    "metadata": {"name": f"web-{i}"},
                    "spec": {"ports": [{"name": "http", "port": 80, "targetPort": PORT}]}})
                self.addresses[i] = made["spec"]["clusterIP"]
                own.request("POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
                            self.slice(i, range(self.endpoints)))

        run_all(work, threads)

    def put(self, api, service, endpoints):
        api.request("PUT", f"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/web-{service}",
                    self.slice(service, endpoints))


def run_all(work, count):
    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def wait_for_all(cluster, processes, patience):
    """Returns the time at which the last Service answers, and the number that the first sweep found missing."""
    sentinels = random.sample(range(cluster.services), 20)
    for sentinel in sentinels:
        while endpoint_of(cluster.addresses[sentinel]) is None:
            processes.check()
            if time.monotonic() - processes.started > patience:
                raise SystemExit(f"not programmed after {patience} s, see {processes.log.name}")
            time.sleep(0.005)
    last = time.monotonic()
    missing = [i for i in cluster.addresses if endpoint_of(cluster.addresses[i]) is None]
    first_missing = len(missing)
    while missing:
        if time.monotonic() - processes.started > patience:
            raise SystemExit(f"{len(missing)} Services are not programmed after {patience} s")
        missing = [i for i in missing if endpoint_of(cluster.addresses[i], 1) is None]
        last = time.monotonic()
    return last - processes.started, first_missing


def idle_cpu(processes, patience):
    """Waits until the processes use less than 2 % of a core in a second."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        before = processes.cpu()
        time.sleep(1)
        if processes.cpu() - before < 0.02:
            return


NFTABLES_GROUP = 1 << 6  # NFNLGRP_NFTABLES


# PROXY+NAME measures a proxy while these processes run. `busy` and `memory` leave the CPUs to the proxy, but `memory`
# replaces the content of the CPUs' caches and uses the memory's bandwidth.
LIMITED = "ulimit -t 600; exec nice -n 19 "
DISTURBANCES = {
    "": [],
    "listener": [["nft", "monitor"]],
    "listener-elsewhere": [["unshare", "--net", "nft", "monitor"]],
    "busy": [["sh", "-c", LIMITED + "sh -c 'while :; do :; done'"]] * 2,
    "memory": [["sh", "-c", LIMITED + "dd if=/dev/zero of=/dev/null bs=256M"]] * 2,
}


def listeners():
    """Returns the number of sockets that receive nf_tables notifications in other network namespaces.

    The kernel formats notifications for all transactions if one socket in any namespace receives them.
    """
    seen, found = {os.readlink("/proc/self/ns/net")}, 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            namespace = os.readlink(f"/proc/{pid}/ns/net")
            if namespace in seen:
                continue
            seen.add(namespace)
            with open(f"/proc/{pid}/net/netlink", encoding="utf-8") as file:
                rows = [line.split() for line in file.readlines()[1:]]
            found += sum(row[1] == "12" and bool(int(row[3], 16) & NFTABLES_GROUP) for row in rows)
        except OSError:
            pass  # The process has exited.
    return found


def measure(cluster, name, commands, arguments):
    processes = Processes(commands, f"{arguments.logs}/{name}.log")
    try:
        programmed, missing = wait_for_all(cluster, processes, 600)
        result = {"proxy": name, "other_listeners": listeners(),
                  "first_sync_s": round(programmed, 3), "missing_in_first_sweep": missing,
                  "first_sync_cpu_s": round(processes.cpu(), 2), "first_sync_usage": processes.usage()}
        idle_cpu(processes, 60)
        result["settled_cpu_s"] = round(processes.cpu(), 2)
        api, changes = cluster.api(), []
        cluster.put(api, 0, [0])
        # While the other endpoints are still programmed, some connections also reach endpoint 0.
        reached = 0
        while reached < 100:
            address = endpoint_of(cluster.addresses[0])
            reached = reached + 1 if address == endpoint_address(0, 0) else 0
        for number in range(1, arguments.changes + 1):
            time.sleep(random.uniform(1.1, 2.1))  # Not in step with periods of a second.
            target = number % cluster.endpoints
            start = time.monotonic()
            cluster.put(api, 0, [target])
            acknowledged = time.monotonic()
            until_endpoint(cluster, 0, target)
            changes.append((time.monotonic() - start, time.monotonic() - acknowledged))
        result["change_ms"] = [round(total * 1e3, 1) for total, _ in changes]
        result["change_median_ms"] = round(statistics.median(total for total, _ in changes) * 1e3, 1)
        result["change_max_ms"] = round(max(total for total, _ in changes) * 1e3, 1)
        result["churn_per_s"], result["churn_cpu_percent"] = churn(cluster, processes, arguments.churn)
        result["rss_mib"] = round(processes.mebibytes("VmRSS"), 1)
        result["peak_mib"] = round(processes.mebibytes("VmHWM"), 1)
        cluster.put(api, 0, range(cluster.endpoints))
    finally:
        processes.stop()
    for command in arguments.cleanup:
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if endpoint_of(cluster.addresses[1]) is not None:
        raise SystemExit(f"rules of {name} are left")
    return result


def until_endpoint(cluster, service, endpoint):
    deadline = time.monotonic() + 120
    while endpoint_of(cluster.addresses[service]) != endpoint_address(service, endpoint):
        if time.monotonic() > deadline:
            raise SystemExit("an endpoint change did not arrive")


def churn(cluster, processes, seconds):
    """Replaces one endpoint of random Services at 50 changes per second. Returns changes/s and % of a core."""
    api, done, start, before = cluster.api(), 0, time.monotonic(), processes.cpu()
    while (elapsed := time.monotonic() - start) < seconds:
        if done < elapsed * 50:
            cluster.put(api, random.randrange(1, cluster.services), [*range(1, cluster.endpoints), 15])
            done += 1
        else:
            time.sleep(0.002)
    elapsed = time.monotonic() - start
    return round(done / elapsed, 1), round((processes.cpu() - before) / elapsed * 100, 1)


def legacy_iptables(folder):
    """Returns a directory in which `iptables` is iptables-legacy, which is faster than iptables-nft."""
    directory = f"{folder}/iptables-legacy"
    os.makedirs(directory, exist_ok=True)
    for name in ("iptables", "ip6tables"):
        for suffix in ("", "-save", "-restore"):
            path = f"{directory}/{name}{suffix}"
            if not os.path.islink(path):
                os.symlink("/usr/sbin/xtables-legacy-multi", path)
    return directory


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--kubernetes", required=True)
    parser.add_argument("--programs", required=True)
    parser.add_argument("--logs", required=True)
    parser.add_argument("--services", type=int, default=10000)
    parser.add_argument("--endpoints", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--changes", type=int, default=20)
    parser.add_argument("--churn", type=int, default=20, help="seconds")
    parser.add_argument("--proxies", default="svcmap,kube-proxy-nftables,kube-proxy-iptables")
    arguments = parser.parse_args()
    cluster_cidr = ["--cluster-cidr", "10.128.0.0/9"]
    kube_proxy = kube_proxy_command(arguments, "measured", *cluster_cidr)
    proxies = {
        "kube-proxy-nftables": [[*kube_proxy, "--proxy-mode", "nftables"]],
        "kube-proxy-iptables": [["env", f"PATH={legacy_iptables(arguments.logs)}:{os.environ['PATH']}",
                                 *kube_proxy, "--proxy-mode", "iptables"]],
        "svcmap": svcmap_commands(arguments, "measured", *cluster_cidr),
    }
    arguments.cleanup = [[f"{arguments.kubernetes}/kube-proxy", "--cleanup"],
                         ["env", f"PATH={legacy_iptables(arguments.logs)}:{os.environ['PATH']}",
                          f"{arguments.kubernetes}/kube-proxy", "--cleanup"],
                         svcmap_cleanup(arguments)]
    threading.Thread(target=serve, daemon=True).start()
    cluster = Cluster(arguments.kubeconfig, arguments.services, arguments.endpoints)
    started = time.monotonic()
    cluster.create()
    print(f"{arguments.services} Services created in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    for number in range(arguments.rounds):
        for name in arguments.proxies.split(","):
            proxy, _, disturbance = name.partition("+")
            disturbing = [subprocess.Popen(command, stdout=subprocess.DEVNULL)
                          for command in DISTURBANCES[disturbance]]
            try:
                result = measure(cluster, name, proxies[proxy], arguments)
            finally:
                for process in disturbing:
                    process.kill()
                    process.wait()
            result["round"] = number + 1
            result["load_average"] = os.getloadavg()[0]
            print(json.dumps(result), flush=True)


main()
