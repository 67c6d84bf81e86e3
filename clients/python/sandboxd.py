"""Client of sandboxd in one file, with the standard library only (Python 3.9 or later).

    with sandboxd.Client() as client, client.create("host") as box:
        print(box.exec(["echo", "hello"]).stdout)
        with box.popen(["sh", "-c", "echo one; echo two >&2"]) as process:
            for channel, data in process:
                print(channel, data)
            print(process.wait().exit_code)

Operations, parameters and replies are those of docs/protocol.md; Client.call() reaches all of them.
Arguments, environment and paths are bytes to the daemon: give them as bytes, or as str, which is
encoded as file names are. A byte string in a reply is decode_bytes()'s business.

A connection is for one thread. Several streams may be open on it: what comes for one while another
is waited for is kept, within the credit it was given.
"""
from __future__ import annotations

import base64
import collections
import dataclasses
import errno as _errno
import json
import os
import select
import socket as _socket
import struct
import time
from typing import Any, Iterator, Mapping, NamedTuple, Sequence, Union

__version__ = "0.1.0"

MAX_QUEUED_EVENTS = 1024
_WIDE_WINDOW = 1 << 20  # What a channel may have in flight once it has shown to be busy.
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


class _Stream:
    """What a client knows of one open stream; lists are by channel."""

    def __init__(self, credit: int) -> None:
        self.queue: collections.deque[Frame] = collections.deque()
        self.send = [credit] * 5  # Bytes that we may send.
        self.receive = [credit] * 5  # Bytes that the daemon may send.
        self.consumed = [0] * 5  # Bytes not credited back yet.
        self.widened = [False] * 5
        self.events = 0  # In the queue.


class Client(Closing):
    """A connection that keeps to the protocol. `socket` as for Connection."""

    def __init__(self, socket: str | _socket.socket | None = None, *,
                 name: str = f"sandboxd.py/{__version__}",
                 connect_timeout: float | None = 10.0) -> None:
        self.connection = Connection(socket, connect_timeout)
        self.hello: dict[str, Any] = {}  # The daemon's, once any answer came.
        self.draining = False  # The daemon shuts down; new requests will be refused.
        self._streams: dict[int, _Stream] = {}
        self._next_stream = 1
        self._credit = 256 << 10
        self._failure: ConnectionLost | None = None
        self.connection.queue(encode_frame(HELLO, 0, 0, {"protocol": 1, "client": name}))

    def close(self) -> None:
        self.connection.close()

    def call(self, op: str, *, timeout: float | None = None, **params: Any) -> dict[str, Any]:
        """One request, one answer. Parameters that are None are left out. Where no answer comes in
        `timeout` seconds the request is cancelled, and TimeoutError raised."""
        stream = self._open(op, params)
        reply = self._answer(stream, timeout)
        self._streams.pop(stream, None)
        return reply

    def create(self, image: str, *, env: Env | None = None, cwd: BytesLike | None = None,
               tmpfs: Sequence[Mapping[str, Any]] | None = None, timeout: float | None = None,
               **params: Any) -> Sandbox:
        """sandbox.create. `timeout` is the time to live, in seconds; the other keywords are the
        operation's parameters."""
        if tmpfs is not None:
            params["tmpfs"] = [{**mount, "path": encode_bytes(mount["path"])} for mount in tmpfs]
        params["timeout_ms"] = timeout and int(timeout * 1000)
        params["cwd"] = None if cwd is None else encode_bytes(cwd)
        reply = self.call("sandbox.create", image=image, env=encode_env(env), **params)
        return Sandbox(self, reply["sandbox"]["id"])

    def list(self, **params: Any) -> Iterator[dict[str, Any]]:
        """The rows of sandbox.list, of all pages."""
        while True:
            reply = self.call("sandbox.list", **params)
            yield from reply["sandboxes"]
            params["after"] = reply["next"]
            if reply["next"] is None:
                return

    def events(self, *, timeout: float | None = None, **params: Any) -> Iterator[dict[str, Any]]:
        """sandbox.events. Subscribes at once; the iterator ends with the stream, or when no event
        came for `timeout` seconds. Closing it ends the subscription."""
        stream = self._open("sandbox.events", params)
        self._answer(stream, None)
        return self._events(stream, timeout)

    def _events(self, stream: int, timeout: float | None) -> Iterator[dict[str, Any]]:
        try:
            while True:
                frame = self._next(stream, timeout)
                if frame is None:
                    return
                if frame.type in (ERROR, END):
                    self._streams.pop(stream, None)
                    if frame.type == ERROR:
                        raise SandboxError.from_body(frame.json())
                    return
                yield frame.json()
        finally:
            self._abandon(stream)

    def _open(self, op: str, params: Mapping[str, Any]) -> int:
        if self._failure is not None:
            raise self._failure
        given = {name: value for name, value in params.items() if value is not None}
        request = encode_frame(REQUEST, 0, self._next_stream, {"op": op, "params": given})
        if len(request) > HEADER_BYTES + MAX_CONTROL:
            raise ValueError(f"a request of {len(request)} bytes; {MAX_CONTROL} can be sent")
        stream, self._next_stream = self._next_stream, self._next_stream + 1
        self._streams[stream] = _Stream(self._credit)
        self.connection.queue(request)
        return stream

    def _abandon(self, stream: int) -> None:
        """Ends a stream that nobody wants any more, and drops what still comes."""
        if self._streams.pop(stream, None) is not None and self.connection.socket.fileno() >= 0:
            self.connection.queue(encode_frame(CANCEL, 0, stream))

    def _answer(self, stream: int, timeout: float | None) -> dict[str, Any]:
        try:
            frame = self._next(stream, timeout)
            if frame is None:
                raise TimeoutError("the daemon did not answer in time")
        except BaseException:
            self._abandon(stream)
            raise
        if frame.type == REPLY:
            return frame.json()
        self._streams.pop(stream, None)
        raise SandboxError.from_body(frame.json()) if frame.type == ERROR else broken("no Reply")

    def _next(self, stream: int, timeout: float | None = None,
              until_writable: bool = False) -> Frame | None:
        """The next frame of a stream; None where the timeout passed, or where stdin can be written
        to and that was asked for."""
        deadline = deadline_of(timeout)
        state = self._streams[stream]
        while not state.queue:
            if self._failure is not None:
                raise self._failure
            blocked = until_writable and state.send[STDIN] > 0
            if blocked and not self.connection.flush():
                return None
            try:
                frame = self.connection.recv_frame(left_of(deadline), until_flushed=blocked)
                if frame is None:
                    return None
                self._sort(frame)
            except ConnectionLost as error:
                self._failure = error
        frame = state.queue.popleft()
        state.events -= frame.type == EVENT
        if frame.type == DATA:
            self._consumed(stream, state, frame.flags, len(frame.payload))
        return frame

    def _sort(self, frame: Frame) -> None:
        if frame.stream == 0:
            return self._on_connection_frame(frame)
        state = self._streams.get(frame.stream)
        if state is None:
            return None  # It crossed the end.
        if frame.type == CREDIT:
            state.send[frame.flags] += int.from_bytes(frame.payload, "little")
            return None
        if frame.type == DATA:
            state.receive[frame.flags] -= len(frame.payload)
            if state.receive[frame.flags] < 0:
                raise broken("data beyond the credit")
        state.queue.append(frame)
        state.events += frame.type == EVENT
        if state.events > MAX_QUEUED_EVENTS:
            # Nobody takes them: the oldest two become a gap, as in the daemon's own queue.
            first, last = state.queue.popleft().json(), state.queue.popleft().json()
            gap = {"event": "gap", "from": first.get("from", first.get("seq")),
                   "to": last.get("to", last.get("seq"))}
            state.queue.appendleft(Frame(EVENT, 0, frame.stream, json.dumps(gap).encode()))
            state.events -= 1
        return None

    def _on_connection_frame(self, frame: Frame) -> None:
        if frame.type == PING and frame.flags == 0:
            self.connection.queue(encode_frame(PING, 1, 0, frame.payload))
        elif frame.type == ERROR:
            raise ConnectionLost.from_body(frame.json())
        elif frame.type == EVENT:
            self.draining = self.draining or frame.json().get("event") == "drain"
        elif frame.type == HELLO:
            self.hello = frame.json()
            credit = self.hello.get("limits", {}).get("initial_credit", self._credit)
            for state in self._streams.values():  # Opened before we knew.
                state.send = [bytes + credit - self._credit for bytes in state.send]
                state.receive = [bytes + credit - self._credit for bytes in state.receive]
            self._credit = credit

    def _consumed(self, stream: int, state: _Stream, channel: int, size: int) -> None:
        state.consumed[channel] += size
        window = _WIDE_WINDOW if state.widened[channel] else self._credit
        if state.consumed[channel] < window // 4:
            return
        credit = state.consumed[channel] + max(0, _WIDE_WINDOW - window)
        state.widened[channel] = True
        state.consumed[channel] = 0
        state.receive[channel] += credit
        self.connection.queue(encode_frame(CREDIT, channel, stream, credit.to_bytes(8, "little")))


@dataclasses.dataclass
class Result:
    """How a process ended: one of exit_code and signal is None. `exit` is the daemon's record."""
    exit_code: int | None
    signal: int | None
    timed_out: bool
    reason: str
    stdout: bytes  # Empty where it was streamed.
    stderr: bytes
    exit: dict[str, Any]


class Process(Closing):
    """A running exec. Iterating gives (STDOUT or STDERR, bytes) as they come. Leaving the context,
    or close(), kills it where it still runs."""

    def __init__(self, client: Client, sandbox: str, stream: int, reply: Mapping[str, Any],
                 stdin: bool) -> None:
        self.exec: int = reply["exec"]
        self.pid: int = reply["pid"]
        self.exit: dict[str, Any] | None = None  # The protocol's Exit, once it came.
        self._client, self._sandbox, self._stream = client, sandbox, stream
        self._stdin, self._refused = stdin, False
        self._done = False

    def close(self) -> None:
        self._done = True
        self._client._abandon(self._stream)

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        return iter(self.read, None)

    def read(self, timeout: float | None = None, *,
             until_writable: bool = False) -> tuple[int, bytes] | None:
        """The next piece of output; None at the end, where the timeout passed, or where stdin can
        be written to and that was asked for."""
        deadline = deadline_of(timeout)
        while not self._done:
            frame = self._client._next(self._stream, left_of(deadline), until_writable)
            if frame is None:
                return None
            if frame.type == DATA:
                return frame.flags, frame.payload
            if frame.type == EXIT:
                self.exit = frame.json()
                until_writable = False
            elif frame.type == ERROR or (frame.type == END and frame.flags == STREAM):
                self._done = True
                self._client._streams.pop(self._stream, None)
                if frame.type == ERROR:
                    raise SandboxError.from_body(frame.json())
            elif frame.type == END and frame.flags == STDIN:
                self._refused, until_writable = True, False
        return None

    def try_write(self, data: bytes) -> int:
        """Writes to stdin what credit and socket allow now; returns how many bytes that is."""
        if not self._stdin:
            raise ValueError("stdin is not a pipe, or was closed")
        if self._done or self._refused or self.exit is not None:
            return len(data)  # Nobody reads it any more.
        state, connection = self._client._streams[self._stream], self._client.connection
        sent = 0
        while sent < len(data) and not connection.flush():
            size = min(len(data) - sent, state.send[STDIN], MAX_DATA)
            if size <= 0:
                break
            state.send[STDIN] -= size
            connection.queue(encode_frame(DATA, STDIN, self._stream, data[sent:sent + size]))
            sent += size
        return sent

    def close_stdin(self) -> None:
        if self._stdin and not self._done:
            self._client.connection.queue(encode_frame(END, STDIN, self._stream))
        self._stdin = False

    def communicate(self, input: bytes = b"", *, collect: bool = True) -> Result:
        """Writes `input`, closes stdin, and reads all output until the end."""
        output: dict[int, list[bytes]] = {STDOUT: [], STDERR: []}
        left = memoryview(input)
        while not self._done:
            if self._stdin:
                left = left[self.try_write(left):]
                if not left:
                    self.close_stdin()
            item = self.read(until_writable=self._stdin)
            if item is not None and collect:
                output[item[0]].append(item[1])
        if self.exit is None:
            raise broken("an exec without an Exit")
        get = self.exit.get
        return Result(get("exit_code"), get("signal"), bool(get("timed_out")), get("reason", ""),
                      b"".join(output[STDOUT]), b"".join(output[STDERR]), self.exit)

    def wait(self) -> Result:
        """Closes stdin, throws away what output is left, and tells how the process ended."""
        return self.communicate(collect=False)

    def signal(self, signal: int, *, all: bool = False) -> None:
        """To the process, or to every process that it started."""
        self._client.call("exec.signal", sandbox=self._sandbox, exec=self.exec, signal=int(signal),
                          all=all or None)

    def kill(self) -> None:
        """Asks for the end of all that it started; its Exit still comes."""
        if not self._done:
            self._client.connection.queue(encode_frame(CANCEL, 0, self._stream))


class Sandbox(Closing):
    """One sandbox, by id, name, or the beginning of its id. Leaving the context kills it."""

    def __init__(self, client: Client, id: str) -> None:
        self.client = client
        self.id = id

    def close(self) -> None:
        try:
            self.kill()
        except SandboxError as error:
            if error.reason != "SANDBOX_NOT_FOUND":
                raise

    def popen(self, argv: Sequence[BytesLike], *, env: Env | None = None,
              cwd: BytesLike | None = None, user: str | None = None, stdin: bool = False,
              timeout: float | None = None, grace: float | None = None) -> Process:
        """Starts a program; returns when it runs. After `timeout` seconds SIGTERM goes to all that
        it started, and `grace` seconds later SIGKILL."""
        if isinstance(argv, (str, bytes)):
            raise TypeError("argv is a list of arguments; name a shell if you want one")
        stream = self.client._open("exec.start", {
            "sandbox": self.id, "argv": [encode_bytes(argument) for argument in argv],
            "env": encode_env(env), "cwd": None if cwd is None else encode_bytes(cwd), "user": user,
            "stdin": "pipe" if stdin else None,
            "timeout_ms": timeout and int(timeout * 1000), "grace_ms": grace and int(grace * 1000)})
        return Process(self.client, self.id, stream, self.client._answer(stream, None), stdin)

    def exec(self, argv: Sequence[BytesLike], *, input: bytes | None = None,
             **options: Any) -> Result:
        """Runs a program to its end. `input` is its stdin, which is /dev/null without; the options
        are those of popen()."""
        with self.popen(argv, stdin=input is not None, **options) as process:
            return process.communicate(input or b"")

    def kill(self) -> dict[str, Any]:
        """Ends every process and removes every trace. Returns when that is done."""
        return self.client.call("sandbox.kill", sandbox=self.id)

    def wait(self, timeout: float | None = None) -> dict[str, Any]:
        """Waits until the sandbox has ended: {"at", "reason", "message"}."""
        return self.client.call("sandbox.wait", sandbox=self.id, timeout=timeout)["ended"]

    def info(self) -> dict[str, Any]:
        return self.client.call("sandbox.info", sandbox=self.id)["sandbox"]

    def report(self) -> list[dict[str, Any]]:
        """Each layer of isolation as a probe inside measures it: {"name", "in_force", "evidence"};
        in_force is None where the profile does not have the layer."""
        return self.client.call("sandbox.report", sandbox=self.id)["layers"]

    def events(self, **options: Any) -> Iterator[dict[str, Any]]:
        """As Client.events(), of this sandbox."""
        return self.client.events(sandbox=self.id, **options)
