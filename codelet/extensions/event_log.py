"""The log: what a session did, in JSON lines, in a file that the user named. Nothing is written without one.

Each line has `time` (UTC), `level`, `session` and `event`; the page "sessions" of the help names the rest. Secrets are
masked. It never ends a turn: if it can no longer be written, the user gets one notice.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from codelet import __version__, events
from codelet.errors import CodeletError, UsageError
from codelet.extensions.base import Extension, Guard, GuardedCall, Noted, OpenedWith
from codelet.safety.opener import open_named
from codelet.usage import Usage

if TYPE_CHECKING:
    from codelet.extensions.session_view import LogLevel, SessionView

_LEVELS: tuple[LogLevel, ...] = ("debug", "info", "warning", "error")
_LONGEST = 2_000
_LEVEL_OF_END: Mapping[str, LogLevel] = {
    "done": "info",
    "interrupted": "warning",
    "limit": "warning",
    "failed": "error",
}
_BEGINS = b'{"time": "'
_DEVICES = ("/dev", "/dev/fd", "/proc/self/fd")
_QUIET = (events.Text, events.Reasoning, events.ToolProgress, events.TurnStart)


class EventLog(Extension, Guard):
    """Writes the log of one session. `attach` raises UsageError if the file cannot be opened."""

    def __init__(self, given: OpenedWith) -> None:
        assert given.settings.log is not None
        self.guards = (self,)
        self._path = Path(given.settings.log)
        self._least = _LEVELS.index(given.settings.log_level)
        self._id = os.urandom(4).hex()
        self._problem: str | None = None
        self._begun = self._turn_begun = time.monotonic()
        self._requests, self._waited = 0, 0.0
        self._open_circuits: set[str] = set()
        self._session: SessionView
        self._file: int | None = None

    def attach(self, session: SessionView) -> None:
        self._session = session
        self._path = session.workspace / self._path
        self._file = _opened(self._path)
        session.watch = self.see
        self._write("info", "session_start", version=__version__, model=session.provider.model, process=os.getpid())

    def see(self, event: events.Event) -> None:
        """Write what an event tells."""
        self._see_request()
        match event:
            case events.StepStart():
                if event.step == 1:
                    self._turn_begun = time.monotonic()
                self._write("debug", "step", turn=self._session.turns, step=event.step)
            case events.UsageReport():
                self._write("info", "usage", context=event.context, **_numbers(event.usage))
            case events.Retry():
                self._write("warning", "retry", attempt=event.attempt, wait=event.wait, reason=event.reason)
            case events.Compaction():
                levels: dict[str, LogLevel] = {"done": "info", "undone": "info", "stopped": "warning"}
                facts = {"phase": event.phase, "reason": event.reason, "before": event.before, "after": event.after}
                self._write(levels.get(event.phase, "debug"), "compaction", tier=event.tier, note=event.note, **facts)
            case events.ToolResult():
                level: LogLevel = "info" if event.status == "done" else "warning"
                took = round(event.seconds, 3)
                self._write(level, "tool", tool=event.name, call=event.id, status=event.status, seconds=took)
                self._write("debug", "tool_output", call=event.id, text=event.text)
            case events.TurnEnd():
                took = round(time.monotonic() - self._turn_begun, 3)
                ended = {"reason": event.reason, "steps": event.steps, "error": event.error, "cut": len(event.cut)}
                level = _LEVEL_OF_END.get(event.reason, "info")
                self._write(level, "turn_end", turn=self._session.turns, seconds=took, **ended)
            case events.Interrupted():
                counts = {name: len(getattr(event, name)) for name in ("failed", "half_done", "not_done")}
                self._write("warning", "interrupted", **counts)
            case _ if not isinstance(event, _QUIET):
                fields = {name: value for name in event.fields if isinstance(value := getattr(event, name), str | int)}
                self._write("debug", event.type, **fields)

    def record(self, kind: Noted, call: GuardedCall, **facts: object) -> None:
        """Write verdicts and answers to questions; what is refused is a warning."""
        if kind == "verdict":
            level: LogLevel = "warning" if facts.get("action") == "deny" else "debug"
            self._write(level, "verdict", tool=call.name, call=call.id, title=call.title, **_texts(facts))
        elif kind == "approval":
            level = "info" if facts.get("outcome") in ("yes", "always") else "warning"
            self._write(level, "approval", tool=call.name, call=call.id, **_texts(facts))

    async def close(self) -> None:
        """Write the end. Raises CodeletError if lines are missing and there was no notice yet."""
        if self._file is not None:
            self._see_request()
            meter = self._session.meter
            self._write(
                "info", "session_end", seconds=round(time.monotonic() - self._begun, 3), requests=meter.requests,
                request_seconds=round(meter.waited, 3), retries=meter.retries, cost=meter.spent_cost,
                compactions=self._session.compactor.count, **_numbers(meter.spent),
            )  # fmt: skip
            os.close(self._file)
        if self._problem is not None and self._session.notices.has(self._problem):
            raise CodeletError(self._problem)

    def _see_request(self) -> None:
        """Write the request that was answered since the last event, and each model whose circuit has opened."""
        meter = self._session.meter
        if count := meter.requests - self._requests:
            took, more = round(meter.waited - self._waited, 3), {"requests": count} if count > 1 else {}
            model = self._session.provider.model
            self._write("info", "request", turn=self._session.turns, model=model, seconds=took, **more)
        self._requests, self._waited = meter.requests, meter.waited
        is_open = {each.model: each for each in self._session.models.circuits() if each.state == "open"}
        for model in is_open.keys() - self._open_circuits:
            wait, failures = round(is_open[model].wait, 1), is_open[model].failures
            self._write("warning", "circuit_open", model=model, failures=failures, wait=wait)
        self._open_circuits = set(is_open)

    def _write(self, level: LogLevel, event: str, **facts: object) -> None:
        if self._file is None or _LEVELS.index(level) < self._least or self._problem is not None:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        mask = self._session.mask
        masked = {name: mask(each)[:_LONGEST] if isinstance(each, str) else each for name, each in facts.items()}
        line = json.dumps({"time": now, "level": level, "session": self._id, "event": event, **masked}) + "\n"
        why = "no room for a whole line"
        try:
            if os.write(self._file, line.encode("ascii")) == len(line):
                return
        except OSError as error:
            why = error.strerror or str(error)
        self._problem = f"the log {self._path} cannot be written any more: {why}"
        self._session.notices.say(self._problem)


def _opened(path: Path) -> int:
    """The file, to be written at its end: a new one, an earlier log, a pipe or a device. Raises UsageError."""
    try:
        if str(path.parent) in _DEVICES:  # `/dev/stderr` is a link
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        else:
            file = open_named(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        state = os.fstat(file)
        if not stat.S_ISREG(state.st_mode):
            os.set_blocking(file, True)
        elif state.st_size > 0 and str(path.parent) not in _DEVICES:
            with os.fdopen(open_named(path, os.O_RDONLY), "rb") as earlier:
                is_log = os.path.samestat(state, os.fstat(earlier.fileno())) and earlier.read(len(_BEGINS)) == _BEGINS
            if not is_log:
                os.close(file)
                raise UsageError(f"cannot write the log {path}: it is another file; name a new one, or an earlier log")
    except OSError as error:
        raise UsageError(f"cannot write the log {path}: {error.strerror}") from None
    return file


def _numbers(usage: Usage) -> dict[str, object]:
    return {name: value for name in usage.fields if isinstance(value := getattr(usage, name), int)}


def _texts(facts: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in facts.items() if isinstance(value, str | int | float)}
