"""Learns from refusals, by the table of lessons in `refusals.toml`. Imported with the first refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from codelet.errors import ProviderError
from codelet.providers.catalog import table, table_names
from codelet.providers.protocol import Request
from codelet.providers.quirks import Quirks
from codelet.record import Record

if TYPE_CHECKING:
    from codelet.providers.effort import AskedEffort

_FILE, _PREFIX = "refusals.toml", "lesson."


class Sender(Protocol):
    """The sender of requests to one model. `learnt` holds the names of the lessons applied so far."""

    model: str
    quirks: Quirks
    asked: AskedEffort | None
    notes: list[str]
    learnt: set[str]
    refused_images: set[str]

    @property
    def api(self) -> str:
        """The API of the requests."""
        ...


class Lesson(Record, kw_only=True):
    """One row of the table, whose head explains the fields; `field` is its name."""

    field: str
    words: tuple[str, ...]
    also: str = ""
    quirks: Mapping[str, Any] = {}
    change: str = ""
    note: str = ""
    apis: tuple[str, ...] = ("chat", "responses", "messages")
    statuses: tuple[int, ...] = (400, 422)

    def fits(self, sender: Sender, error: ProviderError, text: str) -> bool:
        """Return whether the refusal is about this field, for the first time."""
        if sender.api not in self.apis or (error.status or 0) not in self.statuses or self.field in sender.learnt:
            return False
        if self.also == "reasoning" and "effort" in text:
            return False  # the word is part of another field's name
        return self.also in text and any(words in text for words in self.words)


@cache
def lessons() -> tuple[Lesson, ...]:
    """Return all lessons, in order."""
    return tuple(_lesson(name) for name in table_names(_FILE) if name.startswith(_PREFIX))


def _lesson(name: str) -> Lesson:
    row: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in table(name, _FILE).items()
    }
    if (words_of := row.pop("words_of", None)) is not None:
        row["words"] = tuple(table(words_of, _FILE))
    row["quirks"] = dict(row.get("quirks", ()))
    return Lesson(field=name.removeprefix(_PREFIX).strip('"'), **row)


def learn(sender: Sender, error: ProviderError, request: Request) -> bool:
    """Return whether later requests have another form because of this refusal."""
    text = str(error).lower()
    for lesson in lessons() if not error.overflow else ():
        if not lesson.fits(sender, error, text):
            continue
        if lesson.change:
            if not _CHANGES[lesson.change](sender, request, error):
                continue
        else:
            changed = sender.quirks.replace(**lesson.quirks)
            if changed == sender.quirks:
                continue
            sender.quirks = changed
            sender.learnt.add(lesson.field)
        if lesson.note:
            sender.notes.append(lesson.note.format(model=sender.model))
        return True
    return False


def _schema(sender: Sender, request: Request, error: ProviderError) -> bool:
    if request.schema is None or (request.tools and sender.quirks.structured != "always"):
        return False
    known, sender.quirks = sender.quirks.structured, sender.quirks.replace(structured="never")
    return known != "never"


def _effort(sender: Sender, request: Request, error: ProviderError) -> bool:
    if sender.asked is None or not sender.asked.refused(str(error).lower()):
        return False
    sender.notes += sender.asked.notes()
    return True


def _silence(sender: Sender, request: Request, error: ProviderError) -> bool:
    """Send the effort "none" with tools, unless the server refuses that too."""
    effort = sender.quirks.effort
    wanted = effort == "" and all(words in str(error).lower() for words in ("tools", "none"))
    if not wanted and effort != "none":
        return False
    sender.quirks = sender.quirks.replace(effort="none" if wanted else "never")
    return True


def _pictures(sender: Sender, request: Request, error: ProviderError) -> bool:
    if not sender.quirks.images or not any("images" in message for message in request.messages):
        return False
    from codelet.providers.content import picture_forms

    which = picture_forms.refused_pictures(error, request, sender.refused_images)
    if which == "no":
        return False
    sender.quirks = sender.quirks.replace(images=which != "all")
    sender.notes.append(picture_forms.note(sender.model, error, which))
    return True


_CHANGES: dict[str, Callable[[Sender, Request, ProviderError], bool]] = {
    "schema": _schema,
    "effort": _effort,
    "silence": _silence,
    "pictures": _pictures,
}
