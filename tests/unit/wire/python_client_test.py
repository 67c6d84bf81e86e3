"""The Python client against a server that follows a script, over a socketpair."""
import contextlib
import json
import os
import select
import socket
import tempfile
import threading
import time
import unittest

import sandboxd
from sandboxd import (CANCEL, CREDIT, DATA, END, ERROR, EVENT, EXIT, HELLO, PING, REPLY, REQUEST,
                      STDERR, STDIN, STDOUT, STREAM)


class Peer(sandboxd.Connection):
    """The server's end."""

    def expect(self, kind):
        frame = self.recv_frame(timeout=10)
        assert frame is not None and frame.type == kind, frame
        return frame

    def greet(self, credit=262144):
        assert self.expect(HELLO).json()["protocol"] == 1
        self.send_frame(HELLO, 0, 0, {"protocol": 1, "limits": {"initial_credit": credit}})

    def take(self, op):
        frame = self.expect(REQUEST)
        assert frame.json()["op"] == op, frame
        return frame.stream, frame.json().get("params", {})

    def start_exec(self):
        stream, params = self.take("exec.start")
        self.send_frame(REPLY, 0, stream, {"exec": 1, "pid": 2})
        return stream, params

    def end_exec(self, stream, **changes):
        self.send_frame(EXIT, 0, stream, {"exit_code": 0, "signal": None, "timed_out": False,
                                          "reason": "exited", **changes})
        for channel in (STDOUT, STDERR, STREAM):
            self.send_frame(END, channel, stream)


@contextlib.contextmanager
def scripted(script):
    """A client whose server runs `script(peer)`; what fails in the script fails the test."""
    ours, theirs = socket.socketpair()
    failures = []

    def run():
        with Peer(theirs) as peer:
            try:
                script(peer)
            except BaseException as error:  # pylint: disable=broad-except
                failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    client = sandboxd.Client(ours)
    try:
        yield client
        thread.join(10)
    finally:
        client.close()
        thread.join(10)
    if failures:
        raise failures[0]


class BytesTest(unittest.TestCase):
    def test_text_travels_as_text_and_other_bytes_as_base64(self):
        self.assertEqual(sandboxd.encode_bytes("é"), "é")
        self.assertEqual(sandboxd.encode_bytes(b"abc"), "abc")
        self.assertEqual(sandboxd.encode_bytes(b"\xff\xfe"), {"base64": "//4="})
        for raw in (b"", b"plain", bytes(range(1, 256))):
            self.assertEqual(sandboxd.decode_bytes(sandboxd.encode_bytes(raw)), raw)

    def test_environments_are_mappings_or_lists(self):
        self.assertEqual(sandboxd.encode_env({"A": "1", b"B": b"\xff"}), ["A=1", {"base64": "Qj3/"}])
        self.assertEqual(sandboxd.encode_env(["A=1"]), ["A=1"])
        self.assertIsNone(sandboxd.encode_env(None))


class ConnectTest(unittest.TestCase):
    def test_without_a_daemon_the_message_says_what_to_do(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "sock")
            with self.assertRaisesRegex(sandboxd.ConnectionLost, f"no daemon .* {path}") as caught:
                sandboxd.Client(path)
            self.assertEqual(caught.exception.reason, "DAEMON_UNREACHABLE")
            self.assertEqual(caught.exception.errno, "ENOENT")

    def test_the_environment_names_the_socket_and_a_full_queue_is_waited_for(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "sock")
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(path)
            listener.listen(0)
            os.environ["SANDBOXD_SOCKET"] = path
            self.addCleanup(os.environ.pop, "SANDBOXD_SOCKET")
            with sandboxd.Client(), listener:
                start = time.monotonic()
                with self.assertRaises(sandboxd.ConnectionLost):
                    sandboxd.Client(connect_timeout=0.05)
                self.assertLess(time.monotonic() - start, 5)


class CallTest(unittest.TestCase):
    def test_a_reply_comes_back_and_none_is_left_out(self):
        def script(peer):
            peer.greet()
            stream, params = peer.take("sandbox.info")
            assert params == {"sandbox": "x"}, params
            peer.send_frame(REPLY, 0, stream, {"answer": 42})

        with scripted(script) as client:
            self.assertEqual(client.call("sandbox.info", sandbox="x", more=None), {"answer": 42})
            self.assertEqual(client.hello["protocol"], 1)

    def test_an_error_carries_its_parts_and_the_connection_goes_on(self):
        def script(peer):
            peer.greet()
            body = {"code": "NOT_FOUND", "reason": "SANDBOX_NOT_FOUND", "object": "sandbox x",
                    "message": "no sandbox x", "stage": "s", "errno": "ENOENT"}
            peer.send_frame(ERROR, 0, peer.take("sandbox.info")[0], body)
            peer.send_frame(REPLY, 0, peer.take("daemon.info")[0], {})

        with scripted(script) as client:
            with self.assertRaisesRegex(sandboxd.SandboxError, "no sandbox x") as caught:
                client.call("sandbox.info", sandbox="x")
            error = caught.exception
            self.assertEqual((error.code, error.reason, error.object, error.stage, error.errno),
                             ("NOT_FOUND", "SANDBOX_NOT_FOUND", "sandbox x", "s", "ENOENT"))
            self.assertEqual(client.call("daemon.info"), {})

    def test_an_error_on_stream_0_ends_everything(self):
        def script(peer):
            peer.expect(HELLO)
            peer.send_frame(ERROR, 0, 0, {"code": "INVALID_ARGUMENT", "reason": "PROTOCOL_ERROR"})

        with scripted(script) as client:
            for _ in range(2):
                with self.assertRaises(sandboxd.ConnectionLost) as caught:
                    client.call("daemon.info")
                self.assertEqual(caught.exception.reason, "PROTOCOL_ERROR")

    def test_a_closed_connection_and_a_truncated_frame_are_told_apart(self):
        for tail, message in ((b"", "closed the connection$"), (b"\x05\0\0", "middle of a frame")):
            def script(peer, tail=tail):
                peer.greet()
                peer.take("daemon.info")
                peer.send_raw(tail)

            with scripted(script) as client:
                with self.assertRaisesRegex(sandboxd.ConnectionLost, message):
                    client.call("daemon.info")

    def test_a_call_that_takes_too_long_is_cancelled(self):
        def script(peer):
            peer.greet()
            late, _ = peer.take("sandbox.wait")
            assert peer.expect(CANCEL).stream == late
            stream, _ = peer.take("daemon.info")
            peer.send_frame(REPLY, 0, late, {"late": True})
            peer.send_frame(REPLY, 0, stream, {"late": False})

        with scripted(script) as client:
            with self.assertRaises(TimeoutError):
                client.call("sandbox.wait", sandbox="x", timeout=0.02)
            self.assertEqual(client.call("daemon.info"), {"late": False})

    def test_pings_are_answered_and_drain_is_remembered(self):
        def script(peer):
            peer.greet()
            stream, _ = peer.take("daemon.info")
            peer.send_frame(PING, 0, 0, b"12345678")
            answer = peer.expect(PING)
            assert (answer.flags, answer.payload) == (1, b"12345678")
            peer.send_frame(EVENT, 0, 0, {"event": "drain"})
            peer.send_frame(REPLY, 0, stream, {})

        with scripted(script) as client:
            client.call("daemon.info")
            self.assertTrue(client.draining)

    def test_pages_of_a_list_are_joined(self):
        def script(peer):
            peer.greet()
            peer.send_frame(REPLY, 0, peer.take("sandbox.list")[0],
                            {"sandboxes": [{"id": "a"}], "next": "a"})
            stream, params = peer.take("sandbox.list")
            assert params == {"after": "a"}, params
            peer.send_frame(REPLY, 0, stream, {"sandboxes": [{"id": "b"}], "next": None})

        with scripted(script) as client:
            self.assertEqual([row["id"] for row in client.list()], ["a", "b"])

    def test_events_come_in_order_and_unread_ones_become_a_gap(self):
        def script(peer):
            peer.greet()
            stream, params = peer.take("sandbox.events")
            assert params == {"sandbox": "box"}, params
            peer.send_frame(REPLY, 0, stream, {"next": 1})
            call, _ = peer.take("daemon.info")
            for seq in range(1, 1031):
                peer.send_frame(EVENT, 0, stream, {"seq": seq})
            peer.send_frame(REPLY, 0, call, {})
            peer.send_frame(END, 0, stream)

        with scripted(script) as client:
            events = sandboxd.Sandbox(client, "box").events()
            client.call("daemon.info")
            got = list(events)
            self.assertEqual(got[0], {"event": "gap", "from": 1, "to": 7})
            self.assertEqual([event["seq"] for event in got[1:]], list(range(8, 1031)))


class ExecTest(unittest.TestCase):
    def test_a_sandbox_is_made_used_and_killed(self):
        def script(peer):
            peer.greet()
            stream, params = peer.take("sandbox.create")
            assert params == {"image": "host", "env": ["A=1"], "timeout_ms": 60000,
                              "tmpfs": [{"path": {"base64": "L/8="}}]}, params
            peer.send_frame(REPLY, 0, stream, {"sandbox": {"id": "4f"}, "created": True})
            stream, params = peer.start_exec()
            assert params == {"sandbox": "4f", "argv": ["echo", {"base64": "/w=="}],
                              "cwd": "/tmp", "user": "1000", "timeout_ms": 1500,
                              "env": ["B=2"]}, params
            peer.send_frame(DATA, STDOUT, stream, b"out\xff")
            peer.send_frame(DATA, STDERR, stream, b"err")
            peer.end_exec(stream, exit_code=3)
            stream, params = peer.take("sandbox.kill")
            peer.send_frame(REPLY, 0, stream, {"id": "4f", "wall_us": 1})

        with scripted(script) as client:
            tmpfs = [{"path": b"/\xff"}]
            with client.create("host", env={"A": "1"}, timeout=60, tmpfs=tmpfs) as box:
                result = box.exec(["echo", b"\xff"], cwd="/tmp", user="1000", timeout=1.5,
                                  env=["B=2"])
        self.assertEqual((result.exit_code, result.signal), (3, None))
        self.assertEqual((result.stdout, result.stderr), (b"out\xff", b"err"))

    def test_a_report_is_its_layers(self):
        layers = [{"name": "seccomp", "in_force": True, "evidence": "mode 2"},
                  {"name": "time_namespace", "in_force": None, "evidence": ""}]

        def script(peer):
            peer.greet()
            stream, params = peer.take("sandbox.report")
            assert params == {"sandbox": "4f"}, params
            peer.send_frame(REPLY, 0, stream, {"id": "4f", "layers": layers})

        with scripted(script) as client:
            self.assertEqual(sandboxd.Sandbox(client, "4f").report(), layers)

    def test_argv_is_never_one_string(self):
        with scripted(lambda peer: peer.greet()) as client:
            with self.assertRaises(TypeError):
                sandboxd.Sandbox(client, "x").exec("echo hello")

    def test_output_streams_and_credit_comes_back(self):
        total = 4 << 20

        def script(peer):
            peer.greet(credit=100000)
            stream, _ = peer.start_exec()
            credit, sent = 100000, 0
            while sent < total:
                size = min(credit, total - sent, sandboxd.MAX_DATA)
                if size == 0:
                    credit += int.from_bytes(peer.expect(CREDIT).payload, "little")
                    continue
                peer.send_frame(DATA, STDOUT, stream, b"x" * size)
                credit, sent = credit - size, sent + size
            peer.end_exec(stream)

        with scripted(script) as client:
            with sandboxd.Sandbox(client, "x").popen(["yes"]) as process:
                received = 0
                for channel, data in process:
                    self.assertEqual(channel, STDOUT)
                    received += len(data)
                self.assertEqual(received, total)
                self.assertEqual(process.wait().exit_code, 0)

    def test_input_larger_than_credit_and_socket_arrives_whole(self):
        data = os.urandom(3 << 20)

        def script(peer):
            peer.greet(credit=1000)
            stream, params = peer.start_exec()
            assert params["stdin"] == "pipe"
            got = peer.expect(DATA).payload
            assert len(got) <= 1000
            peer.send_frame(CREDIT, STDIN, stream, (len(data)).to_bytes(8, "little"))
            while True:
                if len(got) < 100000:
                    time.sleep(0.02)
                frame = peer.recv_frame(10)
                if frame.type == END:
                    break
                got += frame.payload
            assert got == data
            peer.end_exec(stream)

        with scripted(script) as client:
            self.assertEqual(sandboxd.Sandbox(client, "x").exec(["cat"], input=data).exit_code, 0)

    def test_a_start_that_fails_raises_its_error(self):
        def script(peer):
            peer.greet()
            body = {"code": "NOT_FOUND", "reason": "COMMAND_NOT_FOUND"}
            peer.send_frame(ERROR, 0, peer.take("exec.start")[0], body)

        with scripted(script) as client:
            with self.assertRaises(sandboxd.SandboxError) as caught:
                sandboxd.Sandbox(client, "x").exec(["nothing"])
            self.assertEqual(caught.exception.reason, "COMMAND_NOT_FOUND")

    def test_leaving_the_context_cancels_and_late_frames_are_dropped(self):
        def script(peer):
            peer.greet()
            stream, _ = peer.start_exec()
            assert peer.expect(CANCEL).stream == stream
            call, _ = peer.take("daemon.info")
            peer.send_frame(DATA, STDOUT, stream, b"nobody wants this")
            peer.end_exec(stream)
            peer.send_frame(REPLY, 0, call, {})

        with scripted(script) as client:
            with sandboxd.Sandbox(client, "x").popen(["sleep", "9"]):
                pass
            self.assertEqual(client.call("daemon.info"), {})

    def test_two_execs_share_a_connection_and_signals_go_by(self):
        def script(peer):
            peer.greet()
            first, _ = peer.start_exec()
            second, _ = peer.start_exec()
            for text in (b"1", b"2"):
                peer.send_frame(DATA, STDOUT, first, b"a" + text)
                peer.send_frame(DATA, STDOUT, second, b"b" + text)
            stream, params = peer.take("exec.signal")
            assert params == {"sandbox": "x", "exec": 1, "signal": 15, "all": True}, params
            peer.send_frame(REPLY, 0, stream, {})
            peer.end_exec(first, exit_code=None, signal=15, reason="signalled")
            peer.end_exec(second)

        with scripted(script) as client:
            box = sandboxd.Sandbox(client, "x")
            with box.popen(["a"]) as first, box.popen(["b"]) as second:
                self.assertEqual(second.read(), (STDOUT, b"b1"))
                first.signal(15, all=True)
                self.assertEqual(list(first), [(STDOUT, b"a1"), (STDOUT, b"a2")])
                self.assertEqual(first.wait().signal, 15)
                self.assertEqual(list(second), [(STDOUT, b"b2")])

    def test_reading_can_time_out_and_go_on(self):
        def script(peer):
            peer.greet()
            stream, _ = peer.start_exec()
            select.select([], [], [], 0.1)
            peer.send_frame(DATA, STDERR, stream, b"late")
            peer.end_exec(stream)

        with scripted(script) as client:
            with sandboxd.Sandbox(client, "x").popen(["a"]) as process:
                self.assertIsNone(process.read(timeout=0.01))
                self.assertEqual(list(process), [(STDERR, b"late")])

    def test_data_beyond_the_credit_is_refused(self):
        def script(peer):
            peer.greet(credit=10)
            stream, _ = peer.start_exec()
            peer.send_frame(DATA, STDOUT, stream, b"0123456789a")

        with scripted(script) as client:
            with self.assertRaises(sandboxd.ConnectionLost) as caught:
                sandboxd.Sandbox(client, "x").exec(["a"])
            self.assertEqual(caught.exception.reason, "PROTOCOL_ERROR")


class ConnectionTest(unittest.TestCase):
    def test_anything_can_be_sent(self):
        ours, theirs = socket.socketpair()
        with sandboxd.Connection(ours) as connection, theirs:
            connection.send_frame(255, 7, 3, b"x")
            connection.send_frame(REQUEST, 0, 1, {"op": "é"})
            connection.send_raw(b"\xff")
            self.assertEqual(theirs.recv(100), b"\x01\0\0\0\xff\x07\0\0\x03\0\0\0\0\0\0\0x"
                             b"\x0f\0\0\0\x02\0\0\0\x01\0\0\0\0\0\0\0" +
                             json.dumps({"op": "é"}, separators=(",", ":")).encode() + b"\xff")
            self.assertIsNone(connection.recv_frame(timeout=0))


if __name__ == "__main__":
    unittest.main()
