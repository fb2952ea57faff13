"""Requests of a Store to etcd. Not thread-safe."""
import collections
import json
import secrets
from typing import Callable, Dict, Sequence

import grpc

from svcmap.etcd.v3 import etcd_pb2 as etcd

_FIRST_RETRY = 0.1
_LAST_RETRY = 5.0
_REQUEST_TIMEOUT = 5.0

# A repeated request would fail with the same error.
_REJECTED = frozenset({grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND})


class StoreError(Exception):
    """A failure that the Store retries, or a rejected object. The text names the key and the reason."""


class _IncompleteAnswer(Exception):
    """An answer without a required value."""


class Conflict(Exception):
    """A transaction was not applied, because a compared key has another revision. `found`: the key that the
    transaction writes, as it is in etcd."""

    def __init__(self, found: etcd.KeyValue):
        super().__init__()
        self.found = found


def put(key: str, value: bytes, lease: int = 0) -> etcd.RequestOp:
    return etcd.RequestOp(request_put=etcd.PutRequest(key=key.encode(), value=value, lease=lease))


def delete(key: str) -> etcd.RequestOp:
    return etcd.RequestOp(request_delete_range=etcd.DeleteRangeRequest(key=key.encode()))


def _get(key: bytes, **fields) -> etcd.RequestOp:
    return etcd.RequestOp(request_range=etcd.RangeRequest(key=key, **fields))


class Client:
    """Sends requests to one endpoint after the other until one of them answers.

    pause: waits for some seconds, or raises an exception if the Store is closed.
    report: receives errors after which the request is sent again.
    """

    def __init__(self, endpoints: Sequence[str], credentials, pause: Callable[[float], None],
                 report: Callable[[StoreError], None]):
        if isinstance(endpoints, str) or not endpoints:
            raise ValueError(f"endpoints: Invalid value: {endpoints!r}: must be a list of URLs")
        for endpoint in endpoints:
            scheme, _, address = endpoint.partition("://")
            if scheme not in ("http", "https", "unix") or not address:
                raise ValueError(f'endpoints: Invalid value: "{endpoint}": must be http://HOST:PORT, '
                                 "https://HOST:PORT or unix:///PATH")
            if scheme == "https" and credentials is None:
                raise ValueError(f'endpoints: Invalid value: "{endpoint}": credentials are required for https://')
        self._endpoints = collections.deque(endpoints)
        self._credentials = credentials
        self._pause = pause
        self._report = report
        self._channel = None
        self._retry = _FIRST_RETRY

    def read(self, key: bytes, **fields) -> etcd.RangeResponse:
        request = etcd.TxnRequest(success=[_get(key, **fields)])
        return self._txn(request, f"read of {key.decode()}").responses[0].response_range

    def write(self, key: str, fields: dict, revisions: Dict[str, int], others: Sequence[etcd.RequestOp] = (),
              lease: int = 0) -> int:
        """Writes `fields` with a nonce as JSON to the key, and the other requests, in one transaction. Returns its
        revision. Raises Conflict if a key does not have its revision in `revisions`. After a lost answer, the same
        transaction is sent again, and the nonce shows whether etcd has already applied it."""
        value = json.dumps({**fields, "nonce": secrets.token_hex(8)}, separators=(",", ":")).encode()
        compare = [etcd.Compare(target=etcd.Compare.MOD, key=compared.encode(), mod_revision=revision)
                   for compared, revision in revisions.items()]
        request = etcd.TxnRequest(compare=compare, success=[put(key, value, lease), *others],
                                  failure=[_get(key.encode())])
        keys = [(other.request_put.key or other.request_delete_range.key).decode() for other in others]
        answer = self._txn(request, f"write of {', '.join(keys[:3]) or key}{', ...' if len(keys) > 3 else ''}")
        if answer.succeeded:
            return answer.header.revision
        pairs = answer.responses[0].response_range.kvs
        if not pairs or pairs[0].value != value:
            raise Conflict(pairs[0] if pairs else etcd.KeyValue())
        return pairs[0].mod_revision

    def grant(self, seconds: int) -> int:
        """Returns the ID of a new lease."""
        return self._call(lambda: self._unary("Lease/LeaseGrant", etcd.LeaseGrantRequest(TTL=seconds),
                                              etcd.LeaseGrantResponse), "lease").ID

    def keep_alive(self, lease: int) -> bool:
        """Renews a lease. Returns whether it exists."""
        def call():
            method = self._connect().stream_stream(
                "/etcdserverpb.Lease/LeaseKeepAlive", etcd.LeaseKeepAliveRequest.SerializeToString,
                etcd.LeaseKeepAliveResponse.FromString)
            answers = method(iter((etcd.LeaseKeepAliveRequest(ID=lease),)), timeout=_REQUEST_TIMEOUT)
            return next(answers, etcd.LeaseKeepAliveResponse())
        return self._call(call, "lease").TTL > 0

    def revoke(self, lease: int) -> None:
        """Deletes a lease and its key. Does not retry, because the lease expires by itself."""
        try:
            self._unary("Lease/LeaseRevoke", etcd.LeaseRevokeRequest(ID=lease), etcd.LeaseRevokeResponse)
        except (grpc.RpcError, OSError) as error:
            self._report(self._error("lease", error))

    def disconnect(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _txn(self, request: etcd.TxnRequest, subject: str) -> etcd.TxnResponse:
        """Sends a transaction. Its answer has one response for each operation, and the response to a read is a
        RangeResponse."""
        def call():
            answer = self._unary("KV/Txn", request, etcd.TxnResponse)
            # Without comparisons, etcd always executes the operations of `success`.
            operations = request.success if answer.succeeded or not request.compare else request.failure
            if len(answer.responses) != len(operations):
                raise _IncompleteAnswer(f"responses: Invalid value: {len(answer.responses)} items: must have "
                                        f"{len(operations)} items")
            for i, (operation, response) in enumerate(zip(operations, answer.responses)):
                if operation.HasField("request_range") and not response.HasField("response_range"):
                    raise _IncompleteAnswer(f"responses[{i}].response_range: Required value")
            return answer
        return self._call(call, subject)

    def _unary(self, method: str, request, response):
        return self._connect().unary_unary(f"/etcdserverpb.{method}", type(request).SerializeToString,
                                           response.FromString)(request, timeout=_REQUEST_TIMEOUT)

    def _call(self, call, subject: str):
        """Repeats a call until etcd answers. Raises StoreError if etcd rejects the request."""
        while True:
            self._pause(0)
            try:
                answer = call()
                self._retry = _FIRST_RETRY
                return answer
            except (grpc.RpcError, OSError, _IncompleteAnswer) as error:
                problem = self._error(subject, error)
                if isinstance(error, grpc.RpcError) and error.code() in _REJECTED:
                    raise problem from None
            self._report(problem)
            self.disconnect()
            self._endpoints.rotate(-1)
            self._pause(self._retry)
            self._retry = min(2 * self._retry, _LAST_RETRY)

    def _error(self, subject: str, error: Exception) -> StoreError:
        text = f"{error.code().name}: {error.details()}" if isinstance(error, grpc.RpcError) else str(error)
        return StoreError(f"{subject}: {self._endpoints[0]}: {text}")

    def _connect(self) -> grpc.Channel:
        if self._channel is None:
            scheme, _, address = self._endpoints[0].partition("://")
            options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
            if scheme == "https":
                credentials = self._credentials() if callable(self._credentials) else self._credentials
                self._channel = grpc.secure_channel(address.rstrip("/"), credentials, options)
            elif scheme == "http":
                self._channel = grpc.insecure_channel(address.rstrip("/"), options)
            else:
                self._channel = grpc.insecure_channel(f"unix:{address}",
                                                      [*options, ("grpc.default_authority", "localhost")])
        return self._channel
