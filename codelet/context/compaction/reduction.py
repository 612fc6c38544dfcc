"""Tier 1, and what all tiers cut from long texts: head and tail stay, the error lines between them, a marker.

`cut` serves a result that enters the list over its cap (tier 0) and the newest messages if nothing else helps
(tier 3). `reduction` reduces old results in place and reports it: calls, ids, the user's words and the model's text
stay as they are, and so do the newest turns.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from codelet import prompt
from codelet.context.compaction.actions import Action, action_of
from codelet.context.compaction.coverage import log2_milli
from codelet.context.compaction.edits import is_old, shows_edit
from codelet.context.compaction.history import History, open_errors
from codelet.context.compaction.identifiers import Lexicon
from codelet.context.compaction.parsing import ParsedMessage, parse_messages
from codelet.context.compaction.report import Compacted, CompactionReport, TurnFate, find_loss
from codelet.context.compaction.score import Score, find_anchors, scores
from codelet.context.compaction.signals import is_error_line
from codelet.context.tokens import Estimate
from codelet.messages import AnyMessage, call_arguments, calls_of, text_of, with_text, without_images

_ERROR_LINES = 12
_ERROR_LENGTH = 300
_SEARCHED = 500_000
_REST = 250
_LONG_ARGUMENTS = 600


def cut(text: str, cap: int, recall_id: str = "") -> str:
    """Cut a text to `cap` characters: 60 % head, 40 % tail, error lines and a marker between them; whole if it fits.

    The marker counts the lines left out; `recall_id` names what to ask the archive for.
    """
    if len(text) <= cap:
        return text
    hint = f"; recall id={recall_id}" if recall_id else ""
    marker = f"\n[… {text.count(chr(10)) + 1} lines, {len(text)} characters{hint} …]\n"
    room = cap - len(marker) - 12
    if room < 40:
        return text[: max(0, cap)]
    head, tail = text[: room * 6 // 10], text[len(text) - room * 4 // 10 :]
    # A line that head or tail cuts through is looked at whole: neither of them will show it.
    stop = len(text) - len(tail)
    if text[stop - 1] != "\n":
        stop = text.find("\n", stop) if "\n" in tail[: len(tail) // 2] else stop
    errors = _error_lines(text[text.rfind("\n", 0, len(head)) + 1 : stop], room // 3)
    if errors:
        room -= sum(len(line) + 1 for line in errors)
        head, tail = text[: room * 6 // 10], text[len(text) - room * 4 // 10 :]
    head = head[: head.rfind("\n")] if "\n" in head[len(head) // 2 :] else head
    tail = tail[tail.find("\n") + 1 :] if "\n" in tail[: len(tail) // 2] else tail
    # Of head and tail only whole lines are there.
    behind, before = text[len(head) : len(head) + 1], text[: len(text) - len(tail)][-1:]
    shown = head.count("\n") + tail.count("\n") + (behind == "\n") + (before == "\n") + len(errors)
    left_out = text.count("\n") + 1 - shown
    marker = f"\n[… {max(0, left_out)} lines left out of {len(text)} characters{hint} …]\n"
    return head + marker + "".join(f"{line}\n" for line in errors) + tail


def _error_lines(text: str, room: int) -> list[str]:
    """The first error lines of a text, within `room` characters. A huge text is searched at both its ends."""
    found: list[str] = []
    if len(text) > 2 * _SEARCHED:
        text = text[:_SEARCHED] + "\n" + text[len(text) - _SEARCHED :]
    # One search of the whole text is far cheaper than one of each line, and most texts report no error.
    lines = text.split("\n") if is_error_line(text) else []
    for line in lines:
        if len(line) <= _ERROR_LENGTH and is_error_line(line) and line not in found:
            room -= len(line) + 1
            if room < 0 or len(found) == _ERROR_LINES:
                break
            found.append(line)
    return found


def shortened(message: AnyMessage, tokens: int, measure: Estimate) -> dict[str, Any]:
    """Return the message with its text cut to at most `tokens`, or as near above that as its other fields allow.

    Its pictures go first.
    """
    message = without_images(message, prompt.PICTURES_DROPPED)
    text = text_of(message)
    size = measure(message)
    cap = max(0, len(text) * tokens // max(1, size))
    while True:
        candidate = with_text(message, cut(text, cap))
        over = measure(candidate) - tokens
        if over <= 0 or cap == 0:
            return candidate
        cap = max(0, cap - max(8, cap * over // max(1, tokens), cap // 16))


@dataclass(frozen=True)
class Reduced:
    """A list with old results reduced: the same messages except those at `changed`; `saved` is in tokens.

    `how[i]` says what was done to the message at `changed[i]`: `cut`, `superseded` or `arguments`.
    """

    messages: list[dict[str, Any]]
    changed: tuple[int, ...]
    saved: int
    how: tuple[str, ...] = ()


def old_results(
    messages: Sequence[dict[str, Any]],
    measure: Estimate,
    *,
    keep_last: int = 10,
    least: int,
    enough: int | None = None,
    spared: Collection[int] = (),
    first_id: int | None = None,
) -> Reduced:
    """Tier 1: reduce results outside the last `keep_last`, oldest first, until `enough` tokens are saved.

    Nothing happens unless the batch saves at least `least`: each edit of an old message costs the provider's cache.
    A read whose lines were read again later, or whose file was written anew, becomes one line; arguments of old writes
    become path and sizes; of other results head and tail stay. Messages at `spared` are left alone. With `first_id`
    what is reduced names the archive's ids, counted on from that one, under which its originals can be recalled.
    """
    results = [i for i, message in enumerate(messages) if message.get("role") == "tool"]
    old = results[: max(0, len(results) - keep_last)]
    border = old[-1] + 1 if old else 0
    superseded = _superseded(messages)
    new = list(messages)
    saved = 0
    changed: list[int] = []
    how: list[str] = []
    for index in range(border):
        if enough is not None and saved >= enough:
            break
        if index in spared:
            continue
        key = f"r{first_id + len(changed)}" if first_id is not None else ""
        candidate = _reduced_message(messages[index], superseded.get(index), key)
        gain = measure(messages[index]) - measure(candidate) if candidate is not None else 0
        if candidate is not None and gain > 0:
            new[index] = candidate
            saved += gain
            changed.append(index)
            how.append(_kind(messages[index], index in superseded))
    if saved < least:
        return Reduced(list(messages), (), 0)
    return Reduced(new, tuple(changed), saved, tuple(how))


def _kind(message: AnyMessage, superseded: bool) -> str:
    if message.get("role") != "tool":
        return "arguments"
    return "superseded" if superseded else "cut"


def _superseded(messages: Sequence[dict[str, Any]]) -> dict[int, str]:
    """Map the results of reads that a later message makes redundant to their files.

    One is redundant if the same lines or the whole file were read again, or the file was written anew. An edit does
    not make it so: what the edit did not touch stands in the old read only.
    """
    reads: list[tuple[int, Action, str]] = []
    latest: dict[tuple[str, str], int] = {}
    made: dict[str, tuple[Action, str]] = {}
    for index, message in enumerate(messages):
        for call in calls_of(message):
            action = action_of(call)
            made[action.call_id] = action, call_arguments(call)
            if action.whole:
                latest[action.subject, ""] = index
        answered = made.get(str(message.get("tool_call_id"))) if message.get("role") == "tool" else None
        if answered is not None and answered[0].kind == "read" and answered[0].subject:
            action, arguments = answered
            reads.append((index, action, arguments))
            latest[action.subject, arguments] = index
            if not action.values:
                latest[action.subject, ""] = index
    return {
        index: action.subject
        for index, action, arguments in reads
        if max(latest[action.subject, arguments], latest.get((action.subject, ""), 0)) > index
    }


def _reduced_message(message: dict[str, Any], superseded: str | None, key: str) -> dict[str, Any] | None:
    hint = f"; recall id={key}" if key else ""
    if message.get("role") == "tool":
        if "images" in message:
            return without_images(message, prompt.PICTURES_DROPPED)
        text = text_of(message)
        if superseded is not None:
            note = f"[file {superseded}, {text.count(chr(10)) + 1} lines; read again or written later{hint}]"
            return with_text(message, note) if len(note) < len(text) else None
        return with_text(message, cut(text, 2 * _REST + 100, key)) if len(text) > 3 * _REST else None
    calls = calls_of(message)
    if not any(len(call_arguments(call)) > _LONG_ARGUMENTS for call in calls):
        return None
    reduced = [_reduced_call(call, hint) for call in calls]
    return {**message, "tool_calls": reduced} if reduced != calls else None


def _reduced_call(call: dict[str, Any], hint: str) -> dict[str, Any]:
    """A write's call with its long arguments replaced by their sizes; they are still a JSON object."""
    action = action_of(call)
    raw = call_arguments(call)
    if action.kind != "write" or len(raw) <= _LONG_ARGUMENTS:
        return call
    try:
        parsed = json.loads(raw)
    except (ValueError, RecursionError):
        parsed = {}
    short: dict[str, Any] = {}
    for key, value in parsed.items() if isinstance(parsed, dict) else ():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        # What the write took out goes first: left alone beside a size it would read as what the file says.
        stays = len(text) <= _REST and not is_old(key) and not shows_edit(text)
        short[key] = value if stays else f"[{len(text)} characters{hint}]"
    function = {**call["function"], "arguments": json.dumps(short, ensure_ascii=False)}
    return {**call, "function": function}


_SAID = {"cut": "cut to head and tail", "superseded": "read again later, one line", "arguments": "written, sizes left"}
_CONVERSATION = frozenset({"user", "assistant", "result", "other"})


def reduction(
    messages: Sequence[dict[str, Any]],
    measure: Estimate,
    *,
    keep_turns: int,
    least: int,
    enough: int,
    spared: Collection[int] = (),
    first_id: int | None = None,
) -> Compacted | None:
    """Reduce old results of a normalised list until `enough` tokens are saved; None if that does not save `least`.

    The newest `keep_turns` turns and messages at `spared` stay as they are. `first_id` is the number of the archive's
    next id.
    """
    readings = parse_messages(messages)
    newest = set(_turns(readings)[-keep_turns:])
    kept = {index for index, reading in enumerate(readings) if reading.turn in newest} | set(spared)
    made = old_results(messages, measure, least=least, enough=enough, spared=kept, first_id=first_id)
    if not made.changed:
        return None
    return Compacted(made.messages, _report(messages, readings, made, measure, newest))


def holds_as_much(one: Sequence[AnyMessage], other: Sequence[AnyMessage], before: Sequence[AnyMessage]) -> bool:
    """Whether `one` holds at least as much of what `before` says as `other` does.

    Counted are words, each by its shape and by the logarithm of how many messages use it.
    """
    lexicon = Lexicon()
    words = {id(message): lexicon.read(_all_text(message)) for message in before}
    used = Counter(chain.from_iterable(words.values()))

    def worth(messages: Sequence[AnyMessage]) -> int:
        here = (words.get(id(message)) or lexicon.read(_all_text(message)) for message in messages)
        found = set().union(*here) & used.keys()
        return sum(lexicon.shape[word] * log2_milli(1 + used[word]) for word in found)

    return worth(one) >= worth(other)


def _turns(readings: Sequence[ParsedMessage]) -> list[int]:
    return sorted({reading.turn for reading in readings if reading.kind in _CONVERSATION})


def _all_text(message: AnyMessage) -> str:
    return "\n".join([text_of(message), *map(call_arguments, calls_of(message))])


def _report(
    messages: Sequence[dict[str, Any]],
    readings: Sequence[ParsedMessage],
    made: Reduced,
    measure: Estimate,
    newest: Collection[int],
) -> CompactionReport:
    lexicon = Lexicon()
    names: dict[int, set[int]] = {}
    present: set[int] = set()
    for reading, message in zip(readings, made.messages, strict=True):
        here = lexicon.read(_all_text(message))
        present |= here
        if reading.kind in _CONVERSATION:
            names.setdefault(reading.turn, set()).update(here)
    used = Counter(word for index in made.changed for word in lexicon.read(_all_text(messages[index])))
    history = History(readings)
    anchors = find_anchors(readings, history.executions)
    faults = open_errors(list(enumerate(readings)), history)
    rated = scores(readings, names, lexicon, anchors, [fault.turn for fault in faults])
    before, after = sum(map(measure, messages)), sum(map(measure, made.messages))
    return CompactionReport(
        tier=1,
        target=after,
        before=before,
        after=after,
        turns=tuple(_fates(messages, readings, made, measure, newest, rated)),
        anchors=tuple(anchors),
        removed=made.changed,
        user_messages=sum(reading.kind == "user" for reading in readings),
        loss=find_loss(lexicon, [used[word] for word in range(len(lexicon.shape))], present, (), ""),
    )


def _fates(
    messages: Sequence[dict[str, Any]],
    readings: Sequence[ParsedMessage],
    made: Reduced,
    measure: Estimate,
    newest: Collection[int],
    rated: dict[int, Score],
) -> list[TurnFate]:
    """What became of each turn: which of its messages were reduced, and how."""
    before: Counter[int] = Counter()
    after: Counter[int] = Counter()
    count: Counter[int] = Counter()
    for reading, old, new in zip(readings, messages, made.messages, strict=True):
        if reading.kind in _CONVERSATION:
            before[reading.turn] += measure(old)
            after[reading.turn] += measure(new)
            count[reading.turn] += 1
    done: dict[int, Counter[str]] = {}
    for index, how in zip(made.changed, made.how, strict=True):
        done.setdefault(readings[index].turn, Counter())[how] += 1
    found = []
    for turn in sorted(count):
        ways = done.get(turn)
        why = "newest turns" if turn in newest else "nothing to reduce, or not needed"
        if ways:
            why = ", ".join(f"{number} {_SAID[how]}" for how, number in sorted(ways.items()))
        score = rated.get(turn, Score(turn))
        fate = TurnFate(turn, "reduced" if ways else "kept", why, before[turn], after[turn], count[turn], 0, score)
        found.append(fate)
    return found
