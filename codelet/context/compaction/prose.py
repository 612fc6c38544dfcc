"""The user's words and the agent's prose: all of it if it fits, else the sentences that say most in the room."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from codelet.context.compaction.evidence import Coverage, Line
from codelet.context.compaction.lexicon import Lexicon, as_changed, clip, common_cap, pieces
from codelet.context.compaction.reading import SessionPiece

# The share of all prompts in percent of the room; it grows up to `_WORDS_MOST` while a prompt has less than `_SHORT`.
_WORDS, _WORDS_MOST, _SHORT = 20, 50, 240
# Below `_STUB` characters a prompt is represented by its rarest words, below `_SHORTEST` by none.
_STUB, _SHORTEST, _FEW_WORDS = 60, 12, 4
# Weights of a sentence: in a turn's last text, after a failed call, right before a call, in the oldest text.
_CLOSES, _AFTER_FAILURE, _BEFORE_CALL, _OLDEST = 1.5, 2.0, 0.4, 0.3
_SAID_BEFORE, _WANTED, _FRAME = 0.3, 6.0, 30
_CODE_BLOCK = 160
_FENCE = re.compile(r"^\s*```.*?(?:^\s*```|\Z)", re.MULTILINE | re.DOTALL)
_AGAIN = re.compile(r" \(again at (t\d+(?:, t\d+)*)\)\Z")
_GONE, _LEADS_IN = "\0", (":", "：")
# A sentence ends at Unicode's sentence terminals: at some only if a space follows.
_SENTENCE = re.compile(r"(?<=[.!?…؟۔։।॥።။។])\s+|(?<=[。！？｡])")
_NO_SPACE_AFTER = ("。", "！", "？", "｡")
ENTRY = 12
"""Characters of an entry's heading."""


class Words(NamedTuple):
    """The user's words, a line for each message of at most `each` characters (None: whole).

    `left_out` is the number of messages without a line.
    """

    lines: list[Line]
    each: int | None = None
    left_out: int = 0


def users_words(prompts: Sequence[tuple[int, SessionPiece]], room: int, most: int) -> Words:
    """Fit the user's messages into a share of the room, in characters, under one cap; `most` bounds that share.

    Of equal prompts only the first is written, with the turns of the others.
    """
    lines, again = list[Line](), dict[str, list[str]]()
    for number, piece in prompts:
        text = piece.text.strip()
        earlier = _AGAIN.search(text)  # by an earlier compaction
        if text := text[: earlier.start()] if earlier else text:
            if text not in again:
                lines.append(Line(number, piece, text))
            again.setdefault(text, []).extend([f"t{piece.turn}", *(earlier[1].split(", ") if earlier else ())])
    repeats = {text: f" (again at {', '.join(turns[1:])})" for text, turns in again.items() if turns[1:]}
    most -= sum(map(len, repeats.values()))
    lengths = [len(line.text) for line in lines]
    cap = common_cap(lengths, min(most, room * _WORDS // 100))
    larger = min(most, room * _WORDS_MOST // 100)
    if cap < _SHORT:
        cap = min(_SHORT, max(cap, common_cap([min(length, _SHORT) for length in lengths], larger)))
    if cap < min(_SHORTEST, max(lengths, default=0)):
        return Words([], cap, sum(map(len, again.values())))
    common = Counter(word for line in lines for word in set(line.text.split())) if cap < _STUB else None
    fitted = [
        line._replace(text=f"{_gist(text, cap, common) if common else clip(text, cap)}{repeats.get(text, '')}")
        for line in lines
        for text in [line.text]
    ]
    return Words(fitted, None if cap >= max(lengths, default=0) else cap)


def _gist(text: str, most: int, common: Mapping[str, int]) -> str:
    """Return the words of a text that occur in the fewest prompts."""
    words = text.split()
    if len(text) <= most or len(words) < _FEW_WORDS:
        return clip(text, most)
    left, taken = most - 1, set[int]()
    for place in sorted(range(len(words)), key=lambda place: (common[words[place]], place)):
        if len(words[place]) < left:
            left -= len(words[place]) + 1
            taken.add(place)
    return " ".join(["…", *(words[place] for place in sorted(taken))])


def prose_lines(text: str) -> list[str]:
    """Return the lines of a text without long code blocks and the sentences that lead into them."""
    shortened = _FENCE.sub(lambda found: found[0] if len(found[0]) < _CODE_BLOCK else _GONE, text)
    lines = [line for each in shortened.split("\n") if (line := each.strip())]
    return [
        line
        for line, after in zip(lines, [*lines[1:], ""], strict=bool(lines))
        if line != _GONE and not (after == _GONE and line.endswith(_LEADS_IN))
    ]


def agents_prose(
    old: Sequence[tuple[int, SessionPiece]],
    total: int,
    room: int,
    lexicon: Lexicon,
    lift: Callable[[int], float],
    wanted: Collection[str],
) -> list[Line]:
    """Return the agent's sentences in at most `room` characters.

    `lift` is a factor for each turn, `wanted` are words in the user's instruction.
    """
    found: dict[str, tuple[float, int, Line]] = {}
    after_failure = False
    for number, piece in old:
        age = _OLDEST + (1 - _OLDEST) * number / total
        if piece.kind == "result":
            after_failure = after_failure or piece.failed
        elif piece.kind == "user":
            after_failure = False
        elif piece.kind == "agent" and (lines := prose_lines(as_changed(piece.text)[0])):
            weight = age * lift(piece.turn) * (_CLOSES if piece.closes else _AFTER_FAILURE if after_failure else 1.0)
            sentences = _sentences(lines[:-1] if piece.calls and lines[-1].endswith(_LEADS_IN) else lines)
            for place, (row, text) in enumerate(sentences, 1):
                announces = piece.calls and place == len(sentences)
                found[text] = (weight * _BEFORE_CALL if announces else weight, row, Line(number, piece, text))
            after_failure = False
    lines_found = [line for _, _, line in found.values()]
    if sum(len(line.text) + 1 for line in lines_found) > room:
        words = {word: is_name for text in found for word, is_name in lexicon.names(text).items()}
        value = {word: _WANTED if word in wanted else 1.0 + is_name for word, is_name in words.items()}
        coverage = Coverage(lexicon.names, value, room, covered=_SAID_BEFORE, frame=_FRAME)
        coverage.fill(lines_found, [weight for weight, _, _ in found.values()], least=1.0)
        lines_found = coverage.lines
    rows: dict[tuple[int, int], list[Line]] = {}
    taken = {line.text for line in lines_found}
    for text, (_, row, line) in sorted(found.items(), key=lambda each: (each[1][2].number, each[1][1])):
        if text in taken:
            rows.setdefault((line.number, row), []).append(line)
    joined = (
        "".join(line.text if line.text.endswith(_NO_SPACE_AFTER) else f"{line.text} " for line in row).strip()
        for row in rows.values()
    )
    return [row[0]._replace(text=text) for row, text in zip(rows.values(), joined, strict=True)]


def _sentences(lines: Sequence[str]) -> list[tuple[int, str]]:
    """Return the sentences of lines, each with its row."""
    sentences = [(row, sentence) for row, line in enumerate(lines) for sentence in _SENTENCE.split(line) if sentence]
    return [(row, text) for row, sentence in sentences for part in pieces(sentence) if (text := part.strip())]
