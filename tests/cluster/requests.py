"""Sends one request to agnhost's netexec for each line of standard input, and prints the endpoints that answer.

A line is: tcp|udp ADDRESS PORT SOURCE-ADDRESS|- SOURCE-PORT|0. Prints the line, a space, and the name of the
endpoint or the error. `requests.py held RESET KEPT` instead opens a TCP connection to port 80 of each of the
two addresses and prints the endpoints. It sends requests over the first connection until the connection ends,
and then one request over the second connection, and prints the two results.
"""

import http.client
import socket
import sys
import time

PATIENCE = 5.0  # Seconds for one request.


def open_socket(kind, address, port, source="-", source_port="0"):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    client = socket.socket(family, {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}[kind])
    client.settimeout(PATIENCE)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    client.bind(("" if source == "-" else source, int(source_port)))
    client.connect((address, int(port)))
    return client


def request(client):
    """Sends one HTTP request, and returns the body of the response."""
    client.sendall(b"GET /hostname HTTP/1.1\r\nHost: web\r\n\r\n")
    response = http.client.HTTPResponse(client)
    response.begin()
    return response.read().decode()


def answer(kind, *arguments):
    try:
        with open_socket(kind, *arguments) as client:
            if kind == "tcp":
                return request(client)
            client.send(b"hostname")
            return client.recv(1000).decode()
    except (OSError, http.client.HTTPException) as error:
        return str(error).replace(" ", "-")


def held(reset_address, kept_address):
    reset, kept = open_socket("tcp", reset_address, 80), open_socket("tcp", kept_address, 80)
    print("open", request(reset), request(kept), flush=True)
    try:
        while True:
            request(reset)
            time.sleep(0.2)
    except OSError as error:
        print("first", type(error).__name__, flush=True)
    print("second", request(kept), flush=True)


def main():
    if sys.argv[1:2] == ["held"]:
        return held(*sys.argv[2:])
    for line in sys.stdin:
        print(line.strip(), answer(*line.split()), flush=True)


main()
