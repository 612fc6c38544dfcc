"""The machine formats: one JSON object at the end, or one event a line."""

from __future__ import annotations

import json
import sys

from codelet import events
from codelet.errors import EXIT_DONE, EXIT_LIMIT
from codelet.outcome import Outcome

FORMAT_VERSION = 1


class JsonOutput:
    """One object: `{version, result, partial, exit, error, usage, cost, cache_share, refused, cut, model, fallbacks,
    turns, duration, sandbox, metrics}`.
    """

    says_exit = True
    is_live = False

    def show(self, event: events.Event) -> None:
        """Nothing is shown before the end."""

    def busy(self, what: str) -> None:
        """Nothing is shown before the end."""

    def finish(self, outcome: Outcome) -> None:
        _write_line(summary(outcome))


class StreamJsonOutput:
    """One event a line; the last one, turn_end, has the keys of the json format as well."""

    def __init__(self) -> None:
        self._end: events.TurnEnd | None = None

    says_exit = True
    is_live = True

    def show(self, event: events.Event) -> None:
        """Write the event. The end of the turn waits until the outcome is known."""
        if isinstance(event, events.TurnEnd):
            self._end = event
        else:
            _write_line(event.as_dict())

    def busy(self, what: str) -> None:
        """Only events are shown: one of them says that a compaction begins."""

    def finish(self, outcome: Outcome) -> None:
        reasons: dict[int, events.EndReason] = {EXIT_DONE: "done", EXIT_LIMIT: "limit"}
        reason = reasons.get(outcome.exit_status, "failed")
        end = self._end or events.TurnEnd(reason, 0, outcome.usage, outcome.error)
        _write_line({**end.as_dict(), **summary(outcome)})


def write_failure(form: str, outcome: Outcome) -> None:
    """Write the outcome of a run that could not even start."""
    output = StreamJsonOutput() if form == "stream-json" else JsonOutput()
    output.finish(outcome)


def summary(outcome: Outcome) -> dict[str, object]:
    """The outcome as an object, with `structured_output` if the answer had to meet a schema, and extensions' keys."""
    value = outcome.structured
    structured = {} if value is None else {"structured_output": value[0] if value else None}
    return {
        "version": FORMAT_VERSION,
        "result": outcome.result,
        "partial": outcome.partial,
        "exit": outcome.exit_status,
        "error": outcome.error,
        "usage": events.as_json(outcome.usage),
        "cost": outcome.cost if outcome.usage.known else None,
        "cache_share": outcome.usage.cache_share,
        "refused": list(outcome.refused),
        "cut": events.as_json(outcome.cut),
        "model": outcome.model,
        "fallbacks": [
            {"from": change.replaced, "to": change.model, "reason": change.reason} for change in outcome.fallbacks
        ],
        "turns": outcome.turns,
        "duration": round(outcome.duration, 3),
        "sandbox": outcome.sandbox,
        "metrics": outcome.metrics(),
        **outcome.more,
        **structured,
    }


def _write_line(value: dict[str, object]) -> None:
    """Write one line in ASCII only, so that nothing in it can act on a terminal or a log."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()
