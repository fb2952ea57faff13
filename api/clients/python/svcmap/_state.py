"""Decides what to send. Without threads, connections and clocks, and not safe for concurrent use.

The queue contains objects whose desired version may differ from the version that was sent last. Each
object is in the queue at most once, and its current version is sent, so changes are merged.
"""
import collections
import enum
from typing import Dict, Iterable, List, NamedTuple, Optional, Tuple

from svcmap._objects import ABSENT, Key, Version, refused_key, removal_of
from svcmap._statefile import StateFile
from svcmap.v1 import control_pb2 as control

BATCH_CHANGES = 1000  # Maximum number of changes in a batch.
BATCH_BYTES = 1 << 20  # Size at which a batch is sent. A larger object is sent alone.
# Maximum number of batches without an Ack. More batches would not make commits faster, because the agent
# merges waiting batches, and fewer changes could be merged here.
WINDOW = 8
# A list that lacks at least half of at least this number of objects of one kind is sent as a snapshot, so
# that the agent's bound on removals applies (svcmapd's flag --hold-removals).
BOUNDED_OBJECTS = 20
FRAME_BYTES = 64  # Upper bound of the size of a PushRequest without its changes.

# Digest of an object whose stored version is unknown. It differs from all versions.
UNKNOWN = b"?"


class ProtocolError(Exception):
    """The agent violates the protocol."""


class Phase(enum.Enum):
    DISCONNECTED = enum.auto()
    BEGINNING = enum.auto()  # SnapshotBegin is not sent yet.
    LISTING = enum.auto()  # Sending the objects of a snapshot.
    ENDING = enum.auto()  # SnapshotEnd is sent but not acknowledged.
    FOLLOWING = enum.auto()  # The agent stores the acknowledged objects.


class _Object:
    """An object that the agent should have or may have."""
    __slots__ = ("key", "want", "sent", "stored", "rejected", "queued")

    def __init__(self, key: Key):
        self.key = key
        self.want = ABSENT  # Desired version.
        self.sent = b""  # Digest of the last version sent on the stream.
        self.stored = b""  # Digest of the version that the agent stores according to the last Ack.
        self.rejected = False  # The agent rejected the last version.
        self.queued = False


class _Batch(NamedTuple):
    """A message without an Ack."""
    number: int
    objects: List[Tuple[_Object, bytes]]
    size: int
    listing: bool  # Part of a snapshot.
    end: bool  # SnapshotEnd.
    progress: int  # State._popped when the batch was created, or 0 inside a snapshot.


class State:
    def __init__(self, file: Optional[StateFile] = None):
        self._objects: Dict[Key, _Object] = {}
        self._file = file
        self.token = b""  # State token for the `stored` versions. Empty if unknown.
        if file is not None:
            self.token = bytes.fromhex(file.token)
            for key, digest in file.digests.items():
                if digest:
                    self._objects[key] = _Object(key)
                    self._objects[key].stored = digest
            file.digests = {}
        self.phase = Phase.DISCONNECTED
        self._limits = control.Limits()
        self._number = 0
        self._queue: "collections.deque[_Object]" = collections.deque()
        # Number of objects ever added to the queue, plus the number of streams and 1, so that nothing is
        # acknowledged before the first stream.
        self.enqueued = 1
        self._popped = 0  # Number of objects ever removed from the queue.
        self.held = ""  # Loss of the snapshot that the agent holds, as in Ack.held.
        # The desired objects lack most of the objects that the agent may have, or confirm held removals.
        self._snapshot_due = False
        self._accept_removals = False  # The caller of set() has confirmed the removals.
        self._to_list = 0  # Objects at the head of the queue that belong to the snapshot.
        self._in_flight: "collections.deque[_Batch]" = collections.deque()
        self._bytes = 0  # Size of _in_flight.
        self._acked = 0  # Progress of the last acknowledged batch.
        self.batches = self.changes = 0  # Number of batches and changes ever sent.
        self.snapshots = 0  # Number of snapshots ever started.

    def set(self, versions: Iterable[Tuple[Key, Optional[Version]]], accept_removals: bool = False) -> None:
        """Replaces the desired objects. An object without a version keeps its previous version."""
        versions = list(versions)
        self._accept_removals = accept_removals
        if accept_removals:
            # The objects whose removal the agent holds, or can hold at the end of the snapshot, are unknown.
            self._snapshot_due = bool(self.held) or self.phase == Phase.ENDING
            self.enqueued += self._snapshot_due  # Waiters wait for the snapshot.
        else:
            self._snapshot_due = self._lacks_most({key for key, _ in versions})
        listed = set()
        for key, version in sorted(versions, key=lambda item: item[0].rank):
            listed.add(key)
            self.put(key, version)
        # Services are removed before their EndpointSlices.
        for key in sorted(self._objects.keys() - listed, key=lambda key: -key.rank):
            self.put(key, ABSENT)

    def _lacks_most(self, listed) -> bool:
        known, lost = collections.Counter(), collections.Counter()
        for key, obj in self._objects.items():
            if obj.sent or obj.stored:
                known[key.kind] += 1
                lost[key.kind] += key not in listed
        return any(count >= BOUNDED_OBJECTS and 2 * lost[kind] >= count for kind, count in known.items())

    def put(self, key: Key, version: Optional[Version]) -> None:
        if version is None:
            return
        obj = self._objects.get(key)
        if obj is None:
            if not version.entry:
                return
            obj = self._objects[key] = _Object(key)
        if obj.want.digest != version.digest:
            obj.want = version
            self._enqueue(obj)

    def _enqueue(self, obj: _Object) -> None:
        if not obj.queued:
            obj.queued = True
            self._queue.append(obj)
            self.enqueued += 1

    def count(self) -> Tuple[int, int]:
        """Number of desired objects and of rejected objects."""
        found = self._objects.values()
        return sum(1 for o in found if o.want.entry), sum(1 for o in found if o.rejected)

    def opened(self, opened: control.Opened) -> bool:
        """Starts a stream. Returns whether the stream continues without a snapshot."""
        self._limits = opened.limits
        self.held = ""
        self._number = self._bytes = 0
        self._in_flight.clear()
        resume = opened.resume == control.CONTINUE and bool(self.token) and not self._snapshot_due
        self._start(resume)
        return resume

    def _start(self, resume: bool) -> None:
        """Fills the queue with the differences to the objects that the agent stores, or starts a snapshot."""
        # All waiters wait for the new queue.
        self._queue.clear()
        self.enqueued += 1
        self._popped = self.enqueued
        different = []
        for obj in list(self._objects.values()):
            if not resume:
                obj.stored = b""
            obj.sent, obj.queued, obj.rejected = obj.stored, False, False
            if not obj.want.entry and not obj.stored:
                del self._objects[obj.key]
            elif obj.want.digest != obj.stored:
                different.append(obj)
        different.sort(key=lambda o: (0, o.key.rank) if o.want.entry else (1, -o.key.rank))
        for obj in different:
            self._enqueue(obj)
        self.phase = Phase.FOLLOWING
        if not resume:
            self.phase, self.token, self._to_list = Phase.BEGINNING, b"", len(different)
            self._snapshot_due = False
            self.snapshots += 1

    def disconnect(self) -> None:
        """Ends the stream. The versions in `stored` still belong to `token`."""
        self.phase = Phase.DISCONNECTED
        self._in_flight.clear()
        self._bytes = 0

    @property
    def idle(self) -> bool:
        return not self._in_flight

    @property
    def progress(self) -> int:
        """Position in the queue up to which all changes are acknowledged."""
        if self.phase == Phase.FOLLOWING and not self._in_flight:
            return self._popped
        return self._acked

    def _room(self) -> bool:
        return not self._in_flight or (
            len(self._in_flight) < min(WINDOW, self._limits.max_batches_in_flight) and
            self._bytes + BATCH_BYTES <= self._limits.max_bytes_in_flight)

    def next(self) -> Tuple[Optional[control.PushRequest], List[control.ObjectResult]]:
        """The next message, or None if there is nothing to send or too much is unacknowledged, and
        results for objects that cannot be sent."""
        if self.phase == Phase.DISCONNECTED:
            return None, []
        if self.phase in (Phase.ENDING, Phase.FOLLOWING) and self._snapshot_due:
            if self._in_flight:
                return None, []  # Later Acks must not set `stored` of objects that the snapshot lists.
            self._start(resume=False)
        if self.phase == Phase.BEGINNING:
            self.phase = Phase.LISTING
            return control.PushRequest(snapshot_begin=control.SnapshotBegin()), []
        if not self._room():
            return None, []
        listing = self.phase == Phase.LISTING
        sent, payload, refused = self._fill()
        request = control.PushRequest()
        if sent:
            self._number += 1
            request.batch.MergeFromString(payload)
            request.batch.number = self._number
            self._send(_Batch(self._number, sent, len(payload) + FRAME_BYTES, listing, False,
                              0 if listing else self._popped))
            self.batches += 1
            self.changes += len(sent)
            return request, refused
        if listing:
            self._number += 1
            self.phase = Phase.ENDING
            request.snapshot_end.number = self._number
            request.snapshot_end.accept_removals = self._accept_removals
            self._send(_Batch(self._number, [], 0, False, True, self._popped))
            return request, refused
        return None, refused

    def _send(self, batch: _Batch) -> None:
        self._in_flight.append(batch)
        self._bytes += batch.size

    def _fill(self):
        """Takes objects from the queue, as many as fit into a batch."""
        limit = self._limits.max_batch_bytes - FRAME_BYTES
        target = min(BATCH_BYTES, limit)
        sent, entries, size, refused = [], [], 0, []
        while (self._queue and len(sent) < BATCH_CHANGES and
               (self.phase != Phase.LISTING or self._to_list)):
            obj = self._queue[0]
            changed = obj.want.digest != obj.sent
            entry = (obj.want.entry or removal_of(obj.key)) if changed else b""
            if entry and sent and size + len(entry) > target:
                break
            self._queue.popleft()
            self._popped += 1
            obj.queued = False
            if self.phase == Phase.LISTING:
                self._to_list -= 1
            if not changed:
                self._forget(obj)
                continue
            obj.sent = obj.want.digest
            if len(entry) > limit:
                obj.rejected = True
                refused.append(obj.key.refused(
                    f"Too long: {len(entry)} bytes: must fit into a message of --max-batch-bytes "
                    f"{self._limits.max_batch_bytes}"))
                continue
            entries.append(entry)
            size += len(entry)
            sent.append((obj, obj.sent))
        return sent, b"".join(entries), refused

    def _forget(self, obj: _Object) -> None:
        """Deletes an object that is neither desired nor stored."""
        if not obj.want.entry and not obj.queued and not obj.sent and not obj.stored:
            self._objects.pop(obj.key, None)

    def ack(self, ack: control.Ack) -> None:
        """Processes an Ack and saves the new state. Raises OSError if the state cannot be saved."""
        if not self._in_flight or self._in_flight[0].number != ack.number:
            raise ProtocolError(f"unexpected Ack with number {ack.number}")
        batch = self._in_flight.popleft()
        self._bytes -= batch.size
        refused = {refused_key(result) for result in ack.results}
        for obj, digest in batch.objects:
            obj.rejected = obj.key in refused
            if not obj.rejected:
                obj.stored = digest
            elif batch.listing:
                obj.stored = UNKNOWN  # The agent keeps the previous version, if it has one.
            self._forget(obj)
        self._acked = max(self._acked, batch.progress)
        if ack.held or ack.state_token:  # While the agent holds a snapshot, Acks have no token.
            self.held = ack.held
        if batch.end and self.phase == Phase.ENDING:
            self.phase = Phase.FOLLOWING
        if self.phase != Phase.FOLLOWING:
            self.token = b""
            return
        self.token = ack.state_token
        if self._file is None:
            return
        if batch.end or not self._file.append(self.token,
                                              {obj.key: obj.stored for obj, _ in batch.objects}):
            self._file.rewrite(self.token, {key: obj.stored for key, obj in self._objects.items()})

    def retry(self) -> None:
        """Queues all rejected objects again."""
        for obj in self._objects.values():
            if obj.rejected and obj.sent != obj.stored:
                obj.sent = obj.stored
                self._enqueue(obj)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
