from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ClientIPConfig(_message.Message):
    __slots__ = ["timeout_seconds"]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    timeout_seconds: int
    def __init__(self, timeout_seconds: _Optional[int] = ...) -> None: ...

class Endpoint(_message.Message):
    __slots__ = ["addresses", "conditions", "hints", "node_name", "weight", "zone"]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    HINTS_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    addresses: _containers.RepeatedScalarFieldContainer[str]
    conditions: EndpointConditions
    hints: EndpointHints
    node_name: str
    weight: int
    zone: str
    def __init__(self, addresses: _Optional[_Iterable[str]] = ..., conditions: _Optional[_Union[EndpointConditions, _Mapping]] = ..., node_name: _Optional[str] = ..., zone: _Optional[str] = ..., hints: _Optional[_Union[EndpointHints, _Mapping]] = ..., weight: _Optional[int] = ...) -> None: ...

class EndpointConditions(_message.Message):
    __slots__ = ["ready", "serving", "terminating"]
    READY_FIELD_NUMBER: _ClassVar[int]
    SERVING_FIELD_NUMBER: _ClassVar[int]
    TERMINATING_FIELD_NUMBER: _ClassVar[int]
    ready: bool
    serving: bool
    terminating: bool
    def __init__(self, ready: bool = ..., serving: bool = ..., terminating: bool = ...) -> None: ...

class EndpointHints(_message.Message):
    __slots__ = ["for_nodes", "for_zones"]
    FOR_NODES_FIELD_NUMBER: _ClassVar[int]
    FOR_ZONES_FIELD_NUMBER: _ClassVar[int]
    for_nodes: _containers.RepeatedCompositeFieldContainer[ForNode]
    for_zones: _containers.RepeatedCompositeFieldContainer[ForZone]
    def __init__(self, for_zones: _Optional[_Iterable[_Union[ForZone, _Mapping]]] = ..., for_nodes: _Optional[_Iterable[_Union[ForNode, _Mapping]]] = ...) -> None: ...

class EndpointPort(_message.Message):
    __slots__ = ["name", "port", "protocol"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    name: str
    port: int
    protocol: str
    def __init__(self, name: _Optional[str] = ..., protocol: _Optional[str] = ..., port: _Optional[int] = ...) -> None: ...

class EndpointSlice(_message.Message):
    __slots__ = ["address_type", "endpoints", "metadata", "ports"]
    ADDRESS_TYPE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    address_type: str
    endpoints: _containers.RepeatedCompositeFieldContainer[Endpoint]
    metadata: ObjectMeta
    ports: _containers.RepeatedCompositeFieldContainer[EndpointPort]
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., address_type: _Optional[str] = ..., endpoints: _Optional[_Iterable[_Union[Endpoint, _Mapping]]] = ..., ports: _Optional[_Iterable[_Union[EndpointPort, _Mapping]]] = ...) -> None: ...

class ForNode(_message.Message):
    __slots__ = ["name"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ForZone(_message.Message):
    __slots__ = ["name"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class LoadBalancerIngress(_message.Message):
    __slots__ = ["hostname", "ip", "ip_mode"]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    IP_FIELD_NUMBER: _ClassVar[int]
    IP_MODE_FIELD_NUMBER: _ClassVar[int]
    hostname: str
    ip: str
    ip_mode: str
    def __init__(self, ip: _Optional[str] = ..., hostname: _Optional[str] = ..., ip_mode: _Optional[str] = ...) -> None: ...

class LoadBalancerStatus(_message.Message):
    __slots__ = ["ingress"]
    INGRESS_FIELD_NUMBER: _ClassVar[int]
    ingress: _containers.RepeatedCompositeFieldContainer[LoadBalancerIngress]
    def __init__(self, ingress: _Optional[_Iterable[_Union[LoadBalancerIngress, _Mapping]]] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ["metadata", "spec", "status"]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: NodeSpec
    status: NodeStatus
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[NodeSpec, _Mapping]] = ..., status: _Optional[_Union[NodeStatus, _Mapping]] = ...) -> None: ...

class NodeAddress(_message.Message):
    __slots__ = ["address", "type"]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    address: str
    type: str
    def __init__(self, type: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class NodeSpec(_message.Message):
    __slots__ = ["pod_cidrs", "taints"]
    POD_CIDRS_FIELD_NUMBER: _ClassVar[int]
    TAINTS_FIELD_NUMBER: _ClassVar[int]
    pod_cidrs: _containers.RepeatedScalarFieldContainer[str]
    taints: _containers.RepeatedCompositeFieldContainer[Taint]
    def __init__(self, pod_cidrs: _Optional[_Iterable[str]] = ..., taints: _Optional[_Iterable[_Union[Taint, _Mapping]]] = ...) -> None: ...

class NodeStatus(_message.Message):
    __slots__ = ["addresses"]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    addresses: _containers.RepeatedCompositeFieldContainer[NodeAddress]
    def __init__(self, addresses: _Optional[_Iterable[_Union[NodeAddress, _Mapping]]] = ...) -> None: ...

class ObjectMeta(_message.Message):
    __slots__ = ["annotations", "creation_timestamp", "deletion_timestamp", "labels", "name", "namespace"]
    class AnnotationsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class LabelsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    CREATION_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    DELETION_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    annotations: _containers.ScalarMap[str, str]
    creation_timestamp: _timestamp_pb2.Timestamp
    deletion_timestamp: _timestamp_pb2.Timestamp
    labels: _containers.ScalarMap[str, str]
    name: str
    namespace: str
    def __init__(self, name: _Optional[str] = ..., namespace: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., annotations: _Optional[_Mapping[str, str]] = ..., creation_timestamp: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., deletion_timestamp: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Service(_message.Message):
    __slots__ = ["metadata", "spec", "status"]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: ServiceSpec
    status: ServiceStatus
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[ServiceSpec, _Mapping]] = ..., status: _Optional[_Union[ServiceStatus, _Mapping]] = ...) -> None: ...

class ServiceCIDR(_message.Message):
    __slots__ = ["metadata", "spec"]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: ServiceCIDRSpec
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[ServiceCIDRSpec, _Mapping]] = ...) -> None: ...

class ServiceCIDRSpec(_message.Message):
    __slots__ = ["cidrs"]
    CIDRS_FIELD_NUMBER: _ClassVar[int]
    cidrs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, cidrs: _Optional[_Iterable[str]] = ...) -> None: ...

class ServicePort(_message.Message):
    __slots__ = ["end_port", "name", "node_port", "port", "protocol"]
    END_PORT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_PORT_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    end_port: int
    name: str
    node_port: int
    port: int
    protocol: str
    def __init__(self, name: _Optional[str] = ..., protocol: _Optional[str] = ..., port: _Optional[int] = ..., node_port: _Optional[int] = ..., end_port: _Optional[int] = ...) -> None: ...

class ServiceSpec(_message.Message):
    __slots__ = ["cluster_ip", "cluster_ips", "endpoint_pick", "external_ips", "external_traffic_policy", "health_check_node_port", "internal_traffic_policy", "ip_families", "load_balancer_source_ranges", "pick_table_size", "ports", "reset_stale_tcp", "session_affinity", "session_affinity_config", "type"]
    CLUSTER_IPS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_IP_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_PICK_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_IPS_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_TRAFFIC_POLICY_FIELD_NUMBER: _ClassVar[int]
    HEALTH_CHECK_NODE_PORT_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_TRAFFIC_POLICY_FIELD_NUMBER: _ClassVar[int]
    IP_FAMILIES_FIELD_NUMBER: _ClassVar[int]
    LOAD_BALANCER_SOURCE_RANGES_FIELD_NUMBER: _ClassVar[int]
    PICK_TABLE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    RESET_STALE_TCP_FIELD_NUMBER: _ClassVar[int]
    SESSION_AFFINITY_CONFIG_FIELD_NUMBER: _ClassVar[int]
    SESSION_AFFINITY_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    cluster_ip: str
    cluster_ips: _containers.RepeatedScalarFieldContainer[str]
    endpoint_pick: str
    external_ips: _containers.RepeatedScalarFieldContainer[str]
    external_traffic_policy: str
    health_check_node_port: int
    internal_traffic_policy: str
    ip_families: _containers.RepeatedScalarFieldContainer[str]
    load_balancer_source_ranges: _containers.RepeatedScalarFieldContainer[str]
    pick_table_size: int
    ports: _containers.RepeatedCompositeFieldContainer[ServicePort]
    reset_stale_tcp: bool
    session_affinity: str
    session_affinity_config: SessionAffinityConfig
    type: str
    def __init__(self, ports: _Optional[_Iterable[_Union[ServicePort, _Mapping]]] = ..., type: _Optional[str] = ..., cluster_ip: _Optional[str] = ..., cluster_ips: _Optional[_Iterable[str]] = ..., ip_families: _Optional[_Iterable[str]] = ..., external_ips: _Optional[_Iterable[str]] = ..., load_balancer_source_ranges: _Optional[_Iterable[str]] = ..., external_traffic_policy: _Optional[str] = ..., internal_traffic_policy: _Optional[str] = ..., session_affinity: _Optional[str] = ..., session_affinity_config: _Optional[_Union[SessionAffinityConfig, _Mapping]] = ..., health_check_node_port: _Optional[int] = ..., endpoint_pick: _Optional[str] = ..., pick_table_size: _Optional[int] = ..., reset_stale_tcp: bool = ...) -> None: ...

class ServiceStatus(_message.Message):
    __slots__ = ["load_balancer"]
    LOAD_BALANCER_FIELD_NUMBER: _ClassVar[int]
    load_balancer: LoadBalancerStatus
    def __init__(self, load_balancer: _Optional[_Union[LoadBalancerStatus, _Mapping]] = ...) -> None: ...

class SessionAffinityConfig(_message.Message):
    __slots__ = ["client_ip"]
    CLIENT_IP_FIELD_NUMBER: _ClassVar[int]
    client_ip: ClientIPConfig
    def __init__(self, client_ip: _Optional[_Union[ClientIPConfig, _Mapping]] = ...) -> None: ...

class Taint(_message.Message):
    __slots__ = ["effect", "key", "value"]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    effect: str
    key: str
    value: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ..., effect: _Optional[str] = ...) -> None: ...
