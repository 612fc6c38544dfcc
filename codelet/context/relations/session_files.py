"""The graph of what a session's calls read and changed: each call once; a compaction takes none out.

Which files these are is in the calls' records. It is read from the list for calls without one, from elsewhere.
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
"""Calls that are known to have been read; beyond them the oldest may be read again."""


class SessionFiles:
    """The graph of one session; for any thread, one at a time."""

    def __init__(self) -> None:
        self._relations = Relations()
        self._done: dict[str, None] = {}
        self._lock = threading.Lock()

    def of(
        self, messages: Sequence[Message], prompt: str = "", root: str = "", records: Iterable[CallRecord] = ()
    ) -> Relations:
        """Return the graph after these messages, for what the user is about to ask; its paths are relative to `root`.

        `records` are those of the calls in the messages, as far as there are any.
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
    """Return whether a write says all that the file is to contain."""
    return call.writes and not call.edits


def _relative(path: str, root: str) -> str:
    """A path as the list of the workspace's files has it; one outside stays as it is."""
    found = posixpath.normpath(path)
    return found[len(root) + 1 :] if root and found.startswith(f"{root}/") else found
