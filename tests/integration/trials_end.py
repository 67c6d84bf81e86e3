"""Trials from public bug reports: timeouts, orphans, reaping, and what is left at the end. The
numbers in the names are those of the trials."""

import concurrent.futures
import os
import pathlib
import random
import shutil
import signal
import subprocess
import threading
import time
import unittest

from harness import BIN, ERROR, EXIT, REPLY, Daemon, Wire


def wait_until(condition, seconds=5):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def traces(daemon):
    """What there is of sandboxes, those of the pool too."""
    groups = [name for name in os.listdir(daemon.cgroup_path) if len(name) == 32]
    return set(groups) | set(os.listdir(f"{daemon.dir}/run/boxes"))


class TimeoutTrials(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(extra="[limits]\nexecs_per_sandbox = 250\n")
        cls.addClassCleanup(cls.daemon.close)

    def setUp(self):
        self.id = self.daemon.create()
        self.addCleanup(lambda: self.daemon.ctl("kill", self.id))
        self.wire = Wire(self.daemon.socket)
        self.addCleanup(self.wire.close)
        self.stream = 0

    def sh(self, script, **options):
        self.stream += 1
        return self.wire.run(self.stream, self.id, "bash", "-c", script, **options)

    def processes(self):
        """Programs that run inside, but for the one that looks."""
        look = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done 2>/dev/null"
        lines = self.sh(look).out.decode().splitlines()
        return [line for line in lines if line.strip() and not line.startswith("sandboxd-launcher")
                and "for p in /proc" not in line]

    def test_49_50_52_56_a_timeout_ends_all_that_was_started(self):
        scripts = {
            "fifo": "cd /tmp; mkfifo p; (while :; do echo c; sleep 1; done) > p & cat p",
            "server": "(setsid python3 -m http.server 3000 &) ; sleep 1000",
            "nc": "(setsid nc -l -p 3000 &) ; sleep 1000",
            "deaf": "(trap '' TERM HUP; sleep 1000) & sleep 1000",
            "all deaf": "trap '' TERM; while :; do sleep 1; done",
            "forks": "f() { sleep 0.05; (f &); (setsid sleep 999 &); }; f; sleep 1000",
        }
        for name, script in scripts.items():
            with self.subTest(name=name):
                result = self.sh(script, timeout_ms=700, grace_ms=300)
                self.assertTrue(result.exit["timed_out"])
                self.assertLess(result.times["end"], 2.5)
                self.assertTrue(wait_until(lambda: self.processes() == [], 1), self.processes())
                bound = self.sh("exec 3<>/dev/tcp/127.0.0.1/3000").exit["exit_code"]
                self.assertEqual(bound, 1)  # Nobody listens any more.
        info = self.daemon.json("info", self.id, "-o", "json")
        self.assertEqual(info["execs"], 0)

    def test_55_a_storm_of_orphans_steals_no_status(self):
        self.sh("for i in $(seq 54); do (setsid sh -c 'sleep 0.$((RANDOM % 9)); exit 9' &); done")

        def codes(worker):
            wire = Wire(self.daemon.socket)
            results = [wire.run(n + 1, self.id, "sh", "-c", f"(sleep 0.01 &); exit {worker * 20 + n}")
                       for n in range(20)]
            wire.close()
            return [result.exit["exit_code"] for result in results]

        with concurrent.futures.ThreadPoolExecutor(10) as pool:
            self.assertEqual(sum(pool.map(codes, range(10)), []), list(range(200)))

    def test_59_groups_cannot_be_made_and_a_kill_does_not_wait_for_execs(self):
        made = self.sh("mkdir /sys/fs/cgroup/x /sys/fs/cgroup/exec-1/x")
        self.assertNotEqual(made.exit["exit_code"], 0)
        box = self.daemon.create()
        for stream in range(1, 31):
            self.wire.request(stream + 100, "exec.start", sandbox=box, argv=["sleep", "1000"])
        begin = time.monotonic()
        self.assertEqual(self.daemon.ctl("kill", box).returncode, 0)
        self.assertLess(time.monotonic() - begin, 2)
        self.assertFalse(os.path.exists(f"{self.daemon.cgroup_path}/{box}"))
        ends = 0
        while ends < 30:
            kind, _, stream, body = self.wire.receive()
            if kind == EXIT:
                self.assertEqual(body["reason"], "sandbox_ended")
            if kind == EXIT or (kind == ERROR and body["reason"] == "SANDBOX_ENDED"):
                ends += 1

    def test_62_an_end_with_hundreds_of_children_is_an_end(self):
        box = self.daemon.create()
        script = ("for i in $(seq 250); do sleep 1000 & done; "
                  "for i in $(seq 250); do (exit 3) & done; exit 5")
        result = self.wire.run(1, box, "bash", "-c", script + " >/dev/null 2>&1")
        self.assertEqual(result.exit["exit_code"], 5)
        self.assertLess(result.times["end"], 5)
        begin = time.monotonic()
        self.assertEqual(self.daemon.ctl("kill", box).returncode, 0)
        self.assertLess(time.monotonic() - begin, 2)

    def test_65_many_at_once_share_one_image(self):
        image = f"{self.daemon.images}/shared"
        os.makedirs(f"{image}/bin")
        shutil.copy("/bin/busybox", f"{image}/bin/sh")
        pathlib.Path(f"{image}/file").write_text("same")

        def use(number):
            box = self.daemon.create("--image", image)
            result = self.daemon.sh(box, f"read x < /file; echo $x; echo {number} > /file; "
                                         "read x < /file; echo $x")
            killed = self.daemon.ctl("kill", box).returncode
            return result.stdout.decode().split(), killed

        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            results = list(pool.map(use, range(40)))
        self.assertEqual(results, [(["same", str(n)], 0) for n in range(40)])
        self.assertEqual(pathlib.Path(f"{image}/file").read_text(), "same")


class CrashTrials(unittest.TestCase):
    """Something of ours is killed at the worst moment: afterwards all is as if it had not been."""

    def setUp(self):
        self.daemon = Daemon(pool=1)
        self.addCleanup(lambda: self.daemon.close())

    def clean(self):
        """Ends all sandboxes: then only the pool's one is left."""
        for row in self.daemon.json("list", "-o", "json"):
            self.assertEqual(self.daemon.ctl("kill", row["id"]).returncode, 0)
        self.assertTrue(wait_until(lambda: len(traces(self.daemon)) <= 1), traces(self.daemon))

    def zygote(self):
        pid = self.daemon.process.pid
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for child in children:
            if pathlib.Path(f"/proc/{child}/comm").read_text().startswith("sandboxd-zyg"):
                return int(child)
        return None

    def group(self, box, part):
        procs = pathlib.Path(f"{self.daemon.cgroup_path}/{box}/{part}/cgroup.procs")
        return [int(pid) for pid in procs.read_text().split()]

    def test_58_a_killed_part_takes_its_sandbox_along_and_no_other(self):
        other = self.daemon.create()
        for part in ("shim", "box/init"):
            box = self.daemon.create()
            self.daemon.sh(box, "for i in 1 2 3; do setsid sleep 1000 & done >/dev/null 2>&1")
            os.kill(self.group(box, part)[0], signal.SIGKILL)
            self.assertIn(self.daemon.ctl("wait", box, timeout=10).stdout,
                          (b"lost\n", b"init_exited\n"))
            self.assertTrue(wait_until(lambda: box not in traces(self.daemon)))
        self.assertEqual(self.daemon.sh(other, "echo on").stdout, b"on\n")
        self.clean()

    def test_61_a_killed_zygote_leaves_nothing_half_made(self):
        for number in range(12):
            wire = Wire(self.daemon.socket)
            for stream in range(1, 9):
                wire.request(stream, "sandbox.create", image="host")
            time.sleep(random.uniform(0, 0.02))
            if (pid := self.zygote()) is not None:
                os.kill(pid, signal.SIGKILL)
            for _ in range(8):
                kind, _, _, body = wire.receive()
                self.assertIn(kind, (REPLY, ERROR))
            wire.close()
            self.assertIsNone(self.daemon.process.poll())
            self.assertTrue(self.daemon.create(), number)  # The next zygote serves as well.
        self.clean()

    def test_64_67_a_daemon_killed_while_it_creates_leaves_nothing_behind(self):
        here = tempfile_names()
        for _ in range(6):
            wire = Wire(self.daemon.socket)
            for stream in range(1, 9):
                wire.request(stream, "sandbox.create", image="host")
            time.sleep(random.uniform(0, 0.03))
            self.daemon.crash()
            wire.close()
            self.daemon.start()
            for row in self.daemon.json("list", "-o", "json"):
                self.assertEqual(self.daemon.sh(row["id"], "echo on").stdout, b"on\n")
        self.clean()
        self.assertEqual(tempfile_names() - here, set())

    def test_64_everything_killed_at_once_is_cleaned_up_by_the_next_daemon(self):
        here = tempfile_names()
        boxes = [self.daemon.create() for _ in range(3)]
        for box in boxes:
            self.daemon.sh(box, "sleep 1000 >/dev/null 2>&1 &")
        pids = self.daemon.shims()
        self.daemon.crash()
        for pid in pids:
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.daemon.start()
        self.assertEqual(self.daemon.json("list", "-o", "json"), [])
        self.clean()
        self.assertEqual(tempfile_names() - here, set())

    def test_68_a_name_is_free_after_a_crash_during_its_end(self):
        for _ in range(6):
            box = self.daemon.create("--name", "same")
            killer = threading.Thread(target=lambda: self.daemon.ctl("kill", "same"))
            killer.start()
            time.sleep(random.uniform(0, 0.02))
            self.daemon.crash()
            killer.join()
            self.daemon.start()
            if self.daemon.ctl("info", "same").returncode == 0:  # It came first.
                self.assertEqual(self.daemon.ctl("kill", box).returncode, 0)
        self.daemon.create("--name", "same")
        self.clean()


    def test_70_id_ranges_are_never_lost(self):
        self.daemon.close()
        self.daemon = Daemon(pool=1, ranges=6)
        for number in range(10):
            boxes = [self.daemon.create() for _ in range(3)]
            if number % 2 == 0:
                os.kill(self.group(boxes[0], "shim")[0], signal.SIGKILL)
                self.daemon.ctl("wait", boxes[0], timeout=10)
            self.daemon.crash()
            self.daemon.start()
            self.clean()


class FullDisk(unittest.TestCase):
    def test_71_without_space_all_but_creates_work(self):
        daemon = Daemon(pool=1)
        run = f"{daemon.dir}/run"
        daemon.stop()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=750", "full", run], check=True)
        try:
            daemon.start()
            boxes = [daemon.create() for _ in range(2)]
            filler = os.open(f"{run}/filler", os.O_WRONLY | os.O_CREAT)
            with self.assertRaises(OSError):
                while os.write(filler, b"x" * 4096):
                    pass
            os.close(filler)
            self.assertEqual(len(daemon.json("list", "-o", "json")), 2)
            self.assertEqual(daemon.sh(boxes[0], "echo on").stdout, b"on\n")
            refused = daemon.ctl("create")
            self.assertEqual(refused.returncode, 125)
            self.assertIn(b"space", refused.stderr)
            self.assertEqual(daemon.ctl("kill", boxes[0]).returncode, 0)
            os.remove(f"{run}/filler")
            box = daemon.create()
            self.assertEqual(daemon.sh(box, "echo on").stdout, b"on\n")
        finally:
            for row in daemon.json("list", "-o", "json"):
                daemon.ctl("kill", row["id"])
            daemon.stop()
            subprocess.run(["umount", run], check=True)
            daemon.start()
            daemon.close()


def tempfile_names():
    """Names in places where programs leave things, but for those of private daemons."""
    names = set()
    for place in (".", "/tmp", "/dev/shm", "/var/tmp", "/run"):
        names |= {f"{place}/{name}" for name in os.listdir(place) if "sandboxd" in name or place == "."}
    return {name for name in names if "sandboxd-test-" not in name}


if __name__ == "__main__":
    unittest.main()
