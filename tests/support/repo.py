"""Real git repositories in the states that a user's may be in."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "Test",
    "GIT_AUTHOR_EMAIL": "test@example.org",
    "GIT_COMMITTER_NAME": "Test",
    "GIT_COMMITTER_EMAIL": "test@example.org",
    "GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z",
    "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z",
    "GIT_ALLOW_PROTOCOL": "file",
}


def git(folder: Path, *arguments: str) -> str:
    """Run git there, without anyone's configuration; its stdout without the last line end."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    full = ["git", *arguments]
    done = subprocess.run(full, cwd=folder, env=outside | _ENVIRONMENT, check=True, capture_output=True, text=True)
    return done.stdout.rstrip("\n")


def write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files below the folder, making directories."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def commit(folder: Path, files: Mapping[str, str | bytes], message: str = "change") -> str:
    """Write and commit; the commit's id."""
    write(folder, files)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def unborn(folder: Path) -> Path:
    """A repository without a commit, on the branch main."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    return folder


def plain(folder: Path, files: Mapping[str, str | bytes] | None = None) -> Path:
    """A repository with one commit."""
    unborn(folder)
    commit(folder, files or {"README.md": "# Example\n", "app.py": "print('hello')\n"}, "first")
    return folder


def detached(folder: Path) -> Path:
    """HEAD on a commit, not on a branch."""
    plain(folder)
    git(folder, "checkout", "-q", "--detach")
    return folder


def with_upstream(folder: Path, *, ahead: int = 0, behind: int = 0) -> Path:
    """A branch main that follows origin/main, so many commits ahead and behind."""
    origin = plain(folder.parent / f"{folder.name}-origin")
    git(folder.parent, "clone", "-q", str(origin), str(folder))
    for number in range(behind):
        commit(origin, {f"theirs{number}.txt": "theirs\n"})
    for number in range(ahead):
        commit(folder, {f"ours{number}.txt": "ours\n"})
    git(folder, "fetch", "-q")
    return folder


def with_submodule(folder: Path) -> Path:
    """A repository with a submodule in `part/`."""
    part = plain(folder.parent / f"{folder.name}-part", {"part.txt": "part\n"})
    plain(folder)
    git(folder, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(part), "part")
    commit(folder, {}, "add the part")
    return folder


def worktree(folder: Path) -> Path:
    """A linked worktree on the branch side; the main checkout lies beside it."""
    main = plain(folder.parent / f"{folder.name}-main")
    git(main, "worktree", "add", "-q", "-b", "side", str(folder))
    return folder


def many_files(folder: Path, count: int = 50_000, changed: int = 0) -> Path:
    """So many small files, a hundred a directory, committed; the first `changed` of them changed since."""
    unborn(folder)
    for start in range(0, count, 100):
        below = folder / f"d{start // 10_000:02}" / f"e{start // 100:04}"
        below.mkdir(parents=True)
        for number in range(start, min(start + 100, count)):
            (below / f"f{number:05}.txt").write_bytes(b"%d\n" % number)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "many")
    for path in sorted(folder.glob("d*/e*/*.txt"))[:changed]:
        path.write_bytes(b"changed\n")
    return folder
