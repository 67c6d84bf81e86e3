"""Sandboxes prepared ahead: for each profile asked for, and never a source of failures."""

import os
import signal
import time
import unittest

from harness import Daemon, Wire


def ready(daemon):
    wire = Wire(daemon.socket)
    _, info = wire.call(1, "daemon.info")
    wire.close()
    return info["pool"]["ready"]


def await_ready(daemon, count):
    deadline = time.monotonic() + 10
    while ready(daemon) != count:
        assert time.monotonic() < deadline, f"{ready(daemon)} ready instead of {count}"
        time.sleep(0.02)


def group_pids(daemon, name):
    """Host pids in the groups called `name`, of all sandboxes."""
    pids = []
    for sandbox in os.scandir(daemon.cgroup_path):
        path = f"{sandbox.path}/{name}/cgroup.procs"
        if sandbox.is_dir() and os.path.exists(path):
            with open(path) as file:
                pids += [int(pid) for pid in file.read().split()]
    return pids


class Pool(unittest.TestCase):
    def start(self, **options):
        daemon = Daemon(**options)
        self.addCleanup(daemon.close)
        return daemon

    def test_every_profile_that_is_named_has_its_own(self):
        daemon = self.start(pool=2, extra='profiles = ["default", "strict"]')
        await_ready(daemon, 4)
        for profile in ("default", "strict"):
            sandbox = daemon.create("--profile", profile)
            caps = daemon.sh(sandbox, "grep CapEff /proc/self/status").stdout.split()[1]
            self.assertEqual(int(caps, 16) == 0, profile == "strict")
        await_ready(daemon, 4)

    def test_a_box_whose_shim_died_is_not_handed_out(self):
        daemon = self.start(pool=2)
        await_ready(daemon, 2)
        pids = group_pids(daemon, "shim")
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        while any(os.path.exists(f"/proc/{pid}") for pid in pids):
            time.sleep(0.02)
        sandbox = daemon.create()
        self.assertEqual(daemon.sh(sandbox, "echo ok").stdout, b"ok\n")
        await_ready(daemon, 2)

    def test_a_box_whose_init_died_fails_the_create_and_leaves_nothing(self):
        daemon = self.start(pool=1)
        await_ready(daemon, 1)
        for pid in group_pids(daemon, "box/init"):
            os.kill(pid, signal.SIGKILL)
        failed = daemon.ctl("create", "-q")
        self.assertEqual(failed.returncode, 125)
        self.assertIn(b"stage", failed.stderr)
        await_ready(daemon, 1)
        self.assertEqual(len(os.listdir(f"{daemon.dir}/run/boxes")), 1)
        self.assertEqual(daemon.sh(daemon.create(), "echo ok").stdout, b"ok\n")

    def test_an_empty_pool_costs_time_and_nothing_else(self):
        daemon = self.start(pool=1)
        sandboxes = [daemon.create() for _ in range(6)]
        for sandbox in sandboxes:
            self.assertEqual(daemon.sh(sandbox, "echo ok").stdout, b"ok\n")


if __name__ == "__main__":
    unittest.main()
