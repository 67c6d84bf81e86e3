#!/usr/bin/env python3
"""Runs clang-tidy over the sources that changed, or over all.

    scripts/check_tidy.py [--all] [--base COMMIT] [--build build/release]

Changed is: different from COMMIT, or not in git. COMMIT is by default where the branch left
origin/HEAD, and on that branch itself ten commits back. A changed header stands for one source that
includes it. A source that was clean is not looked at again until it, a header it
includes, its flags or .clang-tidy change: the results are kept in the build folder.

One line a finding, `file:line: message`; exit status 1 if there is any.
"""
import argparse
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

from source_files import ROOT, git, tracked

FINDING = re.compile(r"^(/[^:\n]+|[^:\s]+\.(?:h|cc|c)):(\d+):\d+: (?:error|warning): (.*)$",
                     re.MULTILINE)


def changed_files(base):
    if not base:
        trunk = git("merge-base", "HEAD", "origin/HEAD") or git("merge-base", "HEAD", "origin/main")
        base = trunk[0] if trunk else ""
        if not base or base == (git("rev-parse", "HEAD") or [""])[0]:
            base = "HEAD~10"
    if not git("rev-parse", "--verify", "--quiet", base + "^{commit}"):
        return set(tracked())  # A young tree: all of it is new.
    return set(git("diff", "--name-only", "-z", base)) | set(
        git("ls-files", "-z", "--others", "--exclude-standard"))


@functools.cache
def includes(path):
    """The headers of ours that a file reaches, itself included."""
    try:
        text = (ROOT / path).read_text()
    except OSError:
        return frozenset()
    direct = {name for name in re.findall(r'^\s*#\s*include\s*"([^"]+)"', text, re.MULTILINE)
              if (ROOT / name).is_file()}
    return frozenset([path]).union(*map(includes, direct))


def choose(sources, changed):
    """The sources to look at: the changed ones, and for each changed header one that has it."""
    chosen = {source for source in sources if source in changed}
    for header in sorted(name for name in changed if name.endswith(".h")):
        users = [source for source in sources if header in includes(source)]
        if not users or chosen.intersection(users):
            continue
        own = header[:-2] + ".cc"
        chosen.add(own if own in users else users[0])
    return sorted(chosen)


def read_commands(build):
    """{relative path: compile command} of the sources that are in the tree."""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if path.is_relative_to(ROOT) and not path.is_relative_to(build):
            commands[str(path.relative_to(ROOT))] = entry.get("command") or str(entry["arguments"])
    return commands


def key_of(source, command):
    """Names everything that a result depends on, but the system's headers."""
    digest = hashlib.sha256(command.encode())
    for path in [".clang-tidy", "scripts/check_tidy.py", *sorted(includes(source))]:
        digest.update(path.encode() + (ROOT / path).read_bytes())
    return digest.hexdigest()


def tidy(source, build):
    """Returns the findings {(path, line, message)} in a source and in our headers it includes."""
    done = subprocess.run(
        ["clang-tidy", "-p", build, "--quiet", "--extra-arg=-Wno-error",
         "--extra-arg=-Wno-unknown-warning-option", source],
        cwd=ROOT, capture_output=True, text=True, errors="replace")
    findings = set()
    for path, line, message in FINDING.findall(done.stdout + done.stderr):
        path = os.path.relpath(os.path.join(ROOT, path), ROOT)
        findings.add((path, int(line), message.replace(",-warnings-as-errors", "")))
    if done.returncode != 0 and not findings:
        last = (done.stderr.strip() or "no output").splitlines()[-1]
        findings.add((source, 1, f"clang-tidy ended with {done.returncode}: {last}"))
    return findings


def main():
    parser = argparse.ArgumentParser(description="Runs clang-tidy over changed sources.")
    parser.add_argument("--all", action="store_true", help="over all sources")
    parser.add_argument("--base", help="the commit to compare with")
    parser.add_argument("--build", default="build/release", help="has compile_commands.json")
    arguments = parser.parse_args()
    build = (ROOT / arguments.build).resolve()
    if not (build / "compile_commands.json").exists():
        print(f"{arguments.build}/compile_commands.json:1: missing: run `cmake --preset release`")
        return 1

    commands = read_commands(build)
    sources = sorted(set(tracked(".cc", ".c")) & set(commands))
    chosen = sources if arguments.all else choose(sources, changed_files(arguments.base))
    clean = build / "tidy-clean"
    clean.mkdir(exist_ok=True)
    keys = {source: clean / key_of(source, commands[source]) for source in chosen}
    due = [source for source in chosen if not keys[source].exists()]

    findings = set()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for source, found in zip(due, pool.map(lambda s: tidy(s, build), due)):
            findings |= found
            if not found:
                keys[source].touch()
    for path, line, message in sorted(findings):
        print(f"{path}:{line}: {message}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
