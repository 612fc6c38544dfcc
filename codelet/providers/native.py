"""The native wires' common part: one connection, retries, each message encoded once.

Some models bind an answer's reasoning to everything before it (system prompt, tools, messages, earlier reasoning) and
refuse a request with another prefix. Sources: Anthropic, "Preserved thinking" and "Prefix checks". The rule applies to
the bytes (`PrefixCache`): an answer carries the digest of its request, and its reasoning is left out if the prefix has
another digest, and so is later reasoning that is bound to it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from operator import is_
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from codelet import prompt
from codelet.errors import ProviderError
from codelet.messages import (
    Message,
    Picture,
    assistant,
    has_reasoning,
    images_of,
    kind_of,
    user,
    without_reasoning,
)
from codelet.providers import protocol
from codelet.providers.catalog import EffortField, Quirks, Wire, table, table_names
from codelet.providers.endpoint import Endpoint, quirks_of
from codelet.providers.http import HttpClient
from codelet.system.text import valid_unicode

if TYPE_CHECKING:
    from codelet.providers.effort import AskedEffort, Form
    from codelet.providers.protocol import ServerFacts

_REFUSALS = "refusals.toml"

Returned = Literal["all", "valid", "none"]
"""The reasoning that goes back: all, what is valid after this prefix, or none."""


class PrefixCache:
    """The encoded messages of a list, reused as far as it holds the same objects: a message is never changed.

    With `bound`, `digest` is that of everything up to the last message.
    """

    def __init__(self, encode: Callable[[Message], bytes], returned: Returned, *, bound: bool) -> None:
        self._encode = encode
        self._returned = returned
        self._bound = bound
        self._messages: list[Message] = []
        self._fragments: list[bytes] = []
        self._digests = [""]

    def fragments(self, messages: Sequence[Message], head: bytes) -> list[bytes]:
        """One fragment for each message, in order; only new messages are encoded.

        `head` precedes the messages and is bound like them: tools and system prompt.
        """
        if self._bound and (start := _digest("", head)) != self._digests[0]:
            self._messages.clear()
            self._digests = [start]
        same = list(map(is_, self._messages, messages))
        keep = same.index(False) if False in same else len(same)
        del self._messages[keep:], self._fragments[keep:], self._digests[keep + 1 :]
        for message in messages[keep:]:
            thinks = self._returned != "all" and message["role"] == "assistant" and has_reasoning(message)
            if thinks and not (self._returned == "valid" and message.get("bound_to") == self.digest):
                fragment = self._encode(without_reasoning(message))
            else:
                fragment = self._encode(message)
            self._messages.append(message)
            self._fragments.append(fragment)
            if self._bound:
                self._digests.append(_digest(self.digest, fragment))
        return list(self._fragments)

    @property
    def digest(self) -> str:
        return self._digests[-1]


def _digest(before: str, data: bytes) -> str:
    from hashlib import sha256  # for models that bind their reasoning only

    return sha256(before.encode() + data).hexdigest()[:32]


def compact_json(value: object) -> bytes:
    """Compact UTF-8 JSON; lone surrogates, which a model's JSON may spell, are replaced."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return valid_unicode(text).encode()


def address_of(picture: Picture) -> str:
    """An image as an address, which OpenAI's wires take."""
    return f"data:{picture['media_type']};base64,{picture['data']}"


def _is_strict(schema: object) -> bool:
    """Return whether OpenAI's strict mode takes a schema: objects require all their properties and allow no others."""
    if isinstance(schema, list):
        return all(map(_is_strict, schema))
    if not isinstance(schema, Mapping):
        return True
    properties, required = schema.get("properties"), schema.get("required")
    if schema.get("type") == "object" or "properties" in schema:
        if not isinstance(properties, Mapping) or not isinstance(required, list):
            return False
        if set(map(str, required)) != set(properties) or schema.get("additionalProperties") is not False:
            return False
    return all(map(_is_strict, schema.values()))


class NativeProvider(ABC):
    """A model at a server over HTTP. A wire defines `path`, `body`, `_encode` and `decoder`.

    `path` follows the endpoint's base. `api` is the wire's name in the table of lessons. `checks_prefix`: the server
    refuses reasoning with a changed prefix instead of ignoring it.
    """

    path: str
    api: ClassVar[Literal["chat", "responses", "messages"]]
    checks_prefix: ClassVar[bool] = True
    over_http: ClassVar[bool] = True
    decoder: Callable[[], protocol.Decoder]

    def __init__(self, model: str, endpoint: Endpoint, options: protocol.ProviderOptions, *, origin: str) -> None:
        self.model = model
        self.name = endpoint.name
        self.origin = origin[: protocol.LONGEST_ORIGIN]
        self.local = endpoint.local
        self.effort = options.effort
        self._endpoint = endpoint
        self._options = options
        if self.over_http:
            self._http = HttpClient(endpoint.base, options.deadlines, endpoint.check, shows=options.debug_requests)
        self.quirks = self._first_quirks()
        if self.quirks.structured == "always" and endpoint.base != endpoint.vendor.base:
            self.quirks = self.quirks.replace(structured="alone")
        self.notes: list[str] = []
        self.learnt: set[str] = set()
        self.asked: AskedEffort | None = None
        self.refused_images: set[str] = set()
        self._other_base: str | None = None
        self._encode_anew()

    def stream(self, request: protocol.Request) -> AsyncGenerator[protocol.Chunk, None]:
        sent = self.body(request), self._cache.digest

        def adapted(error: ProviderError) -> bool:
            nonlocal sent
            if not self.learn(error, request):
                return False
            self._encode_anew()
            sent = self.body(request), self._cache.digest
            return True

        retries, unseen = self._options.retries, request.unseen
        return protocol.with_retries(lambda: self._attempt(*sent), retries, adapted, self.notes, unseen=unseen)

    def learn(self, error: ProviderError, request: protocol.Request) -> bool:
        """Return whether later requests have another form because of this refusal, by the lessons in the file."""
        lessons = [name for name in table_names(_REFUSALS) if name.startswith("lesson.") and name not in self.learnt]
        for name in lessons if not error.overflow else ():
            lesson = table(name, _REFUSALS)
            if not self._is_about(lesson, error) or not self._changes(lesson, error, request):
                continue
            if "quirks" in lesson:
                self.learnt.add(name)
            if "note" in lesson:
                self.notes.append(lesson["note"].format(model=self.model))
            return True
        return False

    def _is_about(self, lesson: Mapping[str, Any], error: ProviderError) -> bool:
        if self.api not in lesson.get("apis", (self.api,)):
            return False
        also, text = lesson.get("also", ""), str(error).lower()
        if also == "reasoning" and "effort" in text:
            return False  # the word is part of another field's name
        words = lesson["words"] if "words" in lesson else table(lesson["words_of"], _REFUSALS)
        of_status = (error.status or 0) in lesson.get("statuses", (400, 422))
        return of_status and also in text and any(each in text for each in words)

    def _changes(self, lesson: Mapping[str, Any], error: ProviderError, request: protocol.Request) -> bool:
        """Apply a lesson; return whether anything has changed."""
        quirks, text = self.quirks, str(error).lower()
        match lesson.get("change"):
            case "schema" if request.schema is not None and (not request.tools or quirks.structured == "always"):
                self.quirks = quirks.replace(structured="never")
            case "effort" if self.asked is not None and self.asked.refused(text):
                self.notes += self.asked.notes()
                return True
            case "silence" if quirks.effort == "" and "tools" in text and "none" in text:
                self.quirks = quirks.replace(effort="none")
            case "silence" if quirks.effort == "none":  # the server refuses that too
                self.quirks = quirks.replace(effort="never")
            case "pictures" if quirks.images and any("images" in message for message in request.messages):
                from codelet.providers.content.picture_forms import refused_pictures

                if (found := refused_pictures(self.model, error, request, self.refused_images)) is None:
                    return False
                self.quirks = quirks.replace(images=found[0])
                self.notes.append(found[1])
                return True
            case None:
                self.quirks = quirks.replace(**dict(lesson["quirks"]))
        return self.quirks != quirks

    def _first_quirks(self) -> Quirks:
        return quirks_of(self.model, self._endpoint.base, self._options.vendors)

    @property
    def prefix_bound(self) -> bool:
        return self.quirks.prefix_bound

    @property
    def drops_thinking(self) -> bool:
        return self.quirks.drops_thinking

    def _encode_anew(self) -> None:
        """Encode messages in another way from now on."""
        bound = self.prefix_bound and self.checks_prefix
        returned: Returned = "all"
        if bound and not self.quirks.reasoning:  # else the server requires some on every call
            returned = "valid"
        if bound and self.drops_thinking:
            returned = "none"
        self._cache = PrefixCache(self._encode, returned, bound=bound)

    def drop_thinking(self) -> None:
        """Leave earlier reasoning out from now on: the server has refused it for its prefix."""
        self.quirks = self.quirks.replace(prefix_bound=True, drops_thinking=True)
        self._encode_anew()

    def share_cache(self, key: str, end: str) -> None:
        """Share the cache with other conversations of this key, whose common part of a prompt ends with `end`."""
        return

    async def warm(self) -> None:
        self._http.warm()

    async def close(self) -> None:
        await self._http.close()

    async def ask(self) -> ServerFacts | None:
        from codelet.providers.asking import ask

        name = self._endpoint.model_name(self.model)
        base = self._endpoint.base + ("/v1" if self.path.startswith("/v1/") else "")
        report = await ask(base, self._headers(), name, local=self.local)
        if report.images is not None and report.images != self.quirks.images:
            self.quirks = self.quirks.replace(images=report.images)
            self._encode_anew()
        return report

    @abstractmethod
    def body(self, request: protocol.Request) -> bytes:
        """The request's body: the constant part first, then the messages, then the options."""

    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._endpoint.key}"} if self._endpoint.key else {}

    @abstractmethod
    def _encode(self, message: Message) -> bytes:
        """One message's bytes; empty if the server takes none for it."""

    def _without_refused(self, message: Message) -> Message:
        """The message without images that the server has refused."""
        if "images" not in message or (self.quirks.images and not self.refused_images):
            return message
        from codelet.providers.content.picture_forms import without_refused

        return without_refused(message, sees=self.quirks.images, refused=self.refused_images)

    def _answer_fields(self, request: protocol.Request) -> dict[str, Any]:
        """The fields with the schema of the final answer, in all requests or only in those without tools.

        Sources: OpenAI's and Anthropic's references for structured outputs: there an answer may still be tool calls.
        Elsewhere schema and tools exclude each other: local servers hold every answer to the grammar, Groq and Gemini
        refuse such requests. Then the system prompt has the schema as text.
        """
        use, schema = self.quirks.structured, request.schema
        if schema is None or use == "never" or (request.tools and use != "always"):
            return {}
        if self.api == "messages":
            return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
        named = {"name": "answer", "schema": schema, "strict": _is_strict(schema)}
        if self.api == "responses":
            return {"text": {"format": {"type": "json_schema", **named}}}
        return {"response_format": {"type": "json_schema", "json_schema": named}}

    def _ask_effort(self, form: Form) -> None:
        """Send the user's effort in this form from now on."""
        from codelet.providers.effort import AskedEffort, taken_words  # only with an effort

        assert self.effort is not None
        wire: Wire = "anthropic" if form == "adaptive" else "openai"
        words = taken_words(self.model, vendor=self._endpoint.vendor.replace(wire=wire))
        self.asked = AskedEffort(self.effort, self.model, form, words)

    def _effort_fields(self) -> dict[str, Any]:
        """The fields for the effort; a difference from the user's becomes a note."""
        if self.asked is None:
            return {}
        self.notes += self.asked.notes()
        return self.asked.fields()

    async def _attempt(self, body: bytes, digest: str) -> AsyncGenerator[protocol.Chunk, None]:
        async with self._http.post(self.path, self._headers(), body) as response:
            from codelet.providers.answer import ServerEvents, chunks_of
            from codelet.providers.failure import http_failure, without_key

            if response.status != 200:
                raise http_failure(
                    response.status,
                    response.headers,
                    (await response.read()).decode("utf-8", "replace"),
                    place=self._endpoint.name,
                    key_name=self._endpoint.key_name,
                    key=self._endpoint.key,
                    other_base=self._other_base,
                    proxy=response.connection.proxy,
                )
            if "text/html" in response.headers.get("content-type", ""):
                proxy = response.connection.proxy
                way = f", through the proxy {proxy}," if proxy else ""
                raise ProviderError(f"{self._http.place}{way} answered with a web page; check --api-base")
            try:
                async with aclosing(chunks_of(self.decoder(), ServerEvents(response.body()))) as chunks:
                    async for chunk in chunks:
                        if isinstance(chunk, protocol.BlockChunk) and chunk.kind == "silent":
                            response.opened()
                            continue
                        if not isinstance(chunk, protocol.UsageChunk):
                            response.heard()
                        yield chunk.replace(bound_to=digest) if isinstance(chunk, protocol.FinishChunk) else chunk
            except ProviderError as error:
                error.args = (without_key(str(error), self._endpoint.key),)
                raise


_SHORT_PROMPT = 4_000
"""Characters of a prompt that a local server can read twice."""


class Turns:
    """Makes user and assistant take turns. A longer list gives the same objects again, which stay encoded.

    Many chat templates refuse two user messages in a row, and a user message after a tool's. Reminders are separate
    messages, and a stopped turn ends with results: so user messages in a row become one, reminders become part of the
    result before them, and a short message fills a missing turn.
    """

    def __init__(self) -> None:
        self._no_prompt, self._no_answer = user(prompt.NO_PROMPT), assistant(prompt.NO_ANSWER)
        self._joined: dict[tuple[int, ...], tuple[list[Message], Message]] = {}

    def of(self, messages: Sequence[Message]) -> list[Message]:
        runs: list[list[Message]] = []
        before = ""
        for message in messages:
            role = message["role"]
            if role == "user" and (before == "user" or (before == "tool" and kind_of(message) == "reminder")):
                runs[-1].append(message)
                continue
            if role == "user" and before == "tool":
                runs.append([self._no_answer])
            elif role == "assistant" and before in ("", "assistant"):
                runs.append([self._no_prompt])
            runs.append([message])
            before = role
        known, self._joined = self._joined, {}
        for run in runs:
            if len(run) > 1:
                key = tuple(map(id, run))
                self._joined[key] = known.get(key) or (run, _joined(run))
        return [run[0] if len(run) == 1 else self._joined[tuple(map(id, run))][1] for run in runs]


def _joined(run: Sequence[Message]) -> Message:
    joined = run[0].copy()
    joined["content"] = "\n\n".join(message["content"] or "" for message in run)
    if images := [image for message in run for image in images_of(message)]:
        joined["images"] = images
    return joined


def prompt_last(messages: Sequence[Message], tail: int) -> Sequence[Message]:
    """The messages with the `tail` of volatile reminders before the prompt, for a local server.

    Small models answer what they read last. The next request has the reminders elsewhere, so the prompt is not cached:
    a long one stays in place.
    """
    last = len(messages) - tail - 1
    if tail == 0 or last < 0 or kind_of(messages[last]) != "prompt":
        return messages
    if len(messages[last]["content"] or "") > _SHORT_PROMPT:
        return messages
    return [*messages[:last], *messages[last + 1 :], messages[last]]


_EMPTY_END = b'"text":""}]}'
_MOST_MARKS = 4


class OpenAIWire(NativeProvider):
    """The common part of OpenAI's two wires: quirks, cache marks, and alternating roles.

    A wire defines `_items` too. `_effort_field` is where an effort goes, unless the vendor decides.
    """

    _cache_mark: ClassVar[dict[str, Any]]
    _effort_field: ClassVar[EffortField | None] = None

    def __init__(self, model: str, endpoint: Endpoint, options: protocol.ProviderOptions, *, origin: str) -> None:
        super().__init__(model, endpoint, options, origin=origin)
        self._last_mark = -1
        self._turns = Turns()
        if endpoint.base.count("/") == 2:  # most servers have a path, /v1, which is easily forgotten
            self._other_base = f"{endpoint.base}/v1"
        if options.effort is not None:
            self._ask_effort(self._effort_field or self.quirks.effort_field)

    @abstractmethod
    def _items(self, message: Message) -> list[dict[str, Any]]:
        """A message in the wire's form; empty if the server takes none for it."""

    def _encode(self, message: Message) -> bytes:
        return b",".join(map(compact_json, self._items(self._without_refused(message))))

    def _listed(self, request: protocol.Request, opening: bytes, head: bytes, *, has_mark: bool) -> bytes:
        """The encoded `opening` and messages, in the order that the server needs, with cache marks."""
        marks = self.quirks.cache_marks
        messages = self._spread(request.messages if marks else self._ordered(request))
        if self.quirks.alternating:
            messages = self._turns.of(messages)
        fragments = self._cache.fragments(messages, head)
        if marks:
            self._mark(fragments, messages[: len(messages) - request.tail], _MOST_MARKS - has_mark)
        return b",".join(filter(None, [opening, *fragments]))

    def _ordered(self, request: protocol.Request) -> Sequence[Message]:
        return prompt_last(request.messages, request.tail) if self.local else request.messages

    def _spread(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages; on a wire whose results take no images, those follow in user messages."""
        return messages

    def _mark(self, fragments: list[bytes], stable: Sequence[Message], most: int) -> None:
        """Set the cache marks in this request's copy of the fragments; empty text cannot carry one.

        A server reads its cache only at the request's marks. They are at the ends of the last requests, which are
        prompts and the last results of steps, and at the newest mark of the request before.
        """
        places = list[int]()
        for at in reversed(range(len(stable))):
            ends = not places or stable[at + 1]["role"] == "assistant"
            if len(places) < most and ends and stable[at]["role"] in ("user", "tool"):
                places.append(at)
        last = self._last_mark
        if 0 <= last < len(stable) and last not in places and stable[last]["role"] in ("user", "tool"):
            places = [*places[: most - 1], last]
        mark = b"," + compact_json(self._cache_mark)[1:] + b"]}"
        for place in places:
            fragment = fragments[place]
            if fragment.endswith(b'"}]}') and not fragment.endswith(_EMPTY_END):
                fragments[place] = fragment.removesuffix(b"}]}") + mark
        self._last_mark = max(places, default=-1)
