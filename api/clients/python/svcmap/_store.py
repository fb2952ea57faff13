"""The writer of a fleet on etcd (docs/fleet.md). All methods can be called from any thread."""
import collections
import dataclasses
import hashlib
import itertools
import json
import logging
import socket
import threading
import time
from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

import grpc
from google.protobuf.message import DecodeError

from svcmap import _etcd
from svcmap._agent import Closed, _guarded
from svcmap._etcd import StoreError
from svcmap._objects import Object, key_of
from svcmap.v1 import control_pb2 as control, objects_pb2 as messages

_LOGGER = logging.getLogger("svcmap")
_POLL_LEADER = 1.0
_AFTER_ERROR = 3.0  # Before the next campaign.
_HEAD_INTERVAL = 10.0
_PAGE_KEYS = 500
_MAX_OPERATIONS = 119  # Objects in a transaction, which also writes the head.
_MAX_BYTES = 1 << 20  # Values in a transaction. etcd accepts 1.5 MiB.
_MAX_VALUE_BYTES = 1_400_000
_MIN_HELD = 20  # Minimum number of objects of a kind of which removals are held.

_DIRECTORIES = {control.KIND_SERVICE: "state/services/", control.KIND_ENDPOINT_SLICE: "state/endpointslices/",
                control.KIND_SERVICE_CIDR: "state/servicecidrs/", control.KIND_NODE: "nodes/"}
_NAMESPACED = frozenset({control.KIND_SERVICE, control.KIND_ENDPOINT_SLICE})
_SERVICE_NAME = "kubernetes.io/service-name"
# The labels and annotations that agents use (ObjectMeta in objects.proto), except for those with this prefix.
_USED = frozenset({
    _SERVICE_NAME, "service.kubernetes.io/headless", "service.kubernetes.io/service-proxy-name",
    "topology.kubernetes.io/zone", "endpoints.kubernetes.io/last-change-trigger-time"})
_USED_PREFIX = "svcmap/"


class Deposed(StoreError):
    """Another writer has written to etcd, or the lease has expired. The Store writes nothing until it is
    elected again. It then reads all keys and writes the differences."""


class RemovalsHeld(StoreError):
    """A list lacks most objects in etcd, so the Store does not remove them. Call set() with the complete list,
    or with accept_removals=True.

    loss: for example "95 of 100 services".
    """

    def __init__(self, loss: str):
        super().__init__(f"the removals of the list are held, because they would remove {loss}")
        self.loss = loss


@dataclasses.dataclass
class StoreStatus:
    """The state of a Store. All counters start at 0 with the Store."""
    leader: bool = False  # Whether the Store is the elected writer and has read the keys.
    seq: int = 0  # Sequence number of the last transaction.
    epoch: int = 0  # Epoch of this writer.
    objects: int = 0  # Number of objects in etcd. 0 if the Store is not the elected writer.
    held: int = 0  # Number of objects whose removal is held.
    rejected: int = 0  # Number of objects that cannot be written.
    transactions: int = 0  # Number of transactions, including those without objects.
    written: int = 0  # Number of objects that were written or removed.


class _Value(NamedTuple):
    """A version of an object."""
    data: bytes  # Empty if the version is in etcd or cannot be written.
    digest: bytes
    owner: Tuple[str, str]  # The namespace and the name of the Service.


class _Operation(NamedTuple):
    owner: Tuple[str, str]
    phase: int  # Endpoints are added before Services, and removed after them.
    path: str
    data: Optional[bytes]  # None: removes the object.


def _kind_of(path: str) -> Optional[int]:
    """The kind of the object with this path, or None if it is not the path of an object."""
    for kind, directory in _DIRECTORIES.items():
        names = path[len(directory):].split("/")
        if path.startswith(directory) and all(names) and len(names) == 1 + (kind in _NAMESPACED):
            return kind
    return None


def _owner(path: str, data: bytes) -> Tuple[str, str]:
    *_, namespace, name = path.split("/")
    if path.startswith(_DIRECTORIES[control.KIND_ENDPOINT_SLICE]):
        try:
            name = messages.EndpointSlice.FromString(data).metadata.labels.get(_SERVICE_NAME, name)
        except DecodeError:
            pass  # A slice in JSON, which another writer has written, belongs to no Service here.
    return namespace, name


def _value(path: str, data: bytes, keep: bool) -> _Value:
    return _Value(data if keep else b"", hashlib.sha256(data).digest()[:16], _owner(path, data))


def _serialized(obj: Object) -> bytes:
    """The object without labels and annotations that agents do not use, whose changes would wake all nodes."""
    def unused(names) -> "List[str]":
        return [name for name in names if name not in _USED and not name.startswith(_USED_PREFIX)]

    if unused(obj.metadata.labels) or unused(obj.metadata.annotations):
        copy = type(obj)()
        copy.CopyFrom(obj)
        obj = copy
        for names in (obj.metadata.labels, obj.metadata.annotations):
            for name in unused(names):
                del names[name]
    return obj.SerializeToString(deterministic=True)


def _transactions(operations: List[_Operation]) -> "Iterable[List[_Operation]]":
    """Splits operations. A Service and its endpoints are in one transaction if they fit into it."""
    batch: List[_Operation] = []
    size = 0
    operations = sorted(operations, key=lambda operation: operation[:3])
    for _, group in itertools.groupby(operations, key=lambda operation: operation.owner):
        group = list(group)
        bytes_of_group = sum(len(operation.data or b"") for operation in group)
        if len(batch) + len(group) > _MAX_OPERATIONS or size + bytes_of_group > _MAX_BYTES:
            if batch:
                yield batch
            batch, size = [], 0
        for operation in group:
            length = len(operation.data or b"")
            if batch and (len(batch) == _MAX_OPERATIONS or size + length > _MAX_BYTES):
                yield batch
                batch, size = [], 0
            batch.append(operation)
            size += length
    if batch:
        yield batch


class Store:
    """The writer of the objects below a prefix in etcd.

    endpoints: URLs of the etcd members, such as "https://etcd-1.example:2379". The Store uses the next member
        after a failure.
    prefix: the --prefix of svcmap-etcd, such as "/svcmap/v1/DOMAIN".
    name: name of this instance, for people who read PREFIX/leader. Default: the host name.
    credentials: svcmap.TlsFiles, or grpc.ChannelCredentials, or a function that returns
        grpc.ChannelCredentials for each new connection. Required for https://.
    lease_seconds: time after which another Store can be elected if this Store has failed.
    on_error: receives errors that the Store retries and rejected objects as StoreError, Deposed, and RemovalsHeld.
        Default: the Store logs the errors with the logger "svcmap". The callback may not call wait() or close().

    Several Stores can have the same prefix. One of them is elected with a lease and writes. The others keep
    their objects, and write the differences when they are elected.
    """

    def __init__(self, endpoints: Sequence[str], prefix: str, *, name: Optional[str] = None,
                 credentials: "Union[None, grpc.ChannelCredentials, Callable[[], grpc.ChannelCredentials]]" = None,
                 lease_seconds: int = 15, on_error: Optional[Callable[[Exception], None]] = None):
        if not prefix.startswith("/") or prefix.endswith("/"):
            raise ValueError(f'prefix: Invalid value: "{prefix}": must start with "/" and not end with "/"')
        self._prefix = f"{prefix}/"
        self._head, self._leader = f"{prefix}/state/head", f"{prefix}/leader"
        self._name = socket.gethostname() if name is None else name
        self._lease_seconds = lease_seconds
        self._on_error = _guarded(on_error or (lambda error: _LOGGER.warning("%s: %s", prefix, error)))

        self._changed = threading.Condition()  # Its lock guards the fields below.
        self._desired: Dict[str, _Value] = {}  # By path below the prefix.
        self._stored: Dict[str, _Value] = {}  # The objects in etcd.
        self._queued: Set[str] = set()  # Paths of objects that may differ.
        self._held: Set[str] = set()  # Paths of objects that are not removed.
        self._complete = False  # Whether set() has been called.
        self._accept_removals = False  # Of the last set().
        self._changes = 0  # Number of calls of set() and update().
        self._changes_written = -1  # Number of calls that are in etcd. -1 if this Store is not elected.
        self._status = StoreStatus()
        self._closing = False
        self._thread: Optional[threading.Thread] = None

        # Only for the thread.
        self._etcd = _etcd.Client(endpoints, credentials, self._pause, self._on_error)
        self._lease = 0
        self._revisions: Dict[str, int] = {}  # Of the leader and the head, which each transaction compares.
        self._keep_alive_at = self._head_at = 0.0

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def set(self, objects: Iterable[Object], *, accept_removals: bool = False) -> None:
        """Replaces the list of objects that etcd should contain, including Nodes. All other objects are removed.
        If the list contains several versions of an object, the last one is used. The objects are serialized,
        so the caller can modify them afterwards.

        The removals are held if they would remove at least half of at least 20 objects of one kind, and on_error
        receives RemovalsHeld. accept_removals: remove any number of objects. Raises Closed."""
        versions = self._versions(objects)
        with self._changed:
            self._start()
            self._queued.update(self._desired)
            self._desired, self._complete, self._accept_removals = versions, True, accept_removals
            loss = self._compare_all()
        self._report_loss(loss)

    def update(self, changed: Iterable[Object] = (), deleted: Iterable[Object] = ()) -> None:
        """Adds or replaces objects, and removes objects by kind, namespace and name. Nodes apply the changes of a
        Service and its endpoints together, unless they exceed 119 objects or 1 MiB. Before the first set(),
        nothing is removed from etcd, because the list is not complete. Raises Closed."""
        versions = self._versions(changed)
        removed = [self._path(obj) for obj in deleted]
        with self._changed:
            self._start()
            self._desired.update(versions)
            self._held.difference_update(versions)
            for path in removed:
                self._desired.pop(path, None)
                if self._complete:
                    self._held.discard(path)
                else:
                    self._held.add(path)
            self._queued.update(versions, removed)

    def wait(self, timeout: Optional[float] = None) -> int:
        """Returns when this Store is the elected writer and etcd contains all changes of earlier calls of set() and
        update(), except for rejected objects and held removals. Returns the sequence number of the last
        transaction, for `svcmapctl fleet wait --seq`. Raises TimeoutError or Closed, and RuntimeError before the first
        set() or update()."""
        with self._changed:
            if not self._changes and not self._closing:
                raise RuntimeError("wait: no objects: call set() or update() first")
            target = self._changes
            if not self._changed.wait_for(lambda: self._closing or self._changes_written >= target, timeout):
                raise TimeoutError("etcd does not contain all changes")
            if self._changes_written < target:
                raise Closed("the Store is closed")
            return self._status.seq

    @property
    def status(self) -> StoreStatus:
        """The current state."""
        with self._changed:
            return dataclasses.replace(
                self._status, objects=len(self._stored), held=len(self._held.intersection(self._stored)),
                rejected=sum(not value.data for value in self._desired.values()))

    def close(self) -> None:
        """Stops after the current transaction, and gives up the leadership. Changes that were not written yet are
        discarded; use wait() to avoid this. etcd keeps all objects."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    # ---- Objects ----

    def _path(self, obj: Object) -> str:
        key = key_of(obj)
        path = _DIRECTORIES[key.kind] + (f"{key.namespace}/{key.name}" if key.namespace else key.name)
        if _kind_of(path) != key.kind:
            raise ValueError(f'{key}: metadata: Invalid value: namespace "{key.namespace}", name "{key.name}": a name, '
                             f"and {'a' if key.kind in _NAMESPACED else 'no'} namespace, without slashes, are required")
        return path

    def _versions(self, objs: Iterable[Object]) -> Dict[str, _Value]:
        versions = {}
        for obj in objs:
            path = self._path(obj)
            versions[path] = _value(path, _serialized(obj), True)
            if (size := len(versions[path].data)) > _MAX_VALUE_BYTES:
                self._on_error(StoreError(f"{self._prefix}{path}: Too long: {size} bytes: must have at most "
                                          f"{_MAX_VALUE_BYTES} bytes; the earlier version, if any, stays in etcd"))
                versions[path] = versions[path]._replace(data=b"")
        return versions

    def _compare_all(self) -> str:
        """Queues all objects. Returns the loss if removals are held because of it. Expects the lock."""
        removed = [path for path in self._stored if path not in self._desired]
        loss = ""
        if self._complete and not self._accept_removals:
            stored, lost = (collections.Counter(map(_kind_of, paths)) for paths in (self._stored, removed))
            loss = ", ".join(sorted(
                f"{count} of {stored[kind]} {_DIRECTORIES[kind].split('/')[-2]}" for kind, count in lost.items()
                if stored[kind] >= _MIN_HELD and 2 * count >= stored[kind]))
        self._held = set(removed) if loss or not self._complete else set()
        self._queued.update(self._desired, self._stored)
        return loss

    def _report_loss(self, loss: str) -> None:
        if loss:
            self._on_error(RemovalsHeld(loss))

    def _start(self) -> None:
        """Counts a change, and starts the thread. Expects the lock."""
        self._check_open()
        self._changes += 1
        self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="svcmap-store", daemon=True)
            self._thread.start()

    # ---- The thread ----

    def _run(self) -> None:
        try:
            while True:
                try:
                    self._campaign()
                    self._take_over()
                    self._load()
                    self._write()
                except StoreError as error:
                    self._on_error(error)
                self._resign()
                self._pause(_AFTER_ERROR)
        except Closed:
            self._resign()

    def _campaign(self) -> None:
        """Returns when this Store has written PREFIX/leader."""
        while True:
            while self._etcd.read(self._leader.encode()).kvs:
                self._pause(_POLL_LEADER)
            self._lease = self._etcd.grant(self._lease_seconds)
            self._keep_alive_at = time.monotonic() + self._lease_seconds / 3
            try:
                revision = self._etcd.write(self._leader, {"name": self._name}, {self._leader: 0}, lease=self._lease)
                self._revisions = {self._leader: revision}
                return
            except _etcd.Conflict:
                self._resign()

    def _take_over(self) -> None:
        """Writes a head with a new epoch, after which transactions of the previous writer fail."""
        self._revisions[self._head] = seq = epoch = 0
        for pair in self._etcd.read(self._head.encode()).kvs:
            self._revisions[self._head] = pair.mod_revision
            try:
                fields = json.loads(pair.value)
                seq, epoch, known = int(fields["seq"]), int(fields["epoch"]), fields["format"] == 1
            except (ValueError, KeyError, TypeError):
                known = False
            if not known:
                raise StoreError(f"{self._head}: Invalid value: {pair.value.decode(errors='replace')}: must be a head "
                                 'of format 1, such as {"format":1,"seq":1,"epoch":1,"nonce":"x"}')
        with self._changed:
            self._status.seq, self._status.epoch = seq, epoch + 1
        self._commit([])

    def _load(self) -> None:
        """Reads all keys. No other writer changes them, because the head has the epoch of this Store."""
        stored = {}
        for directory in ("state/", "nodes/"):
            key, end = f"{self._prefix}{directory}".encode(), f"{self._prefix}{directory[:-1]}0".encode()
            while True:
                page = self._etcd.read(key, range_end=end, limit=_PAGE_KEYS)
                for pair in page.kvs:
                    path = pair.key.decode(errors="replace")[len(self._prefix):]
                    if _kind_of(path) is not None:
                        stored[path] = _value(path, pair.value, False)
                self._beat()  # Many pages can take longer than the lease.
                if not page.more:
                    break
                key = page.kvs[-1].key + b"\0"
        with self._changed:
            self._stored, self._status.leader = stored, True
            loss = self._compare_all()
        self._report_loss(loss)

    def _write(self) -> None:
        """Writes changes and the head until an error."""
        while True:
            with self._changed:
                left = min(self._keep_alive_at, self._head_at) - time.monotonic()
                self._changed.wait_for(lambda: self._closing or self._changes_written != self._changes, max(0, left))
                self._check_open()
                changes, operations = self._changes, self._differences()
            for batch in _transactions(operations):
                self._beat()
                self._commit(batch)
            self._beat()
            with self._changed:
                self._changes_written = changes
                self._changed.notify_all()

    def _differences(self) -> List[_Operation]:
        """Empties the queue. Expects the lock."""
        operations = []
        for path in self._queued:
            want, have = self._desired.get(path), self._stored.get(path)
            phase = 1 if path.startswith(_DIRECTORIES[control.KIND_SERVICE]) else 0
            if want is None and have is not None and path not in self._held:
                operations.append(_Operation(have.owner, 3 - phase, path, None))
            elif want is not None and want.data and (have is None or want.digest != have.digest):
                operations.append(_Operation(want.owner, phase, path, want.data))
        self._queued.clear()
        return operations

    def _beat(self) -> None:
        """Renews the lease and writes the head if it is time to."""
        if time.monotonic() >= self._keep_alive_at:
            if not self._etcd.keep_alive(self._lease):
                raise Deposed(f"{self._leader}: the lease has expired")
            self._keep_alive_at = time.monotonic() + self._lease_seconds / 3
        if time.monotonic() >= self._head_at:
            self._commit([])

    def _commit(self, operations: List[_Operation]) -> None:
        """Writes one transaction with the next head."""
        requests = [_etcd.delete(self._prefix + operation.path) if operation.data is None else
                    _etcd.put(self._prefix + operation.path, operation.data) for operation in operations]
        head = {"format": 1, "seq": self._status.seq + 1, "epoch": self._status.epoch}
        try:
            self._revisions[self._head] = self._etcd.write(self._head, head, self._revisions, requests)
        except _etcd.Conflict as conflict:
            if conflict.found.mod_revision == self._revisions[self._head]:
                raise Deposed(f"{self._leader}: the lease has expired") from None
            raise Deposed(f"{self._head}: another writer has written "
                          f"{conflict.found.value.decode(errors='replace')}") from None
        self._head_at = time.monotonic() + _HEAD_INTERVAL
        with self._changed:
            self._status.seq += 1
            self._status.transactions += 1
            self._status.written += len(operations)
            for operation in operations:
                if operation.data is None:
                    del self._stored[operation.path]
                else:
                    self._stored[operation.path] = _value(operation.path, operation.data, False)

    def _resign(self) -> None:
        """Gives up the leadership."""
        with self._changed:
            self._status.leader, self._changes_written, self._stored = False, -1, {}
        if self._lease:
            self._etcd.revoke(self._lease)
            self._lease = 0
        self._etcd.disconnect()

    def _pause(self, seconds: float) -> None:
        """Waits. Raises Closed if the Store is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing, seconds)
            self._check_open()

    def _check_open(self) -> None:
        if self._closing:
            raise Closed("the Store is closed")
