#!/usr/bin/python3
"""Runs each query of the Grafana dashboard on a Prometheus server that scrapes svcmapd.

dashboard.py DIRECTORY-OF-THE-BINARIES: starts svcmapd and Prometheus in a network namespace, changes an
EndpointSlice while Prometheus scrapes, and prints one row for each query: panel, number of series, and the
first value. Fails if a query fails or returns no series. Needs root and the package prometheus.
"""

import datetime
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

DASHBOARD = Path(__file__).resolve().parents[2] / "deploy/grafana/svcmap.json"
LIMIT = 60  # Seconds. Ends only tests that hang.
INTERVAL = 1  # Seconds between scrapes.
RATE_INTERVAL = f"{4 * INTERVAL}s"  # Grafana uses four times the scrape interval.
CHANGES = 12
VARIABLES = {"$job": "svcmap", "$instance": ".+", "$__rate_interval": RATE_INTERVAL}
CONFIG = f"""
global: {{scrape_interval: {INTERVAL}s}}
scrape_configs: [{{job_name: svcmap, static_configs: [{{targets: ['127.0.0.1:10249']}}]}}]
"""


def until(what, condition):
    end = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"not true after {LIMIT} s: {what}")
        time.sleep(0.1)


def query(expression):
    url = "http://127.0.0.1:9090/api/v1/query?" + urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(url, timeout=LIMIT) as response:
        return json.load(response)["data"]["result"]


def answers(expression):
    try:
        return bool(query(expression))
    except OSError:
        return False


def objects(n):
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "shop", "name": "web"},
         "spec": {"type": "NodePort", "externalTrafficPolicy": "Local", "clusterIP": "10.96.0.10",
                  "ports": [{"port": 80, "targetPort": 8080, "nodePort": 30080}]}},
        {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
         "metadata": {"namespace": "shop", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"},
                      "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": now}},
         "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
         "endpoints": [{"addresses": [f"10.1.0.{2 + n % 2}"], "nodeName": "other"}]}]}


def inside(binaries, folder):
    for command in ("link set lo up", "address add 10.1.0.2/32 dev lo", "address add 10.1.0.3/32 dev lo",
                    "route add default dev lo"):
        subprocess.run(["ip", *command.split()], check=True)
    socket = f"unix://{folder}/svcmap.sock"
    (folder / "prometheus.yml").write_text(CONFIG)
    commands = [
        [f"{binaries}/svcmapd", "--node-name", "node", "--listen", socket, "--state-dir", f"{folder}/state",
         "--service-counters"],
        ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
         "--web.listen-address=127.0.0.1:9090"]]
    processes = []
    for command in commands:
        with open(folder / f"{Path(command[0]).name}.log", "wb") as log:
            processes.append(subprocess.Popen(command, stdout=log, stderr=log))
    try:
        until("Prometheus has scraped svcmapd", lambda: answers('svcmap_build_info{job="svcmap"}'))
        for n in range(CHANGES):
            subprocess.run([f"{binaries}/svcmapctl", "--address", socket, "apply", "-f", "-"], check=True,
                           input=json.dumps(objects(n)), text=True, stdout=subprocess.DEVNULL)
            # The connection is counted, even though no process listens on the endpoint's port.
            subprocess.run(["bash", "-c", "exec 3<> /dev/tcp/10.96.0.10/80"], stderr=subprocess.DEVNULL)
            time.sleep(INTERVAL)
        until("Prometheus has scraped the last change", lambda: answers(
            f"svcmap_commits_total - svcmap_commits_total offset {2 * INTERVAL}s >= 0"))
        return check()
    finally:
        for process in processes:
            process.terminate()
            process.wait(LIMIT)


def check():
    failed = 0
    print("| Panel | Series | First value |\n| --- | ---: | ---: |")
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"]
            for name, value in VARIABLES.items():
                expression = expression.replace(name, value)
            try:
                result = query(expression)
            except urllib.error.HTTPError as error:
                print(f"{panel['title']}: {expression}: {error.read().decode()}", file=sys.stderr)
                failed += 1
                continue
            values = [float(series["value"][1]) for series in result]
            known = [value for value in values if not math.isnan(value)]
            print(f"| {panel['title']} | {len(values)} | {known[0] if known else 'none'} |")
            if not known:
                print(f"{panel['title']}: no value: {expression}", file=sys.stderr)
                failed += 1
    return failed


def main():
    if sys.argv[1] != "--inside":
        os.execvp("unshare", ["unshare", "--net", sys.executable, __file__, "--inside", sys.argv[1]])
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(1 if inside(os.path.realpath(sys.argv[2]), Path(folder)) else 0)


main()
