"""The table of verdicts: shell commands by family, each with all that the policy's reader says of it.

`tests/safety/data/verdicts.txt` holds it; `tests/safety/shell/test_verdicts.py` says how to rewrite it. A family begins
with `== NAME`; a row is the verdict and the command, below it what decides:

    allow     runs unasked anywhere; `confined` only in a sandbox, `write` and `confined-write` under auto-edit
    ask, deny with `because` the reason; `ask-write` where all that is asked about writes files by redirections
    alone     the reason where there is no sandbox, where it is another
    always    the rule that "always for this session" would add
    part      a part of the command that does more than read, and why, where the reason does not say it all

In a command `⏎` is a new line, `⇥` a tab, `␣` a blank at its end; `⟨workspace⟩`, `⟨outside⟩` and `⟨home⟩` are folders.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from codelet.safety import Policy
from codelet.safety.verdict import Touch, Verdict
from tests.support.case_workspace import DATA
from tests.support.policy_cases import workspace_of_cases
from tests.support.repo import git, write

TABLE = DATA / "verdicts.txt"
UNJUDGED = "?"
"""Stands for the verdict of a row that is new."""

_SPELLED = (("\n", "⏎"), ("\t", "⇥"))
_INDENT = " " * 15


class Row(NamedTuple):
    """A command with its family, its verdict, and what is told below it."""

    family: str
    command: str
    verdict: str = UNJUDGED
    told: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The row as it stands in the table."""
        shown = self.command
        for letter, sign in _SPELLED:
            shown = shown.replace(letter, sign)
        if shown.endswith(" "):
            shown = shown[:-1] + "␣"
        return "\n".join([f"{self.verdict:<15}{shown}", *(_INDENT + line for line in self.told)])


def read_table(text: str) -> list[Row]:
    """The rows, in their order."""
    rows: list[Row] = []
    family = ""
    for line in text.split("\n"):
        if line.startswith("== "):
            family = line[3:]
        elif line.startswith(_INDENT):
            above = rows[-1]
            rows[-1] = Row(family, above.command, above.verdict, (*above.told, line.removeprefix(_INDENT)))
        elif line:
            verdict, _, shown = line.partition(" ")
            command = shown.lstrip(" ")
            if command.endswith("␣"):
                command = command[:-1] + " "
            for letter, sign in _SPELLED:
                command = command.replace(sign, letter)
            rows.append(Row(family, command, verdict))
    return rows


def table_text(rows: Iterable[Row]) -> str:
    """The table of these rows; those of a family stand together."""
    families: dict[str, list[str]] = {}
    for row in rows:
        families.setdefault(row.family, []).append(row.text)
    return "\n\n".join("\n".join([f"== {family}", *texts]) for family, texts in families.items()) + "\n"


class Bench:
    """A workspace with a repository, in which rows are judged; see `bench`."""

    def __init__(self, workspace: Path, outside: Path) -> None:
        self._workspace = workspace
        self._places = {"⟨workspace⟩": workspace, "⟨outside⟩": outside, "⟨home⟩": workspace.parent / "users" / "me"}
        self._policy = Policy(workspace, "auto-edit")

    def judged(self, row: Row) -> Row:
        """The row with what is said of its command now."""
        command = row.command
        for sign, place in self._places.items():
            command = command.replace(sign, str(place))
        verdict = self._policy.judge("bash", [Touch("run", command)])
        told = list(_told(verdict, command))
        alone = self._policy.judge("bash", [Touch("run", command)], sandboxed=False)
        if verdict.action == "ask" and alone.reason != verdict.reason:
            told.append(f"alone {alone.reason}")
        return Row(row.family, row.command, _word(verdict, alone), tuple(map(self._shown, told)))

    def _shown(self, line: str) -> str:
        for sign, place in self._places.items():
            line = line.replace(os.path.realpath(place), sign).replace(str(place), sign)
        for letter, sign in _SPELLED:
            line = line.replace(letter, sign)
        return line


def _word(verdict: Verdict, alone: Verdict) -> str:
    """The verdict in a word; one that is allowed, but not `alone`, without a sandbox, is `confined`."""
    if verdict.action != "allow":
        return verdict.action + "-write" * (verdict.tier == "write")
    if verdict.tier == "read":
        return "allow" if alone.action == "allow" else "confined"
    return "write" if alone.action == "allow" else "confined-write"


def _told(verdict: Verdict, command: str) -> Iterator[str]:
    if verdict.action != "allow":
        reason = verdict.reason.removeprefix("critical: ")
        yield f"because {reason}" + " (a person may)" * verdict.person_may
    if verdict.suggestion:
        yield f"always {verdict.suggestion}"
    if verdict.parts not in ((), ((command, verdict.reason),), (("", verdict.reason),)):
        for text, why in verdict.parts:
            yield f"part {text}: {why}" if text else f"part: {why}"


_MORE = {
    "b.txt": "1\n",
    "a.json": "1\n",
    ".gitignore": "1\n",
    "docs/unicode name é中.md": "1\n",
    "letters/é.txt": "1\n",
    "letters/ab.txt": "1\n",
    "src/test_app.py": "1\n",
    "src/-x.py": "1\n",
    "logs/one.log": "1\n",
    "data/1.csv": "1\n",
    "data/2.csv": "1\n",
    "with space/x y.txt": "1\n",
    "vendor/lib/.git/HEAD": "ref: refs/heads/main\n",
    "vendor/lib/.git/config": "",
    "half/HEAD": "",
    "half/objects/x": "",
    "links/x.py": "1\n",
    "linked/x.py": "1\n",
    "leading/x.py": "1\n",
    "emb/HEAD": "ref: refs/heads/main\n",
    "emb/objects/x": "",
    "emb/refs/x": "",
    "few/.keep": "",
}


@contextmanager
def bench() -> Iterator[Bench]:
    """A workspace as the cases expect it, whose repository has a history with a secret in it, and links out of it.

    Programs are looked for in one planted folder, and no variable of whoever runs the tests counts.
    """
    with workspace_of_cases() as (workspace, outside), pytest.MonkeyPatch.context() as patch:
        bin_folder, home = workspace.parent / "bin", workspace.parent / "users" / "me"
        home.mkdir(parents=True)
        bin_folder.mkdir()
        (bin_folder / "git").symlink_to(shutil.which("git") or "git")
        for name in ("bash", "sed", "egrep", "wc"):
            (bin_folder / name).write_text("#!/bin/sh\n# has --sandbox\n", encoding="utf-8")
            (bin_folder / name).chmod(0o755)
        for name in os.environ:
            patch.delenv(name)
        for name, value in (("PATH", str(bin_folder)), ("HOME", str(home)), ("LANG", "C.UTF-8")):
            patch.setenv(name, value)
        _plant(workspace, outside)
        yield Bench(workspace, outside)


def _plant(workspace: Path, outside: Path) -> None:
    write(workspace, _MORE)
    (workspace / "many").mkdir()
    for number in range(301):
        (workspace / "many" / f"{number}.txt").touch()
    links: dict[str, str | Path] = {
        "inner": "a.txt",
        "link_out": outside / "secret.txt",
        "linkdir": outside,
        "deep": "src",
    }
    links |= {"links/docs": "../docs", "linked/plain.py": "../.env", "linked/gone": "x", "leading/away": outside}
    links["loop"] = "loop"
    for name, target in links.items():
        (workspace / name).symlink_to(target)
    shutil.rmtree(workspace / ".git")
    git(workspace, "init", "-q", "-b", "main", "--template=")
    (workspace / ".git" / "info").mkdir()
    git(workspace, "config", "user.name", "me")
    git(workspace, "remote", "add", "origin", "https://example.org/x")
    named = {name: f"first {name}\n" for name in ("a.txt", "b.txt", "src/app.py", "docs/index.md")}
    write(workspace, named)
    git(workspace, "add", *named)
    git(workspace, "commit", "-qm", "one")
    git(workspace, "tag", "v1")
    for name in ("content", "few"):
        git(workspace, "tag", name, git(workspace, "rev-parse", "HEAD:a.txt"))
    git(workspace, "branch", "other")
    git(workspace, "add", "-f", ".env")
    git(workspace, "commit", "-qm", "a secret")
    git(workspace, "tag", "leaked")
    git(workspace, "rm", "-q", "--cached", ".env")
    git(workspace, "commit", "-qm", "no secret")
    for number in (1, 2):
        write(workspace, {"b.txt": f"{number}\n"})
        git(workspace, "commit", "-qam", f"b {number}")
    write(workspace, {"a.txt": "stashed\n"})
    git(workspace, "stash", "-q")
    write(workspace, {"a.txt": "changed\n"})
