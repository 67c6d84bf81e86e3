"""A sandbox from outside: created, measured, used, ended."""

import concurrent.futures
import json
import os
import struct
import subprocess
import time
import unittest

from harness import CREDIT, CANCEL, DATA, END, ERROR, EXIT, PING, REPLY, REQUEST, HELLO, Daemon, Wire


class WithDaemon(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.close()

    def setUp(self):
        self.id = self.daemon.create()

    def tearDown(self):
        if self.id:
            self.assertEqual(self.daemon.ctl("kill", self.id).returncode, 0)

    def sh(self, script, *options, **kwargs):
        return self.daemon.sh(self.id, script, *options, **kwargs)

    def out(self, script, *options):
        return self.sh(script, *options).stdout.decode()


class Isolation(WithDaemon):
    """Each layer, measured inside, against the host."""

    def test_every_namespace_is_its_own(self):
        for name in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup"):
            inside = self.out(f"readlink /proc/self/ns/{name}").strip()
            self.assertTrue(inside)
            self.assertNotEqual(inside, os.readlink(f"/proc/self/ns/{name}"), name)

    def test_strict_has_its_own_clocks_and_no_capabilities(self):
        strict = self.daemon.create("--profile", "strict")
        try:
            inside = self.daemon.sh(strict, "readlink /proc/self/ns/time; grep Cap /proc/self/status")
            lines = inside.stdout.decode().splitlines()
            self.assertNotEqual(lines[0], os.readlink("/proc/self/ns/time"))
            self.assertEqual({line.split()[1] for line in lines[1:]}, {"0" * 16})
        finally:
            self.daemon.ctl("kill", strict)

    def test_ids_are_a_range_of_their_own(self):
        base = self.daemon.json("info", self.id, "-o", "json")["id_range"]["base"]
        self.assertEqual(self.out("cat /proc/self/uid_map").split(), ["0", str(base), "65536"])
        self.assertEqual(self.out("stat -c %u / /etc/passwd /tmp").split(), ["0", "0", "0"])
        other = self.daemon.create()
        second = self.daemon.json("info", other, "-o", "json")["id_range"]["base"]
        self.daemon.ctl("kill", other)
        self.assertGreaterEqual(abs(base - second), 65536)

    def test_capabilities_new_privileges_and_filter(self):
        status = dict(
            line.split(":\t") for line in self.out("cat /proc/self/status").splitlines() if ":\t" in line
        )
        self.assertEqual(status["CapEff"], status["CapBnd"])
        self.assertEqual(int(status["CapEff"], 16) & ~0x800404FB, 0)
        self.assertEqual(status["CapInh"], "0" * 16)
        self.assertEqual(status["CapAmb"], "0" * 16)
        self.assertEqual(status["NoNewPrivs"], "1")
        self.assertEqual(status["Seccomp"], "2")
        self.assertEqual(status["SigIgn"], "0" * 16)
        self.assertEqual(status["SigBlk"], "0" * 16)

    def test_other_users_have_no_capabilities(self):
        caps = self.out("id -u; grep Cap[PE] /proc/self/status", "-u", "1000").split()
        self.assertEqual(caps, ["1000", "CapPrm:", "0" * 16, "CapEff:", "0" * 16])

    def test_network_is_loopback_only(self):
        self.assertEqual(self.out("ls /sys/class/net").split(), ["lo"])
        self.assertNotEqual(self.sh("exec 3<>/dev/tcp/192.0.2.1/80", "-e", "X=1").returncode, 0)

    def test_proc_and_sys_hide_and_refuse(self):
        for path in ("/proc/kallsyms", "/proc/keys", "/proc/timer_list", "/proc/interrupts"):
            self.assertEqual(self.out(f"cat {path} 2>/dev/null"), "", path)
        for path in ("/proc/sys/kernel/core_pattern", "/sys/kernel/mm/ksm/run",
                     "/sys/fs/cgroup/cgroup.procs", "/proc/sys/kernel/hostname"):
            self.assertNotEqual(self.sh(f"echo 1 > {path}").returncode, 0, path)
        self.assertNotEqual(self.sh("cat /proc/kcore | head -c 1 | grep .").returncode, 0)

    def test_devices_are_few_and_none_can_be_made(self):
        names = set(self.out("ls /dev").split())
        self.assertEqual(names, {"fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm",
                                 "stderr", "stdin", "stdout", "tty", "urandom", "zero"})
        self.assertNotEqual(self.sh("mknod /tmp/mem c 1 1").returncode, 0)
        self.assertEqual(self.out("stat -c %a /dev/shm").strip(), "1777")

    def test_writable_mounts_are_nosuid_and_nodev(self):
        for line in self.out("cat /proc/self/mountinfo").splitlines():
            fields = line.split()
            options = fields[5].split(",")
            if "rw" in options:
                self.assertIn("nosuid", options, line)
                if fields[4] != "/dev/pts":
                    self.assertIn("nodev", options, line)

    def test_pid_1_gives_nothing_away(self):
        self.assertEqual(self.out("readlink /proc/1/exe"), "")
        self.assertNotEqual(self.sh("ls /proc/1/fd/").returncode, 0)
        self.assertEqual(self.out("ls /proc/self/fd | wc -l").strip(), "4")  # 0 to 2, and ls's own.

    def test_the_host_is_out_of_reach(self):
        self.assertNotEqual(self.sh("cat /etc/shadow").returncode, 0)
        self.assertNotEqual(self.sh("touch /usr/x").returncode, 0)
        for command in ("unshare -U true", "unshare -m true", "mount -t tmpfs x /mnt",
                        "nsenter -t 1 -m true", "chroot /proc/1/root true"):
            self.assertNotEqual(self.sh(command).returncode, 0, command)

    def test_output_cannot_be_read_back(self):
        self.assertNotEqual(self.sh("head -c 1 < /proc/self/fd/1").returncode, 0)
        self.assertEqual(self.sh("echo x > /dev/stderr").stderr, b"x\n")

    def test_no_two_sandboxes_share_their_root(self):
        self.sh("echo mine > /tmp/x; echo mine > /etc/x")
        other = self.daemon.create()
        self.assertNotEqual(self.daemon.sh(other, "ls /tmp/x || ls /etc/x").returncode, 0)
        self.daemon.ctl("kill", other)

    def test_processes_are_bounded(self):
        small = Daemon(pool=0, extra="[profiles.default]\npids_max = 32\n")
        try:
            sandbox = small.create()
            script = "i=0; while [ $i -lt 200 ]; do sleep 60 & i=$((i+1)); done"
            self.assertNotEqual(small.sh(sandbox, script).returncode, 0)
            self.assertLess(len(small.shims()), 64)
            self.assertEqual(small.ctl("kill", sandbox).returncode, 0)
        finally:
            small.close()

    def test_the_root_is_bounded(self):
        small = Daemon(pool=0, extra="[profiles.default]\nroot_bytes = 1048576\n")
        try:
            sandbox = small.create()
            self.assertNotEqual(small.sh(sandbox, "head -c 2000000 /dev/zero > /tmp/x").returncode, 0)
        finally:
            small.close()


class Execs(WithDaemon):
    def test_exit_codes_are_the_commands(self):
        for code in (0, 1, 7, 124, 255):
            self.assertEqual(self.sh(f"exit {code}").returncode, code)
        for signal in (6, 9, 11, 15, 35):
            self.assertEqual(self.sh(f"kill -{signal} $$").returncode, 128 + signal)

    def test_failures_to_run_are_typed(self):
        self.assertEqual(self.daemon.ctl("exec", self.id, "--", "nosuch").returncode, 127)
        self.assertEqual(self.daemon.ctl("exec", self.id, "--", "/no/such").returncode, 127)
        self.assertEqual(self.daemon.ctl("exec", self.id, "--", "/etc/passwd").returncode, 126)
        self.assertEqual(self.daemon.ctl("exec", self.id, "--", "/etc").returncode, 126)
        self.sh("printf '#!/no/interpreter\\n' > /tmp/s; chmod 755 /tmp/s; : > /tmp/e; chmod 755 /tmp/e")
        broken = self.daemon.ctl("exec", self.id, "--", "/tmp/s")
        self.assertEqual(broken.returncode, 126)
        self.assertIn(b"interpreter", broken.stderr)
        self.assertEqual(self.daemon.ctl("exec", self.id, "--", "/tmp/e").returncode, 126)

    def test_a_missing_directory_runs_nothing(self):
        result = self.sh("echo > /tmp/marker", "-w", "/no/such")
        self.assertEqual(result.returncode, 126)
        self.assertNotEqual(self.sh("ls /tmp/marker").returncode, 0)
        for cwd in ("relative", "/etc/passwd", "/proc/self/fd/9"):
            self.assertNotEqual(self.sh("pwd", "-w", cwd).returncode, 0, cwd)

    def test_users_are_strict(self):
        for user in ("0x10", "-1", "4294967296", "1000:", ":5", "a:b:c", "65536", "nosuch"):
            self.assertEqual(self.sh("id", f"-u={user}").returncode, 125, user)
        self.assertEqual(self.out("id -u; id -g; echo $HOME", "-u", "12345").split(), ["12345", "0", "/"])
        self.assertEqual(self.out("id -un; echo $HOME", "-u", "user").split(), ["user", "/home/user"])
        self.sh("echo 'evil:x:4294967296:0::/:/bin/sh' >> /etc/passwd")
        self.assertNotEqual(self.sh("id", "-u", "evil").returncode, 0)

    def test_a_hostile_passwd_does_not_hang(self):
        for script in ("ln -sf /dev/zero /etc/passwd", "rm /etc/passwd; mkfifo /etc/passwd",
                       "rm /etc/passwd; truncate -s 10G /etc/passwd"):
            self.sh(script)
            begin = time.monotonic()
            self.assertEqual(self.sh("id", "-u", "user").returncode, 125)
            self.assertEqual(self.out("id -u", "-u", "1000").strip(), "1000")
            self.assertLess(time.monotonic() - begin, 2)

    def test_a_background_child_does_not_delay_the_end(self):
        begin = time.monotonic()
        result = self.sh("sleep 100 & echo hi")
        self.assertEqual((result.returncode, result.stdout), (0, b"hi\n"))
        self.assertLess(time.monotonic() - begin, 2)

    def test_a_timeout_ends_everything_it_started(self):
        begin = time.monotonic()
        script = "(trap '' TERM HUP; exec sleep 777) & exec sleep 778"
        self.assertEqual(self.sh(script, "--timeout", "1s", "--grace", "1s").returncode, 124)
        self.assertLess(time.monotonic() - begin, 4)
        time.sleep(0.2)
        self.assertEqual(self.out("ps ax | grep -c '[s]leep 77'").strip(), "0")

    def test_bytes_are_bytes(self):
        self.assertEqual(self.sh("printf '\\0\\377\\r\\n'").stdout, b"\0\xff\r\n")
        data = os.urandom(3_000_000)
        self.assertEqual(self.sh("cat", "-i", input=data).stdout, data)
        self.assertEqual(self.sh("cat").stdout, b"")

    def test_nothing_written_is_lost(self):
        for _ in range(5):
            result = self.sh("dd if=/dev/zero bs=1 count=100000 2>/dev/null; printf END")
            self.assertEqual(len(result.stdout), 100003)
            self.assertTrue(result.stdout.endswith(b"END"))

    def test_environment_is_merged_and_hidden(self):
        sandbox = self.daemon.create("-e", "SECRET=one", "-e", "KEEP=two")
        result = self.daemon.sh(sandbox, "echo $SECRET $KEEP $PATH", "-e", "SECRET=three")
        self.assertTrue(result.stdout.startswith(b"three two /usr/local/sbin:"))
        info = self.daemon.ctl("info", sandbox, "-o", "json").stdout
        self.assertIn(b"SECRET", info)
        self.assertNotIn(b"one\"", info)
        self.daemon.ctl("kill", sandbox)

    def test_many_at_once_each_have_their_own_code(self):
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            codes = list(pool.map(lambda n: self.sh(f"(sleep 1 &) ; exit {n}").returncode, range(60)))
        self.assertEqual(codes, list(range(60)))

    def test_a_stopped_or_killed_slot_does_no_harm(self):
        slot = "for p in /proc/[0-9]*; do grep -qa sandboxd-slot $p/comm 2>/dev/null && echo ${p#/proc/}; done"
        for signal in ("STOP", "KILL"):
            self.sh(f"sleep 0.2; kill -{signal} $({slot})")
            self.assertEqual(self.out("echo fine").strip(), "fine")


class Lifecycle(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon()

    def tearDown(self):
        self.daemon.close()

    def test_kill_leaves_no_trace(self):
        before_mounts = open("/proc/self/mountinfo").read()
        sandbox = self.daemon.create()
        self.daemon.sh(sandbox, "for i in 1 2 3 4 5; do setsid sleep 1000 & done")
        self.assertEqual(self.daemon.ctl("kill", sandbox).returncode, 0)
        self.assertEqual(self.daemon.json("list", "-o", "json"), [])
        self.assertFalse(os.path.exists(f"{self.daemon.cgroup_path}/{sandbox}"))
        self.assertFalse(os.path.exists(f"{self.daemon.dir}/run/boxes/{sandbox}"))
        self.assertEqual(open("/proc/self/mountinfo").read(), before_mounts)

    def test_time_to_live(self):
        sandbox = self.daemon.create("--timeout", "300ms")
        self.assertEqual(self.daemon.ctl("wait", sandbox, timeout=10).stdout, b"expired\n")

    def test_names_prefixes_and_keys(self):
        first = self.daemon.create("--name", "web", "--idempotency-key", "k")
        self.assertEqual(self.daemon.create("--name", "web", "--idempotency-key", "k"), first)
        self.assertEqual(self.daemon.ctl("create", "--name", "web").returncode, 125)
        self.assertEqual(self.daemon.ctl("create", "--name", "x", "--idempotency-key", "k").returncode, 125)
        self.assertEqual(self.daemon.json("info", first[:8], "-o", "json")["name"], "web")
        self.assertEqual(self.daemon.ctl("create", "--name", "Bad_Name").returncode, 125)

    def test_a_crash_of_the_daemon_changes_nothing_inside(self):
        sandbox = self.daemon.create("--name", "kept", "--timeout", "5s")
        runner = subprocess.Popen(
            [f"{os.environ.get('SANDBOXD_BIN', 'build/release/bin')}/sandboxctl", "exec", sandbox, "--",
             "sleep", "1234"], env=dict(os.environ, SANDBOXD_SOCKET=self.daemon.socket),
            stderr=subprocess.DEVNULL)
        time.sleep(0.3)
        self.daemon.crash()
        runner.wait(timeout=10)
        self.daemon.start()
        self.assertEqual(self.daemon.sh("kept", "ps ax | grep -c '[s]leep 1234'").stdout, b"1\n")
        self.assertEqual(len(self.daemon.json("list", "-o", "json")), 1)
        self.assertEqual(self.daemon.ctl("wait", sandbox, timeout=10).stdout, b"expired\n")

    def test_a_killed_shim_ends_its_sandbox_as_lost(self):
        sandbox = self.daemon.create()
        shim = open(f"{self.daemon.cgroup_path}/{sandbox}/shim/cgroup.procs").read().split()[0]
        os.kill(int(shim), 9)
        self.assertEqual(self.daemon.ctl("wait", sandbox, timeout=10).stdout, b"lost\n")
        self.assertFalse(os.path.exists(f"{self.daemon.cgroup_path}/{sandbox}"))

    def test_a_second_daemon_refuses(self):
        bin_dir = os.environ.get("SANDBOXD_BIN", "build/release/bin")
        second = subprocess.run([f"{bin_dir}/sandboxd", "--config", self.daemon.config],
                                capture_output=True, timeout=10)
        self.assertEqual(second.returncode, 1)
        self.assertIn(b"another sandboxd", second.stderr)
        self.assertEqual(self.daemon.ctl("version").returncode, 0)

    def test_directory_images_are_the_operators_choice(self):
        image = f"{self.daemon.images}/small"
        os.makedirs(f"{image}/bin")
        subprocess.run(["cp", "/bin/busybox", f"{image}/bin/sh"], check=True)
        sandbox = self.daemon.create("--image", image)
        self.assertEqual(self.daemon.sh(sandbox, "echo in; echo x > /new").stdout, b"in\n")
        self.assertFalse(os.path.exists(f"{image}/new"))
        self.assertEqual(self.daemon.ctl("create", "--image", "/usr").returncode, 125)
        os.symlink("/usr", f"{self.daemon.images}/link")
        self.assertEqual(self.daemon.ctl("create", "--image", f"{self.daemon.images}/link").returncode, 125)

    def test_an_image_cannot_redirect_mounts(self):
        victim = f"{self.daemon.dir}/victim"
        os.mkdir(victim)
        for name in ("dev", "proc", "sys"):
            image = f"{self.daemon.images}/evil-{name}"
            os.makedirs(image)
            os.symlink(victim, f"{image}/{name}")
            self.assertEqual(self.daemon.ctl("create", "--image", image).returncode, 125)
        image = f"{self.daemon.images}/evil-tmp"
        os.makedirs(image)
        os.symlink(victim, f"{image}/data")
        refused = self.daemon.ctl("create", "--image", image, "--tmpfs", "/data/x")
        self.assertEqual(refused.returncode, 125)
        self.assertIn(b"mount_point", refused.stderr)
        self.assertEqual(os.listdir(victim), [])
        self.assertEqual(self.daemon.json("list", "-o", "json"), [])

    def test_read_only_root_and_tmpfs(self):
        sandbox = self.daemon.create("--read-only", "--tmpfs", "/work/here:65536")
        self.assertNotEqual(self.daemon.sh(sandbox, "touch /tmp/x").returncode, 0)
        self.assertEqual(self.daemon.sh(sandbox, "touch /work/here/x").returncode, 0)
        self.assertNotEqual(
            self.daemon.sh(sandbox, "head -c 200000 /dev/zero > /work/here/y").returncode, 0)


class Protocol(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(extra="[limits]\nframe_timeout_ms = 300\nstreams_per_connection = 8\n")

    @classmethod
    def tearDownClass(cls):
        cls.daemon.close()

    def wire(self, hello=True):
        wire = Wire(self.daemon.socket, hello)
        self.addCleanup(wire.close)
        return wire

    def test_malformed_frames_end_only_their_connection(self):
        good = self.wire()
        for raw in (b"\xff" * 16, b"\x02\0\0\0\x02\0\0\0" + b"\0" * 8, b"\xff\xff\xff\xff\x02\0\0\0" + b"\1" * 8,
                    b"\x02\0\0\0\x02\0\0\0" + b"\1" + b"\0" * 7 + b"[]",
                    b"\x02\0\0\0\x03\0\0\0" + b"\1" + b"\0" * 7 + b"{}"):
            bad = self.wire()
            bad.socket.sendall(raw)
            kind, _, stream, body = bad.receive()
            self.assertEqual((kind, stream, body["reason"]), (ERROR, 0, "PROTOCOL_ERROR"), raw)
            with self.assertRaises((EOFError, ConnectionResetError)):
                bad.receive()
        self.assertEqual(good.call(1, "daemon.info")[0], REPLY)

    def test_a_slow_client_is_closed(self):
        wire = self.wire()
        wire.socket.sendall(b"\x10")
        self.assertEqual(wire.receive()[3]["reason"], "FRAME_TIMEOUT")
        silent = self.wire(hello=False)
        self.assertEqual(silent.receive()[3]["reason"], "FRAME_TIMEOUT")

    def test_a_long_upload_is_not_a_slow_frame(self):
        wire = self.wire()
        sandbox = self.daemon.create()
        self.addCleanup(lambda: self.daemon.ctl("kill", sandbox))
        wire.request(1, "exec.start", sandbox=sandbox, argv=["cat"], stdin="pipe")
        while wire.receive()[0] != REPLY:
            pass
        # Every part ends in the middle of the next frame, for longer than one frame may take.
        frame = struct.pack("<IBBHQ", 1000, DATA, 1, 0, 1) + b"x" * 1000
        stream = frame * 40
        for at in range(0, len(stream) - 500, 500 * 2):
            wire.socket.sendall(stream[at : at + 1000])
            time.sleep(0.02)
        self.assertEqual(self.daemon.json("info", sandbox, "-o", "json")["execs"], 1)

    def test_ping_and_typed_errors(self):
        wire = self.wire()
        wire.send(PING, 0, b"abc")
        self.assertEqual(wire.receive(), (PING, 1, 0, b"abc"))
        for op, params, reason in (
            ("nope", {}, "UNKNOWN_OPERATION"),
            ("sandbox.create", {}, "MISSING_FIELD"),
            ("sandbox.create", {"image": "host", "imag": 1}, "UNKNOWN_FIELD"),
            ("sandbox.create", {"image": "host", "name": "../x"}, "INVALID_FIELD"),
            ("sandbox.create", {"image": "../x"}, "IMAGE_NOT_FOUND"),
            ("sandbox.create", {"image": "host", "profile": "x"}, "PROFILE_NOT_FOUND"),
            ("sandbox.create", {"image": "host", "env": ["=x"]}, "INVALID_FIELD"),
            ("sandbox.create", {"image": "host", "cwd": {"base64": "LwA="}}, "EMBEDDED_NUL"),
            ("sandbox.info", {"sandbox": "../../x"}, "SANDBOX_NOT_FOUND"),
            ("exec.start", {"sandbox": "ab", "argv": []}, "INVALID_FIELD"),
        ):
            kind, body = wire.call(9, op, **params)
            self.assertEqual((kind, body["reason"]), (ERROR, reason), op)

    def test_streams_are_bounded(self):
        wire = self.wire()
        sandbox = self.daemon.create()
        for stream in range(1, 9):
            wire.request(stream, "sandbox.wait", sandbox=sandbox)
        self.assertEqual(wire.call(20, "daemon.info")[1]["reason"], "TOO_MANY_STREAMS")
        wire.send(CANCEL, 1)
        kind, _, stream, body = wire.receive()
        self.assertEqual((kind, stream, body["reason"]), (ERROR, 1, "CANCELLED"))
        self.daemon.ctl("kill", sandbox)
        self.assertEqual(wire.receive()[0], REPLY)

    def test_without_credit_only_the_own_exec_waits_and_exit_still_comes(self):
        wire = self.wire()
        sandbox = self.daemon.create()
        self.addCleanup(lambda: self.daemon.ctl("kill", sandbox))
        wire.request(1, "exec.start", sandbox=sandbox,
                     argv=["sh", "-c", "head -c 300000 /dev/zero"])
        got, exit_body = 0, None
        while exit_body is None:
            kind, flags, stream, body = wire.receive()
            if kind == DATA:
                got += len(body)
            if kind == EXIT:
                exit_body = body
        self.assertEqual(got, 262144)
        self.assertEqual(exit_body["stdout_bytes"], 300000)
        self.assertEqual(wire.call(2, "daemon.info")[0], REPLY)
        wire.send(CREDIT, 1, (1 << 20).to_bytes(8, "little"), flags=2)
        while True:
            kind, flags, stream, body = wire.receive()
            if kind == DATA:
                got += len(body)
            if kind == END and flags == 0:
                break
        self.assertEqual(got, 300000)

    def test_data_beyond_credit_is_refused(self):
        wire = self.wire()
        sandbox = self.daemon.create()
        self.addCleanup(lambda: self.daemon.ctl("kill", sandbox))
        wire.request(1, "exec.start", sandbox=sandbox, argv=["sleep", "30"], stdin="pipe")
        while wire.receive()[0] != REPLY:
            pass
        try:
            for _ in range(12):
                wire.send(DATA, 1, b"x" * 65536, flags=1)
            while True:
                kind, _, stream, body = wire.receive()
                if kind == ERROR:
                    break
            self.assertEqual(body["reason"], "PROTOCOL_ERROR")
        except (BrokenPipeError, ConnectionResetError):
            pass
        self.assertEqual(self.daemon.ctl("version").returncode, 0)

    def test_a_client_that_goes_takes_its_exec_along(self):
        sandbox = self.daemon.create()
        self.addCleanup(lambda: self.daemon.ctl("kill", sandbox))
        wire = Wire(self.daemon.socket)
        wire.request(1, "exec.start", sandbox=sandbox, argv=["sleep", "4321"])
        wire.receive()
        wire.close()
        time.sleep(0.3)
        self.assertEqual(self.daemon.sh(sandbox, "ps ax | grep -c '[s]leep 4321'").stdout, b"0\n")


if __name__ == "__main__":
    unittest.main()
