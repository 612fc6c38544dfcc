"""The repositories for the comparison with git: made once, copied and bent for each configuration."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

PLANTED = "PLANTED"
_WHO = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *words: str) -> str:
    """Run a plain git in a repository of our own."""
    done = subprocess.run(["git", "-C", str(folder), *_WHO, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def put(path: Path, text: str) -> None:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))


class Places:
    """The folders of one run: templates, the workspace, a home, a folder and a repository outside, the canaries."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.workspace, self.home, self.outside = base / "workspace", base / "home", base / "outside"
        self.other, self.canary = base / "other", base / "canary"
        for place in (self.home, self.outside, self.canary):
            place.mkdir()
        put(self.home / ".gitconfig", "[user]\n\tname = a\n\temail = a@example.org\n")
        put(self.outside / "secret.txt", f"{PLANTED}-OUTSIDE\n{PLANTED}-OUTSIDE <a@example.org>\n")
        put(self.outside / "config", f"{PLANTED}-OUTSIDE\n")
        git(base, "init", "-q", "-b", "main", str(self.other))
        put(self.other / "plan.txt", f"{PLANTED}-OTHER\n")
        put(self.other / "a.txt", f"{PLANTED}-OTHER\n")
        git(self.other, "add", "-A")
        git(self.other, "commit", "-qm", f"{PLANTED}-OTHER")
        self.templates = [self._template(base / f"template{number}", secrets=number == 1) for number in range(2)]
        self.blob = git(self.templates[1], "rev-parse", "HEAD:.env")

    def _template(self, folder: Path, *, secrets: bool) -> Path:
        git(self.base, "init", "-q", "-b", "main", str(folder))
        shutil.rmtree(folder / ".git" / "hooks")
        (folder / ".git" / "info").mkdir(exist_ok=True)
        files = {"a.txt": "one\n", "b.txt": "two\n", "src/app.py": "def main():\n    return 1\n", "d/config": "x\n"}
        for name, text in files.items():
            put(folder / name, text)
        if secrets:
            for name in (".env", "deploy/id_ed25519", "secrets/prod.txt"):
                put(folder / name, f"KEY={PLANTED}-SECRET\n")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "one")
        git(folder, "tag", "v1")
        git(folder, "checkout", "-qb", "side")
        put(folder / "a.txt", "zero\none\n")
        git(folder, "commit", "-qam", "side: a colon")
        git(folder, "checkout", "-q", "main")
        put(folder / "src" / "app.py", "def main():\n    return 2\n")
        if secrets:
            put(folder / ".env", f"KEY={PLANTED}-SECRET-2\n")
            git(folder, "mv", "secrets/prod.txt", "plain.txt")
            put(folder / "plain.txt", "nothing\n")
        git(folder, "commit", "-qam", "two")
        git(folder, "merge", "-q", "-m", "merge", "side")
        put(folder / "b.txt", "stashed\n")
        git(folder, "stash", "-q")
        put(folder / "a.txt", "three\n")
        if secrets:
            put(folder / ".env", f"KEY={PLANTED}-SECRET-3\n")
            git(folder, "tag", "content", "HEAD:.env")
        program = folder / "pwn"
        put(program, f"#!/bin/sh\ntouch {self.canary}/ran\nexec cat\n")
        program.chmod(0o755)
        for hook in ("post-index-change", "fsmonitor-watchman", "query-watchman", "reference-transaction"):
            put(folder / ".hooks" / hook, f"#!/bin/sh\ntouch {self.canary}/ran\n")
            (folder / ".hooks" / hook).chmod(0o755)
        return folder

    def fresh(self, *, secrets: bool) -> Path:
        """A new copy of a template as the workspace."""
        shutil.rmtree(self.workspace, ignore_errors=True)
        shutil.copytree(self.templates[secrets], self.workspace, symlinks=True)
        os.utime(self.workspace / "b.txt", (1, 1))
        return self.workspace

    def ran(self) -> bool:
        """Return whether a planted program has run since the last call."""
        found = list(self.canary.iterdir())
        for path in found:
            path.unlink()
        return bool(found)

    def snapshot(self) -> dict[str, tuple[int, ...]]:
        """All files but objects, and git's index, which a plain `git diff` refreshes."""
        found = {}
        for place in (self.workspace, self.home, self.outside, self.other):
            for folder, folders, names in os.walk(place):
                folders[:] = [name for name in folders if not folder.endswith("/objects") or name == "info"]
                for name in names:
                    path = f"{folder}/{name}"
                    facts = os.lstat(path)
                    if name != "index" or not stat.S_ISREG(facts.st_mode):
                        found[path] = (facts.st_mode, facts.st_size, facts.st_mtime_ns, facts.st_ino)
        return found
