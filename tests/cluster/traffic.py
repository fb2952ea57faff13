"""Opens connections to agnhost's netexec at a steady rate until SIGTERM, and counts failures.

traffic.py NAME TARGET...: a target is tcp:ADDRESS:PORT (each request opens a connection), udp:ADDRESS:PORT
(each request uses another source port) or held:ADDRESS:PORT (one connection, opened again if it breaks).
Prints one line of JSON for each target at the end, and one line for each failure on standard error. After
SIGUSR1, prints {"finished": true} when all earlier requests and at least one later request to each target
have finished. Prints {"finished": true} also after the first request to each target.
"""

import errno
import json
import queue
import random
import signal
import socket
import sys
import threading
import time

PERIOD = 0.05  # Seconds between requests to one target.
PATIENCE = 3.0  # Seconds for one request. A lost SYN is sent again after 1 s, so it counts as slow only.
SLOW = 0.9
SOURCE_PORTS = range(20000, 30000)  # Not used by the kernel for other sockets, and no NodePorts.
stop = threading.Event()


def receive_response(connection):
    """Reads one HTTP response with Content-Length, and returns its body."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(4096)
        if not part:
            raise OSError("connection closed")
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    if b" 200 " not in head.split(b"\r\n")[0]:
        raise OSError(head.split(b"\r\n")[0].decode())
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(body) < length:
        part = connection.recv(4096)
        if not part:
            raise OSError("connection closed")
        body += part
    return body.decode()


class Target:
    def __init__(self, text):
        self.text = text
        self.kind, _, rest = text.partition(":")
        host, _, port = rest.rpartition(":")
        self.address = (host.strip("[]"), int(port))
        self.family = socket.AF_INET6 if ":" in self.address[0] else socket.AF_INET
        self.requests = self.failures = self.slow = 0
        self.slowest = 0.0
        self.endpoints = {}
        self._held = None
        self._source_port = random.choice(SOURCE_PORTS)

    def _connect(self):
        connection = socket.socket(self.family, socket.SOCK_STREAM)
        connection.settimeout(PATIENCE)
        connection.connect(self.address)
        return connection

    def _tcp(self):
        with self._connect() as connection:
            connection.sendall(b"GET /hostname HTTP/1.0\r\n\r\n")
            return receive_response(connection)

    def _held_request(self):
        if self._held is None:
            self._held = self._connect()
        try:
            self._held.sendall(b"GET /hostname HTTP/1.1\r\nHost: web\r\n\r\n")
            return receive_response(self._held)
        except OSError:
            self._held.close()
            self._held = None
            raise

    def _bind(self, datagrams):
        """Binds the next free port. A port that the kernel picks may belong to a flow that it still tracks."""
        while True:
            self._source_port += 1
            if self._source_port not in SOURCE_PORTS:
                self._source_port = SOURCE_PORTS.start
            try:
                datagrams.bind(("", self._source_port))
                return
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise

    def _udp(self):
        with socket.socket(self.family, socket.SOCK_DGRAM) as datagrams:
            datagrams.settimeout(PATIENCE)
            self._bind(datagrams)
            datagrams.connect(self.address)
            datagrams.send(b"hostname")
            return datagrams.recv(1000).decode()

    def run(self):
        request = {"tcp": self._tcp, "udp": self._udp, "held": self._held_request}[self.kind]
        following = time.monotonic()
        while not stop.is_set():
            start = time.monotonic()
            try:
                endpoint = request()
                self.endpoints[endpoint] = self.endpoints.get(endpoint, 0) + 1
            except OSError as error:
                self.failures += 1
                print(f"{time.strftime('%T')} {sys.argv[1]} {self.text}: {error}", file=sys.stderr, flush=True)
            took = time.monotonic() - start
            self.requests += 1
            self.slow += took > SLOW
            self.slowest = max(self.slowest, took)
            following = max(following + PERIOD, time.monotonic())
            stop.wait(max(0.0, following - time.monotonic()))


def report_marks(marks, targets):
    """For each list of numbers: waits until each target has finished this number of requests."""
    for numbers in iter(marks.get, None):
        while any(target.requests < number for target, number in zip(targets, numbers)) and not stop.is_set():
            time.sleep(0.01)
        print(json.dumps({"finished": True}), flush=True)


def main():
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    targets = [Target(text) for text in sys.argv[2:]]
    threads = [threading.Thread(target=target.run) for target in targets]
    marks = queue.SimpleQueue()  # Safe in signal handlers. None: no further marks.
    signal.signal(signal.SIGUSR1, lambda *_: marks.put([target.requests + 2 for target in targets]))
    marks.put([1] * len(targets))
    marker = threading.Thread(target=report_marks, args=(marks, targets))
    for thread in [*threads, marker]:
        thread.start()
    for thread in threads:
        thread.join()
    marks.put(None)
    marker.join()
    for target in targets:
        print(json.dumps({
            "from": sys.argv[1], "to": target.text, "requests": target.requests, "failures": target.failures,
            "slow": target.slow, "slowest_s": round(target.slowest, 3), "endpoints": len(target.endpoints)}))


main()
