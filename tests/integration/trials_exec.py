"""Trials from public bug reports: exit status, signals, and what an exec runs as and with. The
numbers in the names are those of the trials."""

import base64
import concurrent.futures
import os
import unittest

from harness import BIN, ERROR, REPLY, Daemon, Wire


def text(value):
    return value.decode("latin-1")


class ExecTrials(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(extra="[limits]\nexecs_per_sandbox = 100\nexecs_kept = 500\n")
        cls.addClassCleanup(cls.daemon.close)

    def setUp(self):
        self.id = self.daemon.create()
        self.addCleanup(lambda: self.daemon.ctl("kill", self.id))
        self.wire = Wire(self.daemon.socket)
        self.addCleanup(self.wire.close)
        self.stream = 0

    def run_exec(self, *argv, **options):
        self.stream += 1
        return self.wire.run(self.stream, self.id, *argv, **options)

    def sh(self, script, **options):
        return self.run_exec("sh", "-c", script, **options)

    def test_1_2_5_an_end_by_signal_is_told_from_an_exit(self):
        for script, code, signal in (
            *[(f"kill -{number} $$", None, number) for number in (6, 9, 11, 15, 35, 64)],
            ("sh -c 'kill -SEGV $$'; exit $?", 139, None),
            ("bash -c 'bash -c \"kill -SEGV \\$\\$\"; exit $?'", 139, None),
            ("exit 1", 1, None),
            ("exit 255", 255, None),
        ):
            with self.subTest(script=script):
                end = self.sh(script).exit
                self.assertEqual((end["exit_code"], end["signal"]), (code, signal))
                self.assertFalse(end["core_dumped"])
                self.assertEqual(end["reason"], "exited" if signal is None else "signalled")
                told = self.daemon.sh(self.id, script).returncode
                self.assertEqual(told, code if signal is None else 128 + signal)

    def test_4_a_status_is_there_after_a_lost_connection(self):
        ended = self.sh("exit 7").exec
        other = Wire(self.daemon.socket)
        other.request(1, "exec.start", sandbox=self.id, argv=["sleep", "60"])
        kind, _, _, body = other.receive()
        self.assertEqual(kind, REPLY)
        other.close()  # Its exec goes with it, and says so.
        kind, end = self.wire.call(90, "exec.wait", sandbox=self.id, exec=body["exec"])
        self.assertEqual((kind, end["signal"], end["reason"]), (REPLY, 9, "cancelled"))
        kind, end = self.wire.call(91, "exec.wait", sandbox=self.id, exec=ended)
        self.assertEqual((kind, end["exit_code"]), (REPLY, 7))
        kind, unknown = self.wire.call(92, "exec.wait", sandbox=self.id, exec=9999)
        self.assertEqual((kind, unknown["reason"]), (ERROR, "EXEC_NOT_FOUND"))

    def test_7_what_cannot_be_run_says_why(self):
        self.sh("cd /tmp; printf '#!/mmnnttbb\\n' > bad; printf 'exit 0' > plain; : > empty;"
                "printf '\\177ELF\\002\\001\\001\\0\\0\\0\\0\\0\\0\\0\\0\\0\\002\\0\\267\\0' > arm;"
                "head -c 64 /dev/zero >> arm; (printf '#!/'; head -c 300 /dev/zero | tr '\\0' x) > long;"
                "chmod 755 bad empty arm long; chmod 644 plain")
        for path, code, reason, error in (
            ("/tmp/bad", 126, "COMMAND_NOT_EXECUTABLE", "ENOENT"),
            ("/tmp/plain", 126, "COMMAND_NOT_EXECUTABLE", "EACCES"),
            ("/tmp", 126, "COMMAND_NOT_EXECUTABLE", "EACCES"),
            ("/tmp/arm", 126, "COMMAND_NOT_EXECUTABLE", "ENOEXEC"),
            ("/tmp/empty", 126, "COMMAND_NOT_EXECUTABLE", "ENOEXEC"),
            ("/tmp/long", 126, "COMMAND_NOT_EXECUTABLE", "ENOEXEC"),
            ("/tmp/missing", 127, "COMMAND_NOT_FOUND", "ENOENT"),
            ("/tmp/plain/x", 127, "COMMAND_NOT_FOUND", "ENOTDIR"),
            ("missing", 127, "COMMAND_NOT_FOUND", "ENOENT"),
        ):
            with self.subTest(path=path):
                failed = self.run_exec(path).error
                self.assertEqual((failed["reason"], failed["errno"]), (reason, error))
                self.assertIn(path, failed["message"])
                self.assertEqual(self.daemon.ctl("exec", self.id, "--", path).returncode, code)
        self.assertIn("interpreter", self.run_exec("/tmp/bad").error["message"])

    def test_8_many_at_once_with_children_in_the_background(self):
        def twenty(worker):
            wire = Wire(self.daemon.socket)
            scripts = ("true", "sleep 0.05 & true")
            ends = [wire.run(n + 1, self.id, "sh", "-c", scripts[n % 2]) for n in range(20)]
            wire.close()
            return [end.exit and end.exit["exit_code"] for end in ends]

        with concurrent.futures.ThreadPoolExecutor(50) as pool:
            codes = sum(pool.map(twenty, range(50)), [])
        self.assertEqual(codes, [0] * 1000)

    def test_10_short_processes_neither_hang_nor_lag(self):
        times = sorted(self.run_exec("true").times["end"] for _ in range(1000))
        self.assertLess(times[990], 0.1)

    def test_11_signals_are_as_a_new_process_expects(self):
        self.assertEqual(self.sh("trap 'echo P' PIPE; kill -13 $$").out, b"P\n")
        broken = self.sh("yes | head -1")
        self.assertEqual((broken.out, broken.err), (b"y\n", b""))
        masks = self.sh("grep -E 'Sig(Blk|Ign)' /proc/self/status").out.split()[1::2]
        self.assertEqual(masks, [b"0" * 16] * 2)

    def test_13_14_a_directory_that_cannot_be_entered_runs_nothing(self):
        self.sh("mkdir -m 700 /tmp/closed; : > /tmp/file; ln -s /proc/self/fd/9 /tmp/link")
        for cwd, reason in (
            ("/missing", "CWD_NOT_FOUND"),
            ("relative", "INVALID_FIELD"),
            ("/tmp/file", "CWD_NOT_A_DIRECTORY"),
            ("/tmp/closed", "CWD_NOT_ALLOWED"),
            ("/proc/self/fd/9", "CWD_NOT_FOUND"),
            ("/tmp/link", "CWD_NOT_FOUND"),
            ("/" + "x" * 5000, "CWD_NOT_ALLOWED"),
        ):
            with self.subTest(cwd=cwd[:20]):
                failed = self.sh("printf x > /tmp/marker", cwd=cwd, user="1000")
                self.assertEqual(failed.error and failed.error["reason"], reason)
        self.assertEqual(self.sh("ls /tmp/marker").exit["exit_code"], 2)
        self.sh("(while :; do mkdir /tmp/d; rmdir /tmp/d; done) >/dev/null 2>&1 &")
        for _ in range(50):
            result = self.sh("true", cwd="/tmp/d")
            self.assertTrue(result.exit or result.error["reason"] == "CWD_NOT_FOUND")

    def test_16_19_a_home_is_set_whatever_passwd_says(self):
        self.sh("echo 'lost:x:77:77::/nonexistent:/bin/sh' >> /etc/passwd")
        for user, home in (("12345", "/"), ("lost", "/nonexistent"), ("77", "/nonexistent")):
            env = dict(line.split(b"=", 1) for line in self.run_exec("env", user=user).out.split())
            self.assertEqual(env[b"HOME"].decode(), home)
            self.assertNotIn(b"USER", env)
        self.assertEqual(self.sh("echo $HOME", user="lost", env=["HOME=/tmp"]).out, b"/tmp\n")

    def test_20_22_programs_are_found_in_the_sandboxes_path(self):
        self.sh("mkdir /tmp/bin; printf '#!/bin/sh\\necho mine' > /tmp/bin/ls; chmod 755 /tmp/bin/ls")
        self.assertEqual(self.run_exec("ls", "/tmp").out, b"bin\n")
        self.assertEqual(self.run_exec("ls", "/tmp", env=["PATH=/tmp/bin"]).out, b"mine\n")
        failed = self.run_exec("ls", env=["PATH=/nowhere"]).error
        self.assertEqual(failed["reason"], "COMMAND_NOT_FOUND")
        box = self.daemon.create("-e", "A=create", "-e", "B=create", "-e", "PATH=/tmp/none:/bin")
        result = self.daemon.sh(box, "echo $A $B $PATH", "-e", "B=exec")
        self.assertEqual(result.stdout, b"create exec /tmp/none:/bin\n")
        self.daemon.ctl("kill", box)

    def test_23_an_environment_is_bytes(self):
        def given(entry):
            raw = entry.encode("latin-1")
            try:
                return raw.decode()
            except UnicodeDecodeError:
                return {"base64": base64.b64encode(raw).decode()}

        good = ["A=a\nb", "B=x=y", "C=", "D=" + "d" * 127 * 1024, "E=\xff\xfe\x80", "F =sp", "é=1"]
        env = self.run_exec("cat", "/proc/self/environ", env=[given(entry) for entry in good])
        seen = text(env.out).split("\0")
        for entry in good:
            self.assertIn(entry, seen)
        many = self.run_exec("cat", "/proc/self/environ", env=[f"V{n}={n}" for n in range(5000)])
        self.assertTrue({f"V{n}={n}" for n in range(5000)} <= set(text(many.out).split("\0")))
        for entry, reason in (
            ("BIG=" + "x" * 128 * 1024, "ARGUMENTS_TOO_LONG"),
            ("=x", "INVALID_FIELD"),
            ("", "INVALID_FIELD"),
            ("NAME", "INVALID_FIELD"),
            ("N=a\0b", "EMBEDDED_NUL"),
            ("N\0=a", "EMBEDDED_NUL"),
        ):
            failed = self.run_exec("true", env=[entry]).error
            self.assertEqual(failed["reason"], reason, entry[:10])
        self.assertIn("BIG", self.run_exec("true", env=["BIG=" + "x" * 131072]).error["object"])

    def test_25_more_mounts_than_allowed_are_a_typed_error(self):
        mounts = [{"path": f"/m/{n}"} for n in range(2000)]
        kind, body = self.wire.call(1, "sandbox.create", image="host", tmpfs=mounts)
        self.assertEqual((kind, body["reason"]), (ERROR, "INVALID_FIELD"))
        self.assertIn("limits.tmpfs_mounts", body["message"])
        kind, body = self.wire.call(2, "sandbox.create", image="host", tmpfs=mounts[:16])
        self.assertEqual(kind, REPLY)
        self.daemon.ctl("kill", body["sandbox"]["id"])


# As docs/protocol.md has it, and not as the daemon was started.
MEASURE = (
    "umask; nice; chrt -p $$ | tail -n +1 | sed 's/.*: //'; cat /proc/self/oom_score_adj; "
    "echo $PPID; grep ^0:: /proc/self/cgroup | sed 's/-[0-9]*$//'; cat /proc/self/personality; "
    "for l in f d s v t; do ulimit -S$l; done; ulimit -Hs; ulimit -c; ulimit -p"
)
VALUES = ("0022 0 SCHED_OTHER 0 500 0 0::/exec 00000000 "
          "unlimited unlimited 8192 unlimited unlimited unlimited 0 4096").split()
ODD_PARENT = (
    "umask 077; ulimit -Sf 1000000; ulimit -Ss 1024; ulimit -Sd 4000000; ulimit -St 3000; "
    "ulimit -Sv 9000000; trap '' PIPE INT HUP USR1; echo 300 > /proc/self/oom_score_adj; "
    "exec chrt -b 0 nice -n 7 setarch -R \"$0\" \"$@\""
)


class Inherited(unittest.TestCase):
    def test_26_nothing_of_the_daemons_parent_is_inherited(self):
        daemon = Daemon(pool=1, program=("/bin/sh", "-c", ODD_PARENT, os.path.abspath(f"{BIN}/sandboxd")))
        try:
            box = daemon.create()
            for _ in range(2):
                self.assertEqual(daemon.sh(box, MEASURE).stdout.decode().split(), VALUES)
            masks = daemon.sh(box, "grep -E 'Sig(Blk|Ign)' /proc/self/status").stdout.split()
            self.assertEqual(masks[1::2], [b"0" * 16] * 2)
        finally:
            daemon.close()


if __name__ == "__main__":
    unittest.main()
