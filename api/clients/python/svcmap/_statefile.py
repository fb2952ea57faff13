"""The file of a controller's state token and acknowledged objects.

Each line is a record in JSON. The first line contains all objects, and each further line contains the
changes of one Ack. A record is valid only if it follows the token of the previous record, so an
incomplete or foreign record ends the file. Losing records is safe: the agent does not recognize an old
token and requests a snapshot.
"""
import json
import os
from typing import Dict, Mapping

from svcmap._objects import Key
from svcmap.v1 import control_pb2 as control

_MIN_REWRITE_BYTES = 1 << 20


def _text(key: Key) -> str:
    return f"{control.Kind.Name(key.kind)}/{key.namespace}/{key.name}"


class StateFile:
    def __init__(self, path):
        self._path = os.fspath(path)
        self._file = None
        self._size = self._limit = 0
        self.token = ""
        self.digests: Dict[Key, bytes] = {}
        self._read()

    def _read(self) -> None:
        try:
            with open(self._path, "rb") as file:
                lines = file.read().splitlines(keepends=True)
        except FileNotFoundError:
            return
        for line in lines:
            try:
                record = json.loads(line)
                token, objects = record["token"], record.get("objects", {})
                if not line.endswith(b"\n") or record.get("after", "") != self.token:
                    return
                bytes.fromhex(token)
                changes = {Key(control.Kind.Value(kind), namespace, name): bytes.fromhex(digest)
                           for (kind, namespace, name), digest in
                           ((text.split("/", 2), digest) for text, digest in objects.items())}
            except (ValueError, KeyError, TypeError, AttributeError):
                return
            self.token = token
            self.digests.update(changes)

    def rewrite(self, token: bytes, digests: Mapping[Key, bytes]) -> None:
        """Replaces the file."""
        self.close()
        record = {"token": token.hex(), "objects": {_text(k): d.hex() for k, d in digests.items() if d}}
        line = json.dumps(record).encode() + b"\n"
        descriptor = os.open(f"{self._path}.new", os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        file = os.fdopen(descriptor, "wb", buffering=0)
        try:
            file.write(line)
            os.rename(f"{self._path}.new", self._path)
        except OSError:
            file.close()
            raise
        self._file, self.token, self._size = file, record["token"], len(line)
        self._limit = max(2 * self._size, _MIN_REWRITE_BYTES)

    def append(self, token: bytes, changes: Mapping[Key, bytes]) -> bool:
        """Adds the changes of one Ack. Returns False if the file must be rewritten instead."""
        if self._file is None or self._size > self._limit:
            return False
        record = {"after": self.token, "token": token.hex(),
                  "objects": {_text(k): d.hex() for k, d in changes.items()}}
        line = json.dumps(record).encode() + b"\n"
        try:
            self._file.write(line)
        except OSError:
            self.close()  # The next Ack rewrites the file.
            raise
        self.token = record["token"]
        self._size += len(line)
        return True

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
