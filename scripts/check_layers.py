#!/usr/bin/env python3
"""Checks who includes whom, against the table below.

One line a violation, `file:line: message`; exit status 1 if there is any.
"""
import posixpath
import re
import sys

from source_files import ROOT, tracked

# A folder may include itself and what is listed. The longest matching folder counts.
LAYERS = {
    "base": [],
    "policy": ["base"],
    "rootfs": ["base"],
    "runtime": ["base", "policy", "rootfs"],
    # Static programs without libraries: they share only plain data with the rest.
    "runtime/shim": ["runtime/probe", "PLAIN"],
    "runtime/probe": ["runtime/shim", "PLAIN"],
    "sandboxd": [],
    "sandboxd/wire": ["base"],
    "sandboxd/client": ["base", "sandboxd/wire"],
    "sandboxd/cli": ["base", "sandboxd/wire", "sandboxd/client"],
    "sandboxd/mcp": ["base", "sandboxd/wire", "sandboxd/client"],
    "sandboxd/gateway": ["base", "sandboxd/wire", "sandboxd/client"],
    "sandboxd/server": ["base", "policy", "rootfs", "runtime", "sandboxd/wire"],
}
# Headers that hold only plain data: any of runtime and the static programs may use them. They
# include nothing of ours but each other.
PLAIN = re.compile(r"runtime/(\w+_format|shim_protocol)\.h")
# What every folder beneath sandboxd may use besides.
EVERYWHERE = {"sandboxd": ["sandboxd/version.h"]}
# May include everything.
FREE = ["tests"]

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


def layer_of(path):
    parts = path.split("/")[:-1]
    while parts:
        if "/".join(parts) in LAYERS:
            return "/".join(parts)
        parts.pop()
    return None


def judge(source, include):
    """Returns what is wrong with `source` including `include` (both relative to the root)."""
    if PLAIN.fullmatch(source):
        return None if PLAIN.fullmatch(include) else "plain-data headers include only each other"
    own = layer_of(source)
    target = layer_of(include)
    if own == target:
        return None
    allowed = LAYERS[own]
    if PLAIN.fullmatch(include) and ("PLAIN" in allowed or "runtime" in allowed):
        return None
    if include in EVERYWHERE.get(own.split("/")[0], []):
        return None
    if target in allowed:
        return None
    names = ", ".join("the plain-data headers of runtime" if n == "PLAIN" else n for n in allowed)
    return f"{own} may include only {names or 'nothing of ours'}"


def main():
    bad = 0
    headers = set(tracked(".h"))
    tops = {layer.split("/")[0] for layer in LAYERS} | set(FREE)
    for source in tracked(".h", ".cc", ".c"):
        if source.split("/")[0] in FREE:
            continue
        if layer_of(source) is None:
            print(f"{source}:1: no layer: name the folder in scripts/check_layers.py")
            bad += 1
            continue
        for number, line in enumerate((ROOT / source).read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            include = posixpath.normpath(match[1] or match[2])
            ours = include in headers or include.split("/")[0] in tops
            beside = posixpath.join(posixpath.dirname(source), include)
            if include.startswith("..") or (not ours and beside in headers):
                problem = "name headers from the root of the tree"
            elif include.split("/")[0] in FREE and ours:
                problem = "only tests include tests"
            else:
                problem = judge(source, include) if ours else None
            if problem:
                print(f'{source}:{number}: includes "{include}": {problem}')
                bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
