"""A daemon that runs on has, after any amount of work, what it had before: descriptors, memory,
groups, files, mounts; and so have the zygote and the processes of a sandbox that lives on."""

import collections
import os
import re
import signal
import time
import unittest

from harness import DATA, END, ERROR, REPLY, Daemon, Wire

SETTLE_SECONDS = 10
CYCLES = 200
CLIENTS = 50  # That vanish, for each thing that they do.
WARM_UP = 30  # Cycles until all caches and rings are full.
# Of one process's memory: over CYCLES, and over CLIENTS, of which many may be there at once.
GROWTH_KIB = 64
CROWD_GROWTH_KIB = 256
EXECS = 32  # At once in one sandbox.
# What a daemon remembers on purpose is small here, so that it is full after the warming up.
LIMITS = "[limits]\nended_kept = 4\nevents_ring = 16\nexecs_kept = 4\n"
LIMITS += f"execs_per_sandbox = {EXECS}\n"


def plain(name):
    """A name without what differs from one sandbox, exec or object to the next."""
    return re.sub(r"\d+", "N", re.sub(r"[0-9a-f]{16,}", "ID", name))


def descriptors(pid):
    found = collections.Counter()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            found[plain(os.readlink(f"/proc/{pid}/fd/{fd}"))] += 1
        except FileNotFoundError:
            pass  # Closed meanwhile.
    return found


def tree(top):
    """How many files and folders of each kind there are beneath `top`."""
    return collections.Counter(plain(os.path.relpath(f"{path}/{name}", top))
                               for path, folders, files in os.walk(top)
                               for name in (*folders, *(() if "/cgroup" in top else files)))


def resident_kib(pid):
    with open(f"/proc/{pid}/status") as file:
        return int(re.search(r"^VmRSS:\s*(\d+) kB", file.read(), re.MULTILINE)[1])


def first(path):
    with open(path) as file:
        return int(file.read().split()[0])


class Lab:
    """A daemon with one sandbox that stays, and what can be seen of them from outside."""

    def __init__(self, extra=""):
        self.daemon = Daemon(extra=LIMITS + extra)
        self.wire, self.stream = Wire(self.daemon.socket), 0
        self.kept = self.create()

    def close(self):
        self.wire.close()
        self.daemon.close()

    def call(self, op, **params):
        self.stream += 1
        return self.wire.call(self.stream, op, **params)

    def create(self, **params):
        kind, body = self.call("sandbox.create", image="host", **params)
        assert kind == REPLY, body
        return body["sandbox"]["id"]

    def run(self, sandbox, *argv, **params):
        """Runs a program to its end; the stream's last frame."""
        self.stream += 1
        self.wire.request(self.stream, "exec.start", sandbox=sandbox, argv=argv, **params)
        while True:
            kind, channel, stream, body = self.wire.receive()
            if stream == self.stream and (kind == ERROR or (kind == END and channel == 0)):
                return kind, body

    def cycle(self):
        sandbox = self.create()
        assert self.run(sandbox, "true")[0] == END
        kind, body = self.call("sandbox.kill", sandbox=sandbox)
        assert kind == REPLY, body

    def processes(self):
        """{name: pid} of all that outlives a sandbox, or belongs to the one that stays."""
        pid = self.daemon.process.pid
        group = f"{self.daemon.cgroup_path}/{self.kept}"
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            zygote, = file.read().split()
        return {"sandboxd": pid, "zygote": int(zygote), "shim": first(f"{group}/shim/cgroup.procs"),
                "init": first(f"{group}/box/init/cgroup.procs")}

    def footprint(self):
        found = {}
        for name, pid in self.processes().items():
            found[f"descriptors of {name}"] = descriptors(pid)
            with open(f"/proc/{pid}/mountinfo") as file:
                found[f"mounts of {name}"] = collections.Counter(plain(line) for line in file)
        for name in ("run", "state"):
            found[f"files in {name}"] = tree(f"{self.daemon.dir}/{name}")
        found["groups"] = tree(self.daemon.cgroup_path)
        found["members of groups"] = collections.Counter(len(self.daemon.shims()) * ["process"])
        rows = self.call("sandbox.list")[1]["sandboxes"]
        found["sandboxes"] = collections.Counter(row["state"] for row in rows)
        return found

    def memory(self):
        return {name: resident_kib(pid) for name, pid in self.processes().items()}


class Leaks(unittest.TestCase):
    def setUp(self):
        self.lab = Lab()
        self.addCleanup(self.lab.close)
        for _ in range(WARM_UP):
            self.lab.cycle()
            self.lab.run(self.lab.kept, "true")
        self.before = self.rest()

    def rest(self):
        """The footprint, once it stays the same for a while."""
        deadline, last = time.monotonic() + SETTLE_SECONDS, None
        while time.monotonic() < deadline:
            time.sleep(0.3)
            now = self.lab.footprint()
            if now == last:
                return now
            last = now
        self.fail("the daemon does not come to rest")

    def assert_as_before(self):
        deadline = time.monotonic() + SETTLE_SECONDS
        while (now := self.lab.footprint()) != self.before and time.monotonic() < deadline:
            time.sleep(0.1)
        changes = [f"{what}: {now[what] - value} new, {value - now[what]} gone"
                   for what, value in self.before.items() if now[what] != value]
        self.assertEqual(changes, [])

    def assert_memory(self, before, limit):
        for name, kib in self.lab.memory().items():
            self.assertLess(kib - before[name], limit, f"KiB that the {name} grew by")

    def test_cycles(self):
        memory = self.lab.memory()
        for _ in range(CYCLES):
            self.lab.cycle()
            self.assertEqual(self.lab.run(self.lab.kept, "true")[0], END)
        self.assert_as_before()
        self.assert_memory(memory, GROWTH_KIB)

    def remove_others(self):
        """Kills what clients made that did not stay to hear of it."""
        count = 1
        while count != (count := len(self.lab.call("sandbox.list")[1]["sandboxes"])):
            time.sleep(0.5)
        for row in self.lab.call("sandbox.list")[1]["sandboxes"]:
            if row["id"] != self.lab.kept:
                self.assertEqual(self.lab.call("sandbox.kill", sandbox=row["id"])[0], REPLY)

    def vanish(self, act):
        """Clients that do something and are gone, each after a little longer than the last."""
        for _ in range(2):  # The first time grows buffers that stay.
            memory = self.lab.memory()
            for n in range(CLIENTS):
                wire = Wire(self.lab.daemon.socket)
                act(wire)
                time.sleep(n % 10 * 0.0007)
                wire.close()
            self.remove_others()
            self.assert_as_before()
        self.assert_memory(memory, CROWD_GROWTH_KIB)

    def test_clients_that_vanish_in_a_create(self):
        self.vanish(lambda wire: wire.request(1, "sandbox.create", image="host"))

    def test_clients_that_vanish_in_a_wait(self):
        def act(wire):
            wire.request(1, "sandbox.wait", sandbox=self.lab.kept)
            wire.request(2, "sandbox.events", after=0)
        self.vanish(act)

    def test_clients_that_vanish_in_an_exec(self):
        self.vanish(lambda wire: wire.request(1, "exec.start", sandbox=self.lab.kept,
                                              argv=["sh", "-c", "yes & exec yes"], stdin="pipe"))

    def test_clients_that_vanish_in_an_upload(self):
        def act(wire):
            wire.request(1, "exec.start", sandbox=self.lab.kept, stdin="pipe",
                         argv=["sh", "-c", "cat > /dev/null"])
            wire.send(DATA, 1, b"x" * 60000, flags=1)
            wire.socket.sendall(b"\x00\x80\0\0\x05\x01\0\0\1\0\0\0\0\0\0\0" + b"x" * 1000)
        self.vanish(act)

    def test_clients_that_vanish_in_a_report(self):
        self.vanish(lambda wire: wire.request(1, "sandbox.report", sandbox=self.lab.kept))

    def refused(self, reason, op, **params):
        kind, body = self.lab.call(op, **params)
        self.assertEqual((kind, body.get("reason")), (ERROR, reason), params)

    def failed_creates(self):
        images = self.lab.daemon.images
        yield "MISSING_FIELD", {}
        yield "UNKNOWN_FIELD", {"image": "host", "imag": 1}
        yield "INVALID_FIELD", {"image": "host", "hostname": "-"}
        yield "IMAGE_NOT_FOUND", {"image": f"{images}/none"}
        yield "IMAGE_NOT_ALLOWED", {"image": "/usr"}
        yield "IMAGE_UNUSABLE", {"image": f"{images}/evil"}
        yield "PROFILE_NOT_FOUND", {"image": "host", "profile": "none"}
        yield "INVALID_USER", {"image": "host", "user": "no such user"}
        yield "INVALID_FIELD", {"image": "host", "tmpfs": [{"path": "/a", "size_bytes": 1 << 50}]}
        yield "LAUNCH_FAILED", {"image": "host", "tmpfs": [{"path": "/etc/passwd/x"}]}
        yield "NAME_IN_USE", {"image": "host", "name": "taken"}

    def test_failed_creates(self):
        os.makedirs(f"{self.lab.daemon.images}/evil")
        os.symlink("/tmp", f"{self.lab.daemon.images}/evil/proc")
        taken = self.lab.create(name="taken")
        for _ in range(10):
            for reason, params in self.failed_creates():
                self.refused(reason, "sandbox.create", **params)
        self.lab.call("sandbox.kill", sandbox=taken)
        self.assert_as_before()

    def failed_execs(self):
        yield "SANDBOX_NOT_FOUND", {"sandbox": "ffff", "argv": ["true"]}
        yield "INVALID_FIELD", {"argv": []}
        yield "COMMAND_NOT_FOUND", {"argv": ["nosuchcommand"]}
        yield "COMMAND_NOT_FOUND", {"argv": ["/no/such"], "stdin": "pipe"}
        yield "COMMAND_NOT_EXECUTABLE", {"argv": ["/etc/passwd"]}
        yield "COMMAND_NOT_EXECUTABLE", {"argv": ["/etc"]}
        yield "CWD_NOT_FOUND", {"argv": ["true"], "cwd": "/none"}
        yield "CWD_NOT_A_DIRECTORY", {"argv": ["true"], "cwd": "/etc/passwd", "stdin": "pipe"}
        yield "CWD_NOT_ALLOWED", {"argv": ["true"], "cwd": "/root/closed", "user": "65534"}
        yield "INVALID_USER", {"argv": ["true"], "user": "nosuchuser"}
        yield "ARGUMENTS_TOO_LONG", {"argv": ["true", "x" * 200_000]}

    def test_failed_execs(self):
        self.lab.run(self.lab.kept, "mkdir", "-m", "700", "-p", "/root/closed")
        for _ in range(10):
            for reason, params in self.failed_execs():
                self.refused(reason, "exec.start", **{"sandbox": self.lab.kept, **params})
        self.assert_as_before()

    def test_as_many_execs_as_may_run_and_one_more(self):
        busy = Wire(self.lab.daemon.socket)
        for n in range(EXECS):
            self.assertEqual(busy.call(n + 1, "exec.start", sandbox=self.lab.kept, stdin="pipe",
                                       argv=["sleep", "1000"])[0], REPLY)
        self.refused("OVER_CEILING", "exec.start", sandbox=self.lab.kept, argv=["true"])
        busy.close()
        self.assert_as_before()

    def test_boxes_of_the_pool_that_die(self):
        for _ in range(5):
            for path, _, files in os.walk(self.lab.daemon.cgroup_path):
                if path.endswith(("/shim", "/box/init")) and self.lab.kept not in path:
                    with open(f"{path}/cgroup.procs") as file:
                        for pid in file.read().split():
                            os.kill(int(pid), signal.SIGKILL)
                            break
            for _ in range(3):  # So that none of those is left. Some fail, and leave nothing.
                self.lab.call("sandbox.create", image="host")
            self.remove_others()
            self.assert_as_before()

    def test_crash_and_adoption(self):
        for n in range(8):
            busy = [Wire(self.lab.daemon.socket) for _ in range(4)]
            for wire in busy:
                wire.request(1, "sandbox.create", image="host")
                wire.request(2, "exec.start", sandbox=self.lab.kept, argv=["sleep", "0.2"],
                             stdin="pipe")
            time.sleep(n * 0.002)
            self.lab.daemon.crash()
            for wire in busy:
                wire.close()
            self.lab.wire.close()
            self.lab.daemon.start()
            self.lab.wire = Wire(self.lab.daemon.socket)
            self.remove_others()
            self.assert_as_before()


if __name__ == "__main__":
    unittest.main()
