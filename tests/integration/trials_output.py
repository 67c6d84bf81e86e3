"""Trials from public bug reports: output and input. The numbers in the names are those of the
trials; what they ask for terminals waits for terminals."""

import os
import pathlib
import re
import statistics
import time
import unittest

from harness import DATA, END, EXIT, REPLY, Daemon, Wire

MIB = 1 << 20


class OutputTrials(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()
        cls.addClassCleanup(cls.daemon.close)

    def setUp(self):
        self.id = self.daemon.create()
        self.addCleanup(lambda: self.daemon.ctl("kill", self.id))
        self.wire = Wire(self.daemon.socket)
        self.addCleanup(self.wire.close)
        self.stream = 0

    def sh(self, script, **options):
        self.stream += 1
        return self.wire.run(self.stream, self.id, "bash", "-c", script, **options)

    def resident(self):
        status = pathlib.Path(f"/proc/{self.daemon.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) * 1024

    def test_28_the_end_of_a_huge_line_is_there(self):
        before = self.resident()
        size = 192 * MIB
        line = self.sh(f"head -c {size} /dev/zero | tr '\\0' x; printf END", keep=False)
        self.assertEqual((line.bytes, line.out[-4:]), (size + 3, b"xEND"))
        self.assertEqual(line.exit["stdout_bytes"], size + 3)
        self.assertLess(self.resident() - before, 8 * MIB)

    def test_29_no_byte_of_many_small_writes_is_lost(self):
        for _ in range(30):
            count = self.sh("dd if=/dev/zero bs=1 count=20000 2>/dev/null", keep=False).bytes
            self.assertEqual(count, 20000)

    def test_31_32_what_others_write_does_not_delay_the_end(self):
        for script, out in (
            ("sleep 100 & echo hi", b"hi\n"),
            ("exec > >(tee /tmp/log); echo hi", b"hi\n"),
            ("(sleep 0.05; echo late; sleep 100) & echo hi", b"hi\nlate\n"),
            ("echo hi; exec >/dev/null; sleep 0.1", b"hi\n"),
            ("setsid sh -c 'while :; do echo hi; sleep 0.01; done' &", None),
        ):
            with self.subTest(script=script):
                result = self.sh(script)
                self.assertEqual(result.exit["exit_code"], 0)
                self.assertLess(result.times[EXIT], 1)
                self.assertLess(result.times["end"], result.times[EXIT] + 1)
                if out is not None:
                    self.assertEqual(result.out, out)

    def test_35_without_input_a_reader_sees_its_end(self):
        for script in ("cat", "read x; echo $?", "stat -Lc %t:%T /dev/stdin"):
            self.assertLess(self.sh(script).times["end"], 1, script)
        self.assertEqual(self.sh("stat -Lc %t:%T /dev/stdin").out, b"1:3\n")
        self.assertEqual(self.sh("cat; echo end", input=b"").out, b"end\n")

    def test_37_input_that_nobody_reads_yet_waits_at_the_client(self):
        before = self.resident()
        data = os.urandom(MIB) * 128
        result = self.sh("sleep 1; wc -c", input=data)
        self.assertEqual(result.out.split(), [str(len(data)).encode()])
        self.assertLess(self.resident() - before, 8 * MIB)
        begin = time.monotonic()
        unread = self.sh("exec <&-; sleep 0.1", input=data)  # Thrown away, as a shell's pipe does.
        self.assertEqual(unread.exit["exit_code"], 0)
        self.assertLess(time.monotonic() - begin, 10)

    def test_44_bytes_are_bytes_wherever_they_are_cut(self):
        self.assertEqual(self.sh("printf '\\0\\377\\r\\n'").out, b"\0\xff\r\n")
        split = self.sh("for b in '\\342' '\\202' '\\254'; do printf $b; sleep 0.02; done")
        self.assertEqual(split.out, "€".encode())
        both = self.sh("printf '\\342\\202' >&2; printf '\\377'; printf '\\254' >&2")
        self.assertEqual((both.out, both.err), (b"\xff", "€".encode()))
        data = bytes(range(256)) * 5000
        self.assertEqual(self.sh("cat", input=data).out, data)

    def test_46_a_quiet_end_is_noticed_at_once(self):
        late = []
        for _ in range(10):
            result = self.sh("exec sleep 0.2")
            late.append(result.times[EXIT] - result.times[REPLY] - 0.2)
        self.assertLess(statistics.median(late), 0.05)
        self.assertEqual(result.out, b"")

    def test_a_client_that_stops_reading_stops_only_its_own_output(self):
        self.wire.request(1, "exec.start", sandbox=self.id, argv=["yes"])
        self.wire.request(2, "exec.start", sandbox=self.id, argv=["sh", "-c", "sleep 0.2; echo on"])
        seen, ended = b"", False
        while not ended:
            kind, channel, stream, body = self.wire.receive()
            if stream == 2 and kind == DATA:
                seen += body
            ended = stream == 2 and kind == END and channel == 0
        self.assertEqual(seen, b"on\n")


if __name__ == "__main__":
    unittest.main()
