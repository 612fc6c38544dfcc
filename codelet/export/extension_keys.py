"""What a session's extensions keep in its export, into a document and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from codelet.errors import ExportError
from codelet.events import Notices
from codelet.export.document import FILE_NAMES, FORMS, Document, check_free, problem
from codelet.extensions.base import UNSAID, ExportPart
from codelet.loop.session import Session

_LONGEST_PROBLEM = 200
_FIELDS = frozenset({"facts", "plan", "active_tasks", "profile"})
"""The document's fields that an extension keeps, where one is there."""


class ExtensionKeys:
    """What a session's extensions keep in the export. What cannot be saved stays as it was last saved.

    `unknown` are the keys that the document does not know, as a file held them.
    """

    def __init__(self, unknown: Mapping[str, Any], notices: Notices) -> None:
        self._notices = notices
        self._unknown = unknown
        self._fields: dict[str, Any] = {}
        self._problems: dict[str, str] = {}

    def now(self, session: Session) -> dict[str, Any]:
        """The document's fields that extensions keep, and `unknown`: the keys that it does not know, with theirs.

        `unknown` is the same object where none has anything to say.
        """
        saved: dict[str, Any] = {}
        for part in parts_of(session):
            try:
                if (value := _saved(part)) is not UNSAID:
                    saved[part.key] = value
                self._problems.pop(part.key, None)
            except ExportError as error:
                self._tell(part.key, session.mask(str(error)))
        self._fields |= {key: saved.pop(key) for key in _FIELDS if key in saved}
        if saved:
            self._unknown = {**self._unknown, **saved}
        return {**self._fields, "unknown": self._unknown}

    def _tell(self, key: str, problem: str) -> None:
        if self._problems.get(key) != problem:
            self._problems[key] = problem
            kept = "as it was last saved" if key in self._unknown or key in self._fields else "left out"
            self._notices.say(f"the export's key {key!r}, which an extension keeps, is {kept}: {problem}")


def _saved(part: ExportPart) -> Any:
    """What an extension keeps now, as plain JSON of its own, which nothing changes while it is written."""
    try:
        if (value := part.save()) is UNSAID:
            return UNSAID
        check_free(value)
        value = msgspec.json.decode(msgspec.json.encode(value))
        value = tuple(value) if part.key in _FIELDS and isinstance(value, list) else value
        if part.key in _FIELDS:
            msgspec.convert(value, FORMS[part.key])
    except Exception as error:
        raise ExportError(problem(str(error)) or type(error).__name__) from error
    return value


def restore_keys(session: Session, document: Document) -> None:
    """Bring what extensions kept back into a session. Raises ExportError for a value that does not fit."""
    for part in parts_of(session):
        if part.key in _FIELDS:
            part.restore(getattr(document, part.key))
        elif part.key in document.unknown:
            value = document.unknown[part.key]
            _check(part, value)
            part.restore(value)


def parts_of(session: Session) -> list[ExportPart]:
    """What the session's extensions keep in an export. Raises ExportError where a key is taken."""
    parts = [part for each in session.extensions for part in each.parts]
    taken = [name for name in FILE_NAMES.values() if name not in _FIELDS]
    keys = [*taken, *(part.key for part in parts)]
    if twice := [part.key for part in parts if keys.count(part.key) > 1]:
        raise ExportError(f"an extension cannot have the key {twice[0]!r}: it is taken")
    return parts


def _check(part: ExportPart, value: object) -> None:
    """Raises ExportError where a file's value does not fit the part's schema."""
    from jsonschema.exceptions import best_match
    from jsonschema.validators import Draft202012Validator, validator_for
    from jsonschema_specifications import REGISTRY

    form = part.schema()
    kind = validator_for(form, default=Draft202012Validator)
    problem = best_match(kind(form, registry=REGISTRY).iter_errors(value))
    if problem is not None:
        raise ExportError(f"{part.key!r} in the export is not as it must be: {problem.message[:_LONGEST_PROBLEM]}")
