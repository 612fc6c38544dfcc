"""What the native wires share: one connection, retries, each message encoded once, an answer's status and type."""

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
from codelet.providers.endpoint import Endpoint, quirks_of
from codelet.providers.facts import model_facts
from codelet.providers.http import HttpClient
from codelet.providers.prefix import DROPPED, PrefixCache, Returned, names_binding
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
from codelet.providers.quirks import SEPARATOR, EffortField, joint_of, prompt_last, stand_in
from codelet.system.text import valid_unicode

if TYPE_CHECKING:
    from codelet.providers.answer import Events
    from codelet.providers.asking import ServerFacts
    from codelet.providers.content.picture_forms import RefusedPictures
    from codelet.providers.content.structured import AnswerField, AnswerFormat
    from codelet.providers.effort import AskedEffort
    from codelet.providers.quirks import Structured


def compact_json(value: Any) -> bytes:
    """Compact UTF-8 JSON; halves of surrogate pairs, which a model's JSON may spell, are replaced."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return valid_unicode(text).encode()


def has_pictures(messages: Sequence[Message]) -> bool:
    """Whether there are pictures in the list, which may be long: no code of ours runs for each message."""
    return any(map(contains, messages, repeat("images")))


class NativeProvider(ABC):
    """A model behind a server over HTTP. A wire defines `body`, `_path`, `_encode` and `_chunks`.

    `decoder` is the module of its own that reads the answer, `answer_form` where the final answer's schema goes.
    `checks_prefix`: the server refuses reasoning whose prefix has changed, instead of ignoring it.
    """

    decoder: ClassVar[str]
    answer_form: ClassVar[AnswerField]
    checks_prefix: ClassVar[bool] = True

    def __init__(self, model: str, endpoint: Endpoint, options: ProviderOptions, *, origin: str) -> None:
        self.model = model
        self.name = endpoint.name
        self.origin = origin[:LONGEST_ORIGIN]
        self.local = endpoint.local
        self.effort = options.effort
        self._endpoint = endpoint
        self._options = options
        self._http = HttpClient(endpoint.base, options.deadlines, endpoint.check, shows=options.debug_requests)
        self.prefix_bound = model_facts(model).prefix_bound
        self.drops_thinking = False
        self._encode_anew()
        self._other_base: str | None = None
        self._notes: list[str] = []
        self._asked: AskedEffort | None = None
        self._format: AnswerFormat | None = None
        self._sees = model_facts(model).images is not False
        self._refused: RefusedPictures | None = None

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """The chunks of one answer; see `Provider.stream`."""
        body, digest = self.body(self._without_refused(request)), self._cache.seal()

        def adapted(error: ProviderError) -> bool:
            nonlocal body, digest
            if not self._adapted(error) and not self._unbound(error) and not self._unseen(error, request):
                return False
            body, digest = self.body(self._without_refused(request)), self._cache.seal()
            return True

        attempt, retries = lambda: self._attempt(body, digest), self._options.retries
        return with_retries(attempt, retries, adapted, self._notes, unseen=request.unseen)

    @property
    def _returned(self) -> Returned:
        """Which reasoning goes back to the server."""
        if not self.prefix_bound or not self.checks_prefix:
            return "all"
        return "none" if self.drops_thinking else "valid"

    def _encode_anew(self) -> None:
        """Begin another cache: what was encoded is no longer how messages are sent."""
        self._cache = PrefixCache(self._encode, self._returned)

    def drop_thinking(self) -> None:
        """From now on let a changed prefix cost reasoning, not the request: the server has refused one for it."""
        self.prefix_bound = self.drops_thinking = True
        self._encode_anew()

    def _unbound(self, error: ProviderError) -> bool:
        """Whether the request is sent once more, because the server says that reasoning has another prefix."""
        if self.drops_thinking or not names_binding(error):
            return False
        self.drop_thinking()
        self._notes.append(DROPPED)
        return True

    def share_cache(self, key: str) -> None:
        """Use one cache with the other conversations that begin alike and have this key, if the wire has such keys."""
        return

    async def warm(self) -> None:
        """Start opening the connection."""
        self._http.warm()

    async def close(self) -> None:
        """Close the connection."""
        await self._http.close()

    async def ask(self) -> ServerFacts:
        """What the server itself says of the model; nothing where it says nothing in time."""
        from codelet.providers.asking import ask

        name = self._endpoint.model_name(self.model)
        path = self._path()
        base = self._endpoint.base + ("/v1" if path.startswith("/v1/") else "")
        said = await ask(base, self._headers(), name, local=self.local)
        if said.images is not None and said.images != self._sees:
            self._sees = said.images
            self._encode_anew()
        return said

    @abstractmethod
    def body(self, request: Request) -> bytes:
        """The request's body: what never changes comes first, then the messages, then the options."""

    @abstractmethod
    def _path(self) -> str:
        """The path behind the endpoint's base."""

    def _headers(self) -> dict[str, str]:
        """The wire's own headers, the key's among them."""
        return {"authorization": f"Bearer {self._endpoint.key}"} if self._endpoint.key else {}

    @abstractmethod
    def _encode(self, message: Message, state: str) -> tuple[bytes, str]:
        """One message's bytes; see `PrefixCache`."""

    @abstractmethod
    def _chunks(self, events: Events) -> AsyncGenerator[Chunk, None]:
        """The chunks of an answer's events, ended by the finish marker."""

    def _adapted(self, error: ProviderError) -> bool:
        """Whether the wire sends requests in another form from now on, for what the error says of this one."""
        if self._format is not None and self._format.refused(error):
            self._notes.append(self._format.note(self._endpoint.model_name(self.model)))
            return True
        return self._asked is not None and self._asked.refused(error)

    def _unseen(self, error: ProviderError, request: Request) -> bool:
        """Whether requests leave pictures out from now on, because the server takes none, or not these."""
        if not self._sees or not any("images" in message for message in request.messages):
            return False
        from codelet.providers.content import picture_forms  # only where there are some

        self._refused = self._refused or picture_forms.RefusedPictures()
        which = self._refused.take(error, request)
        if which == "no":
            return False
        if which == "all":
            self._sees = False
            self._encode_anew()
        self._notes.append(picture_forms.note(self._endpoint.model_name(self.model), error, which))
        return True

    def _without_refused(self, request: Request) -> Request:
        """The request without pictures that the server refused."""
        return request if self._refused is None else request.replace(messages=self._refused.without(request.messages))

    @property
    def _structured(self) -> Structured:
        """Which requests hold the schema of the final answer: at another address nobody knows who answers."""
        return "always" if self._endpoint.base == self._endpoint.vendor.base else "alone"

    def _answer_fields(self, request: Request) -> dict[str, Any]:
        """What a request says of the form of the final answer."""
        if request.schema is None:
            return {}
        if self._format is None:
            from codelet.providers.content.structured import AnswerFormat  # only where there is a schema

            self._format = AnswerFormat(self._structured)
        return self._format.fields(self.answer_form, request.schema, tools=bool(request.tools))

    def _effort_fields(self, max_output: int = 0) -> dict[str, Any]:
        """What a request says of the effort that the user asked for; the user is told where it is another one."""
        if self._asked is None:
            return {}
        self._notes += self._asked.notes()
        return self._asked.fields(max_output)

    def _load_decoder(self) -> None:
        """Load what reads an answer: the first request does not wait for it, and the server takes longer to think."""
        from importlib import import_module

        for name in ("answer", "failure", self.decoder):
            import_module(f"codelet.providers.{name}")

    async def _attempt(self, body: bytes, digest: Callable[[], str]) -> AsyncGenerator[Chunk, None]:
        async with self._http.post(self._path(), self._headers(), body, self._load_decoder) as response:
            from codelet.providers.answer import json_events
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
                async with aclosing(json_events(response.body())) as events:
                    async for chunk in self._chunks(events):
                        if isinstance(chunk, OpenedChunk):
                            response.opened()
                            continue
                        if not isinstance(chunk, UsageChunk):
                            response.heard()
                        bound = isinstance(chunk, FinishChunk) and self.prefix_bound and self.checks_prefix
                        yield chunk.replace(bound_to=digest()) if bound else chunk
            except ProviderError as error:
                error.args = (without_key(str(error), self._endpoint.key),)
                raise


_OPEN, _CLOSING = ("user", "tool"), b'"}'
_IN_PARTS = "+"
"""Behind a role it says that the message's content is a list, whose last part is its text."""


class OpenAIWire(NativeProvider):
    """What OpenAI's two wires share: their quirks, and roles that alternate where a server wants that.

    A wire defines `_items` and `_learnt` beside what each defines. Where roles alternate, a message of the user's or a
    tool's stays open, its text last in it: a text may be joined to it. `_lead` is what stands before the first message,
    `_effort_field` where an effort goes, unless that is the vendor's to say.
    """

    _lead: ClassVar[bytes] = b""
    _text_type: ClassVar[str] = "text"
    _effort_field: ClassVar[EffortField | None] = None

    def __init__(self, model: str, endpoint: Endpoint, options: ProviderOptions, *, origin: str) -> None:
        super().__init__(model, endpoint, options, origin=origin)
        self._quirks = quirks_of(model, endpoint.base, options.vendors)
        self._parts = False
        if endpoint.base.count("/") == 2:  # no path: most servers have theirs at /v1, and people forget it
            self._other_base = f"{endpoint.base}/v1"
        elif model.startswith("bedrock/"):
            self._other_base = "Converse: --transport litellm"
        if options.effort is not None:
            from codelet.providers.effort import AskedEffort, chat_words  # only for who asks

            field = self._effort_field or self._quirks.effort_field
            self._asked = AskedEffort(options.effort, model, field, chat_words(model, endpoint.vendor.prefix))

    @property
    def _structured(self) -> Structured:
        elsewhere = self._quirks.structured == "always" and super()._structured == "alone"
        return "alone" if elsewhere else self._quirks.structured

    @abstractmethod
    def _items(self, message: Message) -> list[dict[str, Any]]:
        """A message as the wire has it; none where the server takes none for it."""

    @abstractmethod
    def _learnt(self, error: ProviderError) -> bool:
        """Whether a refusal tells of something to do otherwise. Each can go once, so no server is asked for ever."""

    @abstractmethod
    def _pictures(self, message: Message) -> list[dict[str, Any]]:
        """The pictures of a message as the wire has them."""

    def _in_parts(self, message: Message) -> bool:
        """Whether a message's content goes out as a list: pictures need one, and what they may be joined to."""
        return "images" in message or (self._parts and message["role"] == "user")

    def _look(self, messages: Sequence[Message]) -> None:
        """Where roles alternate, a picture may be joined to any message of the user's: from the first one on all of
        them are lists.
        """
        if not self._parts and self._quirks.alternating and has_pictures(messages):
            self._parts = True
            self._encode_anew()

    def _encode(self, message: Message, before: str) -> tuple[bytes, str]:
        """A message's bytes after one of the role `before`; where roles alternate, with what closes that one."""
        if "images" in message and not self._sees:
            from codelet.providers.content.picture_forms import unseen

            message = unseen(message)
        joint = joint_of(message, before.removesuffix(_IN_PARTS)) if self._quirks.alternating else "apart"
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
        """What goes on with the open text of the message before, or behind it with pictures."""
        text = compact_json(f"{SEPARATOR}{message['content']}")[1:-1]
        if "images" not in message:
            return text
        parts = b",".join(map(compact_json, [*self._pictures(message), {"type": self._text_type, "text": ""}]))
        return _CLOSING + b"," + parts.removesuffix(_CLOSING) + text

    def _ordered(self, request: Request) -> Sequence[Message]:
        """The messages in the order in which the server reads them best."""
        return prompt_last(request.messages, request.tail) if self.local else request.messages

    def _closing(self, role: str) -> bytes:
        """What closes a message of that role, the last one so far."""
        if not self._quirks.alternating or role.removesuffix(_IN_PARTS) not in _OPEN:
            return b""
        return _CLOSING + b"]}" if role.endswith(_IN_PARTS) else _CLOSING

    def _adapted(self, error: ProviderError) -> bool:
        if not super()._adapted(error) and not self._learnt(error):
            return False
        self._encode_anew()
        return True
