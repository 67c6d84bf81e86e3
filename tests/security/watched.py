"""What every hostile test ends with: nothing outside has changed."""

import hashlib
import os
import pathlib
import unittest

from harness import BIN, Daemon


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class Watched(unittest.TestCase):
    """A daemon, a sandbox with a file that is none of the attacker's business, and a file of the
    host. After each test all are as they were, and the daemon serves."""

    extra = ""

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(extra=cls.extra)
        cls.addClassCleanup(cls.daemon.close)
        cls.canary = f"{cls.daemon.dir}/canary"
        with open(cls.canary, "wb") as file:
            file.write(os.urandom(4096))
        cls.neighbour = cls.daemon.create("--name", "neighbour")
        cls.daemon.sh(cls.neighbour, "head -c 4096 /dev/urandom > /root/secret; echo safe > /tmp/x")
        cls.before = cls.outside()

    @classmethod
    def outside(cls):
        files = [cls.canary, f"{BIN}/sandboxd", f"{BIN}/sandboxctl", "/bin/sh", "/etc/passwd"]
        state = {path: digest(path) for path in files}
        state["neighbour"] = cls.daemon.sh(
            cls.neighbour, "sha256sum /root/secret /tmp/x /etc/passwd; ls -A /tmp /root").stdout
        # What the launch program is, as the kernel sees it: it must be the sealed file still.
        zygote = cls.zygote()
        state["launcher"] = digest(f"/proc/{zygote}/exe")
        for path in ("core_pattern", "hostname", "randomize_va_space"):
            state[path] = pathlib.Path(f"/proc/sys/kernel/{path}").read_text()
        return state

    @classmethod
    def zygote(cls):
        pid = cls.daemon.process.pid
        for pid in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if pathlib.Path(f"/proc/{pid}/comm").read_text().startswith("sandboxd-zygot"):
                return pid
        raise AssertionError("the daemon has no zygote")

    def setUp(self):
        self.boxes = []

    def tearDown(self):
        for box in self.boxes:
            self.assertEqual(self.daemon.ctl("kill", box).returncode, 0)
        self.assertIsNone(self.daemon.process.poll())
        self.assertEqual(self.outside(), self.before)

    def box(self, *arguments):
        self.boxes.append(self.daemon.create(*arguments))
        return self.boxes[-1]

    def put(self, box, path, content):
        result = self.daemon.sh(box, f"cat > {path}; chmod 755 {path}", "-i", input=content)
        self.assertEqual(result.returncode, 0, result.stderr)

    def put_program(self, box, name):
        """A hostile program into the sandbox, through an exec's input."""
        with open(f"{BIN}/{name}", "rb") as file:
            self.put(box, f"/tmp/{name}", file.read())
