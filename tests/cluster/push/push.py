"""Keeps the agents of all nodes equal to the API server, with svcmap's Python client: push.py SERVER PKI TARGET..."""

import ssl
import sys
import time
import urllib.request

import svcmap

PATHS = ("/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices", "/api/v1/nodes")


def main():
    server, pki, *targets = sys.argv[1:]
    tls = ssl.create_default_context(cafile=f"{pki}/ca.crt")
    tls.load_cert_chain(f"{pki}/admin.crt", f"{pki}/admin.key")

    def read(path):
        with urllib.request.urlopen(server + path, context=tls, timeout=10) as response:
            return svcmap.parse_list(response.read())

    agents = [svcmap.Agent(target, name="push", on_result=lambda result: print(result.message, flush=True),
                           on_error=lambda error: print(error, flush=True)) for target in targets]
    while all(agent.error is None for agent in agents):
        try:
            objects = [item for path in PATHS for item in read(path)]
        except OSError as error:  # The agents keep their objects.
            print(error, flush=True)
        else:
            for agent in agents:
                agent.set(objects)
        time.sleep(0.2)
    sys.exit("\n".join(str(agent.error) for agent in agents if agent.error))


main()
