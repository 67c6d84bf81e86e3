"""Attacks that once worked: each must fail, and go on failing."""

import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "integration"))
from harness import ERROR, REPLY, Daemon, Wire

PYTHON = "/usr/bin/python3"

# Swaps the entries x and y of its working directory for as long as it runs.
SWAP = """
import ctypes
renameat2 = ctypes.CDLL(None).renameat2
while True:
    renameat2(-100, b"x", -100, b"y", 2)
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


if __name__ == "__main__":
    unittest.main()
