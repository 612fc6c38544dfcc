"""The repositories for the comparison with git: made once, copied and bent for each configuration."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from tests.support import repo

PLANTED = "PLANTED"
_HOOKS = ("post-index-change", "fsmonitor-watchman", "query-watchman", "reference-transaction")


class Places:
    """The folders of one run: templates, the workspace, a home, a folder and a repository outside, the canaries."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.workspace, self.home, self.outside = base / "workspace", base / "home", base / "outside"
        self.other, self.canary = base / "other", base / "canary"
        self.canary.mkdir()
        repo.write(self.home, {".gitconfig": "[user]\n\tname = a\n\temail = a@example.org\n"})
        secret = f"{PLANTED}-OUTSIDE\n{PLANTED}-OUTSIDE <test@example.org>\n"
        repo.write(self.outside, {"secret.txt": secret, "config": secret})
        repo.plain(self.other, dict.fromkeys(("plan.txt", "a.txt"), f"{PLANTED}-OTHER\n"))
        repo.commit(self.other, {"b.txt": "b\n"}, f"{PLANTED}-OTHER")
        self.templates = [self._template(base / f"template{number}", secrets=number == 1) for number in range(2)]
        self.blob = repo.git(self.templates[1], "rev-parse", "HEAD:.env").strip()

    def _template(self, folder: Path, *, secrets: bool) -> Path:
        files = {"a.txt": "one\n", "b.txt": "two\n", "src/app.py": "def main():\n    return 1\n", "d/config": "x\n"}
        hidden = dict.fromkeys((".env", "deploy/id_ed25519", "secrets/prod.txt"), f"KEY={PLANTED}-SECRET\n")
        repo.plain(folder, files | (hidden if secrets else {}))
        repo.git(folder, "tag", "v1")
        repo.git(folder, "checkout", "-qb", "side")
        repo.commit(folder, {"a.txt": "zero\none\n"}, "side: a colon")
        repo.git(folder, "checkout", "-q", "main")
        changed = {"src/app.py": "def main():\n    return 2\n"}
        if secrets:
            repo.git(folder, "mv", "secrets/prod.txt", "plain.txt")
            changed |= {".env": f"KEY={PLANTED}-SECRET-2\n", "plain.txt": "nothing\n"}
        repo.commit(folder, changed, "two")
        repo.git(folder, "merge", "-q", "-m", "merge", "side")
        repo.write(folder, {"b.txt": "stashed\n"})
        repo.git(folder, "stash", "-q")
        repo.write(folder, {"a.txt": "three\n"})
        if secrets:
            repo.write(folder, {".env": f"KEY={PLANTED}-SECRET-3\n"})
            repo.git(folder, "tag", "content", "HEAD:.env")
        mark = f"#!/bin/sh\ntouch {self.canary}/ran\n"
        programs = {"pwn": f"{mark}exec cat\n"} | {f".hooks/{hook}": mark for hook in _HOOKS}
        repo.write(folder, programs)
        for name in programs:
            (folder / name).chmod(0o755)
        return folder

    def fresh(self, *, secrets: bool) -> None:
        """A new copy of a template as the workspace."""
        for folder in (self.workspace, self.base / "gone"):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.templates[secrets], self.workspace, symlinks=True)
        os.utime(self.workspace / "b.txt", (1, 1))

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
