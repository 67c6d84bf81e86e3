#!/usr/bin/env python3
"""Checks that no file and no function is longer than the limits, and that headers have no
std::string_view (Debian's Abseil has its own type, which does not convert).

One line a violation, `file:line: message`; exit status 1 if there is any.
"""
import re
import sys

from source_files import ROOT, tracked

FILE_LINES = 500
# One file on purpose: it is copied into other projects as it is.
LONGER_FILES = {"clients/python/sandboxd.py": 620}
FUNCTION_LINES = 70

TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/'                              # comments
    r'|R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)"'    # raw strings
    r'|"(?:\\.|[^"\\\n])*"'                            # strings
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"            # characters, not digit separators
    r'|^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*',                # preprocessor lines, macros with them
    re.DOTALL | re.MULTILINE)
TYPE = re.compile(r"\b(class|struct|union|enum|namespace)\b")


def blank(match):
    """The same number of lines, without content: braces in strings and comments do not count."""
    text = match[0]
    kept = "".join(c for c in text if c == "\n")
    return ('""' if text[0] in "\"R'" else "") + kept


def is_scope(head):
    """Whether `head { … }` is a namespace or a type, in which functions are to be looked for."""
    head = head.strip()
    if head.endswith(("extern \"\"", "extern")) or re.search(r'\bextern\s*""$', head):
        return True
    return bool(TYPE.search(head)) and "(" not in re.sub(r"\b(alignas|__attribute__)\s*\(.*?\)+", "",
                                                         head)


def functions(text):
    """Yields (first line, name, lines) of each function's body in C++ text."""
    text = TOKEN.sub(blank, text)
    line, head, stack, body = 1, "", [], None
    for c in text:
        if c == "\n":
            line += 1
        if body is not None:                  # Inside a function: only its end matters.
            depth = body[2] + (c == "{") - (c == "}")
            if depth == 0:
                yield body[0], body[1], line - body[0]
                body, head = None, ""
            else:
                body = (body[0], body[1], depth)
        elif c == "{":
            if is_scope(head):
                stack.append(c)
                head = ""
            else:
                name = re.search(r"([\w:~]+)\s*\(", head)
                body = (line, name[1] if name else "block", 1)
        elif c == "}":
            if stack:
                stack.pop()
            head = ""
        elif c == ";":
            head = ""
        else:
            head += c


def is_table(text, line):
    """A block that initialises a constant is data, not a function."""
    return bool(re.search(r"=\s*\{", text.splitlines()[line - 1]))


def main():
    bad = 0

    def report(path, line, message):
        nonlocal bad
        bad += 1
        print(f"{path}:{line}: {message}")

    for path in tracked(".h", ".cc", ".c", ".py"):
        text = (ROOT / path).read_text()
        count = text.count("\n")
        limit = LONGER_FILES.get(str(path), FILE_LINES)
        if count > limit:
            report(path, count, f"file of {count} lines; at most {limit}")
        if path.endswith(".py"):
            continue
        for line, name, lines in functions(text):
            if lines > FUNCTION_LINES and not is_table(text, line):
                report(path, line, f"{name} has {lines} lines; at most {FUNCTION_LINES}")
        if path.endswith(".h"):
            for number, content in enumerate(text.splitlines(), 1):
                if "std::string_view" in content.split("//")[0]:
                    report(path, number, "std::string_view in a header; use absl::string_view")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
