"""Statistics of a session: how calls went, how long they took, what was approved, which tool keeps failing.

In memory, for `/stats`; in an export under the keys `metrics` and `approvals`. They only report: they permit and forbid
nothing, neither here nor when an export is resumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from codelet.context.reminders import Source
from codelet.extensions.base import Command, ExportPart, Extension, Guard, GuardedCall, Noted
from codelet.record import Newest
from codelet.system.text import one_line

if TYPE_CHECKING:
    from codelet.extensions.session_view import SessionView

_TOOL_FAILS = (
    "{name} has failed or was refused {count} times in a row ({missed} of {all} calls in this session). Do not repeat "
    "it unchanged: find out why, or go another way."
)


FAILURES_TOLD = 3
"""The model gets a reminder after this many failures or refusals of one tool in a row, in one turn."""

_MOST_APPROVALS = 1_000
_MOST_TOOLS = 1_000
_LONGEST_ABOUT = 300
_MOST_CHANGES = 5
_COUNTS = ("calls", "failures", "denials", "seconds", "longest")
_TOTALS = ("requests", "request_seconds", "retries", "compactions", "fallbacks")
_AMOUNT = {"type": "number", "minimum": 0, "maximum": 10**12}
METRICS: dict[str, Any] = {
    "type": "object",
    "properties": dict.fromkeys(_TOTALS, _AMOUNT)
    | {
        "by_tool": {
            "type": "object",
            "maxProperties": _MOST_TOOLS,
            "additionalProperties": {"type": "object", "properties": dict.fromkeys(_COUNTS, _AMOUNT)},
        },
        "circuits": {
            "type": "object",
            "maxProperties": _MOST_TOOLS,
            "additionalProperties": {
                "type": "object",
                "properties": {"state": {"enum": ["closed", "open", "probing"]}, "failures": _AMOUNT},
            },
        },
    },
}
APPROVALS: dict[str, Any] = {
    "type": "array",
    "maxItems": _MOST_APPROVALS,
    "items": {
        "type": "object",
        "required": ["timestamp", "turn", "about", "outcome", "reason"],
        "properties": {
            "timestamp": _AMOUNT,
            "turn": {"type": "integer", "minimum": 0},
            **{name: {"type": "string", "maxLength": 4_096} for name in ("about", "outcome", "reason")},
        },
    },
}


class Statistics(Extension, Guard, Source):
    """Counts the calls of one session. `clock` gives Unix seconds."""

    name = "toolFailures"
    in_subsessions = False

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.guards = (self,)
        self.reminders = (self,)
        self.commands = (Command("stats", "", self._shown),)

        def restore_approvals(value: Any) -> None:
            self.approvals[:] = value  # a record only: it permits nothing

        self.parts = (
            ExportPart("metrics", self._metrics, self._count_on, lambda: METRICS),
            ExportPart("approvals", lambda: list(self.approvals), restore_approvals, lambda: APPROVALS),
        )
        self._clock = clock
        self._session: SessionView
        self.by_tool: dict[str, dict[str, float]] = {}
        self.approvals = Newest[dict[str, Any]](_MOST_APPROVALS)
        self.carried: dict[str, float] = {}
        self.carried_circuits: dict[str, dict[str, Any]] = {}

    def attach(self, session: SessionView) -> None:
        self._session = session

    def record(self, kind: Noted, call: GuardedCall, **facts: object) -> None:
        """Count how a call ended, and remember what was refused or answered."""
        outcome = "denied" if kind == "verdict" and facts.get("action") == "deny" else ""
        if kind == "approval":
            outcome = str(facts.get("outcome"))
        if kind == "execution":
            seconds = facts.get("seconds")
            took = float(seconds) if isinstance(seconds, int | float) else 0.0
            figures = self._figures(call.name)
            figures["calls"] += 1
            figures["failures"] += facts.get("status") == "failed"
            figures["seconds"] = round(figures["seconds"] + took, 3)
            figures["longest"] = max(figures["longest"], took)
        elif outcome:
            self._figures(call.name)["denials"] += outcome not in ("yes", "always")
            mask = self._session.mask
            self.approvals.append(
                {
                    "timestamp": round(self._clock(), 3),
                    "turn": self._session.turns,
                    "about": one_line(mask(call.described), _LONGEST_ABOUT),
                    "outcome": outcome,
                    "reason": one_line(mask(str(facts.get("reason") or "")), _LONGEST_ABOUT),
                }
            )

    def _in_a_row(self) -> dict[str, int]:
        """Count the latest failures and refusals of each tool in a row, in this turn only."""
        conversation, counts = self._session.conversation, dict[str, int]()
        ended_well: set[str] = set()
        for record in reversed(conversation.calls):
            if record.turn != conversation.turn:
                break
            if record.status not in ("failed", "refused"):
                ended_well.add(record.tool)
            elif record.tool not in ended_well:
                counts[record.tool] = counts.get(record.tool, 0) + 1
        return counts

    async def text(self) -> str | None:
        lines = []
        for name, count in sorted(self._in_a_row().items()):
            figures = self._figures(name)
            missed, calls = (int(figures[each] + figures["denials"]) for each in ("failures", "calls"))
            if count >= FAILURES_TOLD:
                lines.append(_TOOL_FAILS.format(name=name, count=count, missed=missed, all=calls))
        return "\n".join(lines) or None

    def totals(self) -> dict[str, float]:
        """Return the session's figures, including those of a restored export."""
        meter = self._session.meter
        own = {
            "requests": meter.requests,
            "request_seconds": round(meter.waited, 3),
            "retries": meter.retries,
            "compactions": self._session.compactor.count,
            "fallbacks": len(self._session.models.changes),
        }
        return {name: round(value + self.carried.get(name, 0), 3) for name, value in own.items()}

    def _circuit_rows(self) -> list[str]:
        rows = []
        for each in self._session.models.circuits():
            wait = f", asked again in {each.wait:.0f} s" if each.state == "open" and each.wait else ""
            failures = f"{_plural(each.failures, 'failure')} in a row"
            name = one_line(self._session.mask(f"{each.model} by {each.provider}"), 60)
            rows.append(f"{name}: {failures}, circuit {each.state}{wait}")
        changes = self._session.models.changes[-_MOST_CHANGES:]
        replaced = (self._session.mask(f"{each.model} replaced {each.replaced}") for each in changes)
        return rows + [one_line(each, 100) for each in replaced]

    def _metrics(self) -> Any:
        """All figures; seconds are summed up, `longest` is the longest single call."""
        tools, models = {name: dict(figures) for name, figures in self.by_tool.items()}, self._session.models
        open_now = {each.model: {"state": each.state, "failures": each.failures} for each in models.circuits()}
        circuits = self.carried_circuits | open_now
        return self.totals() | {"by_tool": tools} | ({"circuits": circuits} if circuits else {})

    def _count_on(self, value: Any) -> None:
        """Count on from the figures of an export."""
        self.carried = {name: value.get(name, 0) for name in _TOTALS}
        self.carried_circuits = dict(value.get("circuits", {}))
        tools = value.get("by_tool", {})
        self.by_tool = {name: {count: figures.get(count, 0) for count in _COUNTS} for name, figures in tools.items()}

    def _figures(self, name: str) -> dict[str, float]:
        if name not in self.by_tool and len(self.by_tool) >= _MOST_TOOLS:
            name = "others"
        return self.by_tool.setdefault(name, dict.fromkeys(_COUNTS, 0))

    async def _shown(self, session: SessionView, argument: str) -> str:
        total = self.totals()
        requests = int(total["requests"])
        mean = f", {total['request_seconds'] / requests:.1f} s each" if requests else ""
        denials = int(sum(figures["denials"] for figures in self.by_tool.values()))
        told = [f"{_plural(requests, 'answered request')}{mean}"]
        told += [f"{int(total['retries'])} sent again"] if total["retries"] else []
        told += [_plural(int(total["compactions"]), "compaction")] if total["compactions"] else []
        told += [f"{_plural(denials, 'call')} refused"] if denials else []
        rows = ["; ".join(told), *self._circuit_rows()]
        if self.by_tool:
            rows += ["", f"{'tool':<16}{'calls':>7}{'failed':>8}{'refused':>9}{'mean':>9}{'longest':>9}"]
        for name, figures in sorted(self.by_tool.items()):
            calls = int(figures["calls"])
            took = f"{figures['seconds'] / calls:.2f} s" if calls else "-"
            shown = one_line(self._session.mask(name), 15)  # a secret that is cut off is not known as one
            rows.append(
                f"{shown:<16}{calls:>7}{int(figures['failures']):>8}{int(figures['denials']):>9}"
                f"{took:>9}{figures['longest']:>7.2f} s"
            )
        return "\n".join(rows)


def _plural(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
