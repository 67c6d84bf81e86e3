"""Attacks that once worked: each must fail, and go on failing."""

import errno
import glob
import os
import socket
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "integration"))
from harness import DATA, ERROR, EXIT, REPLY, REQUEST, Daemon, Wire

PYTHON = "/usr/bin/python3"

# Swaps the entries x and y of its working directory for as long as it runs.
SWAP = """
import ctypes
renameat2 = ctypes.CDLL(None).renameat2
while True:
    renameat2(-100, b"x", -100, b"y", 2)
"""

# Takes all it can of what is easily shared by accident; says so, and keeps it.
HOARD = """
import ctypes, os, time
libc = ctypes.CDLL(None)
while libc.inotify_init1(0) >= 0:
    pass
try:
    while True:
        os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
except OSError:
    pass
for uid in range(8):  # The limit is on each user.
    if os.fork() == 0:
        os.setuid(2000 + uid)
        while libc.syscall(222, 1, None, ctypes.byref(ctypes.c_int())) == 0:  # timer_create
            pass
        os.write(1, b".")
        time.sleep(60)
os.write(1, b".")
time.sleep(60)
"""

# Traces the process `sleep 777`, so that its end is not seen by its parent.
TRACE = """
import ctypes, glob, os, time
while True:
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            found = open(path, "rb").read() == b"sleep\\x00777\\x00"
        except OSError:
            found = False
        if found:
            assert ctypes.CDLL(None).ptrace(0x4206, int(path.split("/")[2]), 0, 0) == 0  # PTRACE_SEIZE
            os.write(1, b".")
            time.sleep(60)
"""

# One of each, where there is one left.
TAKE = """
import ctypes, os
libc = ctypes.CDLL(None)
assert libc.inotify_init1(0) >= 0, "inotify"
assert libc.syscall(222, 1, None, ctypes.byref(ctypes.c_int())) == 0, "timer"
os.openpty()
"""

# As many processes as several users together can have.
FORK = """
import os, time
for uid in range(6):
    if os.fork() == 0:
        os.setuid(3000 + uid)
        try:
            while os.fork():
                pass
        except OSError:
            os.write(1, b".")
        time.sleep(60)
time.sleep(60)
"""


class WithDaemon(unittest.TestCase):
    pool = 2
    extra = ""

    def setUp(self):
        self.daemon = Daemon(pool=self.pool, extra=self.extra)
        self.addCleanup(self.daemon.close)

    def wire(self):
        wire = Wire(self.daemon.socket)
        self.addCleanup(wire.close)
        return wire

    def run_until(self, sandbox, script, marks):
        """Runs `script` inside until it has written `marks` bytes; it goes on after that."""
        wire = self.wire()
        wire.request(1, "exec.start", sandbox=sandbox, argv=[PYTHON, "-c", script])
        got = b""
        while len(got) < marks:
            kind, _, _, body = wire.receive()
            self.assertIn(kind, (REPLY, DATA), body)
            got += body if kind == DATA else b""


class Images(WithDaemon):
    def test_a_path_that_changes_while_it_is_opened_does_not_lead_out(self):
        secret = f"{self.daemon.dir}/secret"
        os.makedirs(f"{secret}/etc")
        open(f"{secret}/etc/key", "w").close()
        mine = f"{self.daemon.images}/mine"
        os.makedirs(f"{mine}/x/etc")
        os.symlink(secret, f"{mine}/y")
        swapper = subprocess.Popen([sys.executable, "-c", SWAP], cwd=mine)
        try:
            wire = self.wire()
            made = 0
            for attempt in range(1, 301):
                kind, body = wire.call(attempt, "sandbox.create", image=f"{mine}/x/etc")
                if kind != REPLY:
                    self.assertEqual(body["reason"], "IMAGE_NOT_FOUND")
                    continue
                made += 1
                root = f"/proc/{body['sandbox']['pid']}/root"
                self.assertFalse(os.path.exists(f"{root}/key"), f"attempt {attempt}")
                wire.call(1000 + attempt, "sandbox.kill", sandbox=body["sandbox"]["id"])
            self.assertGreater(made, 0)
        finally:
            swapper.kill()
            swapper.wait()

    def test_a_path_with_dots_does_not_lead_out(self):
        wire = self.wire()
        for number, path in enumerate(("/..", "/../..", "/../../etc", "/./../run"), 1):
            kind, body = wire.call(number, "sandbox.create", image=self.daemon.images + path)
            self.assertEqual((kind, body["reason"]), (ERROR, "IMAGE_NOT_FOUND"), path)


class Shared(WithDaemon):
    """What the kernel could count for all sandboxes and the host together."""

    extra = "[profiles.default]\npids_max = 100\n"

    def test_what_one_exhausts_the_host_and_others_still_have(self):
        self.run_until(self.daemon.create(), HOARD, 9)
        subprocess.run([PYTHON, "-c", TAKE], check=True)
        other = self.daemon.ctl("exec", self.daemon.create(), "--", PYTHON, "-c", TAKE)
        self.assertEqual(other.returncode, 0, other.stderr)

    def test_processes_of_all_users_together_are_bounded(self):
        self.run_until(self.daemon.create(), FORK, 6)
        self.assertLess(len(self.daemon.shims()), 100 + 20)

    def test_asynchronous_io_is_not_there(self):
        script = ("import ctypes; libc = ctypes.CDLL(None, use_errno=True); "
                  "print(libc.syscall(206, 1, ctypes.byref(ctypes.c_long())), ctypes.get_errno())")
        shown = self.daemon.ctl("exec", self.daemon.create(), "--", PYTHON, "-c", script).stdout
        self.assertEqual(shown.decode().split(), ["-1", str(errno.ENOSYS)])

    def test_inodes_of_every_tmpfs_are_bounded(self):
        sandbox = self.daemon.create("--tmpfs", "/x:65536")
        df = self.daemon.sh(sandbox, "df -i /x /dev/shm").stdout.decode().splitlines()[1:]
        for line in df:
            self.assertLess(int(line.split()[1]), 100_000, line)


class Clients(WithDaemon):
    LABELS = {f"key-{n}": "x" * 1000 for n in range(60)}

    def test_many_requests_at_once_do_not_hold_up_other_clients(self):
        greedy, other = self.wire(), self.wire()
        for stream in range(1, 21):
            greedy.call(stream, "sandbox.create", image="host", labels=self.LABELS)
        body = b'{"op":"sandbox.list","params":{"name":"none"}}'
        head = (len(body)).to_bytes(4, "little") + bytes([REQUEST, 0, 0, 0])
        flood = b"".join(head + n.to_bytes(8, "little") + body for n in range(100, 3000))
        sender = threading.Thread(target=greedy.socket.sendall, args=(flood,))
        sender.start()
        time.sleep(0.02)
        begin = time.monotonic()
        other.call(1, "daemon.info")
        self.assertLess(time.monotonic() - begin, 0.1)
        for n in range(100, 3000):  # Every one is answered, in order.
            kind, _, stream, body = greedy.receive()
            self.assertEqual((kind, stream, body["sandboxes"]), (REPLY, n, []))
        sender.join()

    def test_no_frame_is_larger_than_the_protocol_allows(self):
        wire = self.wire()
        ids = set()
        for stream in range(1, 21):
            kind, body = wire.call(stream, "sandbox.create", image="host", labels=self.LABELS)
            ids.add(body["sandbox"]["id"])
        seen, after = set(), {}
        while after is not None:
            wire.request(100, "sandbox.list", **after)
            size = int.from_bytes(wire.socket.recv(4, socket.MSG_PEEK), "little")
            self.assertLessEqual(size, 1 << 20)
            body = wire.receive()[3]
            seen.update(row["id"] for row in body["sandboxes"])
            after = {"after": body["next"]} if body["next"] else None
        self.assertEqual(seen, ids)
        wire.request(101, "z" * 1_000_000)
        size = int.from_bytes(wire.socket.recv(4, socket.MSG_PEEK), "little")
        self.assertLessEqual(size, 1 << 20)
        self.assertEqual(wire.receive()[3]["reason"], "UNKNOWN_OPERATION")

    def test_two_creates_at_once_with_one_key_make_one_sandbox(self):
        wire = self.wire()
        same = {"image": "host", "idempotency_key": "k", "profile": "strict"}
        wire.request(1, "sandbox.create", **same)
        wire.request(2, "sandbox.create", **same)
        wire.request(3, "sandbox.create", **same, hostname="other")
        answers = {}
        for _ in range(3):
            kind, _, stream, body = wire.receive()
            answers[stream] = body
        self.assertEqual(answers[1]["sandbox"]["id"], answers[2]["sandbox"]["id"])
        self.assertEqual([answers[1]["created"], answers[2]["created"]], [True, False])
        self.assertEqual(answers[3]["reason"], "IDEMPOTENCY_KEY_REUSED")


class Lives(WithDaemon):
    def test_a_lowered_limit_does_not_end_what_runs(self):
        sandbox = self.daemon.create("--tmpfs", "/x:1000000")
        self.daemon.crash()
        with open(self.daemon.config, "a") as config:
            config.write("\n[limits]\ntmpfs_bytes = 65536\n")
        self.daemon.start()
        self.assertEqual(self.daemon.sh(sandbox, "echo here").stdout, b"here\n")

    def test_what_dies_while_it_is_made_leaves_no_trace(self):
        for group in ("shim", "box", "box/init"):
            ended = threading.Event()
            killer = threading.Thread(target=self.kill_all, args=(group, ended))
            killer.start()
            wire = self.wire()
            for stream in range(1, 61):
                wire.call(stream, "sandbox.create", image="host", profile="strict")
            ended.set()
            killer.join()
        for row in self.daemon.json("list", "-o", "json"):
            self.daemon.ctl("kill", row["id"])
        deadline = time.monotonic() + 5
        while len(os.listdir(f"{self.daemon.dir}/run/boxes")) > self.pool:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def kill_all(self, group, ended):
        """Kills whatever comes into this group of any sandbox."""
        while not ended.is_set():
            for path in glob.glob(f"{self.daemon.cgroup_path}/*/{group}/cgroup.procs"):
                try:
                    with open(path) as procs:
                        for pid in procs.read().split():
                            os.kill(int(pid), 9)
                except OSError:
                    pass

    def test_a_directory_of_somebody_else_is_refused(self):
        self.daemon.stop()
        run = f"{self.daemon.dir}/run"
        os.chown(run, 12345, 0)
        with self.assertRaisesRegex(RuntimeError, "must belong to root"):
            self.daemon.start()
        os.chown(run, 0, 0)
        self.daemon.start()

    def test_a_dead_sandbox_of_the_pool_is_not_handed_out(self):
        deadline = time.monotonic() + 10
        while len(os.listdir(self.daemon.cgroup_path + "/")) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.2)
        for path, _, _ in os.walk(self.daemon.cgroup_path):
            if path.endswith("/shim"):
                with open(f"{path}/cgroup.procs") as procs:
                    for pid in procs.read().split():
                        os.kill(int(pid), 9)
        time.sleep(0.2)
        self.daemon.create()


class Slots(WithDaemon):
    """Processes inside against those of ours, and against each other's execs."""

    FIND = "for p in /proc/[0-9]*; do grep -qs sandboxd-slot $p/comm && echo ${p#/proc/}; done"

    def test_a_tracer_cannot_keep_an_exec_from_ending(self):
        sandbox = self.daemon.create()
        exec_wire = self.wire()
        exec_wire.request(1, "exec.start", sandbox=sandbox, argv=["sleep", "777"], timeout_ms=1000,
                          grace_ms=0)
        self.assertEqual(exec_wire.receive()[0], REPLY)
        self.run_until(sandbox, TRACE, 1)
        kind = None
        while kind != EXIT:
            kind, _, _, body = exec_wire.receive()
        self.assertEqual((body["reason"], body["signal"]), ("timeout", 9))

    def test_groups_of_stopped_slots_do_not_pile_up(self):
        sandbox = self.daemon.create()
        for _ in range(6):
            self.daemon.sh(sandbox, f"sleep 0.05; kill -STOP $({self.FIND})")
        groups = f"{self.daemon.cgroup_path}/{sandbox}/box"
        deadline = time.monotonic() + 5
        while len(os.listdir(groups)) and time.monotonic() < deadline:
            left = [name for name in os.listdir(groups) if name.startswith("exec-")]
            if len(left) <= 2:  # One stopped last, and not yet needed; one in use.
                return
            time.sleep(0.1)
        self.fail(left)

    def test_a_waiting_slot_has_only_what_it_needs_and_says_nothing_of_the_host(self):
        strict = self.daemon.create("--profile", "strict")
        for sandbox, most in ((self.daemon.create(), 0x800404FB), (strict, 0xC0)):
            shown = self.daemon.sh(sandbox, f"sleep 0.1; for p in 1 $({self.FIND}); do "
                                   "grep CapEff /proc/$p/status; cat /proc/$p/cmdline; echo; done")
            text = shown.stdout.decode()
            caps = [int(line.split()[1], 16) for line in text.splitlines() if "CapEff" in line]
            self.assertEqual(len(caps), 2, text)
            self.assertEqual([mask & ~most for mask in caps], [0, 0], text)
            self.assertNotIn(self.daemon.dir, text)


if __name__ == "__main__":
    unittest.main()
