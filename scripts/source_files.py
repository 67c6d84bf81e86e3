"""The files that scripts/check judges: tracked, and untracked ones that are not ignored."""
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def git(*arguments):
    """Output lines of a git command in the tree, [] where it fails."""
    done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True)
    return done.stdout.split("\0" if "-z" in arguments else "\n") if done.returncode == 0 else []


def tracked(*suffixes):
    """Relative paths of the existing files with one of the suffixes; all files for none."""
    names = git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return sorted(name for name in set(names)
                  if name and (not suffixes or name.endswith(suffixes)) and (ROOT / name).is_file())
