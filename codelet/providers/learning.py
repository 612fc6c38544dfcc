"""Learns from refusals, by the table of lessons in `refusals.toml`. Imported with the first refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from codelet.errors import ProviderError
from codelet.providers.catalog import table, table_names
from codelet.providers.protocol import Request
from codelet.providers.quirks import Quirks

if TYPE_CHECKING:
    from codelet.providers.effort import AskedEffort

_FILE = "refusals.toml"


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


def learn(sender: Sender, error: ProviderError, request: Request) -> bool:
    """Return whether later requests have another form because of this refusal."""
    text = str(error).lower()
    lessons = [name for name in table_names(_FILE) if name.startswith("lesson.") and name not in sender.learnt]
    for name in lessons if not error.overflow else ():
        lesson = table(name, _FILE)
        if not _fits(lesson, sender.api, error.status or 0, text):
            continue
        if "change" in lesson:
            if not _changes(lesson["change"], sender, request, error):
                continue
        else:
            changed = sender.quirks.replace(**dict(lesson["quirks"]))
            if changed == sender.quirks:
                continue
            sender.quirks = changed
            sender.learnt.add(name)
        if "note" in lesson:
            sender.notes.append(lesson["note"].format(model=sender.model))
        return True
    return False


def _fits(lesson: Mapping[str, Any], api: str, status: int, text: str) -> bool:
    """Return whether a refusal is about the lesson's field."""
    if api not in lesson.get("apis", (api,)) or status not in lesson.get("statuses", (400, 422)):
        return False
    also = lesson.get("also", "")
    if also == "reasoning" and "effort" in text:
        return False  # the word is part of another field's name
    words = lesson["words"] if "words" in lesson else table(lesson["words_of"], _FILE)
    return also in text and any(each in text for each in words)


def _changes(what: str, sender: Sender, request: Request, error: ProviderError) -> bool:
    """Apply a lesson that quirks cannot say; return whether anything has changed."""
    quirks, text = sender.quirks, str(error).lower()
    match what:
        case "schema":
            if request.schema is None or (request.tools and quirks.structured != "always"):
                return False
            sender.quirks = quirks.replace(structured="never")
        case "effort":
            if sender.asked is None or not sender.asked.refused(text):
                return False
            sender.notes += sender.asked.notes()
        case "silence":  # the effort "none" with tools, unless the server refuses that too
            wanted = quirks.effort == "" and "tools" in text and "none" in text
            if not wanted and quirks.effort != "none":
                return False
            sender.quirks = quirks.replace(effort="none" if wanted else "never")
        case "pictures":
            if not quirks.images or not any("images" in message for message in request.messages):
                return False
            from codelet.providers.content import picture_forms

            which = picture_forms.refused_pictures(error, request, sender.refused_images)
            if which == "no":
                return False
            sender.quirks = quirks.replace(images=which != "all")
            sender.notes.append(picture_forms.note(sender.model, error, which))
            return True
    return what == "effort" or sender.quirks != quirks
