"""Findings planted on lines of real commits, and where codelet puts them.

Which lines a commit changed and what stands in them is asked of git file by file, `-U0` and `git show`, and not of the
code under test. A planted finding is what a model would say: a quote of what it was shown, and a line number.
"""

from __future__ import annotations

import asyncio
import random
import re
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from codelet.review.findings import Finding
from codelet.review.packing import DiffChunk, planned
from codelet.review.placing import placed
from codelet.review.reviewed_change import Wanted, change_from_git
from codelet.system.text import with_codes

_LONGEST = 1_500


@dataclass
class Score:
    """Counts of planted findings by how they were planted, those that went wrong, and those that no chunk holds."""

    commits: int = 0
    planted: Counter[str] = field(default_factory=Counter)
    right: Counter[str] = field(default_factory=Counter)
    left_out: int = 0
    wrong: list[str] = field(default_factory=list)


def plant(folder: Path, head: str, score: Score, *, seed: int, most: int = 12) -> None:
    """Plant up to `most` findings in what a commit changed, and score where they come to stand."""
    chance = random.Random(seed)
    score.commits += 1
    change = asyncio.run(change_from_git(Wanted(kind="commits", name=head), folder))
    chunks = planned(change.files).chunks
    lines = [(path, number) for path, numbers in added_lines(folder, head).items() for number in numbers]
    chance.shuffle(lines)
    texts: dict[str, list[str]] = {}
    for path, number in lines[:most]:
        if path not in texts:
            texts[path] = [_decoded(line) for line in _git(folder, "show", f"{head}:{path}").split(b"\n")]
        _plant_one(texts[path], path, number, chunks, score, chance, {one for other, one in lines if other == path})


def added_lines(folder: Path, head: str) -> dict[str, list[int]]:
    """The numbers of the lines that a commit added, by file."""
    base = _git(folder, "rev-parse", "--verify", f"{head}^").decode().strip()
    words = ("--no-color", "--no-ext-diff", "-M", "--histogram")
    listed = _git(folder, "diff", *words, "--name-status", "-z", base, head).decode("utf-8", "replace").split("\0")
    found: dict[str, list[int]] = {}
    while len(listed) > 1:
        kind = listed.pop(0)
        names = [listed.pop(0) for _ in range(2 if kind[0] in "RC" else 1)]
        if kind[0] == "D":
            continue
        shown = _git(folder, "diff", *words, "-U0", base, head, "--", *names)
        numbers: list[int] = []
        for first, count in re.findall(rb"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", shown, re.MULTILINE):
            numbers += range(int(first), int(first) + int(count or 1))
        found[names[-1]] = numbers
    return found


def _plant_one(
    text: list[str],
    path: str,
    number: int,
    chunks: tuple[DiffChunk, ...],
    score: Score,
    chance: random.Random,
    added: set[int],
) -> None:
    line = text[number - 1]
    chunk = _chunk_with(chunks, path, number)
    if chunk is None or not line.strip() or len(line) > _LONGEST:
        score.left_out += 1
        return
    repeated = sum(_words(line) in _words(other) for other in text) > 1
    kind = chance.choice(("exact", "blanks", "gutter", "two lines", "invented") + (() if repeated else ("off", "part")))
    quote, given = line, number
    match kind:
        case "blanks":
            quote = "  " + re.sub(r"[ \t]+", lambda _: chance.choice((" ", "  ", "\t")), line.strip())
        case "gutter":
            quote = f"{number:>5} + {line}"
        case "two lines" if number + 1 in added and number < len(text):
            if _chunk_with(chunks, path, number + 1) is not chunk or len(text[number]) > _LONGEST:
                return
            quote = f"{line}\n{text[number]}"
        case "invented":
            quote = f"{line} {chance.getrandbits(64):x}"
        case "off":
            given += chance.choice((-3, -2, -1, 1, 2, 3))
        case "part" if len(line.strip()) > 12:
            quote = line.strip()[2:-1].strip()
            kind = "part" if sum(quote in other for other in text) == 1 else "exact"
            quote = quote if kind == "part" else line
    label = f"{kind}{', repeated' if repeated else ''}"
    score.planted[label] += 1
    finding = placed(_claim(path, with_codes(quote), given), list({id(p.file): p.file for p in chunk.pieces}.values()))
    if finding.line == (0 if kind == "invented" else number):
        score.right[label] += 1
    else:
        score.wrong.append(f"{path}:{number} {label}: {quote!r} -> {finding.line}")


def _chunk_with(chunks: tuple[DiffChunk, ...], path: str, number: int) -> DiffChunk | None:
    for chunk in chunks:
        for piece in chunk.pieces:
            first = piece.hunk.new_start
            if piece.file.path == path and first <= number < first + piece.hunk.new_lines:
                return chunk
    return None


def _claim(path: str, quote: str, line: int) -> Finding:
    return Finding(
        rule="planted", title="planted", explanation="planted", severity="high", category="correctness",
        confidence=0.9, path=path, line=line, quote=quote, replacement=None,
    )  # fmt: skip


def _words(text: str) -> str:
    return " ".join(text.split())


def _decoded(line: bytes) -> str:
    try:
        text = line.decode()
    except UnicodeDecodeError:
        text = line.decode("latin-1")
    return text.removesuffix("\r")


def _git(folder: Path, *words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True).stdout
