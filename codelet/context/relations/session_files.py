"""The graph of what a session's calls read and changed: each call once; a compaction takes none out.

Which files these are is in the calls' records. It is read from the list for calls without one, from elsewhere.
"""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Iterable, Sequence

from codelet.call_record import CallRecord
from codelet.context.compaction.actions import Action, action_of
from codelet.context.compaction.signals import read_failed, write_failed
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
            made: dict[str, Action] = {}
            for message in messages:
                for call in calls_of(message):
                    if call["id"] not in self._done:
                        made[call["id"]] = action_of(call)
                action = made.get(str(message.get("tool_call_id"))) if message.get("role") == "tool" else None
                if action is not None and (answer := text_of(message)) != INTERRUPTED:  # it may still run
                    self._done[action.call_id] = None
                    record = recorded.get(action.call_id)
                    if record is None or (record.commands and not record.files):
                        self._take(action, answer, root)
                    else:
                        self._take_record(record, action, answer)
            while len(self._done) > MOST_CALLS:
                del self._done[next(iter(self._done))]
            self._relations.ask(prompt)
            return self._relations

    def _take_record(self, record: CallRecord, action: Action, answer: str) -> None:
        for fact in record.files:
            if fact.effect == "read":
                self._relations.touch(fact.path, imports_in(fact.path, answer))
            elif fact.effect in ("created", "changed", "written"):
                imports = imports_in(fact.path, "\n".join(action.values))
                self._relations.touch(fact.path, imports, changed=True, whole=action.whole)

    def _take(self, action: Action, answer: str, root: str) -> None:
        if action.kind == "read" and action.subject and not read_failed(answer):
            path = _relative(action.subject, root)
            self._relations.touch(path, imports_in(path, answer))
        elif action.kind == "write" and not write_failed(answer):
            for name in action.written:
                path = _relative(name, root)
                imports = imports_in(path, "\n".join(action.values))
                self._relations.touch(path, imports, changed=True, whole=action.whole)


def _relative(path: str, root: str) -> str:
    """A path as the list of the workspace's files has it; one outside stays as it is."""
    found = posixpath.normpath(path)
    return found[len(root) + 1 :] if root and found.startswith(f"{root}/") else found
