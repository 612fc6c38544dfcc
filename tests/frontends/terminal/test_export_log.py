"""The REPL's log gives the same export as all events, within a bound."""

from __future__ import annotations

import random
from pathlib import Path

from codelet import events
from codelet.export.recorder import TIMELINE_MARKS, Recorder
from codelet.frontends.terminal.export_log import ExportLog
from codelet.loop.session import Session
from codelet.providers import open_provider
from codelet.providers.protocol import ProviderOptions
from codelet.usage import Usage


def turn(number: int, chance: random.Random) -> list[events.Event]:
    """The events of a turn with a request, two results and, now and then, a compaction."""
    usage = Usage(**{name: chance.randrange(9_000) for name in Usage.fields})
    results = [
        events.ToolResult(
            id=f"call-{number}-{name}",
            name=name,
            status="failed" if chance.random() < 0.3 else "done",
            text="what the tool gave",
            display="what a person saw",
        )
        for name in ("bash", chance.choice(("read", "grep")))
    ]
    report = events.UsageReport(
        usage=usage, context=chance.randrange(9_000), window=24_000, budget=chance.randrange(9_000)
    )
    compaction = [
        events.Compaction(phase=phase, reason="cost", before=9_000, after=chance.randrange(9_000), lost=("a name",))
        for phase in ("starting", "done")
        if number % 3 == 0
    ]
    return [events.TurnStart(number, "scripted"), report, *results, *compaction]


def exported(tmp_path: Path, logged: list[events.Event]) -> tuple[object, object]:
    recorder = Recorder(clock=lambda: 1.0)
    for event in logged:
        recorder.see(event)
    provider = open_provider("openai/scripted", ProviderOptions("http://127.0.0.1:9/v1", "test-key"))
    snapshot = recorder.snapshot(Session(provider, workspace=tmp_path, bare=True))
    return snapshot.timeline, snapshot.tool_stats


def test_an_export_of_the_log_says_what_one_of_all_events_says(tmp_path: Path) -> None:
    chance = random.Random(5)
    seen = [event for number in range(1, 40) for event in turn(number, chance)]
    log = ExportLog()
    for event in seen:
        log.see(event)
    assert exported(tmp_path, [event for _, event in log.logged()]) == exported(tmp_path, seen)


def test_the_log_keeps_as_many_marks_as_an_export_holds_and_counts_every_result(tmp_path: Path) -> None:
    chance = random.Random(6)
    seen = [event for number in range(1, TIMELINE_MARKS + 100) for event in turn(number, chance)[:3]]
    log = ExportLog()
    for event in seen:
        log.see(event)
    kept = [event for _, event in log.logged()]
    assert sum(isinstance(event, events.UsageReport) for event in kept) == TIMELINE_MARKS
    assert exported(tmp_path, kept) == exported(tmp_path, seen)
