"""A private daemon for tests: its own directories, control group and socket."""

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import types

BIN = os.environ.get("SANDBOXD_BIN", "build/release/bin")
CGROUP_MOUNT = next(
    line.split()[4]
    for line in open("/proc/self/mountinfo")
    if line.split(" - ")[1].startswith("cgroup2 ")
)
# What scripts/test tells the traces of its run by: names, and host ids as FIRST:RANGES.
PREFIX = os.environ.get("SANDBOXD_TEST_PREFIX", "sandboxd-test-")
IDS = os.environ.get("SANDBOXD_TEST_IDS", f"{0x10000000 + os.getpid() % 12 * (1 << 27)}:2048")


class DidNotStart(RuntimeError):
    """The daemon refused; its argument is the directory with the log."""

    def __str__(self):
        with open(f"{self.args[0]}/log") as log:
            return log.read()


class Daemon:
    def __init__(self, pool=2, extra="", program=("sandboxd",), ranges=None):
        self.program = program
        self.dir = tempfile.mkdtemp(prefix=PREFIX)
        self.group = os.path.basename(self.dir)
        self.socket = f"{self.dir}/run/s.sock"
        self.images = f"{self.dir}/images"
        os.mkdir(self.images)
        self.config = f"{self.dir}/config.toml"
        first, all_ranges = IDS.split(":")
        with open(self.config, "w") as file:
            file.write(
                f'[daemon]\nsocket = "{self.socket}"\nsocket_group = ""\n'
                f'run_dir = "{self.dir}/run"\nstate_dir = "{self.dir}/state"\n'
                f'cgroup = "{self.group}"\nallow_hybrid_cgroups = true\n'
                f'[images]\ndirectories = ["{self.images}"]\n'
                f"[ids]\nbase = {first}\nranges = {ranges or all_ranges}\n"
                f"[pool]\nsize = {pool}\n{extra}\n"
            )
        self.process = None
        self.start()

    def start(self):
        self.log = open(f"{self.dir}/log", "ab")
        self.process = subprocess.Popen(
            [os.path.join(BIN, self.program[0]), *self.program[1:], "--config", self.config],
            stderr=self.log,
            stdin=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                with socket.socket(socket.AF_UNIX) as probe:
                    probe.connect(self.socket)
                return
            except OSError:
                if self.process.poll() is not None:
                    raise DidNotStart(self.dir)
                time.sleep(0.01)
        raise RuntimeError("the daemon does not listen")

    def crash(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.log.close()

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=20)
        self.log.close()

    def close(self):
        for row in self.json("list", "-o", "json"):
            self.ctl("kill", row["id"])
        self.stop()
        assert not os.path.exists(self.cgroup_path), os.listdir(self.cgroup_path)
        assert os.listdir(f"{self.dir}/run/boxes") == []
        shutil.rmtree(self.dir)

    @property
    def cgroup_path(self):
        return f"{CGROUP_MOUNT}/{self.group}"

    def ctl(self, *args, input=None, timeout=60):
        env = dict(os.environ, SANDBOXD_SOCKET=self.socket)
        return subprocess.run(
            [f"{BIN}/sandboxctl", *args],
            input=input,
            capture_output=True,
            timeout=timeout,
            env=env,
            stdin=subprocess.DEVNULL if input is None else None,
        )

    def json(self, *args):
        result = self.ctl(*args)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    def create(self, *args):
        result = self.ctl("create", "-q", *args)
        assert result.returncode == 0, result.stderr
        return result.stdout.decode().strip()

    def sh(self, sandbox, script, *options, **kwargs):
        return self.ctl("exec", *options, sandbox, "--", "sh", "-c", script, **kwargs)

    def shims(self):
        """Host pids of this daemon's sandboxes."""
        pids = set()
        for path, _, files in os.walk(self.cgroup_path):
            if "cgroup.procs" in files:
                with open(f"{path}/cgroup.procs") as file:
                    pids.update(file.read().split())
        return pids


HELLO, REQUEST, REPLY, ERROR, DATA, END, EXIT, EVENT, CREDIT, CANCEL, PING = range(1, 12)


class Wire:
    """Frames by hand, right and wrong."""

    def __init__(self, path, hello=True):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        self.socket.connect(path)
        if hello:
            self.send(HELLO, 0, {"protocol": 1, "client": "test/1"})
            assert self.receive()[0] == HELLO

    def send(self, kind, stream, body=b"", flags=0):
        if isinstance(body, dict):
            body = json.dumps(body).encode()
        self.socket.sendall(struct.pack("<IBBHQ", len(body), kind, flags, 0, stream) + body)

    def request(self, stream, op, **params):
        self.send(REQUEST, stream, {"op": op, "params": params})

    def read(self, size):
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def receive(self):
        size, kind, flags, _, stream = struct.unpack("<IBBHQ", self.read(16))
        body = self.read(size)
        if kind in (HELLO, REPLY, ERROR, EXIT, EVENT):
            body = json.loads(body)
        return kind, flags, stream, body

    def call(self, stream, op, **params):
        self.request(stream, op, **params)
        while True:
            kind, _, got, body = self.receive()
            if got == stream:
                return kind, body

    def run(self, stream, sandbox, *argv, input=None, keep=True, **params):
        """A whole exec: what came of it, and when (seconds since it was asked for)."""
        done = types.SimpleNamespace(out=b"", err=b"", bytes=0, exit=None, error=None, times={})
        begin = time.monotonic()
        if input is not None:
            params["stdin"] = "pipe"
        self.request(stream, "exec.start", sandbox=sandbox, argv=list(argv), **params)
        credit, position = 262144, 0
        ready = False
        while True:
            while ready and input is not None and credit > 0:
                part = input[position : position + min(65536, credit)]
                if not part:
                    self.send(END, stream, flags=1)
                    input = None
                    break
                self.send(DATA, stream, part, flags=1)
                position += len(part)
                credit -= len(part)
            kind, channel, got, body = self.receive()
            if got != stream:
                continue
            done.times.setdefault(kind, time.monotonic() - begin)
            if kind == ERROR:
                done.error = body
                return done
            if kind == REPLY:
                done.exec, ready = body["exec"], True
            elif kind == DATA:
                self.send(CREDIT, stream, struct.pack("<Q", len(body)), flags=channel)
                done.bytes += len(body)
                name = "out" if channel == 2 else "err"
                # Without `keep` only the end of what came.
                setattr(done, name, (getattr(done, name) + body)[0 if keep else -16 :])
            elif kind == CREDIT:
                credit += struct.unpack("<Q", body)[0]
            elif kind == EXIT:
                done.exit, input = body, None
            elif kind == END and channel == 0:
                done.times["end"] = time.monotonic() - begin
                return done

    def close(self):
        self.socket.close()
