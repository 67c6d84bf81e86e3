"""What a new daemon makes of the state files that it finds: sound, damaged, of a later version, of
another boot."""

import os
import unittest

from harness import Daemon


def checksum(data):
    total = 0xCBF29CE484222325
    for byte in data:
        total = ((total ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{total:016x}".encode()


class State(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon(pool=0)
        self.addCleanup(self.close)
        self.kept = self.daemon.create("--name", "kept")
        self.other = self.daemon.create("--name", "other")
        self.path = f"{self.daemon.dir}/run/boxes/{self.other}/state"

    def close(self):
        self.daemon.close()

    def rewrite(self, change):
        """The daemon crashes, the other sandbox's file changes, a new daemon comes."""
        self.daemon.crash()
        with open(self.path, "rb") as file:
            head, body = file.read().split(b"\n", 1)
        text = change(head.split(b" "), body)
        with open(self.path, "wb") as file:
            file.write(text)
        self.daemon.start()
        return text

    @staticmethod
    def sealed(fields, body):
        head = b" ".join(fields[:4]) + b" "
        return head + checksum(head + body) + b"\n" + body

    def names(self):
        return {row["name"] for row in self.daemon.json("list", "-o", "json")}

    def works(self, sandbox):
        return self.daemon.sh(sandbox, "echo ok").stdout == b"ok\n"

    def test_a_sound_file_is_adopted_however_often(self):
        for _ in range(2):
            self.rewrite(self.sealed)
            self.assertEqual(self.names(), {"kept", "other"})
        self.assertTrue(self.works(self.other))

    def test_a_damaged_file_is_kept_and_its_sandbox_ended(self):
        text = self.rewrite(lambda fields, body: b" ".join(fields) + b"\n" + body[:-1] + b"!")
        self.assertEqual(self.names(), {"kept"})
        with open(f"{self.daemon.dir}/run/quarantine/{self.other}", "rb") as file:
            self.assertEqual(file.read(), text)
        self.daemon.crash()
        self.daemon.start()
        self.assertEqual(self.names(), {"kept"})
        self.assertFalse(os.path.exists(f"{self.daemon.cgroup_path}/{self.other}"))
        self.assertTrue(self.works(self.kept))

    def test_of_damaged_files_the_newest_are_kept(self):
        directory = f"{self.daemon.dir}/run/quarantine"
        os.mkdir(directory)
        for number in range(20):
            path = f"{directory}/{number:032x}"
            with open(path, "w"):
                os.utime(path, (number, number))
        self.rewrite(lambda fields, body: b"")
        left = os.listdir(directory)
        self.assertEqual(len(left), 16)
        self.assertIn(self.other, left)
        self.assertNotIn(f"{0:032x}", left)

    def test_a_later_versions_sandbox_is_left_alone(self):
        base = self.daemon.json("info", self.other, "-o", "json")["id_range"]["base"]
        self.rewrite(lambda fields, body: self.sealed([fields[0], b"9", *fields[2:]], body))
        self.assertEqual(self.names(), {"kept"})
        with open(f"{self.daemon.cgroup_path}/{self.other}/box/init/cgroup.procs") as file:
            self.assertTrue(file.read())
        fresh = self.daemon.create()
        self.assertNotEqual(
            self.daemon.json("info", fresh, "-o", "json")["id_range"]["base"], base)
        self.rewrite(lambda fields, body: self.sealed([fields[0], b"1", *fields[2:]], body))
        self.assertIn("other", self.names())  # Its own daemon has come back.
        self.assertTrue(self.works(self.other))

    def test_a_file_of_another_boot_is_nobodys(self):
        self.rewrite(lambda fields, body: self.sealed([*fields[:2], b"another-boot", fields[3]], body))
        self.assertEqual(self.names(), {"kept"})
        self.assertFalse(os.path.exists(f"{self.daemon.dir}/run/quarantine"))


if __name__ == "__main__":
    unittest.main()
