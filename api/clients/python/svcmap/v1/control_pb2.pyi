from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from svcmap.v1 import objects_pb2 as _objects_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

COMMITTED: Outcome
CONTINUE: Resume
DESCRIPTOR: _descriptor.FileDescriptor
DUPLICATE: ResultCode
EPOCH_REJECTED: ErrorReason
ERROR_REASON_UNSPECIFIED: ErrorReason
FAILED: Outcome
FORBIDDEN: ResultCode
HELD: Outcome
INVALID: ResultCode
INVALID_FIELD: ErrorReason
KERNEL_REJECTED: ResultCode
KIND_ENDPOINT_SLICE: Kind
KIND_NODE: Kind
KIND_SERVICE: Kind
KIND_SERVICE_CIDR: Kind
KIND_UNSPECIFIED: Kind
LIMIT: ResultCode
LIMIT_REACHED: ErrorReason
NODE_UNKNOWN: ResultCode
NOT_AUTHORIZED: ErrorReason
NOT_STORED: ResultCode
NO_HELD_SNAPSHOT: ErrorReason
OMITTED: ResultCode
OPEN_TIMEOUT: ErrorReason
OUTCOME_UNSPECIFIED: Outcome
OUT_OF_ORDER: ErrorReason
PHASE_HOLDING: Phase
PHASE_LOADING: Phase
PHASE_REPAIRING: Phase
PHASE_RETRYING: Phase
PHASE_REWRITING: Phase
PHASE_SERVING: Phase
PHASE_UNSPECIFIED: Phase
PHASE_WAITING: Phase
REFUSED: Severity
REPLACED: ErrorReason
REQUIRED: ResultCode
RESULT_CODE_UNSPECIFIED: ResultCode
RESUME_UNSPECIFIED: Resume
RETRYING: State
SEND_SNAPSHOT: Resume
SERVING: State
SEVERITY_UNSPECIFIED: Severity
SNAPSHOT_HELD: ResultCode
STATE_FROM_MANIFESTS: ErrorReason
STATE_UNSPECIFIED: State
STOPPING: ErrorReason
TOO_MANY: ResultCode
UNCHANGED: Outcome
UNKNOWN_MESSAGE: ErrorReason
UNREADABLE: ResultCode
UNSUPPORTED: ResultCode
UNSUPPORTED_PROTOCOL_VERSION: ErrorReason
WAITING_FOR_STATE: State
WARNING: Severity
WOULD_CHANGE: Outcome

class AcceptSnapshotRequest(_message.Message):
    __slots__ = ["protocol_version"]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    def __init__(self, protocol_version: _Optional[int] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ["commit_duration", "dry_run", "error", "held", "number", "outcome", "queue_duration", "results", "revision", "state_token"]
    COMMIT_DURATION_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_DURATION_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    STATE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    commit_duration: _duration_pb2.Duration
    dry_run: DryRun
    error: str
    held: str
    number: int
    outcome: Outcome
    queue_duration: _duration_pb2.Duration
    results: _containers.RepeatedCompositeFieldContainer[ObjectResult]
    revision: int
    state_token: bytes
    def __init__(self, number: _Optional[int] = ..., revision: _Optional[int] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., commit_duration: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., queue_duration: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., results: _Optional[_Iterable[_Union[ObjectResult, _Mapping]]] = ..., error: _Optional[str] = ..., state_token: _Optional[bytes] = ..., dry_run: _Optional[_Union[DryRun, _Mapping]] = ..., held: _Optional[str] = ...) -> None: ...

class ApplyRequest(_message.Message):
    __slots__ = ["objects", "protocol_version", "validate_only"]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    objects: _containers.RepeatedCompositeFieldContainer[Object]
    protocol_version: int
    validate_only: bool
    def __init__(self, objects: _Optional[_Iterable[_Union[Object, _Mapping]]] = ..., validate_only: bool = ..., protocol_version: _Optional[int] = ...) -> None: ...

class Batch(_message.Message):
    __slots__ = ["changes", "number"]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[Change]
    number: int
    def __init__(self, number: _Optional[int] = ..., changes: _Optional[_Iterable[_Union[Change, _Mapping]]] = ...) -> None: ...

class Change(_message.Message):
    __slots__ = ["endpoint_delta", "endpoint_slice", "node", "remove", "service", "service_cidr"]
    ENDPOINT_DELTA_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_SLICE_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    SERVICE_CIDR_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    endpoint_delta: EndpointDelta
    endpoint_slice: _objects_pb2.EndpointSlice
    node: _objects_pb2.Node
    remove: ObjectRef
    service: _objects_pb2.Service
    service_cidr: _objects_pb2.ServiceCIDR
    def __init__(self, service: _Optional[_Union[_objects_pb2.Service, _Mapping]] = ..., endpoint_slice: _Optional[_Union[_objects_pb2.EndpointSlice, _Mapping]] = ..., node: _Optional[_Union[_objects_pb2.Node, _Mapping]] = ..., service_cidr: _Optional[_Union[_objects_pb2.ServiceCIDR, _Mapping]] = ..., remove: _Optional[_Union[ObjectRef, _Mapping]] = ..., endpoint_delta: _Optional[_Union[EndpointDelta, _Mapping]] = ...) -> None: ...

class CommitStatus(_message.Message):
    __slots__ = ["duration", "elements", "time"]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    duration: _duration_pb2.Duration
    elements: int
    time: _timestamp_pb2.Timestamp
    def __init__(self, time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., duration: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., elements: _Optional[int] = ...) -> None: ...

class ControllerStatus(_message.Message):
    __slots__ = ["epoch", "in_snapshot", "instance", "name", "since"]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    IN_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    in_snapshot: bool
    instance: str
    name: str
    since: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., instance: _Optional[str] = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., epoch: _Optional[int] = ..., in_snapshot: bool = ...) -> None: ...

class DryRun(_message.Message):
    __slots__ = ["added", "deleted", "elements", "rewrites_tables"]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    REWRITES_TABLES_FIELD_NUMBER: _ClassVar[int]
    added: int
    deleted: int
    elements: _containers.RepeatedCompositeFieldContainer[ElementChange]
    rewrites_tables: bool
    def __init__(self, elements: _Optional[_Iterable[_Union[ElementChange, _Mapping]]] = ..., deleted: _Optional[int] = ..., added: _Optional[int] = ..., rewrites_tables: bool = ...) -> None: ...

class DumpRequest(_message.Message):
    __slots__ = ["what"]
    class What(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    APPLIED: DumpRequest.What
    DESIRED: DumpRequest.What
    PLAN: DumpRequest.What
    WHAT_FIELD_NUMBER: _ClassVar[int]
    WHAT_UNSPECIFIED: DumpRequest.What
    what: DumpRequest.What
    def __init__(self, what: _Optional[_Union[DumpRequest.What, str]] = ...) -> None: ...

class DumpResponse(_message.Message):
    __slots__ = ["text"]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class ElementChange(_message.Message):
    __slots__ = ["change", "comment", "data", "family", "key", "set"]
    class Change(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    ADDED: ElementChange.Change
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    CHANGE_UNSPECIFIED: ElementChange.Change
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    DELETED: ElementChange.Change
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    change: ElementChange.Change
    comment: str
    data: str
    family: str
    key: str
    set: str
    def __init__(self, change: _Optional[_Union[ElementChange.Change, str]] = ..., family: _Optional[str] = ..., set: _Optional[str] = ..., key: _Optional[str] = ..., data: _Optional[str] = ..., comment: _Optional[str] = ...) -> None: ...

class EndpointDelta(_message.Message):
    __slots__ = ["last_change_trigger_time", "name", "namespace", "remove", "upsert"]
    LAST_CHANGE_TRIGGER_TIME_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    UPSERT_FIELD_NUMBER: _ClassVar[int]
    last_change_trigger_time: _timestamp_pb2.Timestamp
    name: str
    namespace: str
    remove: _containers.RepeatedScalarFieldContainer[str]
    upsert: _containers.RepeatedCompositeFieldContainer[_objects_pb2.Endpoint]
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., remove: _Optional[_Iterable[str]] = ..., upsert: _Optional[_Iterable[_Union[_objects_pb2.Endpoint, _Mapping]]] = ..., last_change_trigger_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ["address", "in_interface", "port", "protocol"]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    IN_INTERFACE_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    address: str
    in_interface: str
    port: int
    protocol: str
    def __init__(self, address: _Optional[str] = ..., port: _Optional[int] = ..., protocol: _Optional[str] = ..., in_interface: _Optional[str] = ..., **kwargs) -> None: ...

class ExplainResponse(_message.Message):
    __slots__ = ["address", "explanations", "kernel", "port", "protocol", "revision", "service"]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    EXPLANATIONS_FIELD_NUMBER: _ClassVar[int]
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    address: str
    explanations: _containers.RepeatedCompositeFieldContainer[Explanation]
    kernel: KernelCheck
    port: int
    protocol: str
    revision: int
    service: ExplainedService
    def __init__(self, address: _Optional[str] = ..., port: _Optional[int] = ..., protocol: _Optional[str] = ..., service: _Optional[_Union[ExplainedService, _Mapping]] = ..., explanations: _Optional[_Iterable[_Union[Explanation, _Mapping]]] = ..., kernel: _Optional[_Union[KernelCheck, _Mapping]] = ..., revision: _Optional[int] = ...) -> None: ...

class ExplainStep(_message.Message):
    __slots__ = ["rules", "text", "what"]
    RULES_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    rules: str
    text: str
    what: str
    def __init__(self, what: _Optional[str] = ..., text: _Optional[str] = ..., rules: _Optional[str] = ...) -> None: ...

class ExplainedEndpoint(_message.Message):
    __slots__ = ["address", "kube_chain", "local", "masquerade", "port", "slots"]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    KUBE_CHAIN_FIELD_NUMBER: _ClassVar[int]
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    MASQUERADE_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    address: str
    kube_chain: str
    local: bool
    masquerade: bool
    port: int
    slots: int
    def __init__(self, address: _Optional[str] = ..., port: _Optional[int] = ..., local: bool = ..., masquerade: bool = ..., kube_chain: _Optional[str] = ..., slots: _Optional[int] = ...) -> None: ...

class ExplainedService(_message.Message):
    __slots__ = ["name", "namespace", "port", "port_name"]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    PORT_NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    namespace: str
    port: int
    port_name: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., port_name: _Optional[str] = ..., port: _Optional[int] = ...) -> None: ...

class Explanation(_message.Message):
    __slots__ = ["endpoint_set", "endpoints", "kube_chains", "source", "source_kind", "steps", "verdict"]
    class EndpointSet(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    class SourceKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    class Verdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    CLUSTER: Explanation.EndpointSet
    DNAT: Explanation.Verdict
    DROP: Explanation.Verdict
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_SET_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_SET_UNSPECIFIED: Explanation.EndpointSet
    KUBE_CHAINS_FIELD_NUMBER: _ClassVar[int]
    LOCAL: Explanation.EndpointSet
    NODE: Explanation.SourceKind
    OTHER: Explanation.SourceKind
    POD: Explanation.SourceKind
    REJECT: Explanation.Verdict
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_KIND_FIELD_NUMBER: _ClassVar[int]
    SOURCE_KIND_UNSPECIFIED: Explanation.SourceKind
    STEPS_FIELD_NUMBER: _ClassVar[int]
    UNTOUCHED: Explanation.Verdict
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    VERDICT_UNSPECIFIED: Explanation.Verdict
    endpoint_set: Explanation.EndpointSet
    endpoints: _containers.RepeatedCompositeFieldContainer[ExplainedEndpoint]
    kube_chains: _containers.RepeatedScalarFieldContainer[str]
    source: str
    source_kind: Explanation.SourceKind
    steps: _containers.RepeatedCompositeFieldContainer[ExplainStep]
    verdict: Explanation.Verdict
    def __init__(self, source_kind: _Optional[_Union[Explanation.SourceKind, str]] = ..., source: _Optional[str] = ..., steps: _Optional[_Iterable[_Union[ExplainStep, _Mapping]]] = ..., verdict: _Optional[_Union[Explanation.Verdict, str]] = ..., endpoint_set: _Optional[_Union[Explanation.EndpointSet, str]] = ..., endpoints: _Optional[_Iterable[_Union[ExplainedEndpoint, _Mapping]]] = ..., kube_chains: _Optional[_Iterable[str]] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ["audits", "controller", "elements_written", "endpoints", "failed_handshakes", "findings", "held_snapshot", "kernel_generation", "kernel_refused_services", "last_commit", "last_error", "leftover_elements", "manifests_path", "maps", "node_name", "objects", "pending_changes", "pending_since", "phase", "programming_latency", "refused_calls", "refused_objects", "repaired_chains", "repaired_elements", "repairs", "revision", "saved_state", "service_ports", "stages", "started", "state", "verified", "version", "watching"]
    AUDITS_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    FAILED_HANDSHAKES_FIELD_NUMBER: _ClassVar[int]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    HELD_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    KERNEL_GENERATION_FIELD_NUMBER: _ClassVar[int]
    KERNEL_REFUSED_SERVICES_FIELD_NUMBER: _ClassVar[int]
    LAST_COMMIT_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    LEFTOVER_ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    MANIFESTS_PATH_FIELD_NUMBER: _ClassVar[int]
    MAPS_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    PENDING_CHANGES_FIELD_NUMBER: _ClassVar[int]
    PENDING_SINCE_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    PROGRAMMING_LATENCY_FIELD_NUMBER: _ClassVar[int]
    REFUSED_CALLS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_OBJECTS_FIELD_NUMBER: _ClassVar[int]
    REPAIRED_CHAINS_FIELD_NUMBER: _ClassVar[int]
    REPAIRED_ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    REPAIRS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SAVED_STATE_FIELD_NUMBER: _ClassVar[int]
    SERVICE_PORTS_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WATCHING_FIELD_NUMBER: _ClassVar[int]
    audits: int
    controller: ControllerStatus
    elements_written: int
    endpoints: int
    failed_handshakes: int
    findings: _containers.RepeatedCompositeFieldContainer[ObjectResult]
    held_snapshot: HeldSnapshot
    kernel_generation: int
    kernel_refused_services: int
    last_commit: CommitStatus
    last_error: str
    leftover_elements: int
    manifests_path: str
    maps: _containers.RepeatedCompositeFieldContainer[MapCount]
    node_name: str
    objects: _containers.RepeatedCompositeFieldContainer[KindCount]
    pending_changes: int
    pending_since: _timestamp_pb2.Timestamp
    phase: Phase
    programming_latency: ProgrammingLatency
    refused_calls: int
    refused_objects: int
    repaired_chains: int
    repaired_elements: int
    repairs: int
    revision: int
    saved_state: SavedStateStatus
    service_ports: int
    stages: _containers.RepeatedCompositeFieldContainer[StageTime]
    started: _timestamp_pb2.Timestamp
    state: State
    verified: bool
    version: str
    watching: bool
    def __init__(self, version: _Optional[str] = ..., node_name: _Optional[str] = ..., state: _Optional[_Union[State, str]] = ..., revision: _Optional[int] = ..., kernel_generation: _Optional[int] = ..., objects: _Optional[_Iterable[_Union[KindCount, _Mapping]]] = ..., service_ports: _Optional[int] = ..., endpoints: _Optional[int] = ..., maps: _Optional[_Iterable[_Union[MapCount, _Mapping]]] = ..., controller: _Optional[_Union[ControllerStatus, _Mapping]] = ..., manifests_path: _Optional[str] = ..., last_commit: _Optional[_Union[CommitStatus, _Mapping]] = ..., pending_changes: _Optional[int] = ..., last_error: _Optional[str] = ..., findings: _Optional[_Iterable[_Union[ObjectResult, _Mapping]]] = ..., refused_objects: _Optional[int] = ..., repairs: _Optional[int] = ..., started: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., verified: bool = ..., repaired_elements: _Optional[int] = ..., repaired_chains: _Optional[int] = ..., audits: _Optional[int] = ..., kernel_refused_services: _Optional[int] = ..., watching: bool = ..., elements_written: _Optional[int] = ..., saved_state: _Optional[_Union[SavedStateStatus, _Mapping]] = ..., pending_since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., refused_calls: _Optional[int] = ..., failed_handshakes: _Optional[int] = ..., programming_latency: _Optional[_Union[ProgrammingLatency, _Mapping]] = ..., stages: _Optional[_Iterable[_Union[StageTime, _Mapping]]] = ..., phase: _Optional[_Union[Phase, str]] = ..., held_snapshot: _Optional[_Union[HeldSnapshot, _Mapping]] = ..., leftover_elements: _Optional[int] = ...) -> None: ...

class HeldSnapshot(_message.Message):
    __slots__ = ["loss", "since"]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    loss: str
    since: _timestamp_pb2.Timestamp
    def __init__(self, loss: _Optional[str] = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class KernelCheck(_message.Message):
    __slots__ = ["agrees", "differences", "error", "pending"]
    AGREES_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    agrees: bool
    differences: _containers.RepeatedScalarFieldContainer[str]
    error: str
    pending: bool
    def __init__(self, agrees: bool = ..., differences: _Optional[_Iterable[str]] = ..., error: _Optional[str] = ..., pending: bool = ...) -> None: ...

class KindCount(_message.Message):
    __slots__ = ["count", "kind"]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    count: int
    kind: Kind
    def __init__(self, kind: _Optional[_Union[Kind, str]] = ..., count: _Optional[int] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ["max_batch_bytes", "max_batches_in_flight", "max_bytes_in_flight", "max_endpoints_per_service", "max_objects", "max_streams"]
    MAX_BATCHES_IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCH_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    MAX_ENDPOINTS_PER_SERVICE_FIELD_NUMBER: _ClassVar[int]
    MAX_OBJECTS_FIELD_NUMBER: _ClassVar[int]
    MAX_STREAMS_FIELD_NUMBER: _ClassVar[int]
    max_batch_bytes: int
    max_batches_in_flight: int
    max_bytes_in_flight: int
    max_endpoints_per_service: int
    max_objects: int
    max_streams: int
    def __init__(self, max_batch_bytes: _Optional[int] = ..., max_batches_in_flight: _Optional[int] = ..., max_objects: _Optional[int] = ..., max_endpoints_per_service: _Optional[int] = ..., max_streams: _Optional[int] = ..., max_bytes_in_flight: _Optional[int] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ["kind", "name", "namespace"]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    kind: Kind
    name: str
    namespace: str
    def __init__(self, kind: _Optional[_Union[Kind, str]] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ListResponse(_message.Message):
    __slots__ = ["objects"]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    objects: _containers.RepeatedCompositeFieldContainer[Object]
    def __init__(self, objects: _Optional[_Iterable[_Union[Object, _Mapping]]] = ...) -> None: ...

class MapCount(_message.Message):
    __slots__ = ["elements", "family", "name"]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    elements: int
    family: str
    name: str
    def __init__(self, name: _Optional[str] = ..., family: _Optional[str] = ..., elements: _Optional[int] = ...) -> None: ...

class Object(_message.Message):
    __slots__ = ["endpoint_slice", "node", "service", "service_cidr"]
    ENDPOINT_SLICE_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    SERVICE_CIDR_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    endpoint_slice: _objects_pb2.EndpointSlice
    node: _objects_pb2.Node
    service: _objects_pb2.Service
    service_cidr: _objects_pb2.ServiceCIDR
    def __init__(self, service: _Optional[_Union[_objects_pb2.Service, _Mapping]] = ..., endpoint_slice: _Optional[_Union[_objects_pb2.EndpointSlice, _Mapping]] = ..., node: _Optional[_Union[_objects_pb2.Node, _Mapping]] = ..., service_cidr: _Optional[_Union[_objects_pb2.ServiceCIDR, _Mapping]] = ...) -> None: ...

class ObjectRef(_message.Message):
    __slots__ = ["kind", "name", "namespace"]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    kind: Kind
    name: str
    namespace: str
    def __init__(self, kind: _Optional[_Union[Kind, str]] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ObjectResult(_message.Message):
    __slots__ = ["code", "field", "kind", "message", "name", "namespace", "reason", "severity", "value"]
    CODE_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    code: ResultCode
    field: str
    kind: Kind
    message: str
    name: str
    namespace: str
    reason: str
    severity: Severity
    value: str
    def __init__(self, kind: _Optional[_Union[Kind, str]] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ..., severity: _Optional[_Union[Severity, str]] = ..., field: _Optional[str] = ..., value: _Optional[str] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., code: _Optional[_Union[ResultCode, str]] = ...) -> None: ...

class Open(_message.Message):
    __slots__ = ["epoch", "instance", "name", "protocol_version", "state_token"]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    STATE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    instance: str
    name: str
    protocol_version: int
    state_token: bytes
    def __init__(self, name: _Optional[str] = ..., instance: _Optional[str] = ..., protocol_version: _Optional[int] = ..., epoch: _Optional[int] = ..., state_token: _Optional[bytes] = ...) -> None: ...

class Opened(_message.Message):
    __slots__ = ["agent_version", "limits", "node_name", "resume", "revision", "started", "state_token"]
    AGENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    STATE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    agent_version: str
    limits: Limits
    node_name: str
    resume: Resume
    revision: int
    started: _timestamp_pb2.Timestamp
    state_token: bytes
    def __init__(self, agent_version: _Optional[str] = ..., node_name: _Optional[str] = ..., revision: _Optional[int] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., started: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., resume: _Optional[_Union[Resume, str]] = ..., state_token: _Optional[bytes] = ...) -> None: ...

class ProgrammingLatency(_message.Message):
    __slots__ = ["count", "last", "longest", "sum"]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    LONGEST_FIELD_NUMBER: _ClassVar[int]
    SUM_FIELD_NUMBER: _ClassVar[int]
    count: int
    last: _duration_pb2.Duration
    longest: _duration_pb2.Duration
    sum: _duration_pb2.Duration
    def __init__(self, count: _Optional[int] = ..., sum: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., last: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., longest: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class PushRequest(_message.Message):
    __slots__ = ["batch", "open", "snapshot_begin", "snapshot_end"]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_BEGIN_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_END_FIELD_NUMBER: _ClassVar[int]
    batch: Batch
    open: Open
    snapshot_begin: SnapshotBegin
    snapshot_end: SnapshotEnd
    def __init__(self, open: _Optional[_Union[Open, _Mapping]] = ..., snapshot_begin: _Optional[_Union[SnapshotBegin, _Mapping]] = ..., batch: _Optional[_Union[Batch, _Mapping]] = ..., snapshot_end: _Optional[_Union[SnapshotEnd, _Mapping]] = ...) -> None: ...

class PushResponse(_message.Message):
    __slots__ = ["ack", "opened"]
    ACK_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    ack: Ack
    opened: Opened
    def __init__(self, opened: _Optional[_Union[Opened, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ...) -> None: ...

class RemoveRequest(_message.Message):
    __slots__ = ["objects", "protocol_version", "validate_only"]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    objects: _containers.RepeatedCompositeFieldContainer[ObjectRef]
    protocol_version: int
    validate_only: bool
    def __init__(self, objects: _Optional[_Iterable[_Union[ObjectRef, _Mapping]]] = ..., validate_only: bool = ..., protocol_version: _Optional[int] = ...) -> None: ...

class SavedStateStatus(_message.Message):
    __slots__ = ["bytes", "error", "folder", "synced"]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    SYNCED_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    error: str
    folder: str
    synced: _timestamp_pb2.Timestamp
    def __init__(self, folder: _Optional[str] = ..., bytes: _Optional[int] = ..., error: _Optional[str] = ..., synced: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class SnapshotBegin(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class SnapshotEnd(_message.Message):
    __slots__ = ["accept_removals", "number"]
    ACCEPT_REMOVALS_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    accept_removals: bool
    number: int
    def __init__(self, number: _Optional[int] = ..., accept_removals: bool = ...) -> None: ...

class StageTime(_message.Message):
    __slots__ = ["count", "last", "longest", "name", "sum"]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    LONGEST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SUM_FIELD_NUMBER: _ClassVar[int]
    count: int
    last: _duration_pb2.Duration
    longest: _duration_pb2.Duration
    name: str
    sum: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., count: _Optional[int] = ..., sum: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., longest: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., last: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class WatchCommit(_message.Message):
    __slots__ = ["duration", "elements", "revision", "services", "tables_written"]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    TABLES_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    duration: _duration_pb2.Duration
    elements: int
    revision: int
    services: int
    tables_written: bool
    def __init__(self, revision: _Optional[int] = ..., duration: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., elements: _Optional[int] = ..., services: _Optional[int] = ..., tables_written: bool = ...) -> None: ...

class WatchController(_message.Message):
    __slots__ = ["epoch", "instance", "name", "reason", "what"]
    class What(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    CAME: WatchController.What
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FENCED: WatchController.What
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    LEFT: WatchController.What
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REPLACED: WatchController.What
    WHAT_FIELD_NUMBER: _ClassVar[int]
    WHAT_UNSPECIFIED: WatchController.What
    epoch: int
    instance: str
    name: str
    reason: str
    what: WatchController.What
    def __init__(self, what: _Optional[_Union[WatchController.What, str]] = ..., name: _Optional[str] = ..., instance: _Optional[str] = ..., epoch: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class WatchEvent(_message.Message):
    __slots__ = ["commit", "controller", "findings", "lost", "number", "recovered", "repair", "status", "sync_failed", "time"]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    RECOVERED_FIELD_NUMBER: _ClassVar[int]
    REPAIR_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SYNC_FAILED_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    commit: WatchCommit
    controller: WatchController
    findings: WatchFindings
    lost: int
    number: int
    recovered: WatchRecovered
    repair: WatchRepair
    status: GetStatusResponse
    sync_failed: WatchSyncFailed
    time: _timestamp_pb2.Timestamp
    def __init__(self, number: _Optional[int] = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., lost: _Optional[int] = ..., status: _Optional[_Union[GetStatusResponse, _Mapping]] = ..., commit: _Optional[_Union[WatchCommit, _Mapping]] = ..., findings: _Optional[_Union[WatchFindings, _Mapping]] = ..., repair: _Optional[_Union[WatchRepair, _Mapping]] = ..., sync_failed: _Optional[_Union[WatchSyncFailed, _Mapping]] = ..., recovered: _Optional[_Union[WatchRecovered, _Mapping]] = ..., controller: _Optional[_Union[WatchController, _Mapping]] = ...) -> None: ...

class WatchFindings(_message.Message):
    __slots__ = ["more", "results"]
    MORE_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    more: int
    results: _containers.RepeatedCompositeFieldContainer[ObjectResult]
    def __init__(self, results: _Optional[_Iterable[_Union[ObjectResult, _Mapping]]] = ..., more: _Optional[int] = ...) -> None: ...

class WatchRecovered(_message.Message):
    __slots__ = ["after", "failures", "revision"]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    after: _duration_pb2.Duration
    failures: int
    revision: int
    def __init__(self, revision: _Optional[int] = ..., after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., failures: _Optional[int] = ...) -> None: ...

class WatchRepair(_message.Message):
    __slots__ = ["chains", "damage", "duration", "elements", "error", "outcome", "process"]
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    CHAINS_FIELD_NUMBER: _ClassVar[int]
    DAMAGE_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    NOT_YET: WatchRepair.Outcome
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_UNSPECIFIED: WatchRepair.Outcome
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    REPAIRED: WatchRepair.Outcome
    REWRITE: WatchRepair.Outcome
    chains: int
    damage: str
    duration: _duration_pb2.Duration
    elements: int
    error: str
    outcome: WatchRepair.Outcome
    process: str
    def __init__(self, outcome: _Optional[_Union[WatchRepair.Outcome, str]] = ..., damage: _Optional[str] = ..., process: _Optional[str] = ..., elements: _Optional[int] = ..., chains: _Optional[int] = ..., duration: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., error: _Optional[str] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class WatchSyncFailed(_message.Message):
    __slots__ = ["error"]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: str
    def __init__(self, error: _Optional[str] = ...) -> None: ...

class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Resume(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Severity(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class ResultCode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class ErrorReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Phase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
