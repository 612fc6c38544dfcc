"""The plan of a compaction: the messages that stay whole, the ones that are cut, and the ones that segments replace."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import accumulate
from types import MappingProxyType
from typing import Any

from codelet.context.compaction.lexicon import common_cap
from codelet.context.inputs import ends
from codelet.context.tokens import Estimate, SizeTarget
from codelet.errors import EXIT_LIMIT, CodeletError
from codelet.messages import ForeignMessage, Normalised, calls_of, kind_of, text_of, with_text, without_images
from codelet.prompt import PICTURES_DROPPED
from codelet.record import Record

# Limits in percent of the available tokens: the newest whole turns, else the newest units; the newest prompt if calls
# follow it; the results or the prompt that the model has not seen, and their size after a cut.
_TURNS, _UNITS, _PROMPT, _UNSEEN, _CUT_TO = 40, 18, 45, 80, 60
# The least part of the units, in percent, that stays when the cut moves to an anchor.
_AT_ANCHOR = 67
_SAME_FROM = 1_000
SAME = "[unchanged: a later call below has the same result{hint}]"
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
    """The messages of a normalised list that stay: `kept` by place; those at `cut` are shortened.

    `pinned` are indices in the given list. `whole_turns` counts the newest turns that are whole. A unit, below, is a
    prompt, or an assistant message with its results, as a range of places.
    """

    def __init__(
        self, normal: Normalised, measure: Estimate, settings: CompactionSettings, pinned: Collection[int]
    ) -> None:
        self.messages = messages = normal.messages
        self.sizes, self.measure, self.settings = list(map(measure, messages)), measure, settings
        self._kinds = list(map(kind_of, messages))
        units: list[range] = []
        for at, kind in enumerate(self._kinds):
            if kind == "tool" and units:
                units[-1] = range(units[-1].start, at + 1)
            elif kind in ("prompt", "assistant"):
                units.append(range(at, at + 1))
        fixed = {at for at, kind in enumerate(self._kinds) if kind not in BODY}
        for at in (at for at, origin in enumerate(normal.origin) if origin in pinned):
            fixed.update(next((unit for unit in units if at in unit), [at]))
        if units and len(units[-1]) <= len(calls_of(messages[units[-1].start])):
            fixed.update(units[-1])  # its calls are in flight
        self.kept: dict[int, ForeignMessage] = {at: messages[at] for at in fixed}
        self.cut: list[int] = []
        self.warnings: list[str] = []
        self.whole_turns = 0
        self._units = [unit for unit in units if unit.start not in fixed]

    def keep_newest(self, available: int, target: SizeTarget, anchored: Collection[int]) -> None:
        """Keep what is newest in `available` tokens; at `anchored` places something was settled."""
        fixed, starts = set(self.kept), [unit.start for unit in self._units]
        # The tokens from each place on, without what stays in any case.
        sizes = (0 if at in fixed else size for at, size in reversed(list(enumerate(self.sizes))))
        tail = list(accumulate(sizes, initial=0))[::-1]
        segment = max((at for at, kind in enumerate(self._kinds) if kind == "segment"), default=-1)
        # Messages after a segment without a prompt count as a turn.
        after = [at for at in starts if at > segment]
        turns = [at for at in after if at == after[0] or self._kinds[at] == "prompt"]
        most = available * _TURNS // 100 if target.whole is None else min(target.whole, available)
        whole = [at for at in turns[-self.settings.keep_last :] if tail[at] <= most and self.settings.keep_last]
        self.whole_turns = len(whole)
        start = whole[0] if whole else len(self.messages)
        if not whole and self._units:
            start = self._keep_unseen(available, target)
        if earlier := [at for at in starts if at < start and tail[at] <= available * _UNITS // 100]:
            least = _AT_ANCHOR * (tail[earlier[0]] - tail[start])
            near = [at for at in earlier if at - 1 in anchored and 100 * (tail[at] - tail[start]) >= least]
            start = min(near, default=earlier[0])
        for unit in self._units:
            if unit.start >= start and unit.start not in self.kept:
                self.kept.update({at: self.messages[at] for at in unit})
        self._say_once(fixed)

    def _keep_unseen(self, available: int, target: SizeTarget) -> int:
        """Keep the newest prompt and the results that the model has not seen; return the first place of the newest.

        If it is too large, its largest messages are cut.
        """
        last = self._units[-1]
        prompt = next((unit for unit in reversed(self._units) if self._kinds[unit.start] == "prompt"), last)
        if prompt is not last and 100 * self.sizes[prompt.start] <= _PROMPT * available:
            self.kept[prompt.start] = self.messages[prompt.start]
            available -= self.sizes[prompt.start]
        if last.stop < len(self._kinds) or not (prompt is last or self._kinds[-1] == "tool"):
            return len(self._kinds)
        room = available * _UNSEEN // 100 if target.unseen is None else min(target.unseen, available)
        size = sum(self.sizes[at] for at in last)
        if size > room:
            room = available * _CUT_TO // 100
        cuttable = {at: self.sizes[at] for at in (last if prompt is last else last[1:])}
        cap = common_cap(list(cuttable.values()), max(0, room - size + sum(cuttable.values())))
        places = [at for at in cuttable if cuttable[at] > cap]
        made = [shortened(self.messages[at], cap, self.measure, self._recall_id(n)) for n, at in enumerate(places)]
        shorter = {at: message for at, message in zip(places, made, strict=True) if message is not None}
        if len(shorter) < len(places):
            return len(self._kinds)
        self.kept.update({at: shorter.get(at, self.messages[at]) for at in last})
        self.cut += places
        if places:
            whose = "there is" if target.unseen is None else "the budget has"
            self.warnings.append(
                f"{len(places)} of the newest messages {'is' if len(places) == 1 else 'are'} cut: together they take "
                f"{size:,} tokens, {whose} room for {room:,}"
            )
        return last.start

    def _recall_id(self, number: int) -> str:
        return "" if self.settings.first_id is None else f"r{self.settings.first_id + number}"

    def _say_once(self, fixed: Collection[int]) -> None:
        """Keep only the newest of equal long results whole."""
        seen: set[str] = set()
        for at in sorted(set(self.kept) - set(fixed), reverse=True):
            message, text = self.kept[at], text_of(self.kept[at])
            if message.get("role") == "tool" and len(text) >= _SAME_FROM:
                if text in seen and at not in self.cut:
                    key = self._recall_id(len(self.cut))
                    self.kept[at] = with_text(message, SAME.format(hint=f"; recall entry={key}" if key else ""))
                    self.cut.append(at)
                seen.add(text)


def shortened(message: ForeignMessage, tokens: int, measure: Estimate, recall_id: str) -> dict[str, Any] | None:
    """Return the message cut to at most `tokens`; None if that leaves too little of it."""
    bare = with_text(message, text_of(message))
    if "images" in message:
        bare = without_images(dict(message), PICTURES_DROPPED)
    shorter, length = bare, len(text_of(bare))
    while (size := measure(shorter)) > tokens:
        length = min(length - 1, length * tokens * 95 // (100 * size))
        if length < 40:
            return None
        shorter = with_text(bare, cut(text_of(bare), length, recall_id))
    return shorter


def cut(text: str, most: int, recall_id: str = "") -> str:
    """Cut a text to `most` characters: head and tail, 60 to 40.

    The marker has the number of lines left out, and the `recall_id` of the whole text.
    """
    if len(text) <= most:
        return text
    total = text.count("\n") + 1
    hint = f"; recall entry={recall_id}" if recall_id else ""
    marker = f"\n[… {{}} lines left out of {len(text)} characters{hint} …]\n"
    if (room := most - len(marker.format(total))) < 40:
        return text[: max(0, most)]
    head, tail = ends(text, room)
    left_out = max(0, total - text.count("\n", 0, head) - text.count("\n", tail) - 1)
    return f"{text[:head].removesuffix(chr(10))}{marker.format(left_out)}{text[tail:]}"
