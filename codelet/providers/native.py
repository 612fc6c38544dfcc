"""The native wires' common part: one connection, retries, each message encoded once."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from itertools import repeat
from operator import contains
from typing import TYPE_CHECKING, Any, ClassVar

from codelet.errors import ProviderError
from codelet.messages import Message
from codelet.providers.catalog import table
from codelet.providers.endpoint import Endpoint, quirks_of
from codelet.providers.http import HttpClient
from codelet.providers.prefix import PrefixCache, Returned, cache_places
from codelet.providers.protocol import (
    LONGEST_ORIGIN,
    Chunk,
    FinishChunk,
    OpenedChunk,
    ProviderOptions,
    Request,
    UsageChunk,
    with_retries,
)
from codelet.providers.quirks import SEPARATOR, EffortField, Quirks, joint_of, prompt_last, stand_in
from codelet.system.text import valid_unicode

if TYPE_CHECKING:
    from codelet.providers.answer import Events
    from codelet.providers.asking import ServerFacts
    from codelet.providers.content.picture_forms import RefusedPictures
    from codelet.providers.content.structured import AnswerField
    from codelet.providers.effort import AskedEffort


def compact_json(value: object) -> bytes:
    """Compact UTF-8 JSON; lone surrogates, which a model's JSON may spell, are replaced."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return valid_unicode(text).encode()


def has_pictures(messages: Sequence[Message]) -> bool:
    """Return whether the list holds images; it may be long, so no Python code runs for each message."""
    return any(map(contains, messages, repeat("images")))


class NativeProvider(ABC):
    """A model at a server over HTTP. A wire defines `body`, `_path`, `_encode` and `_chunks`.

    `decoder` is the module that reads its answers, `answer_form` the field of the final answer's schema, `api` its name
    in the table of lessons. `checks_prefix`: the server refuses reasoning with a changed prefix instead of ignoring it.
    """

    decoder: ClassVar[str]
    answer_form: ClassVar[AnswerField]
    checks_prefix: ClassVar[bool] = True
    over_http: ClassVar[bool] = True
    api: ClassVar[str]

    def __init__(self, model: str, endpoint: Endpoint, options: ProviderOptions, *, origin: str) -> None:
        self.model = model
        self.name = endpoint.name
        self.origin = origin[:LONGEST_ORIGIN]
        self.local = endpoint.local
        self.effort = options.effort
        self._endpoint = endpoint
        self._options = options
        if self.over_http:
            self._http = HttpClient(endpoint.base, options.deadlines, endpoint.check, shows=options.debug_requests)
        self.quirks = self._first_quirks()
        self.notes: list[str] = []
        self.learnt: set[str] = set()
        self.asked: AskedEffort | None = None
        self.refused_pictures: RefusedPictures | None = None
        self._other_base: str | None = None
        self._encode_anew()

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """The chunks of one answer; see `Provider.stream`."""
        body, digest = self.body(self._without_refused(request)), self._cache.seal()

        def adapted(error: ProviderError) -> bool:
            nonlocal body, digest
            from codelet.providers.learning import learn

            if not learn(self, error, request):
                return False
            self._encode_anew()
            body, digest = self.body(self._without_refused(request)), self._cache.seal()
            return True

        attempt, retries = lambda: self._attempt(body, digest), self._options.retries
        return with_retries(attempt, retries, adapted, self.notes, unseen=request.unseen)

    def _first_quirks(self) -> Quirks:
        """The quirks known before the first request."""
        return quirks_of(self.model, self._endpoint.base, self._options.vendors)

    @property
    def prefix_bound(self) -> bool:
        return self.quirks.prefix_bound

    @property
    def drops_thinking(self) -> bool:
        return self.quirks.drops_thinking

    @property
    def _returned(self) -> Returned:
        """The reasoning that goes back; all of it if the server requires some on every call."""
        if not self.prefix_bound or not self.checks_prefix:
            return "all"
        if self.drops_thinking:
            return "none"
        return "all" if self.quirks.reasoning else "valid"

    def _encode_anew(self) -> None:
        """Start a new cache: messages are encoded in another way from now on."""
        self._cache = PrefixCache(self._encode, self._returned)

    def drop_thinking(self) -> None:
        """Leave earlier reasoning out from now on: the server has refused it for its prefix."""
        self.quirks = self.quirks.replace(prefix_bound=True, drops_thinking=True)
        self._encode_anew()

    def share_cache(self, key: str, end: str) -> None:
        """Share one cache with other conversations of this key, if the wire has such keys.

        Their common part of a prompt ends with the text `end`, for wires that mark it.
        """
        return

    async def warm(self) -> None:
        """Start opening the connection."""
        self._http.warm()

    async def close(self) -> None:
        """Close the connection."""
        await self._http.close()

    async def ask(self) -> ServerFacts | None:
        """The server's report on the model; nothing if it does not answer in time."""
        from codelet.providers.asking import ask

        name = self._endpoint.model_name(self.model)
        path = self._path()
        base = self._endpoint.base + ("/v1" if path.startswith("/v1/") else "")
        report = await ask(base, self._headers(), name, local=self.local)
        if report.images is not None and report.images != self.quirks.images:
            self.quirks = self.quirks.replace(images=report.images)
            self._encode_anew()
        return report

    @abstractmethod
    def body(self, request: Request) -> bytes:
        """The request's body: the constant part first, then the messages, then the options."""

    @abstractmethod
    def _path(self) -> str:
        """The path after the endpoint's base."""

    def _headers(self) -> dict[str, str]:
        """The wire's own headers, including the key's."""
        return {"authorization": f"Bearer {self._endpoint.key}"} if self._endpoint.key else {}

    @abstractmethod
    def _encode(self, message: Message, state: str) -> tuple[bytes, str]:
        """One message's bytes; see `PrefixCache`."""

    @abstractmethod
    def _chunks(self, events: Events) -> AsyncGenerator[Chunk, None]:
        """The chunks of an answer's events, the finish marker last."""

    def _without_refused(self, request: Request) -> Request:
        refused = self.refused_pictures
        return request if refused is None else request.replace(messages=refused.without(request.messages))

    @property
    def _at_home(self) -> bool:
        """Return whether the vendor's own address is used."""
        return self._endpoint.base == self._endpoint.vendor.base

    def _answer_fields(self, request: Request) -> dict[str, Any]:
        """The fields for the final answer's form."""
        if request.schema is None:
            return {}
        from codelet.providers.content.structured import answer_fields  # only with a schema

        return answer_fields(self.answer_form, request.schema, self.quirks.structured, tools=bool(request.tools))

    def _effort_fields(self, max_output: int = 0) -> dict[str, Any]:
        """The fields for the effort; a difference from the user's becomes a note."""
        if self.asked is None:
            return {}
        self.notes += self.asked.notes()
        return self.asked.fields(max_output)

    def _load_decoder(self) -> None:
        """Import what reads answers, while the server thinks."""
        from importlib import import_module

        for name in ("answer", "failure", self.decoder):
            import_module(f"codelet.providers.{name}")

    async def _attempt(self, body: bytes, digest: Callable[[], str]) -> AsyncGenerator[Chunk, None]:
        async with self._http.post(self._path(), self._headers(), body, self._load_decoder) as response:
            from codelet.providers.answer import ServerSentEvents
            from codelet.providers.failure import http_failure, without_key

            if response.status != 200:
                raise http_failure(
                    response.status,
                    response.headers,
                    await response.text(),
                    place=self._endpoint.name,
                    key_name=self._endpoint.key_name,
                    key=self._endpoint.key,
                    other_base=self._other_base,
                    proxy=response.proxy,
                )
            if "text/html" in response.headers.get("content-type", ""):
                way = f", through the proxy {response.proxy}," if response.proxy else ""
                raise ProviderError(f"{self._http.place}{way} answered with a web page; check --api-base")
            try:
                async with aclosing(self._chunks(ServerSentEvents(response.body()))) as chunks:
                    async for chunk in chunks:
                        if isinstance(chunk, OpenedChunk):
                            response.opened()
                            continue
                        if not isinstance(chunk, UsageChunk):
                            response.heard()
                        yield self._with_digest(chunk, digest)
            except ProviderError as error:
                error.args = (without_key(str(error), self._endpoint.key),)
                raise

    def _with_digest(self, chunk: Chunk, digest: Callable[[], str]) -> Chunk:
        """The chunk; a finish marker gets the request's digest if the server checks prefixes."""
        bound = isinstance(chunk, FinishChunk) and self.prefix_bound and self.checks_prefix
        return chunk.replace(bound_to=digest()) if bound else chunk


_OPEN, _CLOSING = ("user", "tool"), b'"}'
_TEXT_END, _EMPTY_END = b'"}]}', b'"text":""}]}'
_MOST_MARKS = 4
_IN_PARTS = "+"
"""After a role: the message's content is a list whose last part is its text."""


class OpenAIWire(NativeProvider):
    """The common part of OpenAI's two wires: quirks, cache marks, and alternating roles.

    A wire defines `_items` too. With alternating roles, a user's or tool's message stays open, its text last, so that
    text can be appended. `_lead` precedes the first message; `_effort_field` is where an effort goes, unless the vendor
    decides.
    """

    _lead: ClassVar[bytes] = b""
    _text_type: ClassVar[str] = "text"
    _cache_mark: ClassVar[dict[str, Any]]
    _effort_field: ClassVar[EffortField | None] = None

    def __init__(self, model: str, endpoint: Endpoint, options: ProviderOptions, *, origin: str) -> None:
        super().__init__(model, endpoint, options, origin=origin)
        if self.quirks.structured == "always" and not self._at_home:
            self.quirks = self.quirks.replace(structured="alone")
        self._parts = False
        self._last_mark = -1
        if endpoint.base.count("/") == 2:  # most servers have a path, /v1, which is easily forgotten
            self._other_base = f"{endpoint.base}/v1"
        elif table(model.partition("/")[0]).get("converse"):
            self._other_base = "Converse: --transport litellm"
        if options.effort is not None:
            from codelet.providers.effort import AskedEffort, chat_words  # only with an effort

            field = self._effort_field or self.quirks.effort_field
            self.asked = AskedEffort(options.effort, model, field, chat_words(model, endpoint.vendor.prefix))

    @abstractmethod
    def _items(self, message: Message) -> list[dict[str, Any]]:
        """A message in the wire's form; empty if the server takes none for it."""

    @abstractmethod
    def _pictures(self, message: Message) -> list[dict[str, Any]]:
        """The images of a message in the wire's form."""

    def _in_parts(self, message: Message) -> bool:
        """Return whether the content is a list: images need one, and so does text that they may follow."""
        return "images" in message or (self._parts and message["role"] == "user")

    def _look(self, messages: Sequence[Message]) -> None:
        """With alternating roles, make all user messages lists from the first image on: one may be appended to any."""
        if not self._parts and self.quirks.alternating and has_pictures(messages):
            self._parts = True
            self._encode_anew()

    def _encode(self, message: Message, before: str) -> tuple[bytes, str]:
        """A message's bytes after a role; with alternating roles, including the end of the message before."""
        if "images" in message and not self.quirks.images:
            from codelet.providers.content.picture_forms import unseen

            message = unseen(message)
        joint = joint_of(message, before.removesuffix(_IN_PARTS)) if self.quirks.alternating else "apart"
        if joint == "joined":
            return self._joined(message), before
        missing = stand_in(joint)
        items = [*(self._items(missing) if missing else ()), *self._items(message)]
        if not items:
            return b"", before
        start = self._closing(before) + (b"," if before else self._lead)
        role: str = message["role"] + (_IN_PARTS if self._in_parts(message) else "")
        fragment = start + b",".join(map(compact_json, items))
        return fragment.removesuffix(self._closing(role)), role

    def _joined(self, message: Message) -> bytes:
        """The bytes that continue the open text of the message before, or follow it with images."""
        text = compact_json(f"{SEPARATOR}{message['content']}")[1:-1]
        if "images" not in message:
            return text
        parts = b",".join(map(compact_json, [*self._pictures(message), {"type": self._text_type, "text": ""}]))
        return _CLOSING + b"," + parts.removesuffix(_CLOSING) + text

    def _ordered(self, request: Request) -> Sequence[Message]:
        """The messages in the order that the server reads best."""
        return prompt_last(request.messages, request.tail) if self.local else request.messages

    def _mark(self, fragments: list[bytes], stable: Sequence[Message], *, has_opening: bool) -> None:
        """Set the cache marks in this request's copy of the fragments; empty text cannot carry one."""
        places = cache_places(stable, self._last_mark, _MOST_MARKS - has_opening)
        mark = b"," + compact_json(self._cache_mark)[1:] + b"]}"
        for place in places:
            fragment = fragments[place]
            if fragment.endswith(_TEXT_END) and not fragment.endswith(_EMPTY_END):
                fragments[place] = fragment.removesuffix(b"}]}") + mark
        self._last_mark = max(places, default=-1)

    def _closing(self, role: str) -> bytes:
        """The bytes that close the last message so far, of that role."""
        if not self.quirks.alternating or role.removesuffix(_IN_PARTS) not in _OPEN:
            return b""
        return _CLOSING + b"]}" if role.endswith(_IN_PARTS) else _CLOSING
