"""The plan of a compaction: the messages that stay whole, the ones that are cut, and the ones that segments replace."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from codelet.context.compaction.lexicon import common_cap
from codelet.context.compaction.reading import is_error
from codelet.context.inputs import ends
from codelet.context.tokens import Estimate
from codelet.context.tokens.budget import SizeTarget
from codelet.errors import EXIT_LIMIT, CodeletError
from codelet.messages import ForeignMessage, calls_of, kind_of, text_of, with_text, without_images
from codelet.prompt import PICTURES_DROPPED
from codelet.record import Record

# Limits in percent of the available tokens: the newest whole turns, else the newest units; the newest prompt if calls
# follow it; the results or the prompt that the model has not seen, and their size after a cut.
_TURNS, _UNITS, _PROMPT, _UNSEEN, _CUT_TO = 40, 18, 45, 80, 60
# The least part of the units, in percent, that stays when the cut moves to an anchor.
_AT_ANCHOR = 67
_SAME_FROM = 1_000
SAME = "[unchanged: a later call below has the same result{hint}]"
_ERROR_LINES, _ERROR_LENGTH, _SEARCHED = 12, 300, 500_000
BODY = frozenset({"prompt", "segment", "assistant", "tool"})
"""The kinds of messages that a compaction may take out."""


class IrreducibleContext(CodeletError):
    """The target is smaller than what must stay. `floor` itemizes that in tokens, largest first."""

    exit_status = EXIT_LIMIT

    def __init__(self, target: int, floor: dict[str, int]) -> None:
        self.target, self.floor = target, dict(sorted(floor.items(), key=lambda item: -item[1]))
        parts = ", ".join(f"{name} {tokens:,}" for name, tokens in self.floor.items())
        least = f"{sum(floor.values()):,} tokens ({parts})"
        super().__init__(f"the context cannot be made smaller than {least}; the target is {target:,}")


class CompactionSettings(Record):
    """The options of a compaction, apart from sizes.

    The newest `keep_last` turns stay whole if they fit. `fold` writes segments even if the list fits. `votes` are the
    user's pins and drops by turn, -5 to 5. `instruction` is what the user asked to keep. `first_id` is the number of
    the archive's next id; the first message that is cut gets it.
    """

    keep_last: int = 2
    fold: bool = False
    votes: Mapping[int, int] = MappingProxyType({})
    instruction: str = ""
    first_id: int | None = None


class _Unit(NamedTuple):
    """A prompt, or an assistant message with its results: places and size."""

    places: range
    size: int


class KeepPlan:
    """The messages of a normalised list that stay, for a target: `kept` by place; those at `cut` are shortened.

    `pinned` and `fixed` places stay in any case; at `anchored` places something was settled. Higher levels keep less: 1
    no whole turns, 2 unseen messages cut short, 3 only what must stay. `whole_turns` counts the newest turns that are
    whole.
    """

    def __init__(
        self,
        messages: Sequence[ForeignMessage],
        measure: Estimate,
        settings: CompactionSettings,
        target: SizeTarget,
        level: int,
        pinned: Collection[int],
        anchored: Collection[int],
    ) -> None:
        self._messages, self._measure, self._anchored = messages, measure, set(anchored)
        self._first_id, self._target = settings.first_id, target
        kinds = list(map(kind_of, messages))
        units: list[_Unit] = []
        for at, kind in enumerate(kinds):
            if kind == "tool" and units:
                start, size = units.pop()
                units.append(_Unit(range(start[0], at + 1), size + measure(messages[at])))
            elif kind in ("prompt", "assistant"):
                units.append(_Unit(range(at, at + 1), measure(messages[at])))
        self.fixed = {at for at, kind in enumerate(kinds) if kind not in BODY}
        for at in pinned:
            self.fixed.update(next((unit.places for unit in units if at in unit.places), [at]))
        if units and len(units[-1].places) <= len(calls_of(messages[units[-1].places[0]])):
            self.fixed.update(units[-1].places)  # its calls are in flight
        self._units = [unit for unit in units if unit.places[0] not in self.fixed]
        self.kept: dict[int, ForeignMessage] = {at: messages[at] for at in sorted(self.fixed)}
        self.cut: list[int] = []
        self.warnings: list[str] = []
        self.whole_turns, self._newest = 0, len(messages)
        available = target.size - sum(map(measure, self.kept.values()))
        if level == 3 or available <= 0:
            return
        spent = 0 if level else self._keep_turns(kinds, settings.keep_last, available)
        if not self.whole_turns:
            spent += self._keep_unseen(kinds, available, short=level == 2)
        if not level:
            self._keep_units(available * _UNITS // 100 - spent)
        self._say_once()

    def _keep(self, units: Sequence[_Unit]) -> int:
        """Keep units whole; return their size."""
        for unit in units:
            self.kept.update({at: self._messages[at] for at in unit.places})
            self._newest = min(self._newest, unit.places[0])
        return sum(unit.size for unit in units)

    def _keep_turns(self, kinds: Sequence[str], most_turns: int, available: int) -> int:
        """Keep as many of the newest turns whole as fit; return their size.

        Messages after a segment without a prompt count as a turn.
        """
        most = available * _TURNS // 100 if self._target.whole is None else self._target.whole
        segment = max((at for at, kind in enumerate(kinds) if kind == "segment"), default=-1)
        prompts = [at for at, kind in enumerate(kinds) if kind == "prompt" and at > segment]
        for turns in range(most_turns, 0, -1):
            start = prompts[-turns] if len(prompts) >= turns else segment + 1
            units = [unit for unit in self._units if unit.places[0] >= start]
            if sum(unit.size for unit in units) <= most:
                self.whole_turns, self._newest = turns, start
                return self._keep(units)
        return 0

    def _keep_unseen(self, kinds: Sequence[str], available: int, *, short: bool) -> int:
        """Keep the newest prompt and the results that the model has not seen; return their size."""
        if not self._units:
            return 0
        last, size = self._units[-1], 0
        prompt = next((unit for unit in reversed(self._units) if kinds[unit.places[0]] == "prompt"), last)
        if prompt is not last and not short and 100 * prompt.size <= _PROMPT * available:
            self.kept[prompt.places[0]] = self._messages[prompt.places[0]]
            size = prompt.size
        if last.places.stop < len(kinds) or not (prompt is last or kinds[-1] == "tool"):
            return size
        left, most = available - size, self._target.unseen
        if last.size <= (left * _UNSEEN // 100 if most is None else min(most, left)) and not short:
            return size + self._keep([last])
        return size + self._keep_cut(last, left * _CUT_TO // (200 if short else 100), prompt is last)

    def _keep_cut(self, unit: _Unit, room: int, is_prompt: bool) -> int:
        """Keep a unit with its largest messages cut, if it then fits; return its size."""
        measure, messages = self._measure, {at: self._messages[at] for at in unit.places}
        sizes = {at: measure(messages[at]) for at in unit.places[not is_prompt :]}
        cap = common_cap(list(sizes.values()), max(0, room - unit.size + sum(sizes.values())))
        places = [at for at, size in sizes.items() if size > cap]
        for number, at in enumerate(places, len(self.cut)):
            shorter = shortened(messages[at], cap, measure, self._recall_id(number))
            if shorter is None:
                return 0
            messages[at] = shorter
        self._keep([unit])
        self.kept.update(messages)
        self.cut += places
        whose = "there is" if self._target.unseen is None else "the budget has"
        self.warnings.append(
            f"{len(places)} of the newest messages {'is' if len(places) == 1 else 'are'} cut: together they take "
            f"{unit.size:,} tokens, {whose} room for {room:,}"
        )
        return sum(map(measure, messages.values()))

    def _recall_id(self, number: int) -> str:
        return "" if self._first_id is None else f"r{self._first_id + number}"

    def _keep_units(self, left: int) -> None:
        """Keep the newest units before the whole turns; move the cut to an anchor if one is near."""
        chosen = list[_Unit]()
        before = (unit for unit in reversed(self._units) if unit.places[0] < self._newest)
        for unit in (unit for unit in before if unit.places[0] not in self.kept):
            gap = range(unit.places.stop, chosen[-1].places[0]) if chosen else ()
            if unit.size > left or any(at not in self.kept for at in gap):
                break
            left -= unit.size
            chosen.append(unit)
        total = stays = sum(unit.size for unit in chosen)
        for number in range(len(chosen) - 1, 0, -1):
            stays -= chosen[number].size
            if chosen[number].places[0] - 1 in self._anchored or 100 * stays < _AT_ANCHOR * total:
                break
            if self._anchored.intersection(chosen[number].places):
                chosen = chosen[:number]
                break
        self._keep(chosen)

    def _say_once(self) -> None:
        """Keep only the newest of equal long results whole."""
        seen: set[str] = set()
        for at in sorted(set(self.kept) - self.fixed, reverse=True):
            message, text = self.kept[at], text_of(self.kept[at])
            if message.get("role") == "tool" and len(text) >= _SAME_FROM:
                if text in seen and at not in self.cut:
                    key = self._recall_id(len(self.cut))
                    self.kept[at] = with_text(message, SAME.format(hint=f"; recall entry={key}" if key else ""))
                    self.cut.append(at)
                seen.add(text)


def shortened(message: ForeignMessage, tokens: int, measure: Estimate, recall_id: str) -> dict[str, Any] | None:
    """Return the message cut to at most `tokens`; None if that leaves too little of it."""
    has_images = "images" in message
    bare = without_images(dict(message), PICTURES_DROPPED) if has_images else with_text(message, text_of(message))
    shorter, length = bare, len(text_of(bare))
    for _ in range(12):
        if (size := measure(shorter)) <= tokens:
            return shorter
        length = min(length - 1, length * tokens * 95 // (100 * size))
        if length < 40:
            return None
        shorter = with_text(bare, cut(text_of(bare), length, recall_id))
    return None


def cut(text: str, most: int, recall_id: str = "") -> str:
    """Cut a text to `most` characters: head and tail, 60 to 40, and the first error lines between.

    The marker has the number of lines left out, and the `recall_id` of the whole text.
    """
    if len(text) <= most:
        return text
    total = text.count("\n") + 1
    hint = f"; recall entry={recall_id}" if recall_id else ""
    marker = f"\n[… {{}} lines left out of {len(text)} characters{hint} …]\n"
    room = most - len(marker.format(total))
    if room < 40:
        return text[: max(0, most)]
    middle = text[room * 6 // 10 : len(text) - room * 4 // 10]
    searched = middle if len(middle) <= 2 * _SEARCHED else f"{middle[:_SEARCHED]}\n{middle[-_SEARCHED:]}"
    spare, errors = room // 3, list[str]()
    for line in dict.fromkeys(searched.split("\n")):
        if len(line) < min(_ERROR_LENGTH, spare) and len(errors) < _ERROR_LINES and is_error(line):
            errors.append(f"{line}\n")
            spare -= len(errors[-1])
    head, tail = ends(text, room - sum(map(len, errors)))
    left_out = max(0, total - text.count("\n", 0, head) - text.count("\n", tail) - 1 - len(errors))
    return "".join([text[:head].removesuffix("\n"), marker.format(left_out), *errors, text[tail:]])
