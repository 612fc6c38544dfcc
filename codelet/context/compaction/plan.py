"""The plan: which messages stay as they are, which of them are cut, and which the segments stand for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from codelet.context.compaction.reading import is_error
from codelet.context.tokens import Estimate
from codelet.errors import EXIT_LIMIT, CodeletError
from codelet.messages import AnyMessage, kind_of, text_of, with_text, without_images
from codelet.prompt import PICTURES_DROPPED

# In percent of what is available: the newest turns whole, else the newest units; the newest prompt at the end of the
# list and before its calls; the results that the model has not seen.
_TURNS, _UNITS, _LAST_PROMPT, _PROMPT, _UNSEEN = 40, 18, 80, 45, 80
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


@dataclass
class KeepPlan:
    """What stays: messages by their place, those that are cut, and how many of the newest turns are whole."""

    kept: dict[int, AnyMessage]
    cut: list[int]
    whole_turns: int
    newest: int
    warnings: list[str]


class Planner:
    """Decides what stays of a normalised list."""

    def __init__(
        self,
        messages: Sequence[AnyMessage],
        sizes: Sequence[int],
        measure: Estimate,
        pinned: Collection[int],
        settings: CompactionSettings,
    ) -> None:
        self._messages, self._sizes, self._measure, self._settings = messages, sizes, measure, settings
        self._units = list(_units(messages, sizes))
        self.fixed = {at for at, message in enumerate(messages) if kind_of(message) not in _BODY}
        for at in pinned:
            unit = next((unit for unit in self._units if unit.start <= at < unit.stop), None)
            self.fixed.update(range(unit.start, unit.stop) if unit else [at])
        if self._units and (last := self._units[-1]) and _is_open(messages[last.start : last.stop]):
            self.fixed.update(range(last.start, last.stop))
        self._units = [unit for unit in self._units if unit.start not in self.fixed]
        self.floor = sum(sizes[at] for at in self.fixed)

    def plan(self, target: int, anchored: Collection[int], level: int = 0, spare: int = 0) -> KeepPlan:
        """Return the plan for a target; `spare` tokens of it have no other use than more of the newest units.

        `anchored` are places at which something was settled. At a higher level less stays: 1 no turn for being whole,
        2 what is unseen cut short, 3 only what must stay.
        """
        available = target - self.floor
        kept = {at: self._messages[at] for at in sorted(self.fixed)}
        plan = KeepPlan(kept, [], 0, len(self._messages), [])
        if level == 3 or available <= 0:
            return plan
        whole = 0 if level else self._whole_turns(available)
        plan.whole_turns = whole
        plan.newest = self._start_of(whole)
        units = [unit for unit in self._units if unit.start >= plan.newest]
        left = available - sum(unit.size for unit in units)
        if not whole:
            left = self._keep_newest(plan, left, available, level, spare)
            units = []
        for unit in units:
            self._keep(plan, unit)
        if level == 0:
            spent = max(0, available - left)
            self._keep_units(plan, available * _UNITS // 100 - spent, anchored)
            if spare:
                self._keep_one_more(plan, spare - self._keep_units(plan, spare, ()))
        self._say_once(plan)
        return plan

    def _whole_turns(self, available: int) -> int:
        settings = self._settings
        most = settings.whole if settings.whole is not None else available * _TURNS // 100
        for turns in range(settings.keep_last, 0, -1):
            start = self._start_of(turns)
            size = sum(unit.size for unit in self._units if unit.start >= start)
            if size <= most:
                return turns
        return 0

    def _start_of(self, turns: int) -> int:
        """Where the newest turns begin: what follows a segment without a prompt counts as a turn."""
        if not turns:
            return len(self._messages)
        kinds = [kind_of(message) for message in self._messages]
        prompts = [at for at, kind in enumerate(kinds) if kind == "prompt"]
        segment = max((at for at, kind in enumerate(kinds) if kind == "segment"), default=-1)
        behind = [at for at in prompts if at > segment]
        return behind[-turns] if len(behind) >= turns else segment + 1

    def _keep_newest(self, plan: KeepPlan, left: int, available: int, level: int, spare: int) -> int:
        """Keep the newest prompt, and the results that the model has not seen; return what is left."""
        units = self._units
        if not units:
            return left
        last = units[-1]
        unseen = last.stop == len(self._messages) and (last.is_prompt or kind_of(self._messages[-1]) == "tool")
        prompt = next((unit for unit in reversed(units) if unit.is_prompt), None)
        if prompt is not None and prompt is not last and level < 2 and 100 * prompt.size <= _PROMPT * available:
            plan.kept[prompt.start] = self._messages[prompt.start]
            left -= prompt.size
        if not unseen:
            return left
        limit = left * (_LAST_PROMPT if last.is_prompt else _UNSEEN) // 100
        if self._settings.unseen is not None:
            limit = min(self._settings.unseen, left)
        if last.size <= limit and level < 2:
            self._keep(plan, last)
            return left - last.size
        room = left * _CUT_TO // (100 if level < 2 else 200)
        return left - self._keep_cut(plan, last, room + spare)

    def _keep(self, plan: KeepPlan, unit: _Unit) -> None:
        plan.kept.update({at: self._messages[at] for at in range(unit.start, unit.stop)})
        plan.newest = min(plan.newest, unit.start)

    def _keep_cut(self, plan: KeepPlan, unit: _Unit, room: int) -> int:
        """Keep a unit with its largest messages cut, if it then fits; return its size."""
        messages, measure = list(self._messages[unit.start : unit.stop]), self._measure
        first = 0 if unit.is_prompt else 1
        room -= sum(map(measure, messages[:first]))
        if room <= 0:
            return 0
        sizes = [measure(message) for message in messages[first:]]
        cap = _cap(sizes, room)
        places = [place for place, size in enumerate(sizes, first) if size > cap]
        made: dict[int, AnyMessage] = {}
        for place in places:
            hint = self._hint(len(plan.cut) + len(made))
            shorter = shortened(messages[place], cap, measure, hint)
            if shorter is None:
                return 0
            made[unit.start + place] = shorter
        self._keep(plan, unit)
        plan.kept.update(made)
        plan.cut += made
        left_over = self._settings.unseen is None
        plan.warnings.append(
            f"{len(made)} of the newest messages {'is' if len(made) == 1 else 'are'} cut: together they take "
            f"{unit.size:,} tokens, {'there is room for' if left_over else 'the budget has room for'} {room:,}"
        )
        return sum(measure(plan.kept[at]) for at in range(unit.start, unit.stop))

    def _hint(self, number: int) -> str:
        first = self._settings.first_id
        return "" if first is None else f"r{first + number}"

    def _keep_units(self, plan: KeepPlan, left: int, anchored: Collection[int]) -> int:
        """Keep the newest units before the whole turns and return their size; the cut moves to an anchor if near."""
        before = [unit for unit in self._units if unit.start not in plan.kept and unit.start < plan.newest]
        if self._settings.context is not None:
            newest = next((unit.start for unit in reversed(self._units) if unit.is_prompt), 0)
            spent = sum(unit.size for unit in self._units if unit.start in plan.kept and unit.start < newest)
            left = min(left, self._settings.context - spent)
        total = 0
        chosen: list[_Unit] = []
        for unit in reversed(before):
            if chosen and unit.stop != chosen[-1].start and not self._only_kept(plan, unit.stop, chosen[-1].start):
                break
            if total + unit.size > left:
                break
            total += unit.size
            chosen.append(unit)
        spent = total
        for number in range(len(chosen) - 1, 0, -1):
            if {chosen[number].start - 1, *range(chosen[number].start, chosen[number].stop)} & set(anchored):
                chosen = (
                    chosen[:number] if {*range(chosen[number].start, chosen[number].stop)} & set(anchored) else chosen
                )
                break
            spent -= chosen[number].size
            if 100 * spent < _AT_ANCHOR * total:
                break
        for unit in chosen:
            self._keep(plan, unit)
        return sum(unit.size for unit in chosen)

    def _keep_one_more(self, plan: KeepPlan, room: int) -> None:
        """Keep the newest unit that does not fit, cut to what is left."""
        before = [unit for unit in self._units if unit.start not in plan.kept and unit.start < plan.newest]
        if before and before[-1].size > room > 0:
            self._keep_cut(plan, before[-1], room * _FILL // 100)

    def _only_kept(self, plan: KeepPlan, start: int, stop: int) -> bool:
        return all(at in plan.kept for at in range(start, stop))

    def _say_once(self, plan: KeepPlan) -> None:
        """Of equal long results among those that stay, leave the newest one whole."""
        seen: set[str] = set()
        for at in sorted(plan.kept, reverse=True):
            message = plan.kept[at]
            if message.get("role") != "tool" or at in self.fixed or len(text := text_of(message)) < _SAME_FROM:
                continue
            if text in seen and at not in plan.cut:
                key = self._hint(len(plan.cut))
                plan.kept[at] = with_text(message, SAME.format(hint=f"; recall id={key}" if key else ""))
                plan.cut.append(at)
            seen.add(text)


_BODY = frozenset({"prompt", "segment", "assistant", "tool"})


def _units(messages: Sequence[AnyMessage], sizes: Sequence[int]) -> list[_Unit]:
    found: list[_Unit] = []
    for at, message in enumerate(messages):
        kind = kind_of(message)
        if kind == "tool" and found:
            last = found[-1]
            found[-1] = last._replace(stop=at + 1, size=last.size + sizes[at])
        elif kind in ("prompt", "assistant"):
            found.append(_Unit(at, at + 1, sizes[at], kind == "prompt"))
    return found


def _is_open(unit: Sequence[AnyMessage]) -> bool:
    """Return whether a unit has calls without results: calls in flight."""
    calls = unit[0].get("tool_calls")
    return isinstance(calls, list) and len(calls) > len(unit) - 1


def _cap(sizes: Sequence[int], room: int) -> int:
    left = room
    for place, size in enumerate(sorted(sizes)):
        if size * (len(sizes) - place) > left:
            return left // (len(sizes) - place)
        left -= size
    return max(sizes, default=0)


def shortened(message: AnyMessage, tokens: int, measure: Estimate, recall_id: str) -> dict[str, Any] | None:
    """Return the message cut to at most so many tokens; None if that leaves nothing of it."""
    bare = dict(message) if "images" not in message else without_images(dict(message), PICTURES_DROPPED)
    shorter = with_text(message, text_of(message)) if "images" not in message else bare
    text = text_of(shorter)
    length = len(text)
    for _ in range(12):
        size = measure(shorter)
        if size <= tokens:
            return shorter
        length = min(length - 1, length * tokens * 95 // (100 * size))
        if length < 40:
            return None
        shorter = with_text(message if "images" not in message else bare, cut(text, length, recall_id))
    return None


def cut(text: str, most: int, recall_id: str = "") -> str:
    """Cut a text to `most` characters: head and tail, 60 to 40, and the first error lines between; whole if it fits.

    The marker counts the lines left out; `recall_id` names what to ask the archive for.
    """
    if len(text) <= most:
        return text
    hint = f"; recall id={recall_id}" if recall_id else ""
    marker = f"\n[… {text.count(chr(10)) + 1} lines left out of {len(text)} characters{hint} …]\n"
    room = most - len(marker)
    if room < 40:
        return text[: max(0, most)]
    middle = text[room * 6 // 10 : len(text) - room * 4 // 10]
    if len(middle) > 2 * _SEARCHED:
        middle = f"{middle[:_SEARCHED]}\n{middle[-_SEARCHED:]}"
    errors: list[str] = []
    spare = room // 3
    for line in middle.split("\n"):
        if len(line) <= min(_ERROR_LENGTH, spare - 1) and is_error(line) and line not in errors:
            errors.append(line)
            spare -= len(line) + 1
            if len(errors) == _ERROR_LINES:
                break
    room -= sum(len(line) + 1 for line in errors)
    head, tail = text[: room * 6 // 10], text[len(text) - room * 4 // 10 :]
    head = head[: head.rfind("\n")] if "\n" in head[len(head) // 2 :] else head
    tail = tail[tail.find("\n") + 1 :] if "\n" in tail[: len(tail) // 2] else tail
    shown = head.count("\n") + tail.count("\n") + 2 + len(errors)
    left_out = max(0, text.count("\n") + 1 - shown)
    marker = f"\n[… {left_out} lines left out of {len(text)} characters{hint} …]\n"
    return head + marker + "".join(f"{line}\n" for line in errors) + tail
