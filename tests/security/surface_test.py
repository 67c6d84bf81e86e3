"""The kernel's surface from inside: the table of attempts.py, by each kind of caller."""

import errno
import subprocess
import unittest

import attempts
from harness import BIN
from watched import Watched

CALLERS = [(profile, user) for profile in ("default", "strict") for user in ("0", "1000")]


class Surface(Watched):
    def attempt(self, profile, user, lines):
        """Runs the hostile program in a fresh sandbox: its answers, one a line."""
        box = self.box("--profile", profile)
        self.put_program(box, "attempt")
        result = self.daemon.ctl("exec", "-i", "-u", user, box, "--", "/tmp/attempt",
                                 input="".join(f"{line}\n" for line in lines).encode(),
                                 timeout=20)
        answers = result.stdout.decode().splitlines()
        self.assertEqual(len(answers), len(lines), result)
        return answers

    def judge(self, answer, expected):
        if answer.startswith("signal"):
            return answer in expected
        value = int(answer)
        if value >= 0:
            return "ok" in expected or f"={value}" in expected
        return errno.errorcode.get(-value) in expected

    def test_each_attempt_comes_to_what_the_table_says(self):
        native = attempts.numbers("64")
        rows = [(row, attempts.translate(row[1], native)) for row in attempts.ROWS]
        self.assertNotIn(None, [line for _, line in rows])
        for profile, user in CALLERS:
            answers = self.attempt(profile, user, [f"n {line}" for _, line in rows])
            for ((name, calls, expected), _), answer in zip(rows, answers):
                with self.subTest(id=name, profile=profile, user=user, calls=calls):
                    allowed = attempts.expected_of(expected, profile, user)
                    self.assertTrue(self.judge(answer, allowed), f"{answer}, not {allowed}")

    def test_foreign_abis_are_unimplemented(self):
        foreign = attempts.numbers("32")
        native = attempts.numbers("64")
        lines = {"i 20", "x 39", "i 4 1 b 0", "x 1 1 b 0"}  # Harmless ones, too.
        for _, calls, _ in attempts.ROWS:
            for abi, table in (("i", foreign), ("x", native)):
                line = attempts.translate(calls.split(";")[0], table)
                if line is not None:
                    lines.add(f"{abi} {line}")
        lines = sorted(lines)
        for profile, user in CALLERS:
            for line, answer in zip(lines, self.attempt(profile, user, lines)):
                with self.subTest(profile=profile, user=user, line=line):
                    self.assertEqual(answer, str(-errno.ENOSYS))

    def test_a_32_bit_program_can_do_nothing(self):
        outside = subprocess.run([f"{BIN}/foreign32"], check=False)
        for profile, user in CALLERS:
            box = self.box("--profile", profile)
            self.put_program(box, "foreign32")
            inside = self.daemon.ctl("exec", "-u", user, box, "--", "/tmp/foreign32")
            if outside.returncode == 1:  # This kernel runs them.
                self.assertEqual(inside.returncode, 128 + 4, (profile, user))
            else:
                self.assertIn(inside.returncode, (126, 128 + 4), (profile, user))

    def test_the_program_finds_what_is_open_outside(self):
        """The control: without a sandbox the same attempts succeed."""
        answers = subprocess.run([f"{BIN}/attempt"], check=True, stdout=subprocess.PIPE,
                                 input=b"n 155 s:x s:x\nn 135 0xffffffff\nn 272 0x4000000\nn 39\n")
        results = [int(line) for line in answers.stdout.split()]
        self.assertNotEqual(results[0], -errno.EPERM)  # pivot_root of what is not there.
        self.assertEqual([value >= 0 for value in results[1:]], [True, True, True])

    def test_nothing_beneath_proc_and_sys_opens_for_writing(self):
        walk = (
            "import os, sys\n"
            "own = f'/proc/{os.getpid()}/'\n"
            "for top in sys.argv[1:]:\n"
            "  for path, folders, files in os.walk(top):\n"
            "    for name in files:\n"
            "      try: os.close(os.open(f'{path}/{name}', os.O_WRONLY | os.O_NONBLOCK))\n"
            "      except OSError: continue\n"
            "      print(f'{path}/{name}')\n"
        )
        covered = "/proc/acpi /proc/scsi /proc/sys /proc/bus /proc/fs /proc/irq /sys".split()
        for user in ("0", "1000"):
            box = self.box()
            opened = self.daemon.ctl("exec", "-u", user, box, "--", "python3", "-c", walk, *covered)
            self.assertEqual(opened.returncode, 0, opened.stderr)
            self.assertEqual(opened.stdout, b"", user)
            top = "for f in /proc/*; do [ -f $f -a ! -L $f ] && (: > $f) 2>/dev/null && echo $f; done; true"
            self.assertEqual(self.daemon.sh(box, top, "-u", user).stdout, b"", user)


if __name__ == "__main__":
    unittest.main()
