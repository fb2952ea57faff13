#!/usr/bin/python3
"""A TCP server and clients that open new connections to a Service without a pause.

traffic.py serve ADDRESS PORT: accepts connections and sends one line. "::" is all IPv4 and IPv6 addresses.
traffic.py load ADDRESS PORT: opens connections from four threads until SIGTERM, and prints the number of
connections, the number of failed connections and the slowest connection as JSON.
"""

import json
import signal
import socket
import sys
import threading
import time

THREADS = 4
PAUSE = 0.004  # Per thread, so that the load leaves CPU time for the package manager.
TIMEOUT = 1.0  # A lost SYN is repeated after 1 s, so a connection that needs longer has lost a packet.
LINE = b"svcmap\n"


def serve(address, port):
    ipv6 = ":" in address
    with socket.create_server((address, port), family=socket.AF_INET6 if ipv6 else socket.AF_INET, backlog=1024,
                              dualstack_ipv6=ipv6) as listener:
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(LINE)


def connect(address, port):
    """Returns an error, or None if the connection receives the line of the server."""
    try:
        with socket.create_connection((address, port), timeout=TIMEOUT) as connection:
            return None if connection.recv(len(LINE)) == LINE else "no line received"
    except OSError as error:
        return str(error)


class Load:
    def __init__(self, address, port):
        self.server = (address, port)
        self.stopped = threading.Event()
        self.lock = threading.Lock()
        self.connections = 0
        self.errors = []
        self.slowest = 0.0

    def run(self):
        while not self.stopped.is_set():
            start = time.monotonic()
            error = connect(*self.server)
            took = time.monotonic() - start
            with self.lock:
                self.connections += 1
                self.slowest = max(self.slowest, took)
                if error is not None:
                    self.errors.append(error)
            time.sleep(PAUSE)

    def result(self):
        return {"connections": self.connections, "failed": len(self.errors),
                "errors": sorted(set(self.errors)), "slowest_ms": round(self.slowest * 1000, 1)}


def main():
    what, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if what == "serve":
        serve(address, port)
    load = Load(address, port)
    signal.signal(signal.SIGTERM, lambda *_: load.stopped.set())
    threads = [threading.Thread(target=load.run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(load.result()))


if __name__ == "__main__":
    main()
