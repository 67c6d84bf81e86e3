"""Judges what a test run has left on the machine: which things are there that were not before.

Others use the machine at the same time, other runs of these tests among them. So a thing counts
where it can only be this run's: its name or what it refers to has the run's mark, or it belongs to
an id of the run's range. What is system-wide and has no mark counts where it looks like ours and
no other sandboxd was there before or after.

The functions are pure; scripts/leak_probes.py looks.
"""
import dataclasses
import re
import time

SETTLE_SECONDS = 10  # For what the kernel and ending processes take away by themselves.
POLL_SECONDS = 0.2
SHOWN = 50  # Lines of one report.

IDS = 2048 * 65536  # Host ids that belong to one run.
FIRST_ID = 0x10000000  # Sandboxes' ids are above, in the defaults and in tests.
RUNS = 12  # At once; then the default range of the daemon begins.

PROGRAM = re.compile(r"sandboxd|ablated_sandbox")
LOOKS_LIKE_OURS = re.compile(r"sandboxd")
BPF = "bpf program"


@dataclasses.dataclass(frozen=True)
class Thing:
    kind: str
    name: str  # Tells it from others of its kind, and stays the same while it lives.
    about: str = ""  # What it refers to or is held by; searched and not shown.
    ids: tuple = ()  # Host ids it belongs to.

    def __str__(self):
        return f"{self.kind}: {self.name}"


@dataclasses.dataclass(frozen=True)
class Run:
    """What tells this run's things from others'."""
    mark: str
    first_id: int

    def owns(self, thing):
        return (self.mark in thing.name or self.mark in thing.about or
                any(self.first_id <= id < self.first_id + IDS for id in thing.ids))

    def other(self, thing):
        """Whether it is a process of another sandboxd."""
        return thing.kind == "process" and bool(PROGRAM.match(thing.name)) and not self.owns(thing)


def suspicious(thing):
    """Whether it would be ours, if there were no other sandboxd on the machine."""
    if thing.kind == "process":
        return False
    if thing.kind == BPF:
        return not thing.about  # Nobody holds it.
    return bool(LOOKS_LIKE_OURS.search(thing.name + " " + thing.about) or
                any(id >= FIRST_ID for id in thing.ids))


@dataclasses.dataclass(frozen=True)
class Snapshot:
    own: frozenset
    suspects: frozenset
    alone: bool


def snapshot(run, things):
    things = list(things)
    own = frozenset(thing for thing in things if run.owns(thing))
    return Snapshot(own, frozenset(thing for thing in things if suspicious(thing)) - own,
                    not any(run.other(thing) for thing in things))


def new(before, after):
    """What the run has added, one line each. A thing is the same where kind and name are."""
    known = {(thing.kind, thing.name) for thing in before.own | before.suspects}
    counted = after.own | (after.suspects if before.alone and after.alone else frozenset())
    return sorted({str(thing) for thing in counted if (thing.kind, thing.name) not in known})


def listing(lines):
    more = [f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return "\n".join(f"+ {line}" for line in lines[:SHOWN] + more)


class Watch:
    """Compares, again and again, with how it was the last time. `look` gives all Things."""

    def __init__(self, run, look, clock=time.monotonic, sleep=time.sleep):
        self.run, self.look, self.clock, self.sleep = run, look, clock, sleep
        self.last = snapshot(run, look())

    def settle(self):
        """What was added and is still there after SETTLE_SECONDS; [] as soon as nothing is."""
        end = self.clock() + SETTLE_SECONDS
        while True:
            now = snapshot(self.run, self.look())
            left = new(self.last, now)
            if not left or self.clock() >= end:
                self.last = now
                return left
            self.sleep(POLL_SECONDS)
