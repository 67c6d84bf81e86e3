"""What a process does with its standard input reaches whoever writes it."""

import os
import subprocess
import time
import unittest

from harness import BIN, DATA, END, EXIT, REPLY, Daemon, Wire

STDIN = 1


class Input(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()
        cls.addClassCleanup(cls.daemon.close)
        cls.sandbox = cls.daemon.create()

    def cli(self, script):
        env = dict(os.environ, SANDBOXD_SOCKET=self.daemon.socket)
        return subprocess.Popen(
            [f"{BIN}/sandboxctl", "exec", "-i", self.sandbox, "--", "sh", "-c", script],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)

    def test_a_writer_learns_that_nobody_reads(self):
        process = self.cli("exec 0</dev/null; echo closed; sleep 5; echo end")
        self.assertEqual(process.stdout.readline(), b"closed\n")
        begin = time.monotonic()
        with self.assertRaises(BrokenPipeError):
            while time.monotonic() < begin + 4:
                process.stdin.write(b"x" * 4096)
                process.stdin.flush()
        self.assertLess(time.monotonic() - begin, 2)  # The process itself still runs.
        try:
            process.stdin.close()
        except BrokenPipeError:
            pass
        self.assertEqual(process.stdout.read(), b"end\n")
        self.assertEqual(process.wait(), 0)

    def test_the_end_of_the_channel_is_told_once_and_credit_goes_on(self):
        wire = Wire(self.daemon.socket)
        self.addCleanup(wire.close)
        argv = ["sh", "-c", "exec 0</dev/null; sleep 1"]
        kind, _ = wire.call(1, "exec.start", sandbox=self.sandbox, argv=argv, stdin="pipe")
        self.assertEqual(kind, REPLY)
        frames = []
        while (END, STDIN) not in frames:
            frames.append(wire.receive()[:2])
        for _ in range(8):  # More than the first credit: what is thrown away counts as read.
            wire.send(DATA, 1, b"x" * 65536, flags=STDIN)
            time.sleep(0.02)
        while (END, 0) not in frames:
            frames.append(wire.receive()[:2])
        self.assertEqual(frames.count((END, STDIN)), 1)
        self.assertIn(EXIT, [kind for kind, _ in frames])

    def test_no_end_of_input_is_told_where_the_client_has_ended_it(self):
        wire = Wire(self.daemon.socket)
        self.addCleanup(wire.close)
        wire.call(1, "exec.start", sandbox=self.sandbox, argv=["cat"], stdin="pipe")
        wire.send(DATA, 1, b"hello", flags=STDIN)
        wire.send(END, 1, flags=STDIN)
        frames = []
        while (END, 0) not in frames:
            frames.append(wire.receive()[:2])
        self.assertNotIn((END, STDIN), frames)


if __name__ == "__main__":
    unittest.main()
