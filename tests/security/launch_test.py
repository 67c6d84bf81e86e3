"""The way into a sandbox: what a client can say, and what is there while a program starts."""

import os
import pathlib
import re
import subprocess
import threading
import unittest

from harness import ERROR, Wire
from watched import Watched

# Root inside, at every process that appears: whatever it can open of the launch program is a hole.
WATCHER = """
import os, sys
print("ready", flush=True)
found = set()
def attempt(name, call):
    try:
        call()
    except OSError:
        return
    found.add(name)
def use(pid):
    path = f"/proc/{pid}"
    def still():
        # A slot becomes its program in between: only what is the launch program counts.
        if not open(f"{path}/cmdline").read().startswith("sandboxd-launcher"): raise OSError
    try:
        still()
        comm = open(f"{path}/comm").read().strip()
    except OSError:
        return
    def opened(name, flags):
        fd = os.open(f"{path}/{name}", flags)
        os.close(fd)
        still()
    for name, flags in (("exe", os.O_RDONLY), ("exe", os.O_WRONLY), ("mem", os.O_RDWR),
                        ("maps", os.O_RDONLY), ("environ", os.O_RDONLY), ("root", os.O_RDONLY),
                        ("cwd", os.O_RDONLY), ("ns/mnt", os.O_RDONLY), ("fd/0", os.O_RDONLY),
                        ("fd/3", os.O_RDONLY), ("oom_score_adj", os.O_WRONLY)):
        attempt(f"{comm} {name} {flags}", lambda: opened(name, flags))
    attempt(f"{comm} fd", lambda: (os.listdir(f"{path}/fd"), still()))
    attempt(f"{comm} exe link", lambda: (os.readlink(f"{path}/exe"), still()))
while not os.path.exists("/tmp/stop"):
    for pid in os.listdir("/proc"):
        if pid.isdigit() and int(pid) != os.getpid():
            use(pid)
print(sorted(found), flush=True)
"""


class Launch(Watched):
    def status(self, box, field, *options):
        out = self.daemon.sh(box, f"grep ^{field}: /proc/self/status", *options).stdout.decode()
        return out.split(":")[1].split()

    def reasons(self, op, *cases, **params):
        wire = Wire(self.daemon.socket)
        self.addCleanup(wire.close)
        answers = []
        for stream, case in enumerate(cases, 1):
            kind, body = wire.call(stream, op, **{**params, **case})
            answers.append(body["reason"] if kind == ERROR else "accepted")
        return answers

    def test_the_launch_program_gives_nothing_away_while_programs_start(self):  # A1, A17
        for profile in ("default", "strict"):
            box = self.box("--profile", profile)
            watching = threading.Event()
            seen = {}

            def watch():
                seen["result"] = self.daemon.ctl("exec", box, "--", "python3", "-c", WATCHER)

            thread = threading.Thread(target=watch)
            thread.start()
            watching.wait(0.3)
            for number in range(150):
                result = self.daemon.ctl("exec", box, "--", "sh", "-c", f"exit {number % 7}")
                self.assertEqual(result.returncode, number % 7)
            self.daemon.sh(box, "touch /tmp/stop")
            thread.join()
            self.assertEqual(seen["result"].stdout, b"ready\n[]\n", seen["result"])

    def test_a_working_directory_never_leads_outside(self):  # A2
        box = self.box()
        for number in range(65):
            result = self.daemon.sh(box, "pwd -P; ls ../..", "-w", f"/proc/self/fd/{number}")
            self.assertIn(result.returncode, (125, 126), number)
        for path in ("/proc/1/root", "/proc/1/cwd", "/proc/self/ns", "/tmp/link"):
            self.daemon.sh(box, "ln -sfn /proc/self/fd/3 /tmp/link")
            result = self.daemon.sh(box, "cat ../../../../../etc/shadow", "-w", path)
            self.assertNotEqual(result.returncode, 0, path)
        swap = "while :; do ln -sfn /proc/self/fd/9 /tmp/l; ln -sfn /tmp /tmp/l; done"
        self.daemon.sh(box, f"({swap}) >/dev/null 2>&1 &")
        for _ in range(60):
            result = self.daemon.sh(box, "pwd -P; ls -A ..", "-w", "/tmp/l")
            if result.returncode == 0:
                self.assertEqual(result.stdout.splitlines()[0], b"/tmp")
            self.assertNotIn(b"unreachable", result.stdout)

    def test_strings_of_a_client_are_never_options_or_paths(self):  # A10
        box = self.box()
        for word in ("--bind", "--help", "-c", "--", "%s%n", "a\nb", "../../x"):
            self.assertEqual(self.daemon.ctl("exec", box, "--", word).returncode, 127, word)
        ids = ("../../x", "..", "a\nb", "%s", "x" * 300, "/etc", ".", "*", box[:3])
        for op in ("sandbox.info", "sandbox.kill", "sandbox.wait"):
            reasons = self.reasons(op, *({"sandbox": name} for name in ids))
            self.assertEqual(set(reasons), {"SANDBOX_NOT_FOUND"}, op)
        names = ("../x", "a\nb", "%", "x" * 64, "-x", "X", ".", "a/b", "é", "")
        reasons = self.reasons("sandbox.create", *({"name": name} for name in names), image="host",
                               profile="nosuch")
        self.assertEqual(reasons, ["INVALID_FIELD"] * 9 + ["PROFILE_NOT_FOUND"])

    def test_a_spec_has_no_word_that_weakens(self):  # A20, A22, A30
        fields = ("sysctl", "cgroup", "cgroup_parent", "privileged", "mounts", "binds", "volumes",
                  "devices", "capabilities", "seccomp", "host_network", "pid_mode", "propagation",
                  "net.core.somaxconn+x", "id_base", "layers")
        reasons = self.reasons("sandbox.create", *({name: "x"} for name in fields), image="host")
        self.assertEqual(set(reasons), {"UNKNOWN_FIELD"})
        reasons = self.reasons("exec.start", *({name: "../other"} for name in fields),
                               sandbox=self.box(), argv=["true"])
        self.assertEqual(set(reasons), {"UNKNOWN_FIELD"})
        tmpfs = ("/", "/../x", "/a/../../x", "/a//b", "x", "/a/.", "/a/..", "/a\0b")
        for path in tmpfs:
            reasons = self.reasons("sandbox.create", {"tmpfs": [{"path": path}]}, image="host")
            self.assertIn(reasons[0], ("INVALID_FIELD", "EMBEDDED_NUL"), path)

    def test_lengths_are_checked_before_the_launch(self):  # A11
        box = self.box()
        cases = (
            ([f"N{n}=" for n in range(60_000)], "accepted"),
            (["BIG=" + "x" * 140_000], "ARGUMENTS_TOO_LONG"),
            ([f"B{n}=" + "x" * 10_000 for n in range(100)], "accepted"),
            (["N" * 65_537 + "=x"], "accepted"),
            (["N" * 140_000 + "=x"], "ARGUMENTS_TOO_LONG"),
        )
        for env, expected in cases:
            answer = self.reasons("exec.start", {"env": env}, sandbox=box, argv=["true"])
            self.assertEqual(answer, [expected], env[0][:20])
        for env in ([f"N{n}=" for n in range(70_000)], ["X=" + "x" * (2 << 20)]):
            with self.assertRaises((EOFError, OSError)):  # More than a message may hold.
                wire = Wire(self.daemon.socket)
                self.addCleanup(wire.close)
                kind, body = wire.call(1, "exec.start", sandbox=box, argv=["true"], env=env)
                self.assertEqual((kind, body), (None, None))

    def test_capabilities_are_the_same_on_every_way_in(self):  # A12
        for profile in ("default", "strict"):
            box = self.box("--profile", profile)
            first = self.status(box, "Cap...")
            other = self.box("--profile", profile, "-u", "1000")
            self.assertEqual(self.status(other, "CapEff"), ["0" * 16])
            for field in ("CapInh", "CapAmb"):
                for options in ((), ("-u", "1000"), ("-u", "user")):
                    self.assertEqual(self.status(box, field, *options), ["0" * 16])
            for user in ("1000", "user", "65535"):
                for field in ("CapPrm", "CapEff"):
                    self.assertEqual(self.status(box, field, "-u", user), ["0" * 16])
            again = self.status(box, "Cap...")
            self.assertEqual(first, again)
            inherited = self.daemon.sh(box, "sh -c 'grep -E ^Cap /proc/self/status'", "-u", "1000")
            self.assertNotRegex(inherited.stdout.decode(), r"Cap(Prm|Eff|Inh|Amb):\s+0*[1-9a-f]")

    def test_a_user_is_a_number_or_a_name_and_never_root_by_mistake(self):  # A13
        users = ("2147483648", "4294967295", "4294967296", "-1", "0x0", "0x10", " 0", "0 ", "00x",
                 "1000:", ":0", ":", "99999999999", "18446744073709551616", "1e3", "a:b:c", "+0",
                 "65536", "0:65536", "1000:-1", "\n0", "0\n", "root\n", "")
        box = self.box()
        lines = "".join(f"{user.strip()}:x:0:0::/:/bin/sh\n" for user in users if user.strip())
        self.put(box, "/etc/passwd", lines.encode())
        for user in users[:-1]:
            reasons = self.reasons("exec.start", {"user": user}, sandbox=box, argv=["id"])
            self.assertEqual(reasons, ["INVALID_USER"], repr(user))
            reasons = self.reasons("sandbox.create", {"user": user}, image="host")
            self.assertIn(reasons[0], ("INVALID_USER", "accepted"), repr(user))
        self.put(box, "/etc/passwd", b"evil:x:4294967296:0::/:/bin/sh\nbad:x::0::/:/bin/sh\n"
                 b"ugly:x:-1:0::/:/bin/sh\nhex:x:0x0:0::/:/bin/sh\nlong:x:0000000000000:0::/:/x\n")
        for user in ("evil", "bad", "ugly", "hex"):
            self.assertEqual(self.daemon.sh(box, "id", "-u", user).returncode, 125, user)

    def test_groups_are_the_users_and_hold_the_primary_one(self):  # A14
        box = self.box()
        self.put(box, "/etc/group", b"root:x:0:\nuser:x:1000:\nwheel:x:27:user\naudio:x:29:user,x\n"
                 b"other:x:30:userx\n")
        for user, gid, groups in (
            ("user", "1000", ["27", "29", "1000"]),
            ("user:audio", "29", ["27", "29"]),
            ("1000", "1000", ["1000"]),  # A number takes no groups from the image.
            ("1000:29", "29", ["29"]),
            ("0", "0", ["0"]),
            ("54321", "0", ["0"]),
        ):
            self.assertEqual(self.status(box, "Gid", "-u", user), [gid] * 4, user)
            self.assertEqual(sorted(self.status(box, "Groups", "-u", user), key=int), groups, user)

    def test_a_passwd_of_any_form_is_read_quickly_or_refused(self):  # A15
        long = b"x" * (1 << 20)
        for content, found in (
            (b"me:x:7:7::/:/x", True),  # No newline at its end.
            (b"a" * 5000 + b":x:0:0::/:/x\nme:x:7:7::/:/x\n", True),
            (long + b"\nme:x:7:7::/:/x\n", False),  # Larger than is read.
            (b"\0\0\n:::::\nme:x:7:7\nme:x:7:7::/:/x\n", True),
        ):
            box = self.box()
            self.put(box, "/etc/passwd", content)
            result = self.daemon.sh(box, "id -u", "-u", "me", timeout=10)
            self.assertEqual((result.returncode, result.stdout), (0, b"7\n") if found else (125, b""))
            self.assertEqual(self.daemon.sh(box, "echo in", "-u", "7", timeout=10).returncode, 0)

    def test_another_user_of_the_host_reaches_nothing(self):  # A23, A24
        self.box()
        os.chmod(self.daemon.dir, 0o755)  # What keeps others out is the daemon's own doing.
        shims = self.daemon.shims()
        code = (
            "import os, socket, sys\n"
            "os.setgroups([]); os.setresgid(65533, 65533, 65533); os.setresuid(65533, 65533, 65533)\n"
            "def reach(name, call):\n"
            "  try: call()\n"
            "  except OSError: return\n"
            "  print(name)\n"
            "run, pids = sys.argv[1], sys.argv[2:]\n"
            "for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):\n"
            "  reach('socket', lambda: socket.socket(socket.AF_UNIX, kind).connect(f'{run}/s.sock'))\n"
            "for path in (run, f'{run}/boxes', f'{run}/../state'):\n"
            "  reach(path, lambda: os.listdir(path))\n"
            "for pid in pids:\n"
            "  for name in ('mem', 'exe', 'fd/0', 'environ', 'maps', 'root'):\n"
            "    reach(f'{pid} {name}', lambda: os.open(f'/proc/{pid}/{name}', os.O_RDONLY))\n"
            "  reach(f'kill {pid}', lambda: os.kill(int(pid), 0))\n"
        )
        pids = [str(self.daemon.process.pid), self.zygote(), *shims]
        reached = subprocess.run(["python3", "-c", code, f"{self.daemon.dir}/run", *pids],
                                 capture_output=True, check=True)
        os.chmod(self.daemon.dir, 0o700)
        self.assertEqual(reached.stdout, b"", reached.stderr)
        for path in ("sandboxd", "sandboxctl"):
            self.assertEqual(os.stat(os.path.join(os.environ["SANDBOXD_BIN"], path)).st_mode & 0o6000, 0)

    def test_no_socket_has_an_abstract_name(self):  # A24
        box = self.box()
        inodes = set()
        for pid in [str(self.daemon.process.pid), self.zygote(), *self.daemon.shims()]:
            for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
                try:
                    inodes.update(re.findall(r"socket:\[(\d+)\]", os.readlink(fd)))
                except OSError:
                    continue
        rows = [line.split() for line in pathlib.Path("/proc/net/unix").read_text().splitlines()]
        ours = [row for row in rows if len(row) > 7 and row[6] in inodes]
        self.assertTrue(ours)
        self.assertEqual([row for row in ours if row[7].startswith("@")], [])
        inside = self.daemon.sh(box, "cat /proc/net/unix").stdout.decode()
        self.assertNotIn(self.daemon.dir, inside)
        self.assertEqual(len(inside.splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
