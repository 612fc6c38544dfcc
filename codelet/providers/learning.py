"""What a server refuses is learned here, once, from one table. Imported with the first refusal.

A row has a field of a request, the words of a refusal, what is sent instead, and a sentence for the user. Sources: the
vendors' references and the words of their servers, as users met them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from codelet.errors import ProviderError
from codelet.providers.catalog import table
from codelet.providers.protocol import Request
from codelet.providers.quirks import Quirks
from codelet.record import Record

if TYPE_CHECKING:
    from codelet.providers.content.picture_forms import RefusedPictures
    from codelet.providers.effort import AskedEffort


class Sender(Protocol):
    """What makes the requests to one model, and learns. `learnt` holds the names of the rows that it has taken."""

    model: str
    quirks: Quirks
    asked: AskedEffort | None
    notes: list[str]
    learnt: set[str]
    refused_pictures: RefusedPictures | None

    @property
    def api(self) -> str:
        """Return which API the requests are for: a row names those that have its field."""
        ...


_Change = Callable[[Sender, Request, ProviderError], bool]


class Lesson(Record, kw_only=True):
    """One row. A refusal has one of `words`, which `|` divides, and `also`.

    `quirks` is what the requests are like from then on; a row that changes none of them has nothing to teach. `change`
    does more, and returns whether it changed anything. `apis` names those that have the field.
    """

    field: str
    words: str
    also: str = ""
    quirks: Mapping[str, Any] = {}
    change: _Change | None = None
    note: str = ""
    apis: str = "chat responses messages"
    statuses: tuple[int | None, ...] = (400, 422)

    def fits(self, sender: Sender, error: ProviderError, said: str) -> bool:
        """Return whether a refusal is about this field, and has not been before."""
        if sender.api not in self.apis or error.status not in self.statuses or self.field in sender.learnt:
            return False
        if self.also == "reasoning" and "effort" in said:
            return False  # the word is part of the field's name
        return self.also in said and any(words in said for words in self.words.split("|"))


def learn(sender: Sender, error: ProviderError, request: Request) -> bool:
    """Return whether the requests are of another form from now on, because of what a server says of this one."""
    said = str(error).lower()
    for lesson in LESSONS if not error.overflow else ():
        if not lesson.fits(sender, error, said):
            continue
        if lesson.change is not None:
            if not lesson.change(sender, request, error):
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
    """Tools go with no effort at all, unless the server refuses that too."""
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

    refused = sender.refused_pictures = sender.refused_pictures or picture_forms.RefusedPictures()
    which = refused.take(error, request)
    if which == "no":
        return False
    sender.quirks = sender.quirks.replace(images=which != "all")
    sender.notes.append(picture_forms.note(sender.model, error, which))
    return True


_BINDING = "bound to a different conversation|block_binding|prefix_mismatch_behavior"
_DROPPED = (
    "The server refused earlier reasoning because the conversation before it has changed. "
    "From now on such reasoning is left out."
)
_SCHEMA = "{model} refused a request that holds the answer's schema: only the system prompt says it from now on"

LESSONS = (
    Lesson(
        field="the answer's schema",
        words="response_format|text.format|output_config.format|output_format|schema|structured output|json mode|"
        "mime type|grammar",
        change=_schema,
        note=_SCHEMA,
    ),
    Lesson(
        field="the effort that was asked for",
        words="effort|thinking|budget_tokens|reasoning|chat_template_kwargs|output_config",
        change=_effort,
    ),
    Lesson(
        field="roles",
        words="|".join(table("alternation", "refusals.toml")),
        quirks={"alternating": True, "cache_marks": False},
        statuses=(None, 400, 422, 500),  # chat templates fail with 500
    ),
    Lesson(
        field="cache marks",
        words="prompt_cache_breakpoint|prompt_cache_options|cache_control",
        quirks={"cache_marks": False},
    ),
    Lesson(field="no effort with tools", words="effort", change=_silence, apis="chat"),
    Lesson(field="signatures", words="missing", also="thought_signature", quirks={"signatures": True}, apis="chat"),
    Lesson(
        field="missing reasoning",
        words="must be passed back|missing|requires reasoning_content",
        also="reasoning",
        quirks={"reasoning": True},
        apis="chat",
    ),
    Lesson(
        field="reasoning",
        words="unsupported|not supported|unknown|unrecognized|unexpected|extra|not permitted|invalid",
        also="reasoning",
        quirks={"strict": True, "reasoning": False},
        apis="chat",
    ),
    Lesson(
        field="items of an answer",
        words="could not be verified|could not be decrypted|without its required|not persisted|input[",
        quirks={"strict": True},
        apis="responses",
    ),
    Lesson(field="prompt_cache_key", words="prompt_cache_key", quirks={"cache_key": False}),
    Lesson(
        field="include",
        words="include|encrypted content is not|encrypted_content",
        quirks={"encrypted_reasoning": False},
    ),
    Lesson(
        field="summaries of reasoning",
        words="summar|'reasoning|extra_body|thinking_config|include_thoughts",
        quirks={"summaries": False},
    ),
    Lesson(
        field="a prefix that changed",
        words=_BINDING,
        quirks={"prefix_bound": True, "drops_thinking": True},
        note=_DROPPED,
        statuses=(400,),
    ),
    Lesson(field="block_binding", words=_BINDING, quirks={"binding_option": False}, statuses=(400,)),
    Lesson(
        field="pictures",
        words="image|vision|multimodal|modalit",
        change=_pictures,
        statuses=(400, 404, 413, 415, 422, 500, 501),
    ),
)
