"""Runs a program within a time, and ends it with everything that it started.

Call adopt_orphans() once: whatever loses its parent then becomes a child of this process, however
it detached itself, so nothing that a test starts outlives the run.
"""
import ctypes
import os
import pathlib
import select
import signal
import subprocess
import time

PR_SET_CHILD_SUBREAPER = 36

_wake = None


def adopt_orphans():
    global _wake
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
    _wake, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)


def _reap():
    """Takes the status of every child that has ended: {pid: exit code}."""
    ended = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = os.waitstatus_to_exitcode(status)


def _wait(seconds):
    select.select([_wake], [], [], max(0, seconds))
    try:
        os.read(_wake, 4096)
    except BlockingIOError:
        pass


def descendants():
    """{pid: name} of every live process beneath this one."""
    parents, names = {}, {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text(errors="replace")
        except OSError:
            continue
        name, rest = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2:].split()
        if rest[0] not in "ZX":
            parents[int(path.parent.name)], names[int(path.parent.name)] = int(rest[1]), name
    found, frontier = {}, {os.getpid()}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier}
        found.update({pid: names[pid] for pid in frontier})
    return found


def end_all(seconds):
    """Ends every descendant: SIGTERM, and after `seconds` SIGKILL until none is left."""
    start = time.monotonic()
    sent = signal.SIGTERM
    while left := descendants():
        waited = time.monotonic() - start
        if waited > seconds + 10:
            raise RuntimeError(f"processes that cannot be ended: {left}")
        for pid in left:
            try:
                os.kill(pid, sent)
            except (ProcessLookupError, PermissionError):
                pass
        if waited > seconds:
            sent = signal.SIGKILL
        _wait(0.1)
        _reap()


def leftovers(seconds):
    """The processes that are still there `seconds` after a run; [] as soon as none is."""
    end = time.monotonic() + seconds
    while (left := descendants()) and time.monotonic() < end:
        _wait(0.05)
        _reap()
    return sorted(f"{name}[{pid}]" for pid, name in left.items())


def run(command, log, seconds, cwd, env=None):
    """Runs `command`, its output into the file `log`. Returns its exit code, or None where it was
    ended after `seconds`."""
    with open(log, "wb") as output:
        child = subprocess.Popen(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=output,
                                 stderr=subprocess.STDOUT, start_new_session=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended = _reap()
        if child.pid in ended:
            child.returncode = ended[child.pid]
            return child.returncode
        _wait(min(1, end - time.monotonic()))
    end_all(5)
    child.returncode = -signal.SIGKILL
    return None
