"""The graph of the files that a session's calls read and changed: each call once, also after a compaction.

The files come from the calls' records; for calls without one, in lists from elsewhere, from the list.
"""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Iterable, Sequence

from codelet.call_record import CallRecord
from codelet.context.compaction.observed import patched_files
from codelet.context.compaction.reading import DecodedCall, call_of, is_error, strings
from codelet.context.relations.graph import Relations
from codelet.context.relations.imports import imports_in
from codelet.messages import Message, calls_of, text_of
from codelet.prompt import INTERRUPTED

MOST_CALLS = 20_000
"""The most calls that are known as read; older ones may be read again."""


class SessionFiles:
    """The graph of one session, for use from any thread."""

    def __init__(self) -> None:
        self._relations = Relations()
        self._done: dict[str, None] = {}
        self._lock = threading.Lock()

    def of(
        self, messages: Sequence[Message], prompt: str = "", root: str = "", records: Iterable[CallRecord] = ()
    ) -> Relations:
        """Return the graph after these messages, for the user's next prompt; its paths are relative to `root`.

        `records` are the records of the calls in the messages.
        """
        with self._lock:
            recorded = {record.id: record for record in records if record.id not in self._done}
            made: dict[str, DecodedCall] = {}
            for message in messages:
                for asked in calls_of(message):
                    if asked["id"] not in self._done:
                        made[asked["id"]] = call_of(asked)
                call = made.get(str(message.get("tool_call_id"))) if message.get("role") == "tool" else None
                if call is not None and (answer := text_of(message)) != INTERRUPTED:  # it may still run
                    self._done[call.id] = None
                    record = recorded.get(call.id)
                    if record is None or (record.commands and not record.files):
                        self._take(call, answer, root)
                    else:
                        self._take_record(record, call, answer)
            while len(self._done) > MOST_CALLS:
                del self._done[next(iter(self._done))]
            self._relations.ask(prompt)
            return self._relations

    def _take_record(self, record: CallRecord, call: DecodedCall, answer: str) -> None:
        for fact in record.files:
            if fact.effect == "read":
                self._relations.touch(fact.path, imports_in(fact.path, answer))
            elif fact.effect in ("created", "changed", "written"):
                imports = imports_in(fact.path, "\n".join(strings(call.values)))
                self._relations.touch(fact.path, imports, changed=True, whole=_is_whole(call))

    def _take(self, call: DecodedCall, answer: str, root: str) -> None:
        for path, deleted in () if is_error(answer) else patched_files(call):
            if not deleted:
                self._relations.touch(
                    _relative(path, root), imports_in(path, "\n".join(strings(call.values))), changed=True
                )
        if not call.path or call.command or is_error(answer):
            return
        path = _relative(call.path, root)
        if call.writes:
            imports = imports_in(path, "\n".join(strings(call.values)))
            self._relations.touch(path, imports, changed=True, whole=_is_whole(call))
        elif posixpath.splitext(path)[1]:  # what has no ending may be a folder that was searched
            self._relations.touch(path, imports_in(path, answer))


def _is_whole(call: DecodedCall) -> bool:
    """Return whether a write has the whole file."""
    return call.writes and not call.edits


def _relative(path: str, root: str) -> str:
    """Return a path relative to `root`; a path outside it is unchanged."""
    found = posixpath.normpath(path)
    return found[len(root) + 1 :] if root and found.startswith(f"{root}/") else found
