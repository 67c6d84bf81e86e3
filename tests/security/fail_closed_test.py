"""A host that lacks something: a layer is there as always, or there is no sandbox (A29)."""

import os
import pathlib
import re
import shutil
import time
import unittest

import attempts
from harness import BIN, CGROUP_MOUNT, Daemon, DidNotStart

# What the launch is made of. `fault` makes each fail with EPERM in turn, everywhere.
CALLS = (
    "bpf capset chdir chroot clone3 close_range dup2 execveat fchdir fchmod fchmodat "
    "fchownat fsconfig fsmount fsopen ioctl keyctl mkdirat mknod mknodat mount mount_setattr "
    "move_mount open_tree openat2 pidfd_open pivot_root prctl prlimit64 seccomp setgroups "
    "sethostname setns setresgid setresuid setsid setsockopt socketpair umount2 unshare"
).split()

# Measured inside: each layer of isolation as the kernel shows it.
MEASURE = r"""
grep -E '^(Cap|NoNewPrivs|Seccomp:|Groups|Sig[BI])' /proc/self/status
cut -d' ' -f5,6 /proc/self/mountinfo | sort
for n in user mnt pid net ipc uts cgroup; do readlink /proc/self/ns/$n; done
ls /proc/self/fd | wc -l; cat /proc/self/oom_score_adj /proc/self/cgroup; ulimit -a; umask
cut -d' ' -f6 /proc/self/stat; hostname; ls /dev /sys/class/net; awk '{print $1, $3}' /proc/self/uid_map; pwd
"""


class FailClosed(unittest.TestCase):
    def measure(self, daemon):
        """The report of one fresh sandbox, without what differs from one to the next."""
        created = daemon.ctl("create", "-q", "--hostname", "same", timeout=30)
        if created.returncode != 0:
            return None
        box = created.stdout.decode().strip()
        result = daemon.sh(box, MEASURE, timeout=30)
        self.assertEqual(daemon.ctl("kill", box, timeout=30).returncode, 0)
        if result.returncode in (125, 126, 127):
            return None
        text = result.stdout.decode()
        for own in re.findall(r"\w+:\[\d+\]", text):
            self.assertNotEqual(own, os.readlink(f"/proc/self/ns/{own.split(':')[0]}"))
        return re.sub(r":\[\d+\]|exec-\d+|(?<=0 )1\d{9} |^\d+$", "", text, flags=re.M)

    def traces(self, daemon):
        return [name for name in os.listdir(f"{daemon.dir}/run/boxes")] + [
            name for name in os.listdir(daemon.cgroup_path) if re.fullmatch("[0-9a-f]{32}", name)]

    def outcome(self, whole, *program):
        """What comes of a daemon that is started like this: never half a sandbox."""
        try:
            daemon = Daemon(pool=1, program=(*program, f"{BIN}/sandboxd"))
        except DidNotStart as error:
            self.assertIn("sandboxd", str(error))  # It said why.
            path = pathlib.Path(error.args[0])
            shutil.rmtree(path)
            if os.path.exists(f"{CGROUP_MOUNT}/{path.name}"):
                os.rmdir(f"{CGROUP_MOUNT}/{path.name}")
            return "no daemon"
        try:
            report = self.measure(daemon)
            self.assertIn(report, (None, whole))
            self.assertIsNone(daemon.process.poll())
            deadline = time.monotonic() + 5
            while len(self.traces(daemon)) > 2 and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertLessEqual(len(self.traces(daemon)), 2)  # The pool's one.
            return "no sandbox" if report is None else "whole"
        finally:
            daemon.close()

    def test_a_layer_that_fails_is_never_left_out(self):
        healthy = Daemon(pool=1)
        try:
            whole = self.measure(healthy)
        finally:
            healthy.close()
        self.assertIn("NoNewPrivs:\t1", whole)
        numbers = attempts.numbers("64")
        outcomes = {}
        for call in CALLS:
            with self.subTest(call=call):
                outcomes[call] = self.outcome(whole, "fault", str(numbers[call]))
        for capability in ("bpf", "chown", "net_admin", "setfcap", "setuid", "sys_admin"):
            with self.subTest(capability=capability):
                drop = f"-{capability}"
                outcomes[capability] = self.outcome(
                    whole, "/usr/bin/setpriv", f"--bounding-set={drop}", f"--inh-caps={drop}")
        # The faults reach what they are meant for.
        for name in ("seccomp", "capset", "setns", "pivot_root", "mount_setattr", "setgroups"):
            self.assertEqual(outcomes[name], "no sandbox", outcomes)
        self.assertEqual(outcomes["sys_admin"], "no daemon")


if __name__ == "__main__":
    unittest.main()
