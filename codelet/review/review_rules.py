"""The rules of a review: the built-in ones, those of the commit that the change is made on, and a file of the user's.

The change cannot set rules: REVIEW.md and the instruction files are read at the base.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from codelet.errors import UsageError
from codelet.review import review_prompt
from codelet.system.git import run_git
from codelet.system.text import with_codes

REVIEW_FILE = "REVIEW.md"
INSTRUCTION_FILES = ("CLAUDE.md", "AGENTS.md")
"""The first existing one counts, as in a session."""
RULE_FILES = (REVIEW_FILE, *INSTRUCTION_FILES)

_LONGEST = 24_000
_MOST_NAMES = 16 << 20
_MOST_NESTED = 40


async def system_prompt(folder: Path, commit: str | None, rules_file: Path | None) -> str:
    """The system prompt: the same bytes in every request of a review.

    `commit` is the id at which the project's own rules are read, None for none. Raises UsageError for a file that
    cannot be read.
    """
    texts = [] if commit is None else await asyncio.gather(*(_blob(folder, commit, name) for name in RULE_FILES))
    found = dict(zip(RULE_FILES, texts, strict=False))
    instructions = next((name for name in INSTRUCTION_FILES if found.get(name)), None)
    given = [(f"{name} at the base of the change", found.get(name)) for name in (instructions, REVIEW_FILE) if name]
    if rules_file is not None:
        try:
            given.append(("the user", rules_file.read_text(encoding="utf-8")))
        except OSError as error:
            raise UsageError(f"--rules {rules_file}: {error.strerror}") from None
        except ValueError:
            raise UsageError(f"--rules {rules_file}: is not UTF-8 text") from None
    return "\n\n".join([review_prompt.SYSTEM, *(_rules_text(source, text) for source, text in given if text)])


async def nested_rules(folder: Path, commit: str | None, paths: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The rules of a commit in the folders of changed files: each folder with its text for the model."""
    if commit is None:
        return ()
    parents = {parent.as_posix() for path in paths for parent in PurePosixPath(path).parents} - {".", "/"}
    listed = await run_git(folder, "ls-tree", "-r", "-z", "--name-only", "--full-tree", commit, limit=_MOST_NAMES)
    if listed is None or listed.exit_code != 0 or not parents:
        return ()
    found: list[tuple[str, str]] = []
    for name in map(PurePosixPath, os.fsdecode(listed.stdout).split("\0")):
        place = name.parent.as_posix()
        if place not in parents or name.name not in RULE_FILES or len(found) == _MOST_NESTED:
            continue
        if text := await _blob(folder, commit, name.as_posix()):
            source = f"{name.as_posix()} at the base of the change, for files below {place}/"
            found.append((place, _rules_text(source, text)))
    return tuple(found)


def _rules_text(source: str, text: str) -> str:
    """One set of rules for the prompt. Invisible letters are written as codes: hidden text must not give orders."""
    text = with_codes(text).strip()
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}\n{review_prompt.RULES_CUT}"
    return review_prompt.RULES.format(source=source, text=text)


async def _blob(folder: Path, commit: str, name: str) -> str | None:
    answer = await run_git(folder, "cat-file", "blob", f"{commit}:{name}", limit=4 * _LONGEST)
    if answer is not None and answer.broken_off:
        raise UsageError(f"{name} of {commit[:12]} cannot be read: {answer.broken_off}")
    if answer is None or (answer.exit_code != 0 and answer.complete):
        return None
    return answer.stdout.decode("utf-8", "replace").removeprefix("\ufeff")
