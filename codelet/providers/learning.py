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
    lessons = [name for name in table_names(_FILE) if name.startswith("lesson.") and name not in sender.learnt]
    for name in lessons if not error.overflow else ():
        lesson = table(name, _FILE)
        if not _fits(lesson, sender.api, error) or not _changes(lesson, sender, request, error):
            continue
        if "quirks" in lesson:
            sender.learnt.add(name)
        if "note" in lesson:
            sender.notes.append(lesson["note"].format(model=sender.model))
        return True
    return False


def _fits(lesson: Mapping[str, Any], api: str, error: ProviderError) -> bool:
    """Return whether a refusal is about the lesson's field."""
    if api not in lesson.get("apis", (api,)) or (error.status or 0) not in lesson.get("statuses", (400, 422)):
        return False
    also, text = lesson.get("also", ""), str(error).lower()
    if also == "reasoning" and "effort" in text:
        return False  # the word is part of another field's name
    words = lesson["words"] if "words" in lesson else table(lesson["words_of"], _FILE)
    return also in text and any(each in text for each in words)


def _changes(lesson: Mapping[str, Any], sender: Sender, request: Request, error: ProviderError) -> bool:
    """Apply a lesson; return whether anything has changed."""
    quirks, text = sender.quirks, str(error).lower()
    match lesson.get("change"):
        case "schema" if request.schema is not None and (not request.tools or quirks.structured == "always"):
            sender.quirks = quirks.replace(structured="never")
        case "effort" if sender.asked is not None and sender.asked.refused(text):
            sender.notes += sender.asked.notes()
            return True
        case "silence" if quirks.effort == "" and "tools" in text and "none" in text:
            sender.quirks = quirks.replace(effort="none")
        case "silence" if quirks.effort == "none":  # the server refuses that too
            sender.quirks = quirks.replace(effort="never")
        case "pictures" if quirks.images and any("images" in message for message in request.messages):
            from codelet.providers.content.picture_forms import refused_pictures

            found = refused_pictures(sender.model, error, request, sender.refused_images)
            if found is None:
                return False
            sender.quirks = quirks.replace(images=found[0])
            sender.notes.append(found[1])
            return True
        case None:
            sender.quirks = quirks.replace(**dict(lesson["quirks"]))
    return sender.quirks != quirks
