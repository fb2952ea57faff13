"""Keeps one Service on an agent: controller.py TARGET NODE-NAME NODE-IP ENDPOINT-IP..."""
import sys

import svcmap

target, node_name, node_ip, *endpoints = sys.argv[1:]
node = svcmap.Node(metadata={"name": node_name},
                   status={"addresses": [{"type": "InternalIP", "address": node_ip}]})
service = svcmap.Service(metadata={"namespace": "shop", "name": "web"},
                         spec={"cluster_ip": "10.96.0.10", "ports": [{"name": "http", "port": 80}]})
endpoint_slice = svcmap.EndpointSlice(
    metadata={"namespace": "shop", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
    address_type="IPv4", ports=[{"name": "http", "port": 8080}],
    endpoints=[{"addresses": [address]} for address in endpoints])
with svcmap.Agent(target, name="example", on_result=lambda result: print(result.message), on_error=print) as agent:
    agent.set([node, service, endpoint_slice])
    agent.wait()
    print(f"node {agent.status.node_name} is at revision {agent.status.revision}")
