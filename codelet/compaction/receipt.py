"""Write the report of a compaction that summarised: the fate of each turn, the anchors, the loss check."""

from __future__ import annotations

from codelet.compaction import loss
from codelet.compaction.normalise import Normalised
from codelet.compaction.plan import Plan, Subject
from codelet.compaction.report import Fate, Report, TurnFate
from codelet.compaction.score import Score
from codelet.compaction.summarise import Summary


def mends(normal: Normalised) -> dict[str, int]:
    """What normalising mended, by name; nothing for what was right."""
    counts = {
        "results without a call": normal.orphans,
        "results added": normal.added,
        "repeated reminders": normal.repeated_reminders,
        "unreadable entries": normal.unreadable,
    }
    return {name: count for name, count in counts.items() if count}


def receipt(subject: Subject, plan: Plan, summary: Summary, normal: Normalised, target: int, before: int) -> Report:
    """The report. `removed` speaks of the list that was given, all else of the normalised one."""
    kept_origins = {normal.origin[i] for i in plan.kept if i not in plan.reduced}
    highest = max(normal.origin, default=-1)
    gone = [i for i in range(highest + 1) if i not in kept_origins]
    warnings = list(plan.warnings)
    if summary.words.left_out:
        warnings.append(f"{summary.words.left_out} of the user's messages left no line: the target is too small.")
    gatherer = summary.found.gatherer
    after_words = [line for entry in summary.words.entries for line in entry.lines]
    after_words += [subject.readings[i].text for i in plan.kept if subject.readings[i].kind == "user"]
    after_words += [gatherer.candidates.text[i] for i in summary.chosen]
    lost = loss.check(
        gatherer.lexicon,
        gatherer.used,
        summary.present,
        [one.text for one in summary.found.said],
        "\n".join(after_words),
    )
    return Report(
        tier=plan.tier,
        target=target,
        before=before,
        after=summary.size,
        turns=tuple(_fates(subject, plan, summary)),
        anchors=tuple(summary.anchors),
        segments=summary.segments,
        kept_messages=len(plan.kept) - len(plan.reduced),
        removed=tuple(gone),
        user_messages=len(summary.found.said),
        user_mode=summary.words.mode,
        mended=mends(normal),
        loss=lost,
        warnings=tuple(warnings),
    )


def _fates(subject: Subject, plan: Plan, summary: Summary) -> list[TurnFate]:
    before: dict[int, int] = {}
    after: dict[int, int] = {}
    count: dict[int, int] = {}
    whole: dict[int, set[str]] = {}
    reasons: dict[int, str] = {}
    for index, reading in enumerate(subject.readings):
        if reading.kind in ("system", "reminder", "segment"):
            continue
        turn = reading.turn
        before[turn] = before.get(turn, 0) + subject.sizes[index]
        count[turn] = count.get(turn, 0) + 1
        if index in plan.kept:
            after[turn] = after.get(turn, 0) + subject.measure(plan.kept[index])
            reasons.setdefault(turn, plan.why.get(index, ""))
        fate = "reduced" if index in plan.reduced else "kept" if index in plan.kept else "old"
        whole.setdefault(turn, set()).add("gone" if index in plan.gone else fate)
    lines: dict[int, int] = {}
    gatherer = summary.found.gatherer
    for index in summary.chosen:
        turn = gatherer.sources[gatherer.candidates.source[index]].turn
        lines[turn] = lines.get(turn, 0) + 1
        after[turn] = after.get(turn, 0) + len(gatherer.candidates.text[index]) // 4
    for entry in summary.words.entries:
        after[entry.turn] = after.get(entry.turn, 0) + sum(len(line) + 1 for line in entry.lines) // 4
    found = []
    for turn in sorted(before):
        fate, why = _fate(whole[turn], reasons.get(turn, ""), lines.get(turn, 0))
        score = summary.scores.get(turn, Score(turn))
        found.append(
            TurnFate(turn, fate, why, before[turn], after.get(turn, 0), count[turn], lines.get(turn, 0), score)
        )
    return found


def _fate(parts: set[str], reason: str, lines: int) -> tuple[Fate, str]:
    if parts == {"kept"}:
        return "kept", reason
    if parts == {"gone"}:
        return "dropped", "dropped by the user"
    if "old" not in parts:
        return "reduced", reason or "cut to head and tail"
    if "kept" in parts or "reduced" in parts:
        return "reduced", f"{reason}; the rest summarised"
    return "summarised", f"the user's words and {lines} lines"
