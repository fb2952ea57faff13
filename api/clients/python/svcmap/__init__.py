"""Keeps svcmapd agents equal to a list of Services, EndpointSlices, Nodes and ServiceCIDRs.

    with svcmap.Agent("unix:///run/svcmap/svcmap.sock", name="example") as agent:
        agent.set(objects)      # The complete list. Nothing is sent before the first set().
        agent.apply(slice)      # Adds or replaces individual objects.
        agent.remove(service)   # Removes objects by kind, namespace and name.
        agent.wait()            # Returns when the agent has acknowledged all of the above.

An Agent connects, reconnects with backoff, and sends only objects that differ from the objects that the
agent acknowledged. Changes to an object that is waiting to be sent are merged. With `state_file`, a
restarted controller also sends only differences. `svcmap.aio.Agent` is the same class for asyncio.
A Store writes the objects to etcd instead, for all nodes of a fleet (docs/fleet.md).
"""
from svcmap._agent import Agent, Closed, ErrorReason, SnapshotHeld, Status, Stopped, StreamError
from svcmap._etcd import StoreError
from svcmap._objects import parse_list
from svcmap._store import Deposed, RemovalsHeld, Store, StoreStatus
from svcmap._tls import TlsFiles
from svcmap.v1.control_pb2 import ObjectResult, ResultCode
from svcmap.v1.objects_pb2 import EndpointSlice, Node, Service, ServiceCIDR

__all__ = ["Agent", "Closed", "Deposed", "EndpointSlice", "ErrorReason", "Node", "ObjectResult", "RemovalsHeld",
           "ResultCode", "Service", "ServiceCIDR", "SnapshotHeld", "Status", "Stopped", "Store", "StoreError",
           "StoreStatus", "StreamError", "TlsFiles", "parse_list"]
