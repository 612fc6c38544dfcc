"""The hand-over: could somebody go on from the compacted text? Measured on real sessions, without asking a model.

Per cut, of what stood before it: *decisions*, the agent's sentences that state a cause or a decision, and *errors*, the
lines in which a program reports one, as the share still there word for word; *removed*, lines that an edit took out and
that the new text shows as if they still stood; *false*, runs that it calls passed although the last run of that command
failed. *Questions* are asked of the whole session: the words of the answer have to stand within five lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from statistics import mean
from time import process_time
from typing import Any

from context import baselines, recall
from context.baselines import Message, Policy, size
from context.readers import Transcript

_CAUSE = re.compile(
    r"\b(?:because|root cause|caused by|the (?:problem|issue|bug|cause|fix|reason|culprit) (?:is|was)|turns? out|"
    r"instead of|rather than|decided|decision|so that|found (?:it|the)|does(?:n't| not) work|did(?:n't| not) work|"
    r"fails? (?:because|with|when)|fixed|resolved|therefore|which means|this means|that's why|we should|must not|"
    r"needs? to be|no longer|the right (?:way|fix|call))\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_BULLET = re.compile(r"^(?:[-*•>#]+|\d+[.)])\s*")
_ERROR = re.compile(
    r"\s*(?:[\w.]*(?:Error|Exception)\b: \S|(?:\S{1,120}[:(]\d+[,:)]\S*\s*)?(?:- )?(?:error|fatal|ERROR)\b"
    r"(?:\[\w+\]| TS\d+)?: |FAILED |--- FAIL|npm ERR!|E   \S|"
    r".{0,120}(?:command not found|No such file or directory)\s*\Z)"
)
_FAILED = re.compile(r"\b[1-9]\d* (?:failed|failing|errors?)\b|--- FAIL|^FAIL\b|exited with code [1-9]", re.MULTILINE)
_PASSED = re.compile(r"^status: \w+ passed \([^)]*\): (.+)$", re.MULTILINE)
_PATH = re.compile(r'"(?:file_)?path": ?"([^"]+)"')
_OLD_KEYS = ("oldText", "old_string", "old", "old_str", "search")
_NEW_KEYS = ("newText", "new_string", "new", "new_str", "replace")
_SEGMENT = "<compacted turns="
NEAR = 5
# Smaller lists are seldom compacted, and a quarter of one has no room; they have rows of their own only.
WHOLE_FROM = 20_000


def flat(text: str) -> str:
    """A text with every run of white space as one blank."""
    return " ".join(text.split())


def decisions(messages: Sequence[Message]) -> set[str]:
    """The agent's sentences of 30 to 400 characters that state a cause or a decision."""
    found: set[str] = set()
    for message in messages:
        if message["role"] == "assistant" and isinstance(message.get("content"), str):
            for part in _SENTENCE.split(message["content"]):
                sentence = _BULLET.sub("", flat(part))
                if 30 <= len(sentence) <= 400 and _CAUSE.search(sentence):
                    found.add(sentence)
    return found


def errors(messages: Sequence[Message]) -> set[str]:
    """The lines of results in which a program reports an error."""
    results = (str(message.get("content") or "") for message in messages if message["role"] == "tool")
    lines = (flat(line) for text in results for line in text.split("\n") if _ERROR.match(line))
    return {line for line in lines if 12 <= len(line) <= 300}


def removed(messages: Sequence[Message]) -> set[str]:
    """Lines that an edit took out of the only file that held them, and that nothing put in or showed again later."""
    held: dict[str, set[str]] = {}
    gone: dict[str, None] = {}
    paths: dict[str, str] = {}
    for message in messages:
        path = paths.get(message.get("tool_call_id", ""), "")
        for line in map(str.strip, recall.spoken({**message, "tool_calls": []}).split("\n")):
            gone.pop(line, None)
            held.setdefault(line, set()).add(path)
        for call in message.get("tool_calls") or ():
            arguments = call["function"]["arguments"]
            path = paths[call["id"]] = _path(arguments)
            edits = list(_edits(arguments))
            for old, new in edits:
                taken = {*map(str.strip, old.split("\n"))}.difference(map(str.strip, new.split("\n")))
                gone.update(dict.fromkeys(line for line in taken if held.get(line, {path}) <= {path, ""}))
            for text in set(recall.values(arguments)).difference(old for old, _ in edits):
                for line in map(str.strip, text.split("\n")):
                    gone.pop(line, None)
                    held.setdefault(line, set()).add(path)
    return {line for line in gone if len(line) >= 12}


def _path(arguments: str) -> str:
    found = _PATH.search(arguments)
    return found.group(1) if found else ""


def _edits(arguments: str) -> Iterator[tuple[str, str]]:
    try:
        found = json.loads(arguments)
    except ValueError:
        return
    stack = [found]
    while stack:
        value = stack.pop()
        if isinstance(value, list):
            stack += value
        elif isinstance(value, dict):
            old = next((value[key] for key in _OLD_KEYS if isinstance(value.get(key), str)), "")
            new = next((value[key] for key in _NEW_KEYS if isinstance(value.get(key), str)), "")
            if old:
                yield old, new
            stack += [own for own in value.values() if isinstance(own, dict | list)]


def segments(messages: Sequence[Message]) -> str:
    """What stands for older messages, without the user's own words."""
    texts = [str(m.get("content")) for m in messages if m["role"] == "user" and _SEGMENT in str(m.get("content"))[:20]]
    lines: list[str] = []
    words = False
    for line in "\n".join(texts).split("\n"):
        if line.startswith("[t"):
            words = " user]" in line[:20] or " requests]" in line[:24]
        if not words:
            lines.append(line)
    return "\n".join(lines)


def false_statuses(before: Sequence[Message], after: Sequence[Message]) -> int:
    """Runs that the new text calls passed although the last result of that very command says that it failed."""
    last: dict[str, str] = {}
    names: dict[str, str] = {}
    for message in before:
        for call in message.get("tool_calls") or ():
            names[call["id"]] = flat("\n".join(recall.values(call["function"]["arguments"])))
        if message["role"] == "tool":
            last[names.get(message.get("tool_call_id", ""), "")] = str(message.get("content"))
    wrong = 0
    for command in _PASSED.findall(segments(after)):
        ran = [text for name, text in last.items() if flat(command) in name]
        wrong += bool(ran) and _FAILED.search(ran[-1][-4_000:]) is not None
    return wrong


@dataclass(frozen=True)
class Question:
    """One question, its answer, and the words that have to stand close together for a reader to find it."""

    question: str
    answer: str
    words: tuple[str, ...]

    def answered(self, lines: Sequence[str]) -> bool:
        """Whether all its words stand within five lines."""
        places = [[i for i, line in enumerate(lines) if word.lower() in line] for word in self.words]
        return any(
            all(any(0 <= i - start < NEAR for i in own) for own in places) for start in chain.from_iterable(places)
        )


def questions() -> dict[str, list[Question]]:
    """The questions of each session, by its name."""
    data = json.loads((Path(__file__).parent / "questions.json").read_text(encoding="utf-8"))
    return {name: [Question(q, a, tuple(words)) for q, a, words in own] for name, own in data.items()}


def answered(asked: Sequence[Question], messages: Sequence[Message]) -> list[Question]:
    """The questions that a text answers."""
    lines = [flat(line).lower() for message in messages for line in recall.spoken(message).split("\n")]
    return [one for one in asked if one.answered([line for line in lines if line])]


@dataclass
class Counts:
    """What one policy came to at one share, over cuts."""

    frr: list[float] = field(default_factory=list)
    rel: list[float] = field(default_factory=list)
    users: list[float] = field(default_factory=list)
    decisions: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    fill: list[float] = field(default_factory=list)
    removed: int = 0
    false: int = 0
    orphans: int = 0
    right: int = 0
    asked: int = 0
    seconds: float = 0.0
    tokens: int = 0

    def add(self, other: Counts) -> None:
        """Add the counts of another session."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def row(self) -> dict[str, Any]:
        """As a row of the table."""

        def share(values: list[float]) -> str:
            return f"{mean(values):.3f}" if values else "-"

        return {
            "cuts": len(self.frr),
            "FRR": share(self.frr),
            "relFRR": share(self.rel),
            "users": share(self.users),
            "decisions": share(self.decisions),
            "errors": share(self.errors),
            "removed": self.removed,
            "false": self.false,
            "questions": f"{self.right}/{self.asked}",
            "fill max": f"{max(self.fill, default=0):.2f}",
            "unpaired": self.orphans,
            "s per 150k": f"{self.seconds * 150_000 / max(1, self.tokens):.2f}",
        }


def one_cut(cut: recall.Cut, policy: Policy, share: float, orphans: Callable[[list[Message]], int]) -> Counts:
    """Measure one policy at one cut."""
    total = size(cut.before)
    target = int(total * share)
    begun = process_time()
    after = policy(list(cut.before), target)
    counts = Counts(seconds=process_time() - begun, tokens=total)
    found = recall.recall(cut, after)
    counts.frr, counts.rel, counts.fill = [found.frr], [found.rel], [size(after) / target]
    text = flat("\n".join(map(recall.spoken, after)))
    heads = [flat(recall.spoken(m)[:60]) for m in cut.before if m["role"] == "user"]
    counts.users = [sum(head in text for head in heads) / max(1, len(heads))]
    if told := decisions(cut.before):
        counts.decisions = [sum(sentence in text for sentence in told) / len(told)]
    if wrong := errors(cut.before):
        counts.errors = [sum(line in text for line in wrong) / len(wrong)]
    shown = {line.strip() for line in segments(after).split("\n")}
    counts.removed = len(removed(cut.before) & shown)
    counts.false = false_statuses(cut.before, after)
    counts.orphans = orphans(after)
    return counts


def cuts_of(messages: list[Message], count: int) -> list[recall.Cut]:
    """Cuts of a session behind its first quarter, at the user's prompts if it has enough of them."""
    least = sum(len(recall.spoken(message)) for message in messages) // 4
    found = recall.cuts(messages, count, max(30_000, least), at_user=True)
    return found if len(found) >= 3 else recall.cuts(messages, count, max(8_000, least), at_user=False)


def measure(
    transcripts: Sequence[Transcript],
    policies: dict[str, Policy],
    count: int,
    shares: Sequence[float],
    orphans: Callable[[list[Message]], int],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Two tables: every policy over all sessions of at least 20,000 tokens, and codelet session by session."""
    asked = questions()
    whole: dict[tuple[float, str], Counts] = {(share, name): Counts() for share in shares for name in policies}
    single: list[dict[str, Any]] = []
    for transcript in transcripts:
        cuts = cuts_of(transcript.messages, count)
        own = asked.get(transcript.name, [])
        for share, name in whole:
            counts = Counts()
            fitting = [c for c in cuts if baselines.codelet(c.before, int(size(c.before) * share))]
            for cut in fitting:
                counts.add(one_cut(cut, policies[name], share, orphans))
            if own:
                after = policies[name](list(transcript.messages), int(size(transcript.messages) * share))
                counts.right, counts.asked = len(answered(own, after)), len(own)
            if size(transcript.messages) >= WHOLE_FROM:
                whole[share, name].add(counts)
            if name == "codelet" and (fitting or own):
                places = " ".join(str(cut.index) for cut in fitting)
                single.append({"session": transcript.name, "share": share, **counts.row(), "cut at": places})
    table = [{"share": share, "policy": name, **counts.row()} for (share, name), counts in whole.items()]
    return table, single
