"""Measures a Python client: bench_client.py blocking|asyncio TARGET SERVICES CHANGES ROUND_TRIPS. Prints
the figures as JSON, see bench/main.go."""
import asyncio
import json
import os
import sys
import time

import svcmap
import svcmap.aio

ENDPOINTS = 10


def metadata(service, suffix):
    return {"namespace": "bench", "name": f"service-{service}{suffix}",
            "labels": {"kubernetes.io/service-name": f"service-{service}"}}


def service(i):
    return svcmap.Service(metadata=metadata(i, ""), spec={
        "cluster_ip": f"10.96.{i // 250}.{i % 250 + 1}", "ports": [{"name": "http", "port": 80}]})


def endpoint_slice(i, version):
    return svcmap.EndpointSlice(
        metadata=metadata(i, "-1"), address_type="IPv4", ports=[{"name": "http", "port": 8080}],
        endpoints=[{"addresses": [f"10.{128 + e % 100}.{i // 250}.{i % 250 + 1}"], "node_name": "n2",
                    "conditions": {"ready": True}} for e in range(version, version + ENDPOINTS)])


def fail(value):
    print(value, file=sys.stderr, flush=True)
    os._exit(1)


async def main(kind, target, services, changes, round_trips):
    client = {"blocking": svcmap.Agent, "asyncio": svcmap.aio.Agent}[kind]
    agent = client(target, name="bench", state_file=os.environ.get("STATE_FILE"), on_result=fail, on_error=fail)

    async def wait():
        if kind == "asyncio":
            await agent.wait()
        else:
            agent.wait()

    objects = [obj for i in range(services) for obj in (service(i), endpoint_slice(i, 0))]
    start = time.perf_counter()
    agent.set(objects)
    await wait()
    snapshot = time.perf_counter() - start

    start = time.perf_counter()
    for i in range(changes):
        agent.apply(endpoint_slice(i % services, 1 + i // services))
    await wait()
    stream = time.perf_counter() - start

    times = []
    for i in range(round_trips):
        obj = endpoint_slice(i % services, 50 + i // services)
        start = time.perf_counter()
        agent.apply(obj)
        await wait()
        times.append(time.perf_counter() - start)
    times.sort()
    batches = agent.status.batches
    closed = agent.close()
    if kind == "asyncio":
        await closed
    print(json.dumps({"snapshot_s": snapshot, "changes_per_s": changes / stream,
                      "p50_ms": times[round_trips // 2] * 1e3, "p99_ms": times[round_trips * 99 // 100] * 1e3,
                      "batches": batches}))


asyncio.run(main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])))
