"""Completion in a real bash, and the manual pages, against what the programs themselves say."""

import os
import re
import shutil
import subprocess
import tomllib
import unittest

from harness import BIN, Daemon

PAGES = f"{BIN}/../man"


def commands():
    """The sub-commands that `--help` shows, with their aliases."""
    text = subprocess.run([f"{BIN}/sandboxctl", "--help"], capture_output=True, text=True).stdout
    section = text.split("Subcommands:\n")[1].split("\n\n")[0]
    names = []
    for line in section.splitlines():
        if re.match(r"  \S", line):
            names += line.split("  ")[1].split(",")[:1]
    return [name.strip() for name in names]


class Completion(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()
        cls.addClassCleanup(cls.daemon.close)
        cls.id = cls.daemon.create("--name", "completed")

    def complete(self, *words):
        """What bash offers for the last of the words."""
        script = (
            f'PATH={BIN}:$PATH; source <({BIN}/sandboxctl completion bash)\n'
            'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))\n'
            '_sandboxctl; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        env = dict(os.environ, SANDBOXD_SOCKET=self.daemon.socket)
        done = subprocess.run(["bash", "-uc", script, "bash", "sandboxctl", *words], env=env,
                              capture_output=True, text=True, timeout=20)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_every_command_is_offered(self):
        offered = self.complete("")
        names = commands()
        self.assertIn("exec", names)
        for name in names:
            self.assertIn(name, offered)
        self.assertNotIn("manual", offered)
        self.assertEqual(self.complete("in"), ["info", "inspect"])

    def test_options_and_their_values(self):
        self.assertIn("--image", self.complete("create", "--"))
        self.assertEqual(self.complete("exec", "--ti"), ["--timeout"])
        self.assertEqual(self.complete("list", "-o", ""), ["table", "json"])
        self.assertEqual(self.complete("completion", ""), ["bash", "zsh", "fish"])
        self.assertEqual(self.complete("create", "--image", ""), [])  # Left to file names.

    def test_sandboxes(self):
        for command in ("exec", "info", "inspect", "kill", "rm", "wait", "report", "events"):
            offered = self.complete(command, "")
            self.assertIn("completed", offered, command)
            self.assertIn(self.id[:12], offered, command)
        self.assertEqual(self.complete("exec", "-u", "1000", "compl"), ["completed"])
        self.assertIn("completed", self.complete("--socket", self.daemon.socket, "info", ""))
        self.assertEqual(self.complete("create", ""), [])
        self.assertEqual(self.complete("info", "completed", ""), [])
        self.assertIn("completed", self.complete("kill", "other", ""))
        self.assertEqual(self.complete("exec", "completed", "--", "compl"), [])

    def test_other_shells(self):
        for shell, needed in (("zsh", "#compdef sandboxctl"), ("fish", "complete -c sandboxctl")):
            done = self.daemon.ctl("completion", shell)
            self.assertEqual(done.returncode, 0)
            self.assertIn(needed, done.stdout.decode())
        done = self.daemon.ctl("completion", "csh")
        self.assertEqual(done.returncode, 125)


class Manual(unittest.TestCase):
    def page(self, path):
        if shutil.which("groff") is None:
            self.skipTest("groff is not installed")
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-P-cbou", path],
                              capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def test_every_command_is_described(self):
        page = self.page(f"{PAGES}/sandboxctl.1")
        for name in commands():
            self.assertRegex(page, rf"(?m)^ +{name}( |$|\()")
        self.assertIn("SANDBOXD_SOCKET", page)

    def test_every_key_of_the_configuration_is_described(self):
        page = self.page(f"{PAGES}/sandboxd.toml.5")
        printed = subprocess.run([f"{BIN}/sandboxd", "--print-default-config"],
                                 capture_output=True, text=True).stdout
        for table, keys in tomllib.loads(printed).items():
            self.assertIn(f"[{table}]", page)
            for key in keys:
                self.assertRegex(page, rf"(?m)^ +{key} = ")

    def test_the_daemon_is_described(self):
        here = os.path.dirname(os.path.abspath(__file__))
        page = self.page(f"{here}/../../man/sandboxd.8")
        done = subprocess.run([f"{BIN}/sandboxd", "--help"], capture_output=True, text=True)
        for option in re.findall(r"--[a-z-]+", done.stdout):
            if option != "--help":
                self.assertIn(option, page)


if __name__ == "__main__":
    unittest.main()
