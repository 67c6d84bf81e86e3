"""docs/security.md names a test for each guarantee: the tests exist, and no id is forgotten."""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "security"))
import attempts  # noqa: E402

IDS = [f"A{n}" for n in range(1, 31)] + [f"E{n}" for n in range(1, 23)]


def existing_tests():
    """Names of tests in the tree as "Group.test"."""
    names = set()
    for path in (ROOT / "tests").rglob("*_test.py"):
        group = None
        for line in path.read_text().splitlines():
            if found := re.match(r"class (\w+)\(", line):
                group = found.group(1)
            if found := re.match(r"    def (test_\w+)\(", line):
                names.add(f"{group}.{found.group(1)}")
    for path in (ROOT / "tests").rglob("*_test.cc"):
        for group, name in re.findall(r"^TEST(?:_[FP])?\((\w+), (\w+)\)", path.read_text(), re.M):
            names.add(f"{group}.{name}")
    return names


class SecurityDocument(unittest.TestCase):
    text = (ROOT / "docs" / "security.md").read_text()

    def rows(self):
        return re.findall(r"^\| ([AE]\d+) \| (.+) \| (.+) \|$", self.text, re.M)

    def test_each_id_has_one_row(self):
        self.assertEqual([row[0] for row in self.rows()], IDS)

    def test_each_row_names_a_test_or_says_why_not(self):
        tried = {row[0] for row in attempts.ROWS}
        for name, _, proof in self.rows():
            if "the table" in proof:
                self.assertIn(name, tried)
            self.assertRegex(proof, r"the table|\w+\.test_\w+|^no test: ", name)

    def test_each_named_test_exists(self):
        names = existing_tests()
        self.assertGreater(len(names), 50)
        groups = {name.split(".")[0] for name in names}
        group = None
        # "Group.test_one, test_two": the second is of the same group.
        for word in re.findall(r"\b[A-Z]\w+\.(?:test_\w+|\*)|\btest_\w+", self.text):
            group = word.split(".")[0] if "." in word else group
            if word.endswith(".*"):
                self.assertIn(group, groups)
            else:
                self.assertIn(word if "." in word else f"{group}.{word}", names)


if __name__ == "__main__":
    unittest.main()
