"""The plan: which messages stay as they are, which of them are cut, and which the segments stand for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from codelet.context.compaction.lexicon import common_cap
from codelet.context.compaction.reading import is_error
from codelet.context.tokens import Estimate
from codelet.errors import EXIT_LIMIT, CodeletError
from codelet.messages import AnyMessage, calls_of, kind_of, text_of, with_text, without_images
from codelet.prompt import PICTURES_DROPPED

# In percent of what is available: the newest turns whole, else the newest units; the newest prompt before its calls;
# the results, or the prompt, that the model has not seen.
_TURNS, _UNITS, _PROMPT, _UNSEEN = 40, 18, 45, 80
_CUT_TO, _FILL = 60, 95
# An anchor moves the cut if at least so much of the units stays, in percent.
_AT_ANCHOR = 67
_SAME_FROM = 1_000
SAME = "[unchanged: a later call below has the same result{hint}]"
_ERROR_LINES, _ERROR_LENGTH, _SEARCHED = 12, 300, 500_000


class IrreducibleContext(CodeletError):
    """The target cannot be met: what must stay is larger. `floor` itemizes it, in tokens, largest first."""

    exit_status = EXIT_LIMIT

    def __init__(self, target: int, floor: dict[str, int]) -> None:
        self.target = target
        self.floor = dict(sorted(floor.items(), key=lambda item: -item[1]))
        parts = ", ".join(f"{name} {tokens:,}" for name, tokens in self.floor.items())
        least = sum(floor.values())
        super().__init__(
            f"the context cannot be made smaller than {least:,} tokens ({parts}); the target is {target:,}"
        )


@dataclass(frozen=True)
class CompactionSettings:
    """What a compaction keeps. Sizes are in tokens; None is the usual share of the target.

    The newest `keep_last` turns stay whole while they take at most `whole`. `unseen` is the most that the last results
    or the last prompt take before they are cut. `fold` writes segments even if the list fits. `history` and `context`
    bound what segments say in the user's words and recorded state, and in the agent's prose and evidence. `votes` are
    what pins and drops say of turns, -5 to 5. `instruction` is what the user wants kept. `first_id` is the number of
    the archive's next id, which the first message that is cut gets.
    """

    keep_last: int = 2
    whole: int | None = None
    unseen: int | None = None
    fold: bool = False
    history: int | None = None
    context: int | None = None
    votes: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    instruction: str = ""
    first_id: int | None = None


class _Unit(NamedTuple):
    """A prompt, or an assistant message with its results: the messages from `start` to before `stop`."""

    start: int
    stop: int
    size: int
    is_prompt: bool

    @property
    def places(self) -> range:
        """The places of its messages."""
        return range(self.start, self.stop)


class Planner:
    """Decides what stays of a normalised list. `anchored` are the places at which something was settled."""

    def __init__(
        self,
        messages: Sequence[AnyMessage],
        sizes: Sequence[int],
        measure: Estimate,
        pinned: Collection[int],
        settings: CompactionSettings,
        anchored: Collection[int] = (),
    ) -> None:
        self.messages, self.measure, self.settings, self.anchored = messages, measure, settings, set(anchored)
        self.units: list[_Unit] = []
        for at, kind in enumerate(map(kind_of, messages)):
            if kind == "tool" and self.units:
                last = self.units[-1]
                self.units[-1] = last._replace(stop=at + 1, size=last.size + sizes[at])
            elif kind in ("prompt", "assistant"):
                self.units.append(_Unit(at, at + 1, sizes[at], kind == "prompt"))
        self.fixed = {at for at, message in enumerate(messages) if kind_of(message) not in BODY}
        for at in pinned:
            self.fixed.update(next((unit.places for unit in self.units if at in unit.places), [at]))
        if self.units and (last := self.units[-1]).stop - last.start <= len(calls_of(messages[last.start])):
            self.fixed.update(last.places)  # its calls are in flight
        self.units = [unit for unit in self.units if unit.start not in self.fixed]
        self.floor = sum(sizes[at] for at in self.fixed)

    def start_of(self, turns: int) -> int:
        """Where the newest turns begin: what follows a segment without a prompt counts as a turn."""
        kinds = list(map(kind_of, self.messages))
        segment = max((at for at, kind in enumerate(kinds) if kind == "segment"), default=-1)
        behind = [at for at, kind in enumerate(kinds) if kind == "prompt" and at > segment]
        return behind[-turns] if len(behind) >= turns else segment + 1


class KeepPlan:
    """What stays for a target: `kept` messages by their place, `cut` those that are cut, `whole_turns` newest ones.

    `spare` tokens have no other use than more of the newest units. At a higher level less stays: 1 no turn for being
    whole, 2 what is unseen cut short, 3 only what must stay.
    """

    def __init__(self, planner: Planner, target: int, level: int = 0, spare: int = 0) -> None:
        self._planner, self._units = planner, planner.units
        self.kept: dict[int, AnyMessage] = {at: planner.messages[at] for at in sorted(planner.fixed)}
        self.cut: list[int] = []
        self.warnings: list[str] = []
        self.whole_turns, self._newest = 0, len(planner.messages)
        available = target - planner.floor
        if level == 3 or available <= 0:
            return
        left = available
        if not level:
            left -= self._keep_turns(available)
        if not self.whole_turns:
            left -= self._keep_unseen(available, spare, short=level == 2)
        if not level:
            self._keep_units(available * _UNITS // 100 - (available - left))
            if spare:
                spare -= self._keep_units(spare)
                before = self._before()
                if before and not before[-1].is_prompt and before[-1].size > spare > 0:
                    self._keep_cut(before[-1], spare * _FILL // 100)
        self._say_once()

    def _keep_turns(self, available: int) -> int:
        """Keep the newest turns whole, as many as there is room for; return their size."""
        settings = self._planner.settings
        most = settings.whole if settings.whole is not None else available * _TURNS // 100
        for turns in range(settings.keep_last, 0, -1):
            start = self._planner.start_of(turns)
            units = [unit for unit in self._units if unit.start >= start]
            if (size := sum(unit.size for unit in units)) <= most:
                self.whole_turns, self._newest = turns, start
                for unit in units:
                    self._keep(unit)
                return size
        return 0

    def _keep_unseen(self, available: int, spare: int, *, short: bool) -> int:
        """Keep the newest prompt, and the results that the model has not seen; return their size."""
        if not self._units:
            return 0
        messages, last, size = self._planner.messages, self._units[-1], 0
        prompt = next((unit for unit in reversed(self._units) if unit.is_prompt), last)
        if prompt is not last and not short and 100 * prompt.size <= _PROMPT * available:
            self.kept[prompt.start] = messages[prompt.start]
            size = prompt.size
        if last.stop < len(messages) or not (last.is_prompt or kind_of(messages[-1]) == "tool"):
            return size
        left = available - size
        most = self._planner.settings.unseen
        limit = left * _UNSEEN // 100 if most is None else min(most, left)
        if last.size <= limit and not short:
            self._keep(last)
            return size + last.size
        return size + self._keep_cut(last, left * _CUT_TO // (200 if short else 100) + spare)

    def _keep(self, unit: _Unit) -> None:
        self.kept.update({at: self._planner.messages[at] for at in unit.places})
        self._newest = min(self._newest, unit.start)

    def _keep_cut(self, unit: _Unit, room: int) -> int:
        """Keep a unit with its largest messages cut, if it then fits; return its size."""
        measure = self._planner.measure
        first = unit.places[0 if unit.is_prompt else 1 :]
        messages = {at: self._planner.messages[at] for at in unit.places}
        room -= sum(measure(messages[at]) for at in unit.places if at not in first)
        sizes = {at: measure(messages[at]) for at in first}
        cap = common_cap(list(sizes.values()), max(0, room))
        places = [at for at, size in sizes.items() if size > cap]
        for number, at in enumerate(places, len(self.cut)):
            shorter = shortened(messages[at], cap, measure, self._recall_id(number))
            if shorter is None:
                return 0
            messages[at] = shorter
        self._keep(unit)
        self.kept.update(messages)
        self.cut += places
        whose = "there is" if self._planner.settings.unseen is None else "the budget has"
        self.warnings.append(
            f"{len(places)} of the newest messages {'is' if len(places) == 1 else 'are'} cut: together they take "
            f"{unit.size:,} tokens, {whose} room for {room:,}"
        )
        return sum(map(measure, messages.values()))

    def _recall_id(self, number: int) -> str:
        first = self._planner.settings.first_id
        return "" if first is None else f"r{first + number}"

    def _before(self) -> list[_Unit]:
        return [unit for unit in self._units if unit.start not in self.kept and unit.start < self._newest]

    def _keep_units(self, left: int) -> int:
        """Keep the newest units before the whole turns and return their size; the cut moves to an anchor if near."""
        anchored = self._planner.anchored
        if (most := self._planner.settings.context) is not None:
            newest = next((unit.start for unit in reversed(self._units) if unit.is_prompt), 0)
            left = min(left, most - sum(u.size for u in self._units if u.start in self.kept and u.start < newest))
        total, chosen = 0, list[_Unit]()
        for unit in reversed(self._before()):
            gap = range(unit.stop, chosen[-1].start) if chosen else ()
            if total + unit.size > left or any(at not in self.kept for at in gap):
                break
            total += unit.size
            chosen.append(unit)
        stays = total
        for number in range(len(chosen) - 1, 0, -1):
            if chosen[number].start - 1 in anchored:
                break
            stays -= chosen[number].size
            if 100 * stays < _AT_ANCHOR * total:
                break
            if anchored.intersection(chosen[number].places):
                chosen = chosen[:number]
                break
        for unit in chosen:
            self._keep(unit)
        return sum(unit.size for unit in chosen)

    def _say_once(self) -> None:
        """Of equal long results among those that stay, leave the newest one whole."""
        seen: set[str] = set()
        for at in sorted(set(self.kept) - self._planner.fixed, reverse=True):
            message = self.kept[at]
            if message.get("role") != "tool" or len(text := text_of(message)) < _SAME_FROM:
                continue
            if text in seen and at not in self.cut:
                key = self._recall_id(len(self.cut))
                self.kept[at] = with_text(message, SAME.format(hint=f"; recall entry={key}" if key else ""))
                self.cut.append(at)
            seen.add(text)


BODY = frozenset({"prompt", "segment", "assistant", "tool"})
"""The kinds of messages that a compaction may take out."""


def shortened(message: AnyMessage, tokens: int, measure: Estimate, recall_id: str) -> dict[str, Any] | None:
    """Return the message cut to at most so many tokens; None if that leaves nothing of it."""
    has_images = "images" in message
    bare = without_images(dict(message), PICTURES_DROPPED) if has_images else with_text(message, text_of(message))
    shorter, length = bare, len(text_of(bare))
    for _ in range(12):
        size = measure(shorter)
        if size <= tokens:
            return shorter
        length = min(length - 1, length * tokens * 95 // (100 * size))
        if length < 40:
            return None
        shorter = with_text(bare, cut(text_of(bare), length, recall_id))
    return None


def cut(text: str, most: int, recall_id: str = "") -> str:
    """Cut a text to `most` characters: head and tail, 60 to 40, and the first error lines between; whole if it fits.

    The marker counts the lines left out; `recall_id` names what to ask the archive for.
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
    if len(middle) > 2 * _SEARCHED:
        middle = f"{middle[:_SEARCHED]}\n{middle[-_SEARCHED:]}"
    errors: dict[str, None] = {}
    spare = room // 3
    for line in middle.split("\n"):
        if len(line) <= min(_ERROR_LENGTH, spare - 1) and is_error(line) and line not in errors:
            errors[line] = None
            spare -= len(line) + 1
            if len(errors) == _ERROR_LINES:
                break
    room -= sum(len(line) + 1 for line in errors)
    head, tail = text[: room * 6 // 10], text[len(text) - room * 4 // 10 :]
    head = head[: head.rfind("\n")] if "\n" in head[len(head) // 2 :] else head
    tail = tail[tail.find("\n") + 1 :] if "\n" in tail[: len(tail) // 2] else tail
    left_out = max(0, total - head.count("\n") - tail.count("\n") - 2 - len(errors))
    return head + marker.format(left_out) + "".join(f"{line}\n" for line in errors) + tail
