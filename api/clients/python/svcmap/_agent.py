"""The blocking client. All methods can be called from any thread."""
import dataclasses
import enum
import logging
import os
import queue
import random
import socket
import threading
import time
from typing import Callable, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import grpc

from svcmap._objects import ABSENT, Object, key_of, repeated_keys, version_of
from svcmap._state import ProtocolError, State
from svcmap._statefile import StateFile
from svcmap._tls import TlsFiles
from svcmap.rpc.v1 import rpc_pb2 as rpc
from svcmap.v1 import control_pb2 as control, control_pb2_grpc as services

PROTOCOL_VERSION = 2

_LOGGER = logging.getLogger("svcmap")
_FIRST_RETRY = 0.2
_LAST_RETRY = 10.0
_OPENED_TIMEOUT = 30.0
_ACK_TIMEOUT = 120.0
_RETRY_REJECTED = 600.0
_REPLACED_REMEDY = ("; an agent accepts only one controller at a time: use leader election and epochs if several "
                    "instances run, and give each of them a different instance name")

# A new stream would end with the same error.
_FINAL = frozenset({
    grpc.StatusCode.ABORTED, grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNIMPLEMENTED})


ErrorReason = enum.Enum("ErrorReason", control.ErrorReason.items(), module="svcmap")


class StreamError(Exception):
    """The stream ended. The Agent reconnects with backoff, unless the error is Stopped.

    code: a grpc.StatusCode.
    details: the text for people.
    reason: svcmap.ErrorReason, or ERROR_REASON_UNSPECIFIED if the error is not from an agent.
    metadata: values that ErrorReason documents, for example the name of the new controller.
    """

    def __init__(self, error: grpc.RpcError):
        super().__init__(f"{error.code().name}: {error.details()}")
        self.code: grpc.StatusCode = error.code()
        self.details: str = error.details()
        self.reason = ErrorReason.ERROR_REASON_UNSPECIFIED
        self.metadata: Dict[str, str] = {}
        status = rpc.Status()
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                status.ParseFromString(value)
        for detail in status.details:
            if detail.type_url.endswith("/google.rpc.ErrorInfo"):
                info = rpc.ErrorInfo.FromString(detail.value)
                if info.domain == "svcmap.v1" and info.reason in ErrorReason.__members__:
                    self.reason = ErrorReason[info.reason]
                    self.metadata = dict(info.metadata)

    def explain(self, problem: str) -> None:
        """Replaces the text for people."""
        self.details = problem
        self.args = (f"{self.code.name}: {problem}",)


class Stopped(StreamError):
    """The agent ended the stream with an error that reconnecting cannot solve, such as an outdated
    epoch. The Agent has stopped."""

    def __init__(self, error: grpc.RpcError):
        super().__init__(error)
        if self.reason == ErrorReason.REPLACED:
            self.explain(self.details + _REPLACED_REMEDY)


class SnapshotHeld(Exception):
    """The agent holds the removals of a snapshot, because they would remove too many objects. They wait
    until an operator runs `svcmapctl accept-snapshot`, or until set() lists enough objects.

    loss: for example "95 of 100 Services".
    """

    def __init__(self, loss: str):
        super().__init__(f"the agent holds the removals of the snapshot, because they would remove {loss}; "
                         'run "svcmapctl accept-snapshot" if they are intended')
        self.loss = loss


class Closed(Exception):
    """The Agent or the Store is closed."""


@dataclasses.dataclass
class Status:
    """The state of an Agent. All counters start at 0 with the Agent."""
    connected: bool = False  # Whether a stream is open.
    agent_version: str = ""  # Version of svcmapd, such as "0.3.0".
    node_name: str = ""  # Node that the agent programs.
    revision: int = 0  # Revision of the agent in the last response.
    objects: int = 0  # Number of objects that the agent should have.
    rejected: int = 0  # Number of objects whose last version was rejected.
    held: str = ""  # Loss of a held snapshot, such as "95 of 100 Services". Empty if no snapshot is held.
    changes: int = 0  # Number of changes sent, including snapshots.
    batches: int = 0  # Number of batches sent.
    snapshots: int = 0  # Number of snapshots started.
    resumed: int = 0  # Number of streams that continued without a snapshot.


class _Waiter:
    """Waits until the agent has acknowledged everything up to `position` in the queue."""
    __slots__ = ("position", "callback", "acknowledged")

    def __init__(self, position: int, callback: Callable[[], None]):
        self.position = position
        self.callback = callback
        self.acknowledged = False


def _guarded(callback):
    """The callback of a user, whose exceptions must not end a thread of the client."""
    def call(value):
        try:
            callback(value)
        except Exception:
            _LOGGER.exception("callback failed")
    return call


class Agent:
    """The connection to one agent.

    target: "unix:///run/svcmap/svcmap.sock" or "tcp://node-1.example:7070".
    name: name of the controller program, such as "example". At most 253 bytes.
    instance: name of this instance. Must be unique among instances that can run at the same time.
        Default: the host name.
    epoch: fencing token that increases with each leadership change. 0 disables fencing.
    state_file: file for the state token and the digests of the acknowledged objects. Each agent needs
        its own file. Without a file, a restarted controller sends a snapshot.
    credentials: svcmap.TlsFiles, or grpc.ChannelCredentials, or a function that returns
        grpc.ChannelCredentials. A function is called for each new connection. Required for TCP targets.
    on_result: receives rejected objects and warnings as svcmap.ObjectResult. A rejected object is sent
        again when it changes, when the stream is opened again, or after 10 minutes. Default: the client logs
        the results as warnings of the logger "svcmap".
    on_error: receives errors that the Agent retries, such as a broken connection, errors of the kernel,
        which the agent retries, and SnapshotHeld. If the Agent stops because of an error, this error is the
        last one and a Stopped. While the same problem with a certificate prevents connections, it is
        reported once. Default: the client logs the errors with the logger "svcmap". Neither callback
        may call wait() or close().
    """

    def __init__(self, target: str, *, name: str, instance: Optional[str] = None, epoch: int = 0,
                 state_file: "Optional[os.PathLike[str] | str]" = None,
                 credentials: "Union[None, grpc.ChannelCredentials, Callable[[], grpc.ChannelCredentials]]" = None,
                 on_result: Optional[Callable[[control.ObjectResult], None]] = None,
                 on_error: Optional[Callable[[Exception], None]] = None):
        if not name:
            raise ValueError("name is required")
        scheme, _, address = target.partition("://")
        if scheme not in ("unix", "tcp") or not address:
            raise ValueError(f'target: Invalid value: "{target}": must be unix:///path or tcp://host:port')
        if scheme == "tcp" and credentials is None:
            raise ValueError("credentials are required for TCP targets")
        self._name_of_target = target
        self._target = f"unix:{address}" if scheme == "unix" else address
        self._credentials = credentials
        self._name = name
        self._instance = socket.gethostname() if instance is None else instance
        self._epoch = epoch
        self._on_result = _guarded(on_result or (
            lambda result: _LOGGER.warning("%s: %s", target, result.message)))
        self._on_error = _guarded(on_error or (lambda error: _LOGGER.log(
            logging.ERROR if isinstance(error, Stopped) else logging.WARNING, "%s: %s", target, error)))

        self._changed = threading.Condition()  # Its lock guards the fields below.
        self._state = State(StateFile(state_file) if state_file is not None else None)
        self._status = Status()
        self._waiters: List[_Waiter] = []
        self._requests: "Optional[queue.SimpleQueue]" = None  # Of the open stream.
        self._call = None
        self._deadline: Optional[Tuple[float, str]] = None  # Of the next response, and its name.
        self._expired: Optional[str] = None
        self._retry_at = float("inf")  # Time at which rejected objects are sent again.
        self._wake_at = float("inf")  # Time at which _watch() continues.
        self._kernel_error = ""
        self._broken: Optional[Exception] = None  # The error of the last stream, if no stream is open.
        self._tls_problem = ""  # The reason of the last failed connection, if it is a certificate.
        self._closing = False
        self._over = False
        self._final: Optional[Stopped] = None
        self._threads: List[threading.Thread] = []

    def __enter__(self) -> "Agent":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def set(self, objects: Iterable[Object], *, accept_removals: bool = False) -> None:
        """Replaces the list of objects that the agent should have. The agent removes all other objects.
        Raises Stopped or Closed if the Agent has stopped or is closed. The objects are serialized, so the caller can modify them afterwards. If the list contains several
        versions of an object, the last version is used, and on_result receives a warning.

        The agent holds the removals if they would remove at least half of at least 20 objects of one
        kind, and on_error receives SnapshotHeld. Fewer objects are not protected: set([]) deletes all of
        them. accept_removals: the agent removes any number of objects. Set it only if an operator has
        confirmed the removals."""
        self._update([self._version(obj) for obj in objects], complete=True, accept_removals=accept_removals)

    def apply(self, *objects: Object) -> None:
        """Adds or replaces objects. Raises Stopped or Closed if the Agent has stopped or is closed."""
        self._update([self._version(obj) for obj in objects], complete=False)

    def remove(self, *objects: Object) -> None:
        """Removes the objects with these kinds, namespaces and names. Other fields are ignored. The
        removal of an object that does not exist is not an error. Raises Stopped or Closed if the Agent has
        stopped or is closed."""
        self._update([(key_of(obj), ABSENT) for obj in objects], complete=False)

    def wait(self, timeout: Optional[float] = None) -> None:
        """Returns when the agent has acknowledged all changes of earlier calls of set(), apply() and
        remove(). Rejected objects, held removals and kernel errors raise no exception; see on_result,
        on_error, status.rejected and status.held. Raises TimeoutError, Stopped or Closed, and RuntimeError before
        the first set(), because the agent acknowledges nothing before it has received a list."""
        done = threading.Event()
        waiter = self._when_acknowledged(done.set)
        try:
            if not done.wait(timeout):
                broken = self._broken
                raise TimeoutError(f"{self._name_of_target}: the agent has not acknowledged all changes" +
                                   (f"; last connection error: {broken}" if broken else ""))
        finally:
            self._forget_waiter(waiter)
        self._raise_if_unacknowledged(waiter)

    @property
    def status(self) -> Status:
        """The current state."""
        with self._changed:
            objects, rejected = self._state.count()
            return dataclasses.replace(self._status, objects=objects, rejected=rejected,
                                       held=self._state.held, changes=self._state.changes, batches=self._state.batches,
                                       snapshots=self._state.snapshots)

    @property
    def error(self) -> Optional[Stopped]:
        """The error that stopped the Agent, or None."""
        with self._changed:
            return self._final

    def close(self, timeout: float = 10.0) -> None:
        """Half-closes the stream, waits for outstanding Acks, and stops. Changes that were not sent yet
        are discarded; use wait() to avoid this. The agent keeps all objects."""
        with self._changed:
            self._closing = True
            if self._requests is not None:
                self._requests.put(None)
            elif self._call is not None:
                self._call.cancel()
            self._changed.notify_all()
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        with self._changed:
            if self._call is not None:
                self._call.cancel()
        for thread in self._threads:
            thread.join()
        self._finish()

    # ---- Changes and waiters ----

    def _version(self, obj):
        key = key_of(obj)
        try:
            return key, version_of(obj)
        except ValueError as error:
            self._on_result(key.refused(f"Invalid value: {error}"))
            return key, None

    def _update(self, versions, complete: bool, accept_removals: bool = False) -> None:
        repeated = repeated_keys(key for key, _ in versions) if complete else ()
        with self._changed:
            if self._final is not None or self._closing:
                raise self._ending()
            if complete:
                self._state.set(versions, accept_removals)
            else:
                for key, version in versions:
                    self._state.put(key, version)
            if complete and not self._threads:
                self._threads = [threading.Thread(target=target, name=f"svcmap-{target.__name__}",
                                                  daemon=True) for target in (self._run, self._watch)]
                for thread in self._threads:
                    thread.start()
            refused = self._flush()
            ready = self._take_ready()
        self._notify([*(key.repeated() for key in repeated), *refused], ready)

    def _flush(self) -> Sequence[control.ObjectResult]:
        """Sends what can be sent. Expects the lock."""
        results: List[control.ObjectResult] = []
        while self._requests is not None and not self._closing:
            request, refused = self._state.next()
            results += refused
            if request is None:
                break
            if self._deadline is None:
                self._expect("no Ack", _ACK_TIMEOUT)
            self._requests.put(request)
        return results

    def _take_ready(self) -> Sequence[_Waiter]:
        """Expects the lock."""
        if not self._waiters:
            return ()
        progress = self._state.progress
        ready, waiting = [], []
        for waiter in self._waiters:
            waiter.acknowledged = waiter.position <= progress
            (ready if waiter.acknowledged or self._over else waiting).append(waiter)
        self._waiters = waiting
        return ready

    def _notify(self, results: Iterable[control.ObjectResult], ready: Iterable[_Waiter]) -> None:
        for result in results:
            self._on_result(result)
        for waiter in ready:
            waiter.callback()

    def _when_acknowledged(self, callback: Callable[[], None]) -> _Waiter:
        """Calls `callback` in any thread when all earlier changes are acknowledged, or at the end."""
        with self._changed:
            if not self._threads and not self._closing:
                raise RuntimeError("wait: no list of objects: call set() first")
            waiter = _Waiter(self._state.enqueued, callback)
            self._waiters.append(waiter)
            ready = self._take_ready()
        self._notify((), ready)
        return waiter

    def _forget_waiter(self, waiter: _Waiter) -> None:
        with self._changed:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _raise_if_unacknowledged(self, waiter: _Waiter) -> None:
        if not waiter.acknowledged:
            raise self._ending()

    def _ending(self) -> Exception:
        return self._final or Closed("the agent is closed")

    # ---- The stream ----

    def _channel(self) -> grpc.Channel:
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1),
                   ("grpc.use_local_subchannel_pool", 1)]
        if self._credentials is None:
            options.append(("grpc.default_authority", "localhost"))
            return grpc.insecure_channel(self._target, options)
        options += [("grpc.keepalive_time_ms", 20000), ("grpc.keepalive_timeout_ms", 10000)]
        credentials = self._credentials() if callable(self._credentials) else self._credentials
        return grpc.secure_channel(self._target, credentials, options)

    def _run(self) -> None:
        """Opens streams until close() or a final error."""
        retry, replaced_by_self = _FIRST_RETRY, False
        while not self._closing:
            acked, error = self._stream()
            by_self, problem = False, ""
            if isinstance(error, grpc.RpcError):
                cause, error = error, StreamError(error)
                if error.code == grpc.StatusCode.UNAVAILABLE and isinstance(self._credentials, TlsFiles):
                    problem = self._credentials.problem(self._target)
                if problem:
                    error.explain(problem)
                # A delayed Open of a broken connection can replace the next stream of the same controller.
                by_self = error.reason == ErrorReason.REPLACED and (
                    error.metadata.get("name"), error.metadata.get("instance")) == (self._name, self._instance)
                if error.code in _FINAL and (not by_self or replaced_by_self):
                    error = Stopped(cause)
            with self._changed:
                if self._closing:
                    break
                self._broken = error
                if isinstance(error, Stopped):
                    self._final = error
            if not problem or problem != self._tls_problem:
                self._on_error(error)
            self._tls_problem = problem
            if self._final is not None:
                break
            replaced_by_self = by_self
            if acked:
                retry = _FIRST_RETRY
            with self._changed:
                self._changed.wait_for(lambda: self._closing, random.uniform(retry / 2, retry))
            retry = min(2 * retry, _LAST_RETRY)
        self._finish()

    def _finish(self) -> None:
        with self._changed:
            self._over = True
            self._state.close()
            ready = self._take_ready()
            self._changed.notify_all()
        self._notify((), ready)

    def _stream(self):
        """Runs one stream until its end. Returns whether it had an Ack, and its error."""
        acked = False
        requests: "queue.SimpleQueue" = queue.SimpleQueue()
        try:
            with self._channel() as channel:
                with self._changed:
                    if self._closing:
                        return False, None
                    requests.put(control.PushRequest(open=control.Open(
                        name=self._name, instance=self._instance, protocol_version=PROTOCOL_VERSION,
                        epoch=self._epoch, state_token=self._state.token)))
                    responses = services.ControlStub(channel).Push(iter(requests.get, None))
                    self._call = responses
                    self._expect("no response to Open", _OPENED_TIMEOUT)
                for response in responses:
                    if self._requests is None:
                        self._open(response, requests)
                    else:
                        self._take(response.ack)
                        acked = True
                return acked, ProtocolError("svcmapd closed the stream without an error")
        except (grpc.RpcError, ProtocolError, OSError) as error:
            if self._expired is not None:
                return acked, TimeoutError(f"timeout: {self._expired}")
            return acked, error
        finally:
            with self._changed:
                self._state.disconnect()
                self._status.connected = False
                self._requests = self._call = self._deadline = self._expired = None
            requests.put(None)

    def _open(self, response, requests) -> None:
        if not response.HasField("opened"):
            raise ProtocolError("the first response is not Opened")
        opened = response.opened
        with self._changed:
            resumed = self._state.opened(opened)
            for waiter in self._waiters:
                waiter.position = self._state.enqueued  # The queue is new.
            self._status.connected = True
            self._broken = None
            self._status.agent_version = opened.agent_version
            self._status.node_name = opened.node_name
            self._status.revision = opened.revision
            self._status.resumed += resumed
            self._deadline = None
            self._kernel_error = self._tls_problem = ""
            self._retry_at = time.monotonic() + _RETRY_REJECTED
            self._wake_before(self._retry_at)
            self._requests = requests
            refused = self._flush()
            ready = self._take_ready()
            if self._closing:
                requests.put(None)
        self._notify(refused, ready)

    def _take(self, ack) -> None:
        unsaved = None
        with self._changed:
            try:
                self._state.ack(ack)
            except OSError as error:
                unsaved = error
            self._status.revision = ack.revision
            if self._state.idle:
                self._deadline = None
            else:
                self._expect("no Ack", _ACK_TIMEOUT)
            refused = self._flush()
        # Results precede the end of wait().
        self._notify([*ack.results, *refused], ())
        if unsaved is not None:
            self._on_error(unsaved)
        if ack.held:
            self._on_error(SnapshotHeld(ack.held))
        if ack.error and ack.error != self._kernel_error:
            self._on_error(RuntimeError(f"kernel commit failed, svcmapd is retrying: {ack.error}"))
        self._kernel_error = ack.error
        with self._changed:
            ready = self._take_ready()
        self._notify((), ready)

    # ---- Timeouts ----

    def _expect(self, what: str, timeout: float) -> None:
        """Expects the lock."""
        self._deadline = (time.monotonic() + timeout, what)
        self._wake_before(self._deadline[0])

    def _wake_before(self, when: float) -> None:
        """Expects the lock. Wakes _watch() only if it would continue too late."""
        if self._wake_at > when:
            self._wake_at = when
            self._changed.notify_all()

    def _watch(self) -> None:
        """Cancels a stream without a response, and sends rejected objects again."""
        while True:
            refused: Sequence[control.ObjectResult] = ()
            with self._changed:
                if self._over:
                    return
                now = time.monotonic()
                if self._deadline is not None and self._deadline[0] <= now:
                    self._expired = self._deadline[1]
                    self._deadline = None
                    self._call.cancel()
                if self._retry_at <= now:
                    self._retry_at = now + _RETRY_REJECTED
                    self._state.retry()
                    refused = self._flush()
                self._wake_at = min(self._retry_at,
                                    self._deadline[0] if self._deadline else float("inf"))
                if not refused:
                    wait = self._wake_at - time.monotonic()
                    self._changed.wait(max(0.0, min(wait, threading.TIMEOUT_MAX)))
            self._notify(refused, ())
