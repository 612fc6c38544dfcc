"""The machine in a line of the tail, with `--environment full`, and `/env`: all that is known of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from codelet.context.reminders import Environment, Source
from codelet.extensions.base import Command, Extension, OpenedWith
from codelet.system.machine import MachineState, RunningProcess, machine_state
from codelet.system.text import one_line

if TYPE_CHECKING:
    from codelet.extensions.session_view import SessionView

_MACHINE = "The machine at the start of this turn: {state}."


_LONGEST_NAME = 40
_MOST_PROCESSES = 3


class Machine(Extension, Source):
    """Looks at the machine when a turn begins. With `in_requests` the model gets a line about it."""

    name = "machine"

    def __init__(self, *, in_requests: bool) -> None:
        self.reminders = (self,)
        self.commands = (Command("env", "", self._shown),)
        self._in_requests = in_requests
        self._line: str | None = None
        self._session: SessionView

    @classmethod
    def from_settings(cls, given: OpenedWith, session: SessionView) -> Self:
        return cls(in_requests=given.settings.environment == "full")

    def attach(self, session: SessionView) -> None:
        self._session = session

    async def begin(self) -> None:
        """Look at the machine, off the event loop: it reads a few hundred small files."""
        if self._in_requests:
            self._line = line_of(await asyncio.to_thread(machine_state, self._session.workspace))

    async def text(self) -> str | None:
        return self._line

    async def _shown(self, session: SessionView, argument: str) -> str:
        """Return the current environment, and all facts of the machine."""
        state = await asyncio.to_thread(machine_state, session.workspace)
        rows = [await Environment(session.workspace, session.toolbox.permissions).text()]
        known = (
            ("Python", str(state.get("python", ""))),
            *_facts_of(state),
            ("Up for", _duration(state.get("uptime_seconds"))),
        )
        rows += [f"{label}: {text}" for label, text in known if text]
        largest = state.get("processes", [])[:_MOST_PROCESSES]
        rows += [f"{_process(each)}, process {each['pid']}" for each in largest]
        if not self._in_requests:
            rows.append("the model gets the first lines only; --environment full adds the machine's state")
        return "\n".join(rows)


def line_of(state: MachineState) -> str:
    """Return the machine in one line, without what is not known."""
    largest = "; ".join(map(_process, state.get("processes", [])[:_MOST_PROCESSES]))
    parts = (*_facts_of(state), ("largest processes", largest))
    return _MACHINE.format(state=", ".join(f"{label.lower()} {text}" for label, text in parts if text))


def _facts_of(state: MachineState) -> list[tuple[str, str]]:
    """Return labels with texts, which are empty if the fact is not known."""
    used, total = state.get("memory_used_mb"), state.get("memory_total_mb")
    memory = "" if used is None or total is None else f"{used / 1024:.1f} of {total / 1024:.1f} GiB used"
    return [
        ("Memory", memory),
        ("Disk", _percent(state.get("disk_usage_percent"))),
        ("Load", _load()),
        ("Battery", _percent(state.get("battery_percent"))),
    ]


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0f} %"


def _load() -> str:
    """The load of the last minute, and on how many processors."""
    try:
        return f"{os.getloadavg()[0]:.1f} on {os.cpu_count() or 1} processors"
    except OSError:
        return ""


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    minutes = int(seconds // 60)
    parts: Sequence[tuple[int, str]] = ((minutes // 1440, "d"), (minutes // 60 % 24, "h"), (minutes % 60, "min"))
    return " ".join(f"{count} {unit}" for count, unit in parts if count) or "under a minute"


def _process(process: RunningProcess) -> str:
    return f"{one_line(process['name'], _LONGEST_NAME)} {process['memory_mb']:.0f} MB"
