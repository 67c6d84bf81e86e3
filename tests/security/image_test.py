"""Images and paths that an attacker made, and changes while they are used."""

import concurrent.futures
import os
import stat
import subprocess
import time
import unittest

from harness import Wire
from watched import Watched

FLIPS = 2.0  # Seconds for which each race is run; a flip takes some microseconds.


class Flipper:
    """Exchanges two entries of a directory as fast as it can."""

    def __init__(self, first, second):
        self.code = ("import ctypes, sys\nlibc = ctypes.CDLL(None)\n"
                     "a, b = (name.encode() for name in sys.argv[1:])\n"
                     "while True: libc.renameat2(-100, a, -100, b, 2)\n")
        self.names = (first, second)

    def __enter__(self):
        self.process = subprocess.Popen(["python3", "-c", self.code, *self.names])

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


class HostileImages(Watched):
    def image(self, name, *folders):
        path = f"{self.daemon.images}/{name}"
        for folder in ("bin", "etc", *folders):
            os.makedirs(f"{path}/{folder}", exist_ok=True)
        subprocess.run(["cp", "/bin/busybox", f"{path}/bin/busybox"], check=True)
        for applet in ("sh", "cat", "ls", "stat", "id"):
            if not os.path.lexists(f"{path}/bin/{applet}"):
                os.symlink("busybox", f"{path}/bin/{applet}")
        return path

    def victim(self):
        """A directory of the host that nothing may be made in."""
        path = f"{self.daemon.dir}/victim"
        os.makedirs(path, exist_ok=True)
        self.addCleanup(lambda: self.assertEqual(os.listdir(path), []))
        return path

    def create(self, *arguments):
        result = self.daemon.ctl("create", "-q", *arguments)
        if result.returncode == 0:
            self.boxes.append(result.stdout.decode().strip())
            return self.boxes[-1]
        self.assertEqual(result.returncode, 125, result.stderr)
        return None

    def test_proc_sys_and_dev_are_the_sandboxes_own(self):  # A5, A6, A7
        makers = {
            "absolute": lambda path: os.symlink(self.victim(), path),
            "relative": lambda path: os.symlink("../../..", path),
            "file": lambda path: open(path, "w").close(),
            "fifo": os.mkfifo,
        }
        for kind, make in makers.items():
            for name in ("proc", "sys", "dev"):
                path = self.image(f"{name}-{kind}")
                make(f"{path}/{name}")
                self.assertIsNone(self.create("--image", path), path)

    def test_what_an_image_has_in_dev_and_proc_is_never_used(self):  # A3, A4
        path = self.image("dressed", "dev/pts", "proc/self/attr", "sys/fs/cgroup")
        os.symlink("/proc/sysrq-trigger", f"{path}/dev/null")
        os.symlink("/proc/sysrq-trigger", f"{path}/dev/pts/0")
        os.symlink("/proc/sysrq-trigger", f"{path}/proc/self/attr/exec")
        os.mknod(f"{path}/dev/zero", 0o666 | stat.S_IFCHR, os.makedev(1, 1))
        os.mknod(f"{path}/mem", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        os.mknod(f"{path}/disk", 0o666 | stat.S_IFBLK, os.makedev(7, 0))
        box = self.create("--image", path)
        show = "stat -c '%F %t:%T' /dev/null /proc/kallsyms; ls /dev/pts; stat -f -c %T /proc"
        lines = self.daemon.sh(box, show).stdout.decode().splitlines()
        self.assertEqual(lines, ["character special file 1:3"] * 2 + ["ptmx", "proc"])
        for node in ("/mem", "/disk"):  # E10: a device node that the image brings cannot be opened.
            opened = self.daemon.sh(box, f"cat {node}")
            self.assertNotEqual(opened.returncode, 0)
            self.assertIn(b"Permission denied", opened.stderr)

    def test_mount_points_pass_through_no_link(self):  # A8
        for parent in ("etc", "tmp", "run", "var", "work"):
            path = self.image(f"link-{parent}")
            subprocess.run(["rm", "-rf", f"{path}/{parent}"], check=True)
            os.symlink(self.victim(), f"{path}/{parent}")
            for target in (f"/{parent}", f"/{parent}/x", f"/{parent}/x/y"):
                self.assertIsNone(self.create("--image", path, "--tmpfs", target), target)

    def test_a_mount_point_that_changes_meanwhile_lands_inside(self):  # A8
        path = self.image("flip", "a/deep", "proc", "dev")
        os.symlink(self.victim(), f"{path}/b")
        os.symlink(self.victim(), f"{path}/link")
        made = 0
        for first, second in (("a", "b"), ("dev", "link")):
            with Flipper(f"{path}/{first}", f"{path}/{second}"):
                deadline = time.monotonic() + FLIPS / 2
                while time.monotonic() < deadline:
                    box = self.create("--image", path, "--tmpfs", "/a/deep/x")
                    if box is not None:
                        made += 1
                        self.daemon.ctl("kill", self.boxes.pop())
            for name in ("a", "dev"):  # As it was for the next round.
                if os.path.islink(f"{path}/{name}"):
                    os.rename(f"{path}/{name}", f"{path}/saved")
                    os.rename(f"{path}/{'b' if name == 'a' else 'link'}", f"{path}/{name}")
                    os.rename(f"{path}/saved", f"{path}/{'b' if name == 'a' else 'link'}")
        self.assertGreater(made, 0)

    def test_creates_that_fail_together_leave_nothing(self):
        path = self.image("refused")
        os.symlink("/", f"{path}/up")
        params = {"image": path, "tmpfs": [{"path": "/up/x"}]}

        def refused(_):
            wire = Wire(self.daemon.socket)
            answers = [wire.call(n, "sandbox.create", **params)[1] for n in range(1, 41)]
            wire.close()
            return {answer.get("stage") for answer in answers}

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.assertEqual(set().union(*pool.map(refused, range(16))), {"mount_point"})

    def test_a_path_that_changes_meanwhile_leads_nowhere_else(self):  # A9
        path = f"{self.daemon.images}/race"
        self.image("race/real/etc")
        os.symlink("/", f"{path}/link")
        marks = {True: 0, False: 0}
        with Flipper(f"{path}/real", f"{path}/link"):
            deadline = time.monotonic() + FLIPS
            while time.monotonic() < deadline:
                box = self.create("--image", f"{path}/real/etc")
                marks[box is not None] += 1
                if box is None:
                    continue
                listing = self.daemon.ctl("exec", box, "--", "/bin/ls", "/").stdout
                self.assertNotIn(b"shadow", listing)  # The host's /etc has it, ours has not.
                self.daemon.ctl("kill", self.boxes.pop())
        self.assertGreater(min(marks.values()), 0, marks)

    def test_only_what_is_beneath_an_allowed_directory_is_an_image(self):  # A27, A30
        allowed = self.daemon.images
        beside = f"{allowed}2"
        os.makedirs(f"{beside}/bin")
        inside = self.image("real")
        os.symlink("/", f"{allowed}/up")
        for path in (beside, f"{beside}/bin", "/", "/etc", "/proc", "/var/run/docker.sock", "/root",
                     f"{allowed}/../images2", f"{allowed}/real/../../images2", f"{allowed}//etc",
                     f"{allowed}/up", f"{allowed}/up/etc", f"{allowed}/real/..", "host/../etc",
                     f"{allowed}/real/../../../../etc", self.canary, os.path.dirname(allowed)):
            box = self.create("--image", path)
            if path == f"{allowed}/real/..":  # That is the allowed directory itself.
                continue
            self.assertIsNone(box, path)
        self.assertIsNotNone(self.create("--image", inside))

    def test_nothing_of_an_image_is_run_or_parsed_to_start_it(self):  # A15, A16
        path = self.image("traps", "lib", "usr/bin")
        for name in ("etc/passwd", "etc/group", "etc/ld.so.preload", "etc/ld.so.cache",
                     "etc/nsswitch.conf", "etc/localtime", "usr/bin/newuidmap"):
            os.mkfifo(f"{path}/{name}")  # Whoever opens it for reading waits for ever.
        begin = time.monotonic()
        box = self.create("--image", path)
        self.assertEqual(self.daemon.sh(box, "echo in", "-u", "12345").stdout, b"in\n")
        self.assertEqual(self.daemon.sh(box, "echo in", "-u", "name").returncode, 125)
        self.assertLess(time.monotonic() - begin, 5)
        with open(f"/proc/{self.zygote()}/exe", "rb") as file:
            self.assertNotIn(b"/ld-linux", file.read())  # Static: it loads nothing, anywhere.

    def test_the_launch_program_is_not_the_images_to_run_or_change(self):  # A1
        path = self.image("self", "tmp")
        with open(f"{path}/bin/script", "w") as file:
            file.write("#!/proc/self/exe\n")
        os.chmod(f"{path}/bin/script", 0o755)
        os.symlink("/proc/self/exe", f"{path}/bin/again")
        box = self.create("--image", path)
        for program in ("/bin/script", "/bin/again", "/proc/self/exe"):
            for _ in range(20):
                self.assertNotEqual(self.daemon.ctl("exec", box, "--", program).returncode, 0)
        self.assertEqual(self.daemon.sh(box, "echo fine").stdout, b"fine\n")

    def test_the_daemons_own_files_are_in_no_sandbox(self):  # A28
        for box in (self.box(), self.create("--image", self.image("plain"))):
            for name in (self.daemon.dir, f"{self.daemon.dir}/run", "/run/sandboxd", "/etc/sandboxd",
                         "/var/lib/sandboxd", self.canary):
                self.assertNotEqual(self.daemon.sh(box, f"ls {name}").returncode, 0, name)
            mounts = self.daemon.sh(box, "cat /proc/self/mountinfo").stdout.decode()
            self.assertNotIn(self.daemon.dir, mounts)
            self.assertNotIn("cgroup.procs", mounts)


if __name__ == "__main__":
    unittest.main()
