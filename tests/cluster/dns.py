"""A DNS server for the test cluster: Services, headless Services and ExternalName Services.

Stands in for CoreDNS, which would need an image and would itself depend on the Services under test.
Reads the API with the client certificate of a kubeconfig file. Names outside the cluster do not exist.
"""

import argparse
import base64
import http.client
import ipaddress
import json
import socket
import ssl
import struct
import tempfile
import threading
import time
import urllib.parse

import yaml

A, CNAME, AAAA = 1, 5, 28
ZONE = "cluster.local"
TTL = 5


class Objects:
    """Copies of all objects of one resource, kept up to date with a watch."""

    def __init__(self, server, context, path):
        self.items = {}
        self._server = urllib.parse.urlparse(server)
        self._context = context
        self._path = path
        threading.Thread(target=self._run, daemon=True).start()

    def _get(self, query):
        connection = http.client.HTTPSConnection(self._server.hostname, self._server.port,
                                                 context=self._context, timeout=60)
        connection.request("GET", f"{self._path}?{query}")
        response = connection.getresponse()
        if response.status != 200:
            raise OSError(f"{self._path}: status {response.status}")
        return response

    @staticmethod
    def _key(item):
        return item["metadata"]["namespace"], item["metadata"]["name"]

    def _run(self):
        while True:
            try:
                listed = json.load(self._get("limit=0"))
                self.items = {self._key(item): item for item in listed["items"]}
                version = listed["metadata"]["resourceVersion"]
                for line in self._get(f"watch=1&timeoutSeconds=50&resourceVersion={version}"):
                    event = json.loads(line)
                    if event["type"] in ("ADDED", "MODIFIED"):
                        self.items[self._key(event["object"])] = event["object"]
                    elif event["type"] == "DELETED":
                        self.items.pop(self._key(event["object"]), None)
                    else:
                        break
            except (OSError, ValueError) as error:
                print(error, flush=True)
                time.sleep(1)


class Zone:
    def __init__(self, services, slices):
        self._services = services
        self._slices = slices

    def _endpoints(self, namespace, name):
        for item in list(self._slices.items.values()):
            metadata = item["metadata"]
            if metadata["namespace"] != namespace:
                continue
            if metadata.get("labels", {}).get("kubernetes.io/service-name") != name:
                continue
            for endpoint in item.get("endpoints") or []:
                if endpoint.get("conditions", {}).get("ready", True):
                    yield from ((endpoint, address) for address in endpoint["addresses"])

    def addresses(self, name):
        """Returns the addresses of a name, or the target of an ExternalName Service, or None."""
        labels = name.lower().split(".")
        if labels[-3:] != ["svc", "cluster", "local"] or len(labels) < 5:
            return None
        namespace, service = labels[-4], labels[-5]
        found = self._services.items.get((namespace, service))
        if found is None:
            return None
        spec = found["spec"]
        if spec.get("type") == "ExternalName":
            return spec["externalName"]
        if spec.get("clusterIP") != "None":
            return spec.get("clusterIPs", []) if len(labels) == 5 else None
        return [address for endpoint, address in self._endpoints(namespace, service)
                if len(labels) == 5 or endpoint.get("hostname") == labels[0]]


def question(packet):
    labels, at = [], 12
    while packet[at]:
        labels.append(packet[at + 1:at + 1 + packet[at]].decode())
        at += 1 + packet[at]
    return ".".join(labels), struct.unpack("!H", packet[at + 1:at + 3])[0], at + 5


def encoded(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".") if label) + b"\0"


def record(name, kind, data):
    return encoded(name) + struct.pack("!HHIH", kind, 1, TTL, len(data)) + data


def answer(zone, packet):
    name, kind, end = question(packet)
    found, records = zone.addresses(name), []
    if isinstance(found, str):
        records.append(record(name, CNAME, encoded(found)))
        name, found = found, zone.addresses(found) or []
    for address in found or []:
        address = ipaddress.ip_address(address)
        if kind == (A if address.version == 4 else AAAA):
            records.append(record(name, kind, address.packed))
    code = 3 if found is None else 0  # NXDOMAIN: the resolver continues with the next search domain.
    return (packet[:2] + struct.pack("!HHHHH", 0x8580 | code, 1, len(records), 0, 0) + packet[12:end] +
            b"".join(records))


def serve_udp(zone, listening):
    while True:
        packet, peer = listening.recvfrom(4096)
        try:
            listening.sendto(answer(zone, packet), peer)
        except (IndexError, OSError, ValueError, struct.error) as error:
            print(error, flush=True)


def serve_tcp(zone, listening):
    while True:
        connection, _ = listening.accept()
        try:
            with connection:
                connection.settimeout(5)
                size = struct.unpack("!H", connection.recv(2, socket.MSG_WAITALL))[0]
                reply = answer(zone, connection.recv(size, socket.MSG_WAITALL))
                connection.sendall(struct.pack("!H", len(reply)) + reply)
        except (IndexError, OSError, ValueError, struct.error) as error:
            print(error, flush=True)


def client_of(kubeconfig):
    with open(kubeconfig, encoding="utf-8") as file:
        config = yaml.safe_load(file)
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    decoded = base64.b64decode
    context = ssl.create_default_context(cadata=decoded(cluster["certificate-authority-data"]).decode())
    with tempfile.NamedTemporaryFile() as pair:
        pair.write(decoded(user["client-key-data"]) + decoded(user["client-certificate-data"]))
        pair.flush()
        context.load_cert_chain(pair.name)
    return cluster["server"], context


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--listen", required=True, help="addresses, separated by commas")
    flags = parser.parse_args()
    server, context = client_of(flags.kubeconfig)
    zone = Zone(Objects(server, context, "/api/v1/services"),
                Objects(server, context, "/apis/discovery.k8s.io/v1/endpointslices"))
    for address in flags.listen.split(","):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        datagrams = socket.socket(family, socket.SOCK_DGRAM)
        datagrams.bind((address, 53))
        threading.Thread(target=serve_udp, args=(zone, datagrams), daemon=True).start()
        streams = socket.create_server((address, 53), family=family)
        threading.Thread(target=serve_tcp, args=(zone, streams), daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    main()
