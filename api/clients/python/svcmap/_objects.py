"""Conversion of objects to keys and serialized changes."""
import collections
import functools
import hashlib
import json
from typing import List, NamedTuple, Optional, Union

from google.protobuf import json_format

from svcmap.v1 import control_pb2 as control, objects_pb2 as objects

Object = Union[objects.Service, objects.EndpointSlice, objects.Node, objects.ServiceCIDR]

_TYPES = {
    "Service": (objects.Service, "service", control.KIND_SERVICE),
    "EndpointSlice": (objects.EndpointSlice, "endpoint_slice", control.KIND_ENDPOINT_SLICE),
    "Node": (objects.Node, "node", control.KIND_NODE),
    "ServiceCIDR": (objects.ServiceCIDR, "service_cidr", control.KIND_SERVICE_CIDR),
}
_NAMES = {kind: name for name, (_, _, kind) in _TYPES.items()}
# Order in a snapshot. EndpointSlices precede Services, because a Service without endpoints rejects
# connections.
_RANKS = {control.KIND_SERVICE_CIDR: 0, control.KIND_NODE: 1, control.KIND_ENDPOINT_SLICE: 2,
          control.KIND_SERVICE: 3}
# Fields of Kubernetes that svcmap does not use, by message (api/manifests/known_fields.cc).
_UNREAD = {name: frozenset(fields.split()) for name, fields in {
    "ObjectMeta": "deletionGracePeriodSeconds finalizers generateName generation managedFields ownerReferences "
                  "resourceVersion selfLink uid",
    "ServiceSpec": "allocateLoadBalancerNodePorts externalName ipFamilyPolicy loadBalancerClass loadBalancerIP "
                   "publishNotReadyAddresses selector trafficDistribution",
    "ServicePort": "appProtocol targetPort",
    "ServiceStatus": "conditions",
    "LoadBalancerIngress": "ports",
    "Endpoint": "deprecatedTopology hostname targetRef",
    "EndpointPort": "appProtocol",
    "NodeSpec": "configSource externalID podCIDR providerID unschedulable",
    "Taint": "effect timeAdded value",
    "NodeStatus": "allocatable capacity conditions config daemonEndpoints declaredFeatures features images nodeInfo "
                  "phase runtimeHandlers volumesAttached volumesInUse",
    "ServiceCIDR": "status",
}.items()}
_TOP_LEVEL = frozenset(("apiVersion", "kind"))


def parse_list(data: Union[str, bytes, dict]) -> List[Object]:
    """Parses a Kubernetes list or a single Kubernetes object, for example the output of
    `kubectl get services,endpointslices -A -o json`. Ignores fields of Kubernetes that svcmap does not use.
    Raises ValueError for other unknown fields, such as a misspelled clusterIP. In an object with
    metadata.uid, all unknown fields are ignored: the API server has checked the object, so they are fields of
    newer versions of Kubernetes. `data` is JSON or a dictionary with the structure of the JSON."""
    return _parse(data if isinstance(data, dict) else json.loads(data), "", "")


def _parse(value, default_kind, path):
    if not isinstance(value, dict):
        raise ValueError(f"{path}must be a Kubernetes object")
    # The API server omits the kind of list items.
    kind = value.get("kind") or default_kind
    if kind in _TYPES:
        obj = json_format.ParseDict(value, _TYPES[kind][0](), ignore_unknown_fields=True)
        if not (value.get("metadata") or {}).get("uid"):
            if unknown := _unknown_field(value, obj.DESCRIPTOR, _TOP_LEVEL):
                raise ValueError(f"{path}{key_of(obj)}: {unknown}: unknown field")
        return [obj]
    if not kind.endswith("List"):
        raise ValueError(f'{path}kind: Unsupported value: "{kind}": supported values: "List", "Service", '
                         '"EndpointSlice", "Node", "ServiceCIDR"')
    for name in value.keys() - _TOP_LEVEL - {"metadata", "items"}:
        raise ValueError(f"{path}{kind}: {name}: unknown field")
    return [found for i, item in enumerate(value.get("items") or [])
            for found in _parse(item, kind[:-len("List")], f"{path}items[{i}]: ")]


def _unknown_field(value, message, ignored=frozenset()) -> Optional[str]:
    """The path of a field that neither the message nor Kubernetes has, or None."""
    ignored |= _UNREAD.get(message.name, frozenset())
    for name, child in value.items():
        field = _fields(message).get(name)
        if field is None:
            if name not in ignored:
                return name
        elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for i, item in enumerate(child if isinstance(child, list) else [child]):
                if isinstance(item, dict) and (unknown := _unknown_field(item, field.message_type)):
                    return f"{name}[{i}].{unknown}" if isinstance(child, list) else f"{name}.{unknown}"
    return None


@functools.lru_cache(maxsize=None)
def _fields(message):
    """The fields by both names that json_format accepts."""
    return {name: field for field in message.fields for name in (field.json_name, field.name)}


class Key(NamedTuple):
    """Identifies an object."""
    kind: int
    namespace: str
    name: str

    @property
    def rank(self) -> int:
        return _RANKS.get(self.kind, 3)

    def __str__(self) -> str:
        path = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{_NAMES.get(self.kind, self.kind)} {path}"

    def refused(self, reason: str) -> control.ObjectResult:
        """The result for an object that the client did not send."""
        return control.ObjectResult(
            kind=self.kind, namespace=self.namespace, name=self.name, severity=control.REFUSED,
            reason=reason, message=f"{self} rejected: {reason}; the previously accepted version, if any, "
            "stays in effect")


    def repeated(self) -> control.ObjectResult:
        """The result for an object of which a list contains several versions."""
        reason = "the list contains several versions of the object; the last version is used"
        return control.ObjectResult(
            kind=self.kind, namespace=self.namespace, name=self.name, severity=control.WARNING,
            code=control.DUPLICATE, reason=reason, message=f"{self}: {reason}")


def repeated_keys(keys) -> "List[Key]":
    """The keys that occur several times."""
    return [key for key, count in collections.Counter(keys).items() if count > 1]


class Version(NamedTuple):
    """A version of an object: a serialized Batch with this change only, and its digest."""
    entry: bytes
    digest: bytes


ABSENT = Version(b"", b"")


def key_of(obj: Object) -> Key:
    try:
        kind = _TYPES[obj.DESCRIPTOR.name][2]
    except (AttributeError, KeyError):
        raise TypeError(f"unsupported object type {type(obj).__name__}") from None
    return Key(kind, obj.metadata.namespace, obj.metadata.name)


def version_of(obj: Object) -> Version:
    batch = control.Batch()
    getattr(batch.changes.add(), _TYPES[obj.DESCRIPTOR.name][1]).CopyFrom(obj)
    entry = batch.SerializeToString(deterministic=True)
    return Version(entry, hashlib.sha256(entry).digest()[:16])


def removal_of(key: Key) -> bytes:
    batch = control.Batch()
    batch.changes.add().remove.MergeFrom(
        control.ObjectRef(kind=key.kind, namespace=key.namespace, name=key.name))
    return batch.SerializeToString()


def refused_key(result: control.ObjectResult) -> Optional[Key]:
    """The key of the object if the result rejects it."""
    if result.severity != control.REFUSED:
        return None
    return Key(result.kind, result.namespace, result.name)
