"""The user's prompts in a segment: verbatim while there is room, then head and tail of each, then one line each.

Order is kept, and no prompt is left without a word while a stub of it fits. Stubs: what was laid down (rules, values)
comes first, the shortest of it before the longer, so that most of it gets in whole; then what tells most; small talk
and repetition come last.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from codelet.context.compaction.segments import REQUESTS, USER, SegmentEntry, heading
from codelet.context.compaction.signals import (
    STOP_WORDS,
    Caseless,
    gives_order,
    is_small_talk,
    may_order,
    states_rule,
)

LEAST = 160
_GAP, _END = " […] ", " […]"
_READABLE = 60 + len(_END)
# For so few characters more nothing is cut.
_LITTLE = 16
# Blanks after the mark of a sentence, or line ends. A pattern that begins with what it takes is searched for faster.
_SENTENCE = re.compile(r"\s(?:(?<=[.!?;]\s)\s*|(?<=\n)\n*)")


@dataclass(frozen=True)
class EarlierPrompt:
    """One user message of an earlier turn."""

    turn: int
    text: str


@dataclass
class FittedPrompts:
    """Entries for a segment, one per message (or one for all of them, if there is little room).

    `cut` holds what was cut away, with the position of its message; `left_out` counts messages without any line.
    """

    entries: list[SegmentEntry] = field(default_factory=list)
    cut: list[tuple[int, str]] = field(default_factory=list)
    mode: str = "verbatim"
    left_out: int = 0

    def size(self) -> int:
        """Characters of the rendered entries."""
        return sum(
            (0 if e.label == REQUESTS else len(heading(e.turn, e.label)) + 1) + sum(len(line) + 1 for line in e.lines)
            for e in self.entries
        )


def fit_prompts(said: Sequence[EarlierPrompt], budget: int, room: int) -> FittedPrompts:
    """Fit every message into `budget` characters, or into `room` if `budget` is not enough for their heads."""
    if not said:
        return FittedPrompts()
    frame = sum(len(heading(one.turn, USER)) + 2 for one in said)
    if frame + sum(len(one.text) for one in said) <= budget:
        return FittedPrompts([_entry(one, one.text) for one in said])
    lengths = sorted(len(one.text) for one in said)
    cap = _cap(lengths, budget - frame)
    if cap < LEAST:
        cap = min(LEAST, _cap(lengths, room - frame))
    if cap < _READABLE:
        lines, left_out = one_line_each([one.text for one in said], room)
        entries = [SegmentEntry(said[0].turn, REQUESTS, lines)] if lines else []
        return FittedPrompts(entries, mode="stubs", left_out=left_out)
    result = FittedPrompts(mode="head and tail" if cap > LEAST else "head")
    caps = [cap] * len(said) if cap > LEAST else _caps([one.text for one in said], cap)
    for position, (one, cap) in enumerate(zip(said, caps, strict=True)):
        if len(one.text) <= cap:
            result.entries.append(_entry(one, one.text))
            continue
        head, tail = clip(one.text, cap)
        head = head if tail else head[: cap - len(_END)]
        result.entries.append(_entry(one, head + (_GAP + tail if tail else _END)))
        result.cut.append((position, one.text[len(head) : len(one.text) - len(tail)]))
    return result


def _entry(one: EarlierPrompt, text: str) -> SegmentEntry:
    return SegmentEntry(one.turn, USER, text.split("\n"))


def _cap(lengths: Sequence[int], budget: int) -> int:
    """The largest cap under which the sum of the lengths, sorted and at least one, fits the budget; 0 if none."""
    spent = 0
    for place, length in enumerate(lengths):
        rest = len(lengths) - place
        if spent + length * rest > budget:
            return max(0, (budget - spent) // rest)
        spent += length
    return lengths[-1]


def _caps(texts: Sequence[str], cap: int) -> list[int]:
    """The characters for each text, together as many as if each got `cap`: none gets less than can be read.

    What is little longer than that stands whole, as long as there is room, and then what tells more than the rest.
    """
    caps = [min(len(text), _READABLE) for text in texts]
    left = sum(min(len(text), cap) for text in texts) - sum(caps)
    known = _weighed(texts)
    ranks = [known[flat].rank if (flat := " ".join(text.split())) else 0 for text in texts]
    little = [len(text) - cap <= _LITTLE for text, cap in zip(texts, caps, strict=True)]
    for i in sorted(range(len(texts)), key=lambda i: (not little[i], -ranks[i], len(texts[i]))):
        if (little[i] or ranks[i] > 0) and len(texts[i]) - caps[i] <= left:
            left -= len(texts[i]) - caps[i]
            caps[i] = len(texts[i])
    cut = [i for i, text in enumerate(texts) if caps[i] < len(text)]
    level = _cap(sorted(len(texts[i]) for i in cut), left + sum(caps[i] for i in cut)) if cut else 0
    for i in cut:
        caps[i] = min(level, len(texts[i]))
    return caps


def clip(text: str, cap: int) -> tuple[str, str]:
    """Head and tail of a text, together with their gap at most `cap` long; the head gets two thirds, at least 160."""
    if len(text) <= cap:
        return text, ""
    head = min(cap, max(LEAST, cap * 2 // 3))
    tail = cap - head - len(_GAP)
    if tail < 20:
        return text[:cap], ""
    return text[:head], text[len(text) - tail :]


def sentences(text: str) -> list[str]:
    """The sentences and lines of a text."""
    return [part.strip() for part in _SENTENCE.split(text) if part.strip()]


# What the user laid down: sentences of this length, so many of a prompt. Of a goal so much stands, then a mark.
_GOAL_LENGTH, _RULE_LENGTHS, _RULES_OF_ONE = 240, range(16, 241), 4
_CUT = " […]"
_LAID_DOWN_IN = 20_000
# What the user pasted: output of programs, code, data.
_PASTED = re.compile(r"[`>|<$\[{(/]|\S+:\d+|\S*(?:Error|error|warning)\b:?|.*(?:[{}]|\\n|\":|:\d+:|=>|==)")
# What takes an earlier rule back, or allows an exception from it.
_ALLOWS = Caseless(
    r"\b(?:you|we) (?:may|can|could|are (?:now )?allowed to)\b(?! ?(?:not\b|'t))|\bfeel free to\b|\bgo ahead and\b|"
    r"\b(?:forget|drop|scrap|ignore|lift|withdraw|take back|retract|relax|never mind)\b|"
    r"\bno longer (?:need|necessary|required|matter|appl)|(?:\bnot|n'?t) (?:\w+ ){0,4}any ?more\b|"
    r"\b(?:changed my mind|take (?:that|it) back|after all|exception)\b|"
    r"\b(?:is|are|it's|that's) (?:now )?(?:ok(?:ay)?|fine|allowed|permitted|all right)\b",
)
# What puts another number in the place of one that a rule had.
_CORRECTS = Caseless(
    r"\b(?:no|not|instead|rather|actually|sorry|wait|make (?:it|that)|better|correction|raise|lower)\b"
)
# An order that speaks of something only by a pronoun among its first words.
_POINTS_BACK = Caseless(r"\W*(?:[\w'’]+\W+){0,3}(?:it|its|them|those|these)\b")
_SOFTENED = re.compile(r" \(t\d{1,7}: .*\)\Z")
_WORD = re.compile(r"[^\W\d_][\w./-]{2,}")
_ENDING = re.compile(r"(?:ing|ed|e?s)\Z")
_OF_RULES = frozenset(
    "must never always only make sure ensure please don't dont avoid prefer should required when from now before after "
    "without with that this them they what then also just keep have more than most least there here like want "
    "forget rule rules allowed".split()
)


def said_in(text: str) -> list[str]:
    """The sentences of a user's message that may lay something down: of a length to stand by itself, and not pasted."""
    if not (may_order(text[:_LAID_DOWN_IN]) or _ALLOWS.search(text[:_LAID_DOWN_IN]) or _CORRECTS.search(text[:400])):
        return []
    return [one for one in sentences(text[:_LAID_DOWN_IN]) if len(one) in _RULE_LENGTHS and not _PASTED.match(one)]


def orders_in(given: Sequence[str]) -> list[str]:
    """The first few of some sentences that give an order; one that begins with a pronoun has the one before it."""
    found = []
    for before, one in zip(("", *given), given, strict=False):
        if not one.endswith("?") and gives_order(one):
            whole = f"{before} {one}" if before and _POINTS_BACK.match(one) else one
            found.append(whole if len(whole) in _RULE_LENGTHS else one)
    return found[:_RULES_OF_ONE]


def goal_in(text: str) -> str:
    """What a message sets as the goal, cut with a mark at its end where it is long; "" for small talk."""
    if len(text) < _GOAL_LENGTH // 2 and is_small_talk(text):
        return ""
    goal = " ".join(text[: 2 * _GOAL_LENGTH].split())
    if len(goal) <= _GOAL_LENGTH and len(text) <= 2 * _GOAL_LENGTH:
        return goal
    room = _GOAL_LENGTH - len(_CUT)
    return (goal[: room + 1].rpartition(" ")[0] if " " in goal[room // 2 : room + 1] else goal[:room]) + _CUT


def softens(one: str, rule: str) -> bool:
    """Whether a later sentence may take back a rule, or a part of it: it allows, or corrects, what the rule speaks of.

    Both are then told together, so that a sentence which means something else does no harm.
    """
    if one.endswith("?") or not (
        _ALLOWS.search(one) or (_has_number(one) and _has_number(rule) and _CORRECTS.search(one))
    ):
        return False
    mine, other = _telling(one), _telling(as_given(rule))
    return any(a == b or ("/" in a + b and (a.startswith(b) or b.startswith(a))) for a in mine for b in other)


def softened(rule: str, one: str, turn: int) -> str:
    """A rule with what was said of it later, in the user's words."""
    return f"{as_given(rule)} (t{turn}: {one})"


def as_given(rule: str) -> str:
    """A rule without what was said of it later."""
    return _SOFTENED.sub("", rule)


def _has_number(text: str) -> bool:
    return any(map(str.isdecimal, text))


def _telling(text: str) -> set[str]:
    """The words of a sentence that say what it is about, without their endings."""
    words = (word.casefold().rstrip(".-/") for word in _WORD.findall(text))
    return {_ENDING.sub("", word).rstrip("iy") for word in words if word not in _OF_RULES and word not in STOP_WORDS}


SHORTEST = 6
# Passes over the messages: characters for each (0: all), and the least rank that gets them.
_STEPS = ((50, 1), (80, 1), (10, -9), (0, 1), (18, -5), (26, -5), (36, -5), (50, -5), (0, -5))
# From this rank on, a message lays something down.
_LAID_DOWN = 3
# A word that so many of the messages share, or one in so many of them if that is more, tells little of any of them.
_SHARED, _OF = 3, 20
_READ = 600
# With fewer telling words a message is a phrase that comes again and again.
_FEW = 4
_MARKS = ".,;:!?()\"'"
_VALUE = re.compile(r"\d|[`\"'][^`\"'\n]{2,60}[`\"']|\w[/_]\w|[a-z][A-Z]|(?<!\S)(?:/|--)\w")


@dataclass(frozen=True)
class WeighedWords:
    """The words of a text and how much each of them tells; `count` of them tell anything."""

    words: tuple[str, ...]
    worth: tuple[int, ...]
    count: int

    @classmethod
    def of(cls, text: str, common: Mapping[str, int]) -> WeighedWords:
        """Read a text; `common` counts in how many of the messages each word occurs."""
        words = tuple(word.rstrip(".,;:!") for word in text.split())
        worth = tuple(_worth(word, common) for word in words)
        return cls(words, worth, sum(one > 0 for one in worth))

    def repeats(self, common: Mapping[str, int], shared: int = _SHARED) -> bool:
        """Whether most of what it tells is in so many messages."""
        own = [_bare(word) for word, worth in zip(self.words, self.worth, strict=True) if worth]
        return 3 * sum(common.get(word, 0) >= shared for word in own) >= 2 * len(own)

    def abridged(self, cap: int) -> str:
        """The most telling words, in order, as many as `cap` characters take.

        Articles, auxiliaries and courtesies go first, then words that many of the messages share; values, names,
        negations and bounds go last.
        """
        words, worth = self.words, self.worth
        left = cap + 1
        taken: list[int] = []
        for index in sorted(range(len(words)), key=lambda i: -worth[i]):
            if worth[index] > 0 and len(words[index]) + 1 <= left:
                taken.append(index)
                left -= len(words[index]) + 1
        return " ".join(words[i] for i in sorted(taken)) or " ".join(words)[: min(cap, 20)]


def _bare(word: str) -> str:
    return word.strip(_MARKS).lower()


def _worth(word: str, common: Mapping[str, int]) -> int:
    """How much a word tells: 0 for a filler, most for a value or a name."""
    low = _bare(word)
    if not low or low in STOP_WORDS:
        return 0
    if any(c.isdigit() for c in low) or _VALUE.search(word) or word[:1] in "\"'`":
        return 100
    if states_rule(low):
        return 60
    return 50 - min(40, 6 * (common.get(low, 1) - 1)) + 5 * word[:1].isupper()


@dataclass(frozen=True)
class _Weighed:
    words: WeighedWords
    rank: int


def _weighed(said: Sequence[str]) -> dict[str, _Weighed]:
    """The distinct messages, each in one line, with what their words tell and how important it is to keep them whole.

    Rules and values raise it, small talk and repetition lower it. A request of several words that was made twice is no
    repetition: it was not met at first.
    """
    counts: dict[str, int] = {}
    for spoken in said:
        if text := " ".join(spoken.split()):
            counts[text] = counts.get(text, 0) + 1
    common: dict[str, int] = {}
    for text in counts:
        for word in set(map(_bare, text.split())):
            common[word] = common.get(word, 0) + 1
    shared = max(_SHARED, len(counts) // _OF)
    found = {}
    for text, count in counts.items():
        words = WeighedWords.of(text[:_READ], common)
        laid_down = 2 * states_rule(text) + 2 * bool(_VALUE.search(text))
        again = 3 * min(2, (words.count < _FEW) * (count - 1) + words.repeats(common, shared))
        found[text] = _Weighed(words, (laid_down or -2 * is_small_talk(text)) + 1 - again)
    return found


def one_line_each(said: Sequence[str], room: int) -> tuple[list[str], int]:
    """One line per distinct message in at most `room` characters, and how many messages got none."""
    known = _weighed(said)
    lines = _fill(list(known), [one.words for one in known.values()], [one.rank for one in known.values()], room)
    return lines, len(known) - len(lines)


def _fill(texts: Sequence[str], weighed: Sequence[WeighedWords], ranks: Sequence[int], room: int) -> list[str]:
    """The lines, in order, as the passes make them: each may replace a shorter one of the same message."""
    shown = [""] * len(texts)
    left = room
    for cap, least in _STEPS:
        wanting = [i for i, rank in enumerate(ranks) if rank >= least and shown[i] != texts[i]]
        drafts = {i: weighed[i].abridged(cap) if cap else texts[i] for i in wanting}

        def order(i: int, drafts: Mapping[int, str] = drafts) -> tuple[int, int, int]:
            rank = min(ranks[i], _LAID_DOWN)
            return -rank, len(drafts[i]) if rank == _LAID_DOWN else -weighed[i].count, -i

        for index in sorted(wanting, key=order):
            if left < SHORTEST:
                break
            fitting = _fitting(cap, left)
            version = drafts[index] if fitting == cap else weighed[index].abridged(fitting)
            more = len(version) - len(shown[index]) + (not shown[index])
            if 0 < more <= left:
                shown[index] = version
                left -= more
    return [line for line in shown if line]


def _fitting(cap: int, left: int) -> int:
    """The cap, or a little less if that is all that is left: a shorter line is better than none. 0 is no cap."""
    return left - 1 if 2 * cap // 3 <= left - 1 < cap else cap
