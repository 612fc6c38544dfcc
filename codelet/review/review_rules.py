"""The rules of a review: the built-in ones, those of the commit that the change is made on, and a file of the user's.

The change cannot set rules: REVIEW.md and the instruction files are read at the base.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from codelet.errors import UsageError
from codelet.review import review_prompt
from codelet.review.commit_files import CommitFiles
from codelet.system.text import with_codes

_RULES = "REVIEW.md"
_INSTRUCTIONS = ("CLAUDE.md", "AGENTS.md")
"""The first existing one counts, as in a session."""
_LONGEST = 24_000
_MOST_TEXTS = 40

ProjectRules = tuple[tuple[str, str], ...]
"""Texts for the model, each with the folder that it holds for; "." is the whole repository."""


async def rules_of(commit: CommitFiles, paths: Iterable[str]) -> ProjectRules:
    """The rules of a commit for changed files: those of the repository and of the folders that the files are in."""
    names = await commit.names()
    folders = {parent.as_posix() for path in paths for parent in PurePosixPath(path).parents} - {"."}
    found: list[tuple[str, str]] = []
    for folder in (".", *sorted(folders)):
        paths_there = [posixpath.normpath(f"{folder}/{name}") for name in (*_INSTRUCTIONS, _RULES)]
        there = [path for path in paths_there if path in names]
        for path in there[:1] + [path for path in there[1:] if path.endswith(_RULES)]:
            text = (await commit.blob(path) or b"").decode("utf-8", "replace").removeprefix("\ufeff")
            where = "" if folder == "." else f", for files below {folder}/"
            if text.strip():
                found.append((folder, _rules_text(f"{path} at the base of the change{where}", text)))
    return tuple(found[:_MOST_TEXTS])


def system_prompt(rules: ProjectRules, rules_file: Path | None) -> str:
    """The system prompt: the same bytes in every request of a review. Raises UsageError for an unreadable file."""
    texts = [text for folder, text in rules if folder == "."]
    if rules_file is not None:
        try:
            texts.append(_rules_text("the user", rules_file.read_text(encoding="utf-8")))
        except OSError as error:
            raise UsageError(f"--rules {rules_file}: {error.strerror}") from None
        except ValueError:
            raise UsageError(f"--rules {rules_file}: is not UTF-8 text") from None
    return "\n\n".join([review_prompt.SYSTEM, *texts])


def _rules_text(source: str, text: str) -> str:
    """One set of rules for the prompt. Invisible letters are written as codes: hidden text must not give orders."""
    text = with_codes(text).strip()
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}\n{review_prompt.RULES_CUT}"
    return review_prompt.RULES.format(source=source, text=text)
