#!/usr/bin/python3
"""A small Kubernetes API server for svcmap-kube: list and watch of the four resources, in JSON.

api_server.py PORT DIRECTORY: listens on 127.0.0.1. Each file DIRECTORY/*.json contains one object. A new
or changed file is a change of this object.
"""

import http.server
import json
import pathlib
import sys
import threading
import time
import urllib.parse

RESOURCES = {
    "/api/v1/services": ("v1", "Service"),
    "/api/v1/nodes": ("v1", "Node"),
    "/apis/discovery.k8s.io/v1/endpointslices": ("discovery.k8s.io/v1", "EndpointSlice"),
    "/apis/networking.k8s.io/v1/servicecidrs": ("networking.k8s.io/v1", "ServiceCIDR"),
}
INTERVAL = 0.05


class Store:
    """The objects of the directory, and all changes in the order of their resource versions."""

    def __init__(self, directory):
        self.directory = directory
        self.condition = threading.Condition()
        self.changes = []  # (kind, event type, object)
        self.objects = {}  # (kind, namespace, name) -> object

    def read(self):
        for file in sorted(self.directory.glob("*.json")):
            found = json.loads(file.read_text())
            metadata = found["metadata"]
            key = (found["kind"], metadata.get("namespace", ""), metadata["name"])
            before = self.objects.get(key)
            if before is not None and before["source"] == found:
                continue
            with self.condition:
                version = str(len(self.changes) + 1)
                stored = {**found, "metadata": {**metadata, "uid": f"uid-{metadata['name']}",
                                                "resourceVersion": version}}
                self.objects[key] = {"source": found, "stored": stored}
                self.changes.append((found["kind"], "ADDED" if before is None else "MODIFIED", stored))
                self.condition.notify_all()

    def read_forever(self):
        while True:
            self.read()
            time.sleep(INTERVAL)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if url.path not in RESOURCES:
            self.send_error(404)
            return
        version, kind = RESOURCES[url.path]
        if query.get("watch") in ("1", "true"):
            self.watch(kind, int(query.get("resourceVersion") or 0))
        else:
            self.list(version, kind, query.get("fieldSelector", ""))

    def list(self, version, kind, selector):
        # svcmap-kube also selects Services by spec.clusterIP; no object here is excluded by that.
        name = selector.removeprefix("metadata.name=") if "metadata.name=" in selector else None
        with self.server.store.condition:
            items = [o["stored"] for (k, _, n), o in self.server.store.objects.items()
                     if k == kind and name in (None, n)]
            now = str(len(self.server.store.changes))
        body = json.dumps({"apiVersion": version, "kind": kind + "List",
                           "metadata": {"resourceVersion": now}, "items": items}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def watch(self, kind, position):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        store = self.server.store
        try:
            while True:
                with store.condition:
                    store.condition.wait_for(lambda: len(store.changes) > position, timeout=5)
                    new, position = store.changes[position:], len(store.changes)
                for changed, event, stored in new:
                    if changed == kind:
                        line = json.dumps({"type": event, "object": stored}).encode() + b"\n"
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.flush()
        except OSError:
            self.close_connection = True


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    server.daemon_threads = True
    server.store = Store(pathlib.Path(sys.argv[2]))
    server.store.read()
    threading.Thread(target=server.store.read_forever, daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
