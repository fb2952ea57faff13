"""API client, proxy processes and test connections for scripts in the machine `outside`, where all endpoint addresses
are local (local_endpoints in common.sh)."""

import http.client
import json
import os
import socket
import subprocess
import time

PORT = 8080  # The port of all endpoints.


class ApiError(OSError):
    """An error response of the API server."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Api:
    """One connection to the API server."""

    def __init__(self, server, context):
        self._address = server.removeprefix("https://").rsplit(":", 1)
        self._context = context
        self._connection = None

    def request(self, method, path, body=None):
        if self._connection is None:
            self._connection = http.client.HTTPSConnection(self._address[0].strip("[]"), int(self._address[1]),
                                                           context=self._context, timeout=120)
        self._connection.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        data = response.read()
        if response.status >= 300:
            raise ApiError(response.status, f"{method} {path}: {response.status} {data[:300]}")
        return json.loads(data)


def svcmap_commands(arguments, node, *flags):
    """Command lines of svcmapd, with `flags`, and svcmap-kube. `arguments`: programs, kubeconfig, logs."""
    address = svcmap_address(arguments)
    return [[f"{arguments.programs}/svcmapd", "--node-name", node, "--listen", address, "--state-dir",
             f"{arguments.logs}/svcmap-state", *flags],
            [f"{arguments.programs}/svcmap-kube", "--kubeconfig", arguments.kubeconfig, "--agent", address,
             "--node-name", node]]


def svcmap_address(arguments):
    return f"unix://{arguments.logs}/svcmap.sock"


def svcmap_cleanup(arguments):
    return [f"{arguments.programs}/svcmapd", "--cleanup", "--state-dir", f"{arguments.logs}/svcmap-state"]


def kube_proxy_command(arguments, node, *flags):
    """Command line of kube-proxy. `arguments`: kubernetes, kubeconfig."""
    return [f"{arguments.kubernetes}/kube-proxy", "--kubeconfig", arguments.kubeconfig, "--hostname-override", node,
            "--conntrack-max-per-core", "0", "--conntrack-min", "0", *flags]


def serve():
    """Answers each connection with its destination address."""
    listening = socket.create_server(("0.0.0.0", PORT), backlog=4096)
    while True:
        connection, _ = listening.accept()
        try:
            connection.sendall(connection.getsockname()[0].encode())
        except OSError:
            pass
        connection.close()


def endpoint_of(address, patience=0.05, port=80):
    """Returns the endpoint that answers a new connection to a Service, or None."""
    try:
        with socket.create_connection((address, port), timeout=patience) as connection:
            connection.settimeout(2)
            return connection.recv(100).decode()
    except OSError:
        return None


class Processes:
    """The processes of a proxy."""

    def __init__(self, commands, log):
        self.log = open(log, "wb")  # pylint: disable=consider-using-with
        self.started = time.monotonic()
        self.children = [subprocess.Popen(command, stdout=self.log, stderr=self.log) for command in commands]

    def check(self):
        for child in self.children:
            if child.poll() is not None:
                raise SystemExit(f"{child.args[0]} exited with {child.returncode}, see {self.log.name}")

    def usage(self):
        """CPU seconds in user space and in the kernel, and minor page faults, of the processes and reaped children."""
        totals = [0] * 6
        for child in self.children:
            with open(f"/proc/{child.pid}/stat", encoding="utf-8") as file:
                fields = file.read().rsplit(") ")[-1].split()
            for i, field in enumerate((11, 12, 7, 13, 14, 8)):
                totals[i] += int(fields[field])
        tick = os.sysconf("SC_CLK_TCK")
        return {owner: {"user_s": totals[i] / tick, "system_s": totals[i + 1] / tick, "page_faults": totals[i + 2]}
                for owner, i in (("own", 0), ("children", 3))}

    def cpu(self):
        """CPU seconds, including reaped children."""
        return sum(usage["user_s"] + usage["system_s"] for usage in self.usage().values())

    def mebibytes(self, field):
        total = 0
        for child in self.children:
            with open(f"/proc/{child.pid}/status", encoding="utf-8") as file:
                total += next(int(line.split()[1]) for line in file if line.startswith(field + ":"))
        return total / 1024

    def stop(self):
        for child in self.children:
            child.terminate()
        for child in self.children:
            try:
                child.wait(timeout=60)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self.log.close()
