#!/usr/bin/env python3
"""Builds the tree and runs its tests; `scripts/test` starts it.

Parts run in this order: build, check, then the CTest labels in the order of tests/budgets.toml,
`sanitize` after the first of them. Each has a budget of seconds there. Skips must be on
tests/skips.toml, and nothing may be on the machine after a label that was not there before
(scripts/leaks.py). The last line is `N passed, N failed, N skipped`; the exit status is 0 only if
nothing failed.
"""
import argparse
import collections
import fnmatch
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib

import leak_probes
import leaks
import process_tree
import test_logs
from test_logs import FAILED, PASSED, SKIPPED, Result

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHOWN_LINES = 60  # Of the log of something that failed.
SETTLE_SECONDS = 5  # For the last processes of a label to end by themselves.


class Part:
    """One row of the summary."""

    def __init__(self, name, budget):
        self.name, self.budget, self.seconds, self.results = name, budget, 0.0, []

    def count(self, outcome):
        return sum(result.outcome == outcome for result in self.results)


class Setup:
    """tests/budgets.toml and tests/skips.toml."""

    def __init__(self):
        text = tomllib.loads((ROOT / "tests/budgets.toml").read_text())
        self.labels, self.steps = text["labels"], text["steps"]
        self.sanitize, self.parallel = text["options"]["sanitize"], text["options"]["parallel"]
        if sum(self.labels.values()) > text["total"]:
            sys.exit(f"tests/budgets.toml: the labels take {sum(self.labels.values())} s together; "
                     f"total is {text['total']}")
        self.skips = tomllib.loads((ROOT / "tests/skips.toml").read_text()).get("skip", [])
        for entry in self.skips:
            if set(entry) != {"test", "reason", "because"} or not all(entry.values()):
                sys.exit(f"tests/skips.toml: needs test, reason and because: {entry}")

    def allows(self, result):
        return any(fnmatch.fnmatchcase(result.name, entry["test"]) and
                   entry["reason"] in result.reason for entry in self.skips)


def say(text=""):
    print(text, flush=True)


def title(result):
    return f"{result.name}: {result.reason}" if result.reason else result.name


def show(text, lines=SHOWN_LINES):
    """A log, indented, so that no line of it can be taken for one of ours."""
    kept = text.splitlines()
    if len(kept) > lines:
        say(f"      … {len(kept) - lines} lines before these")
    for line in kept[-lines:]:
        say("      " + line)


class Traces:
    """What makes the things of this run known, and what is left of them."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="sandboxd-")
        first_id = self.reserve_ids()
        mark = os.path.basename(self.folder)
        self.env = {"TMPDIR": self.folder, "SANDBOXD_TEST_PREFIX": mark + "-",
                    "SANDBOXD_TEST_IDS": f"{first_id}:{leaks.IDS // 65536}"}
        self.watch = leaks.Watch(leaks.Run(mark, first_id), lambda: leak_probes.look(self.folder))

    def reserve_ids(self):
        """The first of the host ids of this run. No other has them, for as long as this runs."""
        self.lock = socket.socket(socket.AF_UNIX)
        for slot in range(leaks.RUNS):
            try:
                self.lock.bind(f"\0sandboxd-test-ids-{slot}")
            except OSError:
                continue
            return leaks.FIRST_ID + slot * leaks.IDS
        sys.exit(f"scripts/test: {leaks.RUNS} runs at once are the most")

    def results(self, label):
        left = self.watch.settle()
        return [Result(f"{label}/leaks", FAILED, f"left {len(left)} things behind",
                       leaks.listing(left))] if left else []

    def close(self):
        try:
            os.rmdir(self.folder)
        except OSError:
            say(f"   what the tests left there stays for you to look at: {self.folder}")


class Runner:
    def __init__(self, setup, preset, traces):
        self.setup, self.preset, self.traces, self.parts = setup, preset, traces, []

    def folder(self, preset):
        path = ROOT / "build" / preset / "test-results"
        path.mkdir(parents=True, exist_ok=True)
        return path

    def command(self, part, command, log, env=None):
        """Runs one command within what is left of the part's budget; whether it succeeded."""
        left = part.budget - part.seconds
        start = time.monotonic()
        code = process_tree.run(command, log, left, ROOT, {**os.environ, **(env or {})})
        part.seconds += time.monotonic() - start
        if code is None:
            part.results.append(Result(part.name, FAILED, f"over its budget of {part.budget} s: "
                                       + " ".join(map(str, command[:4]))))
        return code

    def build(self, part, preset, targets=()):
        """Configures and builds; records a failure in the part."""
        for name, command in (
                ("configure", ["cmake", "--preset", preset, "-DSANDBOXD_BUILD_TESTS=ON"]),
                ("build", ["cmake", "--build", "--preset", preset,
                           *(["--target", *targets] if targets else [])])):
            log = self.folder(preset) / f"{name}.log"
            code = self.command(part, command, log)
            if code != 0:
                if code is not None:
                    part.results.append(Result(f"{part.name}/{name}", FAILED, f"exit code {code}"))
                show(log.read_text(errors="replace"))
                return False
        return True

    def check(self, part):
        log = self.folder(self.preset) / "check.log"
        code = self.command(part, ["scripts/check"], log)
        if code == 0:
            part.results.append(Result("scripts/check", PASSED))
        elif code is not None:
            violations = log.read_text(errors="replace")
            part.results.append(Result("scripts/check", FAILED,
                                       f"{violations.count(chr(10))} violations", violations))

    def label(self, part, preset, label, env=None):
        """Runs the tests of one label and adds their results to the part."""
        folder = self.folder(preset)
        junit, log = folder / f"{label}.xml", folder / f"{label}.log"
        junit.unlink(missing_ok=True)
        jobs = os.cpu_count() if label in self.setup.parallel else 1
        limit = 1 << 24
        code = self.command(part, [
            "ctest", "--test-dir", ROOT / "build" / preset, "--label-regex", f"^{label}$",
            "--parallel", str(jobs), "--timeout", str(part.budget), "--output-junit", junit,
            "--no-tests=ignore", "--test-output-size-passed", str(limit),
            "--test-output-size-failed", str(limit)], log, {**self.traces.env, **(env or {})})
        results = test_logs.read_junit(junit)
        text = log.read_text(errors="replace")
        if code is None:
            results, running = test_logs.read_progress(text)
            results += [Result(name, FAILED, "was running when the budget ended")
                        for name in running]
        elif code != 0 and not any(result.outcome == FAILED for result in results):
            results.append(Result(f"{label}/ctest", FAILED, f"ctest ended with {code}", text))
        if left := process_tree.leftovers(SETTLE_SECONDS):
            results.append(Result(f"{label}/processes", FAILED, "left behind: " + " ".join(left)))
            process_tree.end_all(1)
        part.results += results + self.traces.results(label)
        for result in part.results:
            if result.outcome == SKIPPED and not self.setup.allows(result):
                result.outcome = FAILED
                result.reason = f"skipped, and not on tests/skips.toml: {result.reason}"

    def sanitize(self, part):
        if not self.build(part, "asan", ["unit_tests"]):
            return
        env = {"UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
               "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1"}
        for label in self.setup.sanitize:
            self.label(part, "asan", label, env)
        if not part.results:
            part.results.append(Result("sanitize", FAILED, "ran no test"))

    def run(self, name, budget, action):
        """Runs one part, and says how it went."""
        part = Part(name, budget)
        self.parts.append(part)
        say(f"== {name} (budget {budget} s)")
        action(part)
        for result in part.results:
            if result.outcome == FAILED:
                say("   FAILED " + title(result))
                show(result.log)
        say(f"   {part.count(PASSED)} passed, {part.count(FAILED)} failed, {part.count(SKIPPED)} "
            f"skipped in {part.seconds:.1f} s")

    def summary(self):
        """Prints the table, the skips and the closing line; whether all is well."""
        say()
        say(f"{'part':<14}{'tests':>7}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}"
            f"{'budget':>8}")
        for part in self.parts:
            row = [part.count(outcome) for outcome in (PASSED, FAILED, SKIPPED)]
            say(f"{part.name:<14}{len(part.results):>7}{row[0]:>8}{row[1]:>8}{row[2]:>9}"
                f"{part.seconds:>9.1f}{part.budget:>8}")
        results = [result for part in self.parts for result in part.results]
        for outcome, heading in ((SKIPPED, "Skipped:"), (FAILED, "Failed:")):
            chosen = [result for result in results if result.outcome == outcome]
            if chosen:
                say(f"\n{heading}")
            for result in chosen:
                say("  " + title(result))
        counts = collections.Counter(result.outcome for result in results)
        say(f"\n{counts[PASSED]} passed, {counts[FAILED]} failed, {counts[SKIPPED]} skipped")
        return counts[FAILED] == 0


def registered(preset, labels):
    """{label: [test]} of the configured tests, and what is wrong with their labels."""
    text = subprocess.run(["ctest", "--test-dir", ROOT / "build" / preset, "--show-only=json-v1"],
                          capture_output=True, text=True, check=True).stdout
    found, wrong = {label: [] for label in labels}, []
    for test in json.loads(text)["tests"]:
        properties = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
        own = [label for label in properties.get("LABELS", []) if label in labels]
        if len(own) == 1:
            found[own[0]].append(test["name"])
        else:
            wrong.append(Result(test["name"], FAILED, "needs exactly one label of "
                                f"tests/budgets.toml; it has {own or 'none'}"))
    return found, wrong


def print_list(setup, tests):
    for label, names in tests.items():
        say(f"{label}: {len(names)} tests, budget {setup.labels[label]} s")
        for name in names:
            say(f"  {name}")
    say(f"\nSkips that are allowed ({len(setup.skips)}):")
    for entry in setup.skips:
        say(f"  {entry['test']}: {entry['reason']}: {entry['because']}")


def run_all(runner, setup, chosen, listing):
    """Runs the parts that were asked for, each once."""
    tests = {}

    def build(part):
        if not runner.build(part, runner.preset):
            return
        found, wrong = registered(runner.preset, setup.labels)
        tests.update(found)
        part.results += wrong
        if not chosen and not any(found.values()):
            part.results.append(Result("build", FAILED, "there are no tests"))

    runner.run("build", setup.steps["build"], build)
    if not tests:
        return
    if listing:
        print_list(setup, tests)
        return
    if not chosen or "check" in chosen:
        runner.run("check", setup.steps["check"], runner.check)
    for position, label in enumerate(setup.labels):
        if label in chosen and not tests[label]:
            runner.run(label, setup.labels[label], lambda part: part.results.append(
                Result(part.name, FAILED, "there are no tests with this label")))
        elif not chosen or label in chosen:
            runner.run(label, setup.labels[label],
                       lambda part: runner.label(part, runner.preset, part.name))
        if position == 0 and (not chosen or "sanitize" in chosen):
            runner.run("sanitize", setup.steps["sanitize"], runner.sanitize)


def interrupted(number, _):
    raise KeyboardInterrupt(signal.Signals(number).name)


def main():
    setup = Setup()
    names = ["check", "sanitize", *setup.labels]
    parser = argparse.ArgumentParser(
        prog="scripts/test", description="Builds the tree and runs its tests.",
        epilog="Labels: " + ", ".join(names) + ". Logs: build/PRESET/test-results/.")
    parser.add_argument("--label", action="append", choices=names, default=[], metavar="LABEL",
                        help="only this label; repeatable")
    parser.add_argument("--list", action="store_true", help="list tests by label, run none")
    parser.add_argument("--preset", default="release", help="CMake preset to test; release")
    arguments = parser.parse_args()
    if not re.fullmatch(r"\w+", arguments.preset):
        parser.error("--preset names one of CMakePresets.json")

    process_tree.adopt_orphans()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    traces = Traces()
    runner = Runner(setup, arguments.preset, traces)
    try:
        run_all(runner, setup, arguments.label, arguments.list)
    except KeyboardInterrupt:
        say("\nInterrupted; ending what was started.")
        process_tree.end_all(5)
        if runner.parts:
            runner.parts[-1].results.append(Result(runner.parts[-1].name, FAILED, "interrupted"))
        runner.summary()
        return 130
    finally:
        traces.close()
    if arguments.list and not any(part.count(FAILED) for part in runner.parts):
        return 0
    return 0 if runner.summary() else 1


if __name__ == "__main__":
    sys.exit(main())
