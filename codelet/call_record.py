"""The record of a finished tool call: facts noted when they happen, never read back from the text of its answer.

A tool reports what only it knows (`FileFact`, `CommandEnd`, in its `ToolOutput`); the loop adds the rest and gives the
record to the conversation. Everything above reads records: `Conversation.calls`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from codelet.record import Newest, Record

CallStatus = Literal["done", "failed", "refused", "interrupted", "not_started"]
PathEffect = Literal["read", "listed", "searched", "created", "changed", "written", "deleted"]
"""`written` is a write that may have made the file or changed it, or not: its tool does not say more."""

MOST_RECORDS = 5_000


class FileFact(Record):
    """The effect of a call on one path, relative to the workspace if it is inside.

    `lines` and `bytes` are the sizes of the part shown, or of the written file; None if unknown.
    """

    effect: PathEffect
    path: str
    lines: int | None = None
    bytes: int | None = None


class CommandEnd(Record, kw_only=True):
    """The end of a command. `code` is negative for a signal, None if it was ended for its time limit.

    `pipeline` are the exit codes of the parts of its last pipeline, in order: empty without a pipeline, None if the
    shell did not report them.
    """

    code: int | None
    pipeline: tuple[int, ...] | None = ()


class CallRecord(Record, kw_only=True):
    """One call of a tool. `turn` is the number of its turn, 0 if unknown; texts are without secrets.

    `changes` is false if the call did not run or only reads. `commands` are the shell commands that it ran, in the
    sandbox of the kind `confined` or in none; `ended` is the end of its command, None if it still runs, was stopped, or
    is unknown. `seconds` is the time from its approval, or from its check if it never ran; 0 if it did not start.
    """

    id: str
    tool: str
    title: str
    status: CallStatus
    turn: int = 0
    changes: bool = False
    files: tuple[FileFact, ...] = ()
    commands: tuple[str, ...] = ()
    confined: Literal["read-only", "workspace"] | None = None
    ended: CommandEnd | None = None
    seconds: float = 0.0


class CallLog:
    """The records of one conversation's calls, in the order in which they ended; the newest 5,000.

    `count` is the number of all that were ever added and not removed again: a place to go back to.
    """

    def __init__(self) -> None:
        self._records = Newest[CallRecord](MOST_RECORDS)
        self.count = 0

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[CallRecord]:
        return iter(tuple(self._records))

    def __reversed__(self) -> Iterator[CallRecord]:
        return reversed(tuple(self._records))

    def add(self, record: CallRecord) -> None:
        """Add a record at the end."""
        self._records.append(record)
        self.count += 1

    def go_back(self, count: int) -> None:
        """Forget what was added after the first `count` records."""
        while self.count > count and self._records:
            self._records.pop()
            self.count -= 1
        self.count = min(self.count, count)

    def become(self, records: Iterable[CallRecord]) -> None:
        """Hold these records only."""
        self._records.clear()
        self._records.extend(records)
        self.count = len(self._records)
