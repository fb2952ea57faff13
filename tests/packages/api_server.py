#!/usr/bin/python3
"""A small Kubernetes API server for svcmap-kube: list and watch of the four resources, in Protobuf.

api_server.py PORT DIRECTORY: listens on 127.0.0.1. Each file DIRECTORY/*.json contains one object. A new
or changed file is a change of this object.
"""

import http.server
import json
import pathlib
import struct
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

# The fields of messages: JSON name -> field number, or field number and message. The numbers are those of
# the generated.proto files of Kubernetes.
METADATA = {"name": 1, "namespace": 3, "uid": 5, "resourceVersion": 6, "labels": 11}
MESSAGES = {
    "Service": {"metadata": (1, METADATA), "spec": (2, {
        "ports": (1, {"name": 1, "protocol": 2, "port": 3}), "clusterIP": 3, "type": 4,
        "clusterIPs": 18, "ipFamilies": 19})},
    "EndpointSlice": {"metadata": (1, METADATA), "addressType": 4,
                      "endpoints": (2, {"addresses": 1, "nodeName": 6}),
                      "ports": (3, {"name": 1, "protocol": 2, "port": 3})},
    "Node": {"metadata": (1, METADATA), "status": (3, {"addresses": (5, {"type": 1, "address": 2})})},
    "ServiceCIDR": {"metadata": (1, METADATA), "spec": (2, {"cidrs": 1})},
}


def varint(number):
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7f | 0x80)
        number >>= 7
    return bytes(encoded) + bytes([number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def message(value, fields):
    """Encodes a JSON object. Raises KeyError for a field that MESSAGES does not contain."""
    encoded = b""
    for name, content in value.items():
        if name in ("apiVersion", "kind"):
            continue
        number, inner = fields[name] if isinstance(fields[name], tuple) else (fields[name], None)
        if name == "labels":
            content = [field(1, key) + field(2, label) for key, label in content.items()]
        for item in content if isinstance(content, list) else [content]:
            encoded += field(number, item if inner is None else message(item, inner))
    return encoded


def envelope(version, kind, raw):
    return b"k8s\0" + field(1, field(1, version) + field(2, kind)) + field(2, raw)


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
            self.watch(version, kind, int(query.get("resourceVersion") or 0))
        else:
            self.list(version, kind, query.get("fieldSelector", ""))

    def list(self, version, kind, selector):
        # svcmap-kube also selects Services by spec.clusterIP; no object here is excluded by that.
        name = selector.removeprefix("metadata.name=") if "metadata.name=" in selector else None
        with self.server.store.condition:
            items = [o["stored"] for (k, _, n), o in self.server.store.objects.items()
                     if k == kind and name in (None, n)]
            now = str(len(self.server.store.changes))
        encoded = field(1, field(2, now))
        for item in items:
            encoded += field(2, message(item, MESSAGES[kind]))
        body = envelope(version, kind + "List", encoded)
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.kubernetes.protobuf")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def watch(self, version, kind, position):
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.kubernetes.protobuf;stream=watch")
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
                        changed_object = envelope(version, kind, message(stored, MESSAGES[kind]))
                        encoded = field(1, event) + field(2, field(1, changed_object))
                        frame = struct.pack(">I", len(encoded)) + encoded
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(frame), frame))
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
