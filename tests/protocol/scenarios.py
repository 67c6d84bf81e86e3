"""Runs scenarios.json with the Python client against a daemon of its own, and has scenarios.cc do the
same with the C++ client. See README.md."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "clients/python"), str(ROOT / "tests/integration")]
import sandboxd  # noqa: E402
from harness import BIN, Daemon  # noqa: E402

TABLE = json.loads((HERE / "scenarios.json").read_text())


def at(document, pointer):
    for part in pointer.split("/")[1:]:
        document = document[int(part) if isinstance(document, list) else part]
    return document


class Player:
    def __init__(self, client, test):
        self.client, self.test, self.saved = client, test, {"run": "python"}

    def filled(self, value):
        if isinstance(value, str) and value.startswith("$") and value[1:] in self.saved:
            return self.saved[value[1:]]
        if isinstance(value, dict):
            return {key: self.filled(item) for key, item in value.items()}
        return [self.filled(item) for item in value] if isinstance(value, list) else value

    def play(self, step):
        step = dict(step)
        during = step.pop("during", [])
        together = step.pop("together", None)
        step = self.filled(step)
        if together is not None:
            return self.together([self.filled(one) for one in together])
        if "error" in step:
            with self.test.assertRaises(sandboxd.SandboxError) as caught:
                self.act(step, during)
            return self.fields(caught.exception, step["error"])
        return self.act(step, during)

    def fields(self, error, expected):
        self.test.assertEqual({name: getattr(error, name) for name in expected}, expected)

    def act(self, step, during):
        if "call" in step:
            reply = self.client.call(step["call"], **step["params"])
            self.compare(reply, step.get("expect", {}))
            for name, pointer in step.get("save", {}).items():
                self.saved[name] = at(reply, pointer)
        elif "exec" in step:
            process = self.start(step)
            if step.get("cancel"):
                first = process.read()
                process.kill()
                result = process.communicate()
                result.stdout = first[1] + result.stdout
            else:
                result = process.communicate(self.input(step))
            self.ended(step, result)
        elif "list" in step:
            names = [row["name"] for row in self.client.list(**step["list"])]
            self.test.assertEqual(names, step["expect"])
        elif "events" in step:
            events = self.client.events(timeout=10, **step["events"])
            for one in during:
                self.play(one)
            self.test.assertEqual([next(events)["event"] for _ in step["expect"]], step["expect"])
            events.close()

    def start(self, step):
        params = dict(step["exec"])
        box = sandboxd.Sandbox(self.client, params.pop("sandbox"))
        for name in ("timeout", "grace"):
            if f"{name}_ms" in params:
                params[name] = params.pop(f"{name}_ms") / 1000
        argv = [sandboxd.decode_bytes(argument) for argument in params.pop("argv")]
        return box.popen(argv, stdin=params.pop("stdin", None) == "pipe", **params)

    @staticmethod
    def input(step):
        given = step.get("input", "")
        if isinstance(given, dict):
            given = given["repeat"] * given["times"]
        return given.encode()

    def together(self, steps):
        processes = [self.start(step) for step in steps]
        # The last first: what comes for the others meanwhile is kept.
        for step, process in reversed(list(zip(steps, processes))):
            self.ended(step, process.communicate())

    def ended(self, step, result):
        expected = dict(step.get("expect", {}))
        for name in ("stdout", "stderr"):
            want, got = expected.pop(name, None), getattr(result, name)
            if isinstance(want, dict):
                self.test.assertEqual(len(got), want["bytes"])
            elif want is not None:
                self.test.assertEqual(got, want.encode())
        self.compare(result.exit, expected)

    def compare(self, document, expected):
        self.test.assertEqual({pointer: at(document, pointer) for pointer in expected}, expected)


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()
        cls.addClassCleanup(cls.daemon.close)

    def test_python(self):
        for scenario in TABLE:
            with self.subTest(scenario["name"]), sandboxd.Client(self.daemon.socket) as client:
                player = Player(client, self)
                if "image" in scenario:
                    player.saved["id"] = client.create(scenario["image"]).id
                for step in scenario["steps"]:
                    player.play(step)
                if "image" in scenario:
                    sandboxd.Sandbox(client, player.saved["id"]).kill()

    def test_cpp(self):
        done = subprocess.run([f"{BIN}/scenarios", self.daemon.socket, HERE / "scenarios.json"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"{len(TABLE)} scenarios", done.stdout)


if __name__ == "__main__":
    unittest.main()
