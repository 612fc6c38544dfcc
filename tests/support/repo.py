"""Real git repositories in the states that a user's may be in."""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
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
    _lay_out(folder, _made(None))
    return folder


def plain(folder: Path, files: Mapping[str, str | bytes] | None = None) -> Path:
    """A repository with one commit, of these files alone."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = files or {"README.md": "# Example\n", "app.py": "print('hello')\n"}
    if any(folder.iterdir()):  # what lies there is committed too
        unborn(folder)
        commit(folder, wanted, "first")
    else:
        _lay_out(folder, _made(tuple(sorted(wanted.items()))))
    return folder


_Tree = tuple[tuple[str, int, bytes | None], ...]
"""Each path in a folder, its mode and its bytes; None for a folder."""


@functools.lru_cache(maxsize=32)
def _made(files: tuple[tuple[str, str | bytes], ...] | None) -> _Tree:
    """What git leaves in an empty folder: made once and copied, as most tests want the same; without sample hooks."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        git(folder, "init", "-q", "-b", "main", "--template=")
        for name in ("hooks", "info"):
            (folder / ".git" / name).mkdir(exist_ok=True)
        if files is not None:
            commit(folder, dict(files), "first")
        return tuple(
            (str(path.relative_to(folder)), path.stat().st_mode & 0o777, None if path.is_dir() else path.read_bytes())
            for path in sorted(folder.rglob("*"))
        )


def _lay_out(folder: Path, tree: _Tree) -> None:
    for name, mode, content in tree:
        if content is None:
            os.makedirs(folder / name, exist_ok=True)
            continue
        made = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(made, "wb") as file:
            file.write(content)


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
