#!/usr/bin/env python3
"""Checks that relative links in Markdown files lead to files of the tree, and their #fragments to
headings.

One line a violation, `file:line: message`; exit status 1 if there is any.
"""
import posixpath
import re
import sys
import urllib.parse

from source_files import ROOT, tracked

LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|^\[[^\]]+\]:\s*(\S+)")
OUTSIDE = re.compile(r"[a-z][a-z0-9+.-]*:|//")


def prose(path):
    """Yields (line number, text) of the lines outside code blocks, without code spans."""
    fenced = False
    for number, line in enumerate((ROOT / path).read_text().splitlines(), 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced:
            yield number, re.sub(r"`[^`]*`", lambda code: code[0].replace("[", " "), line)


def anchors(path):
    """The fragments by which the headings of a file can be reached."""
    found = set()
    for _, line in prose(path):
        match = re.match(r"#{1,6}\s+(.*?)\s*#*$", line)
        if match:
            text = re.sub(r"[^\w\- ]", "", match[1].lower()).replace(" ", "-")
            found.add(text)
    return found


def main():
    bad = 0
    for path in tracked(".md"):
        for number, line in prose(path):
            for match in LINK.finditer(line):
                link = match[1] or match[2]
                if OUTSIDE.match(link):
                    continue
                name, _, fragment = urllib.parse.unquote(link).partition("#")
                target = posixpath.normpath(posixpath.join(posixpath.dirname(path), name)) \
                    if name else path
                if name.startswith("/") or target.startswith("..") or not (ROOT / target).exists():
                    problem = "leads nowhere"
                elif fragment and target.endswith(".md") and fragment not in anchors(target):
                    problem = "names no heading"
                else:
                    continue
                print(f"{path}:{number}: link {link} {problem}")
                bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
