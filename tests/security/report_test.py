"""The report of a sandbox: right where all is well, and where a layer is missing."""

import json
import os
import subprocess
import time
import unittest

from harness import BIN, CANCEL, ERROR, REPLY, Daemon, Wire

# What a missing layer takes along, and why it cannot be missing alone.
NO_IDS = "ids are shifted to those of the user namespace"
HOST_ROOT = "root inside is the host's root, so are its keyrings, and the count is of the sandbox's ids"
DEPENDENT = {
    "user_namespace": {"id_shift": NO_IDS, "session_keyring": HOST_ROOT},
    "mount_namespace": {
        "user_namespace": "its root may mount only in a mount namespace that belongs to it",
        "id_shift": NO_IDS,
        "session_keyring": HOST_ROOT,
    },
}


def layers():
    listed = subprocess.run([f"{BIN}/ablated_sandboxd", "--list"], capture_output=True, check=True)
    return listed.stdout.decode().split()


def verdicts(daemon, profile):
    """The report of a new sandbox as {layer: in_force}, and the exit code."""
    sandbox = daemon.create("--profile", profile)
    result = daemon.ctl("report", sandbox, "-o", "json")
    report = json.loads(result.stdout)
    daemon.ctl("kill", sandbox)
    return {layer["name"]: layer["in_force"] for layer in report["layers"]}, result.returncode


# Waits for the probe, which a waiting slot becomes, stops it, and reaches for all that it has.
ATTACK = """
import glob, os, signal, sys
def read(path):
    try:
        return open(path, "rb").read()
    except OSError as error:
        return b"" if error.errno != 13 else b"denied"
print("ready", flush=True)
while True:
    slots = [p for p in glob.glob("/proc/[0-9]*") if read(p + "/comm") == b"sandboxd-slot\\n"]
    for slot in slots:
        while (line := read(slot + "/cmdline")).startswith(b"sandboxd-launcher"):
            pass
        if line.startswith(b"sandboxd-probe"):
            os.kill(int(slot[6:]), signal.SIGSTOP)
            print([name for name in ("mem", "fd/1", "maps", "environ", "exe")
                   if read(f"{slot}/{name}") != b"denied"], flush=True)
            sys.exit()
"""


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(extra="[limits]\nreport_timeout_ms = 1000\n")

    @classmethod
    def tearDownClass(cls):
        cls.daemon.close()

    def create(self, *options):
        sandbox = self.daemon.create(*options)
        self.addCleanup(self.daemon.ctl, "kill", sandbox)
        return sandbox

    def assert_all_in_force(self, sandbox):
        result = self.daemon.ctl("report", sandbox)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertNotIn(b" NO ", result.stdout)
        self.assertEqual(len(result.stdout.splitlines()), len(layers()) + 1)

    def test_every_kind_of_sandbox_is_measured(self):
        image = f"{self.daemon.images}/empty"
        os.mkdir(image)
        for options in (["--read-only", "--tmpfs", "/work:65536", "-u", "1000"],
                        ["--image", image], ["--image", image, "--profile", "strict"]):
            self.assert_all_in_force(self.create(*options))

    def test_what_was_done_inside_changes_nothing(self):
        sandbox = self.create()
        self.daemon.sh(sandbox, "chown nobody:nogroup /home /srv; mkdir /a; ln -s /proc /b; "
                                "rm -r /etc; mount -t tmpfs x /dev; ulimit -c 0")
        self.assert_all_in_force(sandbox)

    def test_a_sandbox_that_was_adopted_is_measured(self):
        sandbox = self.create()
        self.daemon.crash()
        self.daemon.start()
        self.assert_all_in_force(sandbox)

    def test_a_probe_that_is_held_up_gives_no_report_and_nothing_away(self):
        sandbox = self.create()
        self.daemon.sh(sandbox, "cd / && seq 3000 | xargs touch")  # It takes its time to count them.
        attacker = subprocess.Popen(
            [f"{BIN}/sandboxctl", "exec", sandbox, "--", "python3", "-c", ATTACK],
            env=dict(os.environ, SANDBOXD_SOCKET=self.daemon.socket), stdout=subprocess.PIPE)
        self.addCleanup(attacker.communicate)
        self.addCleanup(attacker.kill)
        self.assertEqual(attacker.stdout.readline(), b"ready\n")
        deadline = time.monotonic() + 30  # It may come too late many times.
        while attacker.poll() is None and time.monotonic() < deadline:
            result = self.daemon.ctl("report", sandbox, "-o", "json")
        self.assertEqual(attacker.poll(), 0)
        self.assertEqual(attacker.stdout.read(), b"[]\n")
        self.assertEqual((result.returncode, result.stdout), (125, b""))
        self.assertIn(b"limits.report_timeout_ms", result.stderr)

    def test_a_cancelled_report_has_one_answer(self):
        wire = Wire(self.daemon.socket)
        self.addCleanup(wire.close)
        wire.request(1, "sandbox.report", sandbox=self.create())
        wire.send(CANCEL, 1)
        kind, _, stream, body = wire.receive()
        self.assertEqual((kind, stream, body["reason"]), (ERROR, 1, "CANCELLED"))
        self.assertEqual(wire.call(2, "daemon.info")[0], REPLY)
        self.assertEqual(wire.call(3, "sandbox.report", sandbox="nosuch")[1]["reason"],
                         "SANDBOX_NOT_FOUND")


class Ablation(unittest.TestCase):
    def test_with_all_layers_everything_is_in_force(self):
        daemon = Daemon(pool=0, program=("ablated_sandboxd",))
        self.addCleanup(daemon.close)
        for profile, missing in (("default", {"time_namespace": None}), ("strict", {})):
            found, code = verdicts(daemon, profile)
            self.assertEqual(found, dict.fromkeys(layers(), True) | missing, profile)
            self.assertEqual(code, 0)

    def test_a_layer_that_is_left_out_is_reported_and_no_other(self):
        self.assertLessEqual(set(DEPENDENT), set(layers()))
        for layer in layers():
            with self.subTest(layer):
                daemon = Daemon(pool=0, program=("ablated_sandboxd", "--without", layer))
                try:
                    found, code = verdicts(daemon, "strict")
                finally:
                    daemon.close()
                missing = {name for name, in_force in found.items() if in_force is not True}
                self.assertEqual(missing, {layer, *DEPENDENT.get(layer, {})})
                self.assertEqual(code, 1)


if __name__ == "__main__":
    unittest.main()
