"""Reads what tests reported: ctest's JUnit file, and in each log the cases of GoogleTest and
Python's unittest, which ctest sees as one test or not at all.
"""
import dataclasses
import re
import xml.etree.ElementTree

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclasses.dataclass
class Result:
    name: str
    outcome: str
    reason: str = ""    # Why it was skipped or failed.
    log: str = ""       # What it printed; only where it failed.


GTEST_RUN = re.compile(r"^\[ RUN      \] (\S+)")
# With the time: the summary repeats names without it.
GTEST_END = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] (\S+?),?(?: where .*)? \(\d+ ms\)$")
UNITTEST_NAME = re.compile(r"^(\w+) \(([\w.]+)\)")
UNITTEST_SKIP = re.compile(r"\bskipped (['\"])(.*)\1\s*$")
UNITTEST_RAN = re.compile(r"^Ran (\d+) tests? in ")
UNITTEST_SUM = re.compile(r"^(?:OK|FAILED)(?: \((.*)\))?$")
UNITTEST_BAD = re.compile(r"^(?:FAIL|ERROR|UNEXPECTED SUCCESS): (\w+) \(([\w.]+)\)")


def gtest_cases(log):
    """The results of a GoogleTest program's log."""
    cases, running, lines = [], None, []
    for line in log.splitlines():
        start, end = GTEST_RUN.match(line), GTEST_END.match(line)
        if start or (end and running):
            text = "\n".join(lines)
        if start:
            if running:
                cases.append(Result(running, FAILED, "did not end", text))
            running, lines = start[1], []
        elif end and running:
            outcome = {"OK": PASSED, "FAILED": FAILED, "SKIPPED": SKIPPED}[end[1]]
            said = " ".join(said for said in lines if said.strip() and not said.endswith(": Skipped"))
            cases.append(Result(end[2], outcome, said if outcome == SKIPPED else "",
                                text if outcome == FAILED else ""))
            running, lines = None, []
        else:
            lines.append(line)
    if running:
        cases.append(Result(running, FAILED, "did not end", "\n".join(lines)))
    return cases


def unittest_cases(log):
    """The results of a unittest program's log. Passed ones have no name."""
    ran, skips, bad, claimed, name = 0, [], [], 0, ""
    for line in log.splitlines():
        start, skip = UNITTEST_NAME.match(line), UNITTEST_SKIP.search(line)
        broken, count, total = (UNITTEST_BAD.match(line), UNITTEST_RAN.match(line),
                                UNITTEST_SUM.match(line))
        if start:
            name = full_name(start)
        if skip and name:
            skips.append(Result(name, SKIPPED, skip[2]))
        if broken:  # The log holds all tracebacks; once is enough.
            bad.append(Result(full_name(broken), FAILED, "", "" if bad else log))
        if count:
            ran += int(count[1])
        if total and total[1]:
            claimed += sum(int(n) for n in re.findall(r"\bskipped=(\d+)", total[1]))
    while len(skips) < claimed:
        skips.append(Result("?", SKIPPED, "gave no reason: run unittest with -v"))
    # A class that skips in setUpClass is one skip and no test that ran.
    whole = sum(result.name.endswith(".setUpClass") for result in skips + bad)
    passed = max(0, ran + whole - len(skips) - len(bad))
    return skips + bad + [Result("", PASSED) for _ in range(passed)]


def full_name(match):
    """"mod.Class.test_x" of "test_x (mod.Class)" and, from Python 3.11, "test_x (mod.Class.test_x)"."""
    name, owner = match.groups()
    return owner if owner.endswith("." + name) else f"{owner}.{name}"


def said_nothing(log):
    """Whether a test program says itself that it ran no test."""
    return bool(re.search(r"^\[==========\] 0 tests from 0 test suites ran", log, re.MULTILINE) or
                (re.search(r"^Ran 0 tests in ", log, re.MULTILINE) and not unittest_cases(log)))


def outcome_of(case):
    """(outcome, reason) as ctest gives it."""
    skipped, failure = case.find("skipped"), case.find("failure")
    if failure is not None or case.get("status") == "fail":
        return FAILED, failure.get("message", "") if failure is not None else ""
    if skipped is not None or case.get("status") in ("notrun", "disabled"):
        message = skipped.get("message", "") if skipped is not None else ""
        if message.startswith(("SKIP_RETURN_CODE", "SKIP_REGULAR_EXPRESSION")):
            return SKIPPED, message
        if case.get("status") == "disabled":
            return SKIPPED, "disabled"
        return FAILED, f"was not run: {message}"
    return PASSED, ""


def last_line(log):
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return lines[-1] if lines else "gave no reason"


def expand(name, outcome, reason, log):
    """The results of one ctest test: of its cases where the log shows them, else its own."""
    if outcome == PASSED and said_nothing(log):
        return [Result(name, FAILED, "ran no test", log)]
    results = gtest_cases(log) + unittest_cases(log)
    for result in results:
        if result.name != name:
            result.name = f"{name}/{result.name}" if result.name else name
    hows = [result.outcome for result in results]
    if outcome == FAILED and FAILED not in hows:
        results.append(Result(name, FAILED, reason, log))
    if outcome == SKIPPED and SKIPPED not in hows:
        why = reason if reason == "disabled" else last_line(log)
        results.append(Result(name, SKIPPED, why))
    return results or [Result(name, outcome, reason)]


def read_junit(path):
    """The results of a ctest run; [] where it left no file."""
    try:
        root = xml.etree.ElementTree.parse(path).getroot()
    except (OSError, xml.etree.ElementTree.ParseError):
        return []
    results = []
    for case in root.iter("testcase"):
        outcome, reason = outcome_of(case)
        results += expand(case.get("name"), outcome, reason, case.findtext("system-out") or "")
    return results


def read_progress(text):
    """What ctest's own output tells about a run that was cut short: (results, running names)."""
    done = re.findall(r"^\s*\d+/\d+ Test\s+#\d+: (\S+) \.*\s*(\**\w[\w ]*)", text, re.MULTILINE)
    started = re.findall(r"^\s*Start\s+\d+: (\S+)", text, re.MULTILINE)
    results = [Result(name, PASSED if how.startswith("Passed") else FAILED)
               for name, how in done if "Skipped" not in how]
    ended = {name for name, _ in done}
    return results, [name for name in started if name not in ended]
