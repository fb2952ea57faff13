"""A fake agent without a kernel that checks every message of a controller against the protocol.

Violations are collected in `violations`. The objects survive a restart of the server, as if they were
saved on disk. Tests hold Acks, reject objects and end streams."""
import concurrent.futures
import hashlib
import threading
import time

import grpc

from svcmap._agent import PROTOCOL_VERSION
from svcmap.rpc.v1 import rpc_pb2 as rpc
from svcmap.v1 import control_pb2 as control, control_pb2_grpc as services

PATIENCE = 60
_KINDS = {"service": control.KIND_SERVICE, "endpoint_slice": control.KIND_ENDPOINT_SLICE,
          "node": control.KIND_NODE, "service_cidr": control.KIND_SERVICE_CIDR}


class FakeAgent(services.ControlServicer):
    def __init__(self, socket, *, max_batch_bytes=1 << 24, max_in_flight=64, max_bytes_in_flight=1 << 26):
        self._socket = socket
        self._limits = control.Limits(max_batch_bytes=max_batch_bytes, max_batches_in_flight=max_in_flight,
                                      max_bytes_in_flight=max_bytes_in_flight)
        self._changed = threading.Condition()  # Its lock guards the fields below.
        self.violations = []
        self.objects = {}  # Serialized objects by (kind, namespace, name).
        self.opens = []  # All Open messages.
        self.open_times = []
        self.messages = []  # Of all streams: "begin", "end" or a list of "+name" and "-name".
        self.half_closed = 0
        self.connected = False
        self.refused_names = set()
        self.hold_acks = False
        self.lose_next_batch = False  # Ends the stream instead of applying the next batch.
        self.lose_next_ack = False  # Ends the stream instead of sending the next Ack.
        self.end_with = []  # End: the ends of the next streams instead of Opened.
        self.silent_opens = 0  # Number of streams on which Open is not answered.
        self.foreign = False  # An Apply of another client: Acks have no token until a snapshot ends.
        self.hold_removals = False  # Holds the removals of snapshots without accept_removals.
        self.ack_offset = 0  # Added to the number of each Ack.
        self._held = set()  # Objects that the held snapshot does not list.
        self._context = None
        self._server = None
        self.start()

    @property
    def target(self):
        return f"unix://{self._socket}"

    def start(self):
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(4), options=[
            ("grpc.max_receive_message_length", self._limits.max_batch_bytes)])
        services.add_ControlServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{self._socket}")
        self._server.start()

    def stop(self):
        self._server.stop(None).wait()
        self.until(lambda: not self.connected)

    def break_stream(self):
        with self._changed:
            self._context.cancel()

    def until(self, condition):
        """Waits until the condition is true. It is evaluated with the lock."""
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE), (
                f"timeout: messages={self.messages}, opens={len(self.opens)}, objects={self.names()}, "
                f"violations={self.violations}")

    def _ended(self, context):
        with self._changed:
            if self._context is context:
                self.connected = False
            self._changed.notify_all()

    def names(self):
        return sorted(name for _, _, name in self.objects)

    def sent(self):
        """All changes, without the frames of snapshots and batches."""
        return [change for message in self.messages if isinstance(message, list) for change in message]

    def release_acks(self):
        with self._changed:
            self.hold_acks = False
            self._changed.notify_all()

    def _token(self):
        digest = hashlib.sha256()
        for key in sorted(self.objects):
            digest.update(repr((key, self.objects[key])).encode())
        return digest.digest()[:16]

    def _violation(self, context, text):
        with self._changed:
            self.violations.append(text)
            self._changed.notify_all()
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)

    def Push(self, requests, context):
        first = next(requests, None)
        if first is None:
            return
        if first.WhichOneof("message") != "open":
            self._violation(context, "the first message is not Open")
        opened = first.open
        if not opened.name or opened.protocol_version != PROTOCOL_VERSION:
            self._violation(context, f"invalid Open: {opened}")
        context.add_callback(lambda: self._ended(context))
        with self._changed:
            self.opens.append(opened)
            self.open_times.append(time.monotonic())
            self._changed.notify_all()
            if self.end_with:
                self.end_with.pop(0).abort(context)
            if self.silent_opens:
                self.silent_opens -= 1
                self._changed.wait_for(lambda: not context.is_active())
                return
            if self.connected:
                self._context.cancel()
            self._context, self.connected = context, True
            resumes = bool(opened.state_token) and opened.state_token == self._token()
            response = control.PushResponse(opened=control.Opened(
                agent_version="0.0.0", node_name="fake", limits=self._limits,
                resume=control.CONTINUE if resumes else control.SEND_SNAPSHOT, state_token=self._token()))
        yield response
        yield from self._session(requests, context, resumes)

    def _session(self, requests, context, synced):
        """Answers each message immediately, or after release_acks()."""
        # Reads ahead, so that a held Ack does not delay the checks of the next messages.
        answers, over = [], []

        def read():
            try:
                self._read(requests, context, synced, answers)
                over.append(None)
            except grpc.RpcError as error:
                over.append(error)
            except End as end:
                over.append(end)
            except Exception as error:  # The iterator raises this after a cancellation.
                over.append(error)
            with self._changed:
                self._changed.notify_all()

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: over or (answers and not self.hold_acks) or
                                       not context.is_active())
                if not context.is_active():
                    return
                ended = over and (not answers or isinstance(over[0], End))
                answer = None if ended else (answers.pop(0) if not self.hold_acks else None)
            if ended:
                if isinstance(over[0], End):
                    over[0].abort(context)
                return
            if answer is not None:
                yield answer

    def _read(self, requests, context, synced, answers):
        number, unacknowledged, snapshot = 0, 0, None
        for request in requests:
            kind = request.WhichOneof("message")
            size = request.ByteSize()
            with self._changed:
                if size > self._limits.max_batch_bytes:
                    raise self._end(f"a message has {size} bytes")
                if kind == "snapshot_begin":
                    if snapshot is not None:
                        raise self._end("SnapshotBegin inside a snapshot")
                    snapshot = set()
                    self.messages.append("begin")
                    self._changed.notify_all()
                    continue
                if kind not in ("batch", "snapshot_end"):
                    raise self._end(f"unexpected message {kind}")
                message = getattr(request, kind)
                if message.number <= number:
                    raise self._end(f"number {message.number} does not follow {number}")
                number = message.number
                if not synced and snapshot is None:
                    raise self._end("changes before the snapshot")
                if len(answers) + 1 > self._limits.max_batches_in_flight:
                    raise self._end(f"{len(answers) + 1} batches in flight")
                if self.lose_next_batch:
                    self.lose_next_batch = False
                    raise End(grpc.StatusCode.UNAVAILABLE, "lost batch")
                ack = control.Ack(number=number + self.ack_offset, outcome=control.COMMITTED)
                if kind == "batch":
                    self._apply(message, snapshot, ack)
                else:
                    if snapshot is None:
                        raise self._end("SnapshotEnd outside a snapshot")
                    lost = set(self.objects) - snapshot
                    self._held = set()
                    if self.hold_removals and lost and not message.accept_removals:
                        ack.outcome, ack.held = control.HELD, f"{len(lost)} of {len(self.objects)} objects"
                        self._held = lost
                    else:
                        for key in lost:
                            del self.objects[key]
                        self.foreign = False
                    snapshot, synced = None, True
                    self.messages.append("end")
                if snapshot is None and not self._held and not self.foreign:
                    ack.state_token = self._token()
                if self.lose_next_ack:
                    self.lose_next_ack = False
                    raise End(grpc.StatusCode.UNAVAILABLE, "lost Ack")
                answers.append(control.PushResponse(ack=ack))
                self._changed.notify_all()
        with self._changed:
            self.half_closed += 1

    def _end(self, text):
        self.violations.append(text)
        return End(grpc.StatusCode.INVALID_ARGUMENT, text)

    def _apply(self, batch, snapshot, ack):
        seen, names = set(), []
        for change in batch.changes:
            field = change.WhichOneof("change")
            if field == "remove":
                key = (change.remove.kind, change.remove.namespace, change.remove.name)
                names.append("-" + change.remove.name)
                self.objects.pop(key, None)
                (snapshot or set()).discard(key)
            elif field in _KINDS:
                obj = getattr(change, field)
                key = (_KINDS[field], obj.metadata.namespace, obj.metadata.name)
                names.append("+" + obj.metadata.name)
                if snapshot is not None:
                    snapshot.add(key)
                if obj.metadata.name in self.refused_names:
                    ack.results.add(kind=key[0], namespace=key[1], name=key[2], severity=control.REFUSED,
                                    message=f"{obj.metadata.name} rejected")
                else:
                    self.objects[key] = obj.SerializeToString(deterministic=True)
            else:
                raise self._end(f"unexpected change {field}")
            self._held.discard(key)
            if key in seen:
                raise self._end(f"two changes of {key} in a batch")
            seen.add(key)
        if not names:
            raise self._end("empty batch")
        self.messages.append(names)


class End(Exception):
    """Ends the stream with a status, a text and an ErrorInfo."""

    def __init__(self, code, details, reason=None, **metadata):
        super().__init__(details)
        self._code, self._details, self._reason, self._metadata = code, details, reason, metadata

    def abort(self, context):
        if self._reason is not None:
            info = rpc.ErrorInfo(reason=control.ErrorReason.Name(self._reason), domain="svcmap.v1",
                                 metadata=self._metadata)
            status = rpc.Status(code=self._code.value[0], message=self._details, details=[
                rpc.Any(type_url="type.googleapis.com/google.rpc.ErrorInfo", value=info.SerializeToString())])
            context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        context.abort(self._code, self._details)
