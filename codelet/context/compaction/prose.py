"""The user's words and the agent's prose: all of it if it fits, else what says most in the room."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from codelet.context.compaction.lexicon import Lexicon, as_changed, clip, common_cap, pieces
from codelet.context.compaction.reading import SessionPiece

# In percent of the room: all prompts under one cap; while that is below `_SHORT` characters a prompt, more of it.
_WORDS, _WORDS_MOST, _SHORT = 20, 50, 240
# Characters of a prompt below which it is told by its rarest words, and below which by none.
_STUB, _SHORTEST, _FEW_WORDS = 60, 12, 4
# Weights of a sentence: the agent's last in a turn, after a failed call, right before a call; one of the user's;
# one in the oldest piece.
_CLOSES, _AFTER_FAILURE, _BEFORE_CALL, _USER, _OLDEST = 1.5, 2.0, 0.4, 1.0, 0.3
_SAID_BEFORE, _WANTED, _FRAME = 0.3, 6.0, 30
_CODE_BLOCK = 160
_FENCE = re.compile(r"^\s*```.*?(?:^\s*```|\Z)", re.MULTILINE | re.DOTALL)
_GONE = "\0"
# A sentence ends where Unicode's sentence terminals stand: those that a space follows, and those that need none.
_SENTENCE = re.compile(r"(?<=[.!?…؟۔։।॥።។။])\s+|(?<=[。！？｡])")
_NO_SPACE_AFTER = ("。", "！", "？", "｡")
_LEAST_LEFT = 12
AS_BEFORE = "(as at t"
ENTRY = 12
"""Characters that the heading of an entry takes."""


class Line(NamedTuple):
    """One line of a segment: the piece that it comes from, its number in the session, and its text."""

    number: int
    piece: SessionPiece
    text: str


class Words(NamedTuple):
    """The user's words, a line for each message: at most `each` characters (None: whole); `left_out` left nothing."""

    lines: list[Line]
    each: int | None = None
    left_out: int = 0


def users_words(said: Sequence[tuple[int, SessionPiece]], room: int, most: int | None = None) -> Words:
    """Fit the user's messages into a share of the room, in characters, under one cap; `most` bounds that share."""
    texts = [(number, piece, piece.text.strip()) for number, piece in said]
    texts = _without_repeats([each for each in texts if each[2]])
    lengths = [len(text) for _, _, text in texts]
    most = room if most is None else max(0, most)
    cap = common_cap(lengths, min(most, room * _WORDS // 100))
    if cap < _SHORT:
        larger = common_cap([min(length, _SHORT) for length in lengths], min(most, room * _WORDS_MOST // 100))
        cap = min(_SHORT, max(cap, larger))
    if all(length <= cap for length in lengths):
        return Words([Line(*each) for each in texts])
    if cap < _SHORTEST:
        return Words([], cap, len(texts))
    if cap >= _STUB:
        return Words([Line(number, piece, clip(text, cap)) for number, piece, text in texts], cap)
    return Words(_gists(texts, cap, min(most, room * _WORDS_MOST // 100)), cap)


def _gists(texts: Sequence[tuple[int, SessionPiece, str]], cap: int, room: int) -> list[Line]:
    """Return a few words of each text, those that are in the fewest of them, and with it the turns that repeat it."""
    again: dict[str, list[str]] = {}
    for _, piece, text in texts:
        if text.startswith(AS_BEFORE):
            again.setdefault(text[len(AS_BEFORE) - 1 : -1], []).append(f"t{piece.turn}")
    first = [each for each in texts if not each[2].startswith(AS_BEFORE)]
    count = Counter(word for _, _, text in first for word in set(text.split()))
    room -= sum(len(each) + 2 for turns in again.values() for each in turns)
    cap = max(cap, min(_STUB, common_cap([min(len(text), _STUB) for _, _, text in first], max(0, room))))

    def gist(text: str, most: int) -> str:
        words = text.split()
        if len(text) <= most or len(words) < _FEW_WORDS:
            return clip(text, most)
        left, taken = most - 1, set()
        for place in sorted(range(len(words)), key=lambda place: (count[words[place]], place)):
            if len(words[place]) < left:
                left -= len(words[place]) + 1
                taken.add(place)
        return " ".join(["…", *(words[place] for place in sorted(taken))])

    def line(number: int, piece: SessionPiece, text: str) -> Line:
        turns = again.pop(f"t{piece.turn}", [])
        return Line(number, piece, gist(text, cap) + (f" (again at {', '.join(turns)})" if turns else ""))

    return [line(*each) for each in first]


def _without_repeats(texts: Sequence[tuple[int, SessionPiece, str]]) -> list[tuple[int, SessionPiece, str]]:
    """Put a reference in the place of a prompt that was said before, word for word."""
    first: dict[str, int] = {}
    found = []
    for number, piece, text in texts:
        turn = first.setdefault(text, piece.turn)
        again = f"{AS_BEFORE}{turn})"
        found.append((number, piece, again if turn != piece.turn and len(text) > len(again) else text))
    return found


class _Sentence(NamedTuple):
    number: int
    piece: SessionPiece
    place: tuple[int, int]
    text: str
    weight: float


def prose_lines(text: str) -> list[str]:
    """Return the lines of a text without long code blocks; the sentence that leads into such a block goes too."""
    shortened = _FENCE.sub(lambda found: found[0] if len(found[0]) < _CODE_BLOCK else _GONE, text)
    lines = [line.strip() for line in shortened.split("\n")]
    lines = [line for line in lines if line]
    return [
        line
        for place, line in enumerate(lines)
        if line != _GONE and not (lines[place + 1 : place + 2] == [_GONE] and line.endswith((":", "：")))
    ]


def agents_prose(
    old: Sequence[tuple[int, SessionPiece]],
    total: int,
    room: int,
    lexicon: Lexicon,
    lift: Callable[[int], float],
    wanted: Collection[str],
    cut: Mapping[int, str],
) -> list[Line]:
    """Return the agent's words in at most `room` characters, and the user's where they were cut.

    `lift` is a factor for each turn; `wanted` are words of which the user spoke; `cut` are the prompts, by number, of
    which there is only that text.
    """
    found = _sentences(old, total, lift, cut)
    if sum(len(one.text) + 1 for one in found) <= room:
        taken: Collection[_Sentence] = found
    else:
        taken = _chosen(found, room, lexicon, wanted)
    rows: dict[tuple[int, int], list[_Sentence]] = {}
    for one in sorted(taken, key=lambda one: (one.number, one.place)):
        rows.setdefault((one.number, one.place[0]), []).append(one)
    return [Line(number, row[0].piece, _joined([one.text for one in row])) for (number, _), row in rows.items()]


def _sentences(
    old: Sequence[tuple[int, SessionPiece]], total: int, lift: Callable[[int], float], cut: Mapping[int, str]
) -> list[_Sentence]:
    found: list[_Sentence] = []
    after_failure = False
    for number, piece in old:
        if piece.kind == "result":
            after_failure = after_failure or piece.failed
        elif piece.kind == "user":
            after_failure = False
            if number in cut:
                weight = _USER * (_OLDEST + (1 - _OLDEST) * number / total)
                said = _split(piece.text.split("\n"))
                found += [
                    _Sentence(number, piece, place, text, weight) for place, text in said if text not in cut[number]
                ]
        elif piece.kind == "agent" and (lines := prose_lines(as_changed(piece.text)[0])):
            weight = _CLOSES if piece.closes else _AFTER_FAILURE if after_failure else 1.0
            weight *= (_OLDEST + (1 - _OLDEST) * number / total) * lift(piece.turn)
            if piece.calls and lines[-1].endswith((":", "：")):
                lines = lines[:-1]  # it leads into the call
            said = _split(lines)
            for place, text in said:
                announces = piece.calls and place == said[-1][0]
                own = weight * _BEFORE_CALL if announces else weight
                found.append(_Sentence(number, piece, place, text, own))
            after_failure = False
    return found


def _split(lines: Sequence[str]) -> list[tuple[tuple[int, int], str]]:
    """Return the sentences of lines, each with its row and its place."""
    sentences = [(row, sentence) for row, line in enumerate(lines) for sentence in _SENTENCE.split(line) if sentence]
    parts = [(row, part.strip()) for row, sentence in sentences for part in pieces(sentence) if part.strip()]
    return [((row, place), text) for place, (row, text) in enumerate(parts)]


def _chosen(found: Sequence[_Sentence], room: int, lexicon: Lexicon, wanted: Collection[str]) -> list[_Sentence]:
    """Take the sentences of most weight and most new words for their length, as long as there is room."""
    covered: Counter[str] = Counter()
    taken: list[_Sentence] = []
    said: set[str] = set()

    def gain(one: _Sentence) -> float:
        fresh = sum(
            (_WANTED if word in wanted else 2.0 if is_name else 1.0) * _SAID_BEFORE ** covered[word]
            for word, is_name in words(one)
        )
        return one.weight * (fresh + 1) / (len(one.text) + _FRAME)

    def words(one: _Sentence) -> Collection[tuple[str, bool]]:
        return lexicon.names(one.text).items()

    heap = [(-gain(one), place) for place, one in enumerate(found)]
    heapq.heapify(heap)
    left = room
    while heap and left > _LEAST_LEFT:
        best, place = heapq.heappop(heap)
        one = found[place]
        now = gain(one)
        if heap and now < -best * 0.95 and now < -heap[0][0]:
            heapq.heappush(heap, (-now, place))
        elif len(one.text) + 1 <= left and one.text not in said:
            left -= len(one.text) + 1
            said.add(one.text)
            taken.append(one)
            covered.update(lexicon.names(one.text))
    return taken


def _joined(sentences: Sequence[str]) -> str:
    return "".join(text if text.endswith(_NO_SPACE_AFTER) else f"{text} " for text in sentences).strip()
