"""Frames, errors and byte strings of sandboxd's protocol: the lower half of sandboxd.py, which
re-exports what is public here. Standard library only (Python 3.9 or later).
"""
from __future__ import annotations

import base64
import errno as _errno
import json
import os
import select
import socket as _socket
import struct
import time
from typing import Any, Mapping, NamedTuple, Sequence, Union

DEFAULT_SOCKET = "/run/sandboxd/sandboxd.sock"
HELLO, REQUEST, REPLY, ERROR, DATA, END, EXIT, EVENT, CREDIT, CANCEL, PING = range(1, 12)  # Frames.
STREAM, STDIN, STDOUT, STDERR, FILE = range(5)  # Channels.
HEADER_BYTES = 16
MAX_CONTROL = 1 << 20
MAX_DATA = 64 << 10
_HEADER = struct.Struct("<IBBHQ")
_READ_AT_ONCE = 256 << 10

BytesLike = Union[str, bytes, "os.PathLike[Any]"]
Env = Union[Mapping[Any, Any], Sequence[BytesLike]]  # {"NAME": "VALUE"} or ["NAME=VALUE"].


class SandboxError(Exception):
    """What the daemon refused, or could not do. `reason` is stable and for programs, `code` its
    class, `object` what it is about; `stage` and `errno` ("ENOENT") tell of a failed launch."""

    def __init__(self, code: str, reason: str = "", object: str = "", message: str = "",
                 stage: str = "", errno: str = "") -> None:
        super().__init__(f"{reason or code}: {message}")
        self.code, self.reason, self.object = code, reason, object
        self.message, self.stage, self.errno = message, stage, errno

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> SandboxError:
        names = ("code", "reason", "object", "message", "stage", "errno")
        return cls(**{name: str(body.get(name, "")) for name in names})


class ConnectionLost(SandboxError):
    """The connection is over: nothing more can be asked on it."""


class Frame(NamedTuple):
    type: int
    flags: int
    stream: int
    payload: bytes

    def json(self) -> dict[str, Any]:
        return json.loads(self.payload)


def encode_bytes(value: BytesLike) -> Any:
    """A byte string as the protocol writes it: text where it is UTF-8, else {"base64": …}."""
    raw = os.fsencode(value)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode("ascii")}


def decode_bytes(value: Any) -> bytes:
    """The inverse of encode_bytes(), for byte strings in replies."""
    if isinstance(value, str):
        return value.encode("utf-8")
    return base64.b64decode(value["base64"], validate=True)


def encode_env(env: Env | None) -> list[Any] | None:
    if isinstance(env, Mapping):
        env = [os.fsencode(name) + b"=" + os.fsencode(value) for name, value in env.items()]
    return [encode_bytes(entry) for entry in env] if env else None


def encode_frame(type: int, flags: int = 0, stream: int = 0,
                 payload: bytes | Mapping[str, Any] = b"") -> bytes:
    """A frame as it travels; a mapping becomes JSON. Keeps to no rule."""
    if isinstance(payload, Mapping):
        payload = json.dumps(payload, separators=(",", ":")).encode()
    return _HEADER.pack(len(payload), type, flags, 0, stream) + payload


def lost(message: str, reason: str = "CONNECTION_LOST") -> ConnectionLost:
    return ConnectionLost("UNAVAILABLE", reason, "connection", message)


def broken(what: str) -> ConnectionLost:
    return lost(f"the daemon breaks the protocol: {what}", "PROTOCOL_ERROR")


def deadline_of(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def left_of(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _connect(path: str, timeout: float | None) -> _socket.socket:
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        if timeout is not None:  # Unix sockets wait in connect() as long as in send().
            time_value = struct.pack("@ll", int(timeout), max(1, int(timeout % 1 * 1e6)))
            sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDTIMEO, time_value)
        sock.connect(path)
        return sock
    except OSError as error:
        sock.close()
        code, reason, message = "UNAVAILABLE", "DAEMON_UNREACHABLE", f"connecting to {path}: {error}"
        if error.errno in (_errno.ENOENT, _errno.ECONNREFUSED):
            message = (f"no daemon listens at {path}; start one with `sandboxd --config …`, or "
                       "name its socket with socket= or SANDBOXD_SOCKET")
        elif error.errno in (_errno.EACCES, _errno.EPERM):
            code, reason = "PERMISSION_DENIED", "SOCKET_NOT_ALLOWED"
            message = f"you may not use {path}: be root or in the group sandboxd"
        name = _errno.errorcode.get(error.errno or 0, "")
        raise ConnectionLost(code, reason, path, message, errno=name) from error


class Closing:
    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Connection(Closing):
    """Frames on a socket, without the rules: tests of the protocol use it to send what is wrong.
    `socket` is a path or a connected socket; None is $SANDBOXD_SOCKET, else the default path."""

    def __init__(self, socket: str | _socket.socket | None = None,
                 timeout: float | None = 10.0) -> None:
        if socket is None:
            socket = os.environ.get("SANDBOXD_SOCKET") or DEFAULT_SOCKET
        self.socket = _connect(socket, timeout) if isinstance(socket, str) else socket
        self.socket.setblocking(False)
        self._in = bytearray()
        self._out = bytearray()

    def close(self) -> None:
        self.socket.close()

    def send_raw(self, data: bytes) -> None:
        """Sends bytes that need not be frames. Waits until all are sent."""
        self.queue(data)
        while self.flush():
            self._wait(None, 0)

    def send_frame(self, type: int, flags: int = 0, stream: int = 0,
                   payload: bytes | Mapping[str, Any] = b"") -> None:
        self.send_raw(encode_frame(type, flags, stream, payload))

    def queue(self, data: bytes) -> None:
        """Sends what the socket takes now, and the rest in recv_frame() or flush()."""
        self._out += data
        self.flush()

    def flush(self) -> int:
        """Tries to send what waits. Returns how many bytes still do."""
        while self._out:
            try:
                del self._out[:self.socket.send(self._out)]
            except (BlockingIOError, InterruptedError):
                break
            except OSError:  # The daemon has closed; what it said before is still to be read.
                self._out.clear()
        return len(self._out)

    def recv_frame(self, timeout: float | None = None,
                   until_flushed: bool = False) -> Frame | None:
        """The next frame; None where the timeout (seconds) passed, or where nothing waits to be
        sent and that was asked for. Raises ConnectionLost at the end."""
        deadline = deadline_of(timeout)
        while True:
            frame = self._pull()
            if frame is not None:
                return frame
            if not self.flush() and until_flushed:
                return None
            try:
                data = self.socket.recv(_READ_AT_ONCE)
            except (BlockingIOError, InterruptedError):
                if not self._wait(deadline, select.POLLIN):
                    return None
                continue
            except OSError as error:
                raise lost(f"reading from the daemon: {error}") from error
            if not data:
                middle = " in the middle of a frame" if self._in else ""
                raise lost(f"the daemon closed the connection{middle}")
            self._in += data

    def _pull(self) -> Frame | None:
        if len(self._in) < _HEADER.size:
            return None
        size, kind, flags, zero, stream = _HEADER.unpack_from(self._in)
        limit = MAX_DATA if kind == DATA else MAX_CONTROL
        if size > limit or zero != 0 or not HELLO <= kind <= PING or flags > FILE:
            raise broken("a header that is not of the protocol")
        end = _HEADER.size + size
        if len(self._in) < end:
            return None
        payload = bytes(memoryview(self._in)[_HEADER.size:end])
        del self._in[:end]
        return Frame(kind, flags, stream, payload)

    def _wait(self, deadline: float | None, events: int) -> bool:
        poller = select.poll()
        poller.register(self.socket, events | (select.POLLOUT if self._out else 0))
        left = left_of(deadline)
        return bool(poller.poll(None if left is None else left * 1000))
