"""The plan of a compaction: the messages that stay whole, the ones that are cut, and the ones that segments replace."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

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


class KeepPlan:
    """The messages of a normalised list that stay, for a target: `kept` by place; those at `cut` are shortened.

    `pinned` and `fixed` places stay in any case, and a `bare` plan keeps nothing else; at `anchored` places something
    was settled. `whole_turns` counts the newest turns that are whole. A unit, below, is a prompt, or an assistant
    message with its results, as a range of places.
    """

    def __init__(
        self,
        messages: Sequence[ForeignMessage],
        sizes: Sequence[int],
        measure: Estimate,
        settings: CompactionSettings,
        target: SizeTarget,
        bare: bool,
        pinned: Collection[int],
        anchored: Collection[int],
    ) -> None:
        self._messages, self._sizes, self._measure, self._settings = messages, sizes, measure, settings
        self._target, self._anchored, self._kinds = target, set(anchored), list(map(kind_of, messages))
        units: list[range] = []
        for at, kind in enumerate(self._kinds):
            if kind == "tool" and units:
                units[-1] = range(units[-1].start, at + 1)
            elif kind in ("prompt", "assistant"):
                units.append(range(at, at + 1))
        self.fixed = {at for at, kind in enumerate(self._kinds) if kind not in BODY}
        for at in pinned:
            self.fixed.update(next((unit for unit in units if at in unit), [at]))
        if units and len(units[-1]) <= len(calls_of(messages[units[-1].start])):
            self.fixed.update(units[-1])  # its calls are in flight
        self._units = [unit for unit in units if unit.start not in self.fixed]
        self.kept: dict[int, ForeignMessage] = {at: messages[at] for at in sorted(self.fixed)}
        self.cut: list[int] = []
        self.warnings: list[str] = []
        self.whole_turns, self._newest = 0, len(messages)
        available = target.size - self._size(self.fixed)
        if bare or available <= 0:
            return
        self._keep_turns(available)
        if not self.whole_turns:
            self._keep_unseen(available)
        self._keep_units(available * _UNITS // 100 - self._size(set(self.kept) - self.fixed))
        self._say_once()

    def _size(self, places: Collection[int]) -> int:
        return sum(self._sizes[at] for at in places)

    def _keep(self, places: Collection[int]) -> None:
        self.kept.update({at: self._messages[at] for at in places})
        self._newest = min([self._newest, *places])

    def _keep_turns(self, available: int) -> None:
        """Keep as many of the newest turns whole as fit. Messages after a segment without a prompt count as a turn."""
        most = available * _TURNS // 100 if self._target.whole is None else self._target.whole
        segment = max((at for at, kind in enumerate(self._kinds) if kind == "segment"), default=-1)
        prompts = [at for at, kind in enumerate(self._kinds) if kind == "prompt" and at > segment]
        for turns in range(self._settings.keep_last, 0, -1):
            start = prompts[-turns] if len(prompts) >= turns else segment + 1
            places = [at for unit in self._units if unit.start >= start for at in unit]
            if self._size(places) <= most:
                self.whole_turns = turns
                self._keep(places)
                self._newest = start
                return

    def _keep_unseen(self, available: int) -> None:
        """Keep the newest prompt and the results that the model has not seen."""
        if not self._units:
            return
        last = self._units[-1]
        prompt = next((unit for unit in reversed(self._units) if self._kinds[unit.start] == "prompt"), last)
        if prompt is not last and 100 * self._size(prompt) <= _PROMPT * available:
            self.kept[prompt.start] = self._messages[prompt.start]
            available -= self._size(prompt)
        if last.stop < len(self._kinds) or not (prompt is last or self._kinds[-1] == "tool"):
            return
        most = available * _UNSEEN // 100 if self._target.unseen is None else min(self._target.unseen, available)
        if self._size(last) <= most:
            self._keep(last)
        else:
            self._keep_cut(last, available * _CUT_TO // 100, last if prompt is last else last[1:])

    def _keep_cut(self, unit: range, room: int, cuttable: range) -> None:
        """Keep a unit with its largest messages cut, if it then fits."""
        sizes = {at: self._sizes[at] for at in cuttable}
        cap = common_cap(list(sizes.values()), max(0, room - self._size(unit) + sum(sizes.values())))
        places = [at for at, size in sizes.items() if size > cap]
        shorter: dict[int, ForeignMessage] = {}
        for number, at in enumerate(places, len(self.cut)):
            made = shortened(self._messages[at], cap, self._measure, self._recall_id(number))
            if made is None:
                return
            shorter[at] = made
        self._keep(unit)
        self.kept.update(shorter)
        self.cut += places
        whose = "there is" if self._target.unseen is None else "the budget has"
        self.warnings.append(
            f"{len(places)} of the newest messages {'is' if len(places) == 1 else 'are'} cut: together they take "
            f"{self._size(unit):,} tokens, {whose} room for {room:,}"
        )

    def _recall_id(self, number: int) -> str:
        return "" if self._settings.first_id is None else f"r{self._settings.first_id + number}"

    def _keep_units(self, left: int) -> None:
        """Keep the newest units before the whole turns; move the cut to an anchor if one is near."""
        chosen: list[range] = []
        before = (unit for unit in reversed(self._units) if unit.start < self._newest)
        for unit in (unit for unit in before if unit.start not in self.kept):
            gap = range(unit.stop, chosen[-1].start) if chosen else ()
            if self._size(unit) > left or any(at not in self.kept for at in gap):
                break
            left -= self._size(unit)
            chosen.append(unit)
        total = stays = sum(map(self._size, chosen))
        for number in range(len(chosen) - 1, 0, -1):
            stays -= self._size(chosen[number])
            if chosen[number].start - 1 in self._anchored or 100 * stays < _AT_ANCHOR * total:
                break
            if self._anchored.intersection(chosen[number]):
                chosen = chosen[:number]
                break
        self._keep([at for unit in chosen for at in unit])

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
