"""The bridge to litellm, for every model that the native wires do not reach. Nothing else imports it.

litellm takes seconds to import and does much on its own: it fetches a price map, loads a `.env`, prints,
retries, and waits up to 6,000 seconds. So it is imported when it is needed, in a thread, with switches set
that stop all this; retries, time limits and the folding of tool calls are codelet's own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from types import ModuleType, TracebackType
from typing import Any

from codelet.errors import ProviderError
from codelet.providers.addresses.clouds import credentials
from codelet.providers.catalog import asked_wire, real_name, vendor_of
from codelet.providers.endpoint import base_of, key_variable, quirks_of
from codelet.providers.facts import on_this_machine
from codelet.providers.failure import stalled
from codelet.providers.litellm_decode import Decoder, InterceptedStream, StreamEnd
from codelet.providers.litellm_errors import translated
from codelet.providers.litellm_request import Requests, is_claude
from codelet.providers.protocol import (
    LONGEST_ORIGIN,
    Chunk,
    FinishChunk,
    NoteChunk,
    ProviderOptions,
    Request,
    with_retries,
)

# Releases with a stealer in them: these are never imported.
MALICIOUS = ("1.82.7", "1.82.8", "1.107.0")

_SWITCHES = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it fetches a price map
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",  # else it fetches a list of headers
    "LITELLM_MODE": "PRODUCTION",  # else it loads a .env, and a repository's own one can redirect requests
    "LITELLM_LOG": "CRITICAL",
    "REPEATED_STREAMING_CHUNK_LIMIT": "1000000",  # else 100 equal chunks in a row are an error
}
_LATER = (
    "litellm.litellm_core_utils.default_encoding",
    "litellm.proxy.openai_files_endpoints.common_utils",
    "litellm._service_logger",
    "openai.resources",
)
"""What litellm imports with the first request, a quarter as much as itself: it would stop the loop meanwhile, and count
as the server's time."""
_SILENCE = 1.0
"""Seconds of the import after which the user is told of it."""
IMPORTING = "litellm is being imported, which takes some seconds"

_WARNING = r"(litellm|openai|pydantic|httpx|aiohttp|botocore|google)(\.|$)"
_LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")


class _Library:
    """litellm, imported at most once, in a thread."""

    def __init__(self) -> None:
        self._loading: Future[ModuleType] | None = None

    def warm(self) -> Future[ModuleType]:
        """Start the import, unless it is under way or done."""
        if self._loading is None:
            self._loading = Future()
            self._loading.set_running_or_notify_cancel()
            # A daemon, so that leaving codelet does not wait for the import to end.
            threading.Thread(target=_load, args=(self._loading,), name="litellm import", daemon=True).start()
        return self._loading

    async def loaded(self) -> ModuleType:
        """The module; raises ProviderError where it cannot be imported."""
        return await asyncio.wrap_future(self.warm())

    async def is_loaded_within(self, seconds: float) -> bool:
        """Whether the import has come to its end, or does within so many seconds."""
        loading = self.warm()
        if not loading.done():
            waiting = asyncio.wrap_future(loading)
            waiting.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # `loaded` raises it
            await asyncio.wait([waiting], timeout=seconds)
        return loading.done()

    def if_loaded(self) -> ModuleType | None:
        """The module if it is there already."""
        if self._loading is None or not self._loading.done() or self._loading.exception():
            return None
        return self._loading.result()


_library = _Library()
_running: set[asyncio.Task[None]] = set()


def warm() -> None:
    """Start importing litellm in the background, unless that is under way or done."""
    _library.warm()


class LiteLLMProvider:
    """A model that litellm reaches; `model` is its name as litellm spells it."""

    def __init__(self, model: str, options: ProviderOptions) -> None:
        vendor = vendor_of(model)
        prefix = vendor.prefix if vendor else model.partition("/")[0]
        self.model = model
        self.name = f"{vendor.name if vendor else prefix} through litellm"
        maker = "/".join(real_name(model).split("/")[1:-1])
        self.origin = f"litellm:{options.api_base or prefix}{f'#{maker}' if maker else ''}"[:LONGEST_ORIGIN]
        self.local = on_this_machine(options.api_base or (base_of(vendor) if vendor else ""))
        found = key_variable(vendor, options.api_key)
        known = credentials(prefix) or (vendor.key_names[0] if vendor and vendor.key_names else "the provider's key")
        self.key_name = found or known
        self._key = options.api_key or (os.environ[found] if found else None)
        self._options = options
        self.effort = options.effort
        quirks, asked = quirks_of(model, options.api_base), None
        if options.effort is not None:
            from codelet.providers.effort import AskedEffort, chat_words  # only for who asks

            words = chat_words(model, vendor.prefix if vendor else "")
            switched = quirks.effort_field == "thinking"  # everything else litellm translates itself
            asked = AskedEffort(options.effort, model, "thinking" if switched else "reasoning_effort", words)
        marked = is_claude(model)  # there reminders stand behind the last mark
        self._requests = Requests(model, self.origin, quirks, asked, local=self.local and not marked)
        self._noted = False
        self._told = False

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """The chunks of one answer; see `Provider.stream`. Closing it closes the connection too."""
        self._note(request)

        def adapted(error: ProviderError) -> bool:
            from codelet.providers.learning import learn

            changed = learn(self._requests, error, request)
            if changed:
                self._note(None)
            return changed

        attempt, retries = lambda: self._attempt(request), self._options.retries
        return with_retries(attempt, retries, adapted, self._requests.notes, unseen=request.unseen)

    async def warm(self) -> None:
        """Start importing litellm."""
        warm()

    async def ask(self) -> None:
        """Nobody can be asked: litellm has its own ways to servers."""

    async def close(self) -> None:
        """Close litellm's connections, unless another provider's stream is using them."""
        litellm = _library.if_loaded()
        if litellm is None or _running:
            return
        await litellm.close_litellm_async_clients()
        litellm.in_memory_llm_clients_cache.flush_cache()
        vars(litellm).pop("module_level_aclient", None)  # made anew by the next request

    @property
    def prefix_bound(self) -> bool:
        """Whether the model's reasoning is valid only after an unchanged prefix."""
        return self._requests.quirks.prefix_bound

    @property
    def drops_thinking(self) -> bool:
        """Whether reasoning is left out, because the server has refused some for its prefix."""
        return self._requests.quirks.drops_thinking

    def drop_thinking(self) -> None:
        """Leave reasoning out from now on."""
        requests = self._requests
        requests.quirks = requests.quirks.replace(prefix_bound=True, drops_thinking=True)

    def _note(self, request: Request | None) -> None:
        """Tell the user, once, what the requests are like."""
        note = self._requests.quirks.note(self.model, self.effort)
        if self._requests.asked is not None and (note is None or (request is not None and not request.tools)):
            self._requests.notes += self._requests.asked.notes()
        if note is not None and not self._noted and (request is None or request.tools):
            self._requests.notes.append(note)
            self._noted = True

    async def _attempt(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """One attempt, in a task of its own: cancelling it is what closes the connection in all cases.

        The queue is unbounded, so that the task always waits for the network, where a cancel reaches it.
        """
        if not await _library.is_loaded_within(_SILENCE) and not self._told:
            self._told = True
            yield NoteChunk(IMPORTING)
        queue: asyncio.Queue[Chunk | None] = asyncio.Queue()
        task = asyncio.create_task(self._pump(request, queue))
        _running.add(task)
        task.add_done_callback(_running.discard)
        task.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (chunk := await queue.get()) is not None:
                yield chunk
                await asyncio.sleep(0)  # however much has come, signals and other tasks have their turn
            task.result()
        finally:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()  # taken note of: it was raised above, or nobody listens any more

    async def _pump(self, request: Request, queue: asyncio.Queue[Chunk | None]) -> None:
        deadlines = self._options.deadlines
        limit = deadlines.first_token
        litellm = await _library.loaded()
        _quiet_warnings()
        decoder = Decoder(counts_reasoning=not is_claude(self.model))
        now = asyncio.get_running_loop().time
        latest = now() + limit
        try:
            async with asyncio.timeout(limit) as timeout:
                arguments = self._arguments(litellm, request)
                if self._options.debug_requests:
                    from codelet.providers.content.shown_requests import show_arguments

                    show_arguments(arguments)
                stream = await litellm.acompletion(**arguments)
                InterceptedStream.into(stream)
                async for chunk in stream:
                    pieces = list(decoder.chunks(chunk, stream))
                    for piece in pieces:
                        queue.put_nowait(piece)
                    if pieces:
                        latest = now() + max(deadlines.first_token, deadlines.between_chunks)
                    if decoder.begun:
                        limit = deadlines.between_chunks
                        timeout.reschedule(min(now() + limit, latest))
        except StreamEnd:
            pass
        except TimeoutError:
            raise stalled(f"no data for {limit:g} seconds: the answer has stalled") from None
        except Exception as error:
            known = {"model": self.model, "place": self.name, "key_name": self.key_name}
            raise translated(error, **known, begun=decoder.begun, local=self.local, key=self._key) from error
        for piece in decoder.end(stream):
            bound = isinstance(piece, FinishChunk) and self.prefix_bound
            queue.put_nowait(piece.replace(bound_to=self._requests.digest()) if bound else piece)

    def _arguments(self, litellm: ModuleType, request: Request) -> dict[str, Any]:
        model, provider = self._resolved(litellm)
        arguments = self._requests.arguments(request, marks=is_claude(model) and provider != "openai")
        supported = litellm.get_supported_openai_params(model, provider) or ()
        needed = [
            name for name in ("tools", "reasoning_effort", "thinking") if name in arguments and name not in supported
        ]
        if needed:
            arguments["allowed_openai_params"] = needed  # else they would be dropped without a word
        arguments.update(
            model=model,
            custom_llm_provider=provider,
            stream=True,
            stream_options={"include_usage": True},
            timeout=self._timeout(),
            max_retries=0,
            drop_params=True,
            _skip_mcp_handler=True,  # else the first call with tools imports another library for seconds
        )
        base, key = self._options.api_base, self._options.api_key
        if base:
            arguments["api_base"] = base.rstrip("/").removesuffix("/v1") if provider == "anthropic" else base
            if not key and provider == "openai" and not os.environ.get("OPENAI_API_KEY"):
                key = "none"  # a local server needs no key, but the library underneath wants one
        if key:
            arguments["api_key"] = key
        return arguments

    def _resolved(self, litellm: ModuleType) -> tuple[str, str]:
        """The model's name and provider as litellm splits them; an unknown one with `api_base` is OpenAI's."""
        name = self.model if asked_wire(self.model) == "responses" else real_name(self.model)
        vendor = vendor_of(name)
        if vendor is not None and "/" not in name:
            name = f"{vendor.prefix}/{name}"
        if name.startswith("ollama/"):
            name = name.replace("ollama/", "ollama_chat/", 1)  # the other one has no tools
        try:
            model, provider, _, _ = litellm.get_llm_provider(name)
        except litellm.BadRequestError:
            if self._options.api_base is None:
                raise
            return name, "openai"
        return model, provider

    def _timeout(self) -> Any:
        """A limit for connecting, and one for reading that comes later than ours."""
        import httpx

        deadlines = self._options.deadlines
        reading = max(deadlines.first_token, deadlines.between_chunks) + 5
        return httpx.Timeout(reading, connect=deadlines.connect)


def _load(loading: Future[ModuleType]) -> None:
    with _Settling(loading):
        loading.set_result(_import())


class _Settling:
    """Hands any failure of its block to the future, so that whoever waits for it does not wait for ever."""

    def __init__(self, future: Future[ModuleType]) -> None:
        self._future = future

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is not None:
            known = isinstance(error, ProviderError)
            text = f"litellm cannot be imported: {type(error).__name__}: {error}"
            self._future.set_exception(error if known else ProviderError(text))
        return True


def _import() -> ModuleType:
    from importlib import import_module
    from importlib.metadata import version

    installed = version("litellm")
    if installed in MALICIOUS:
        raise ProviderError(f"litellm {installed} is malicious: remove it and replace the keys it could read")
    with _contained():
        import litellm

        for name in _LATER:
            with suppress(ImportError):  # one that another release lacks, its requests do not want either
                import_module(name)
    litellm.suppress_debug_info = True
    _silence()
    return litellm


@contextmanager
def _contained() -> Iterator[None]:
    """Switches set and no probing of the temporary folder while litellm is imported.

    The switches are taken back: programs that codelet starts must not inherit them.
    """
    import tempfile

    before = {name: os.environ.get(name) for name in _SWITCHES}
    folder = tempfile.tempdir
    os.environ.update(_SWITCHES)
    tempfile.tempdir = folder or os.environ.get("TMPDIR") or "/tmp"  # else a file is written there to try it
    _quiet_warnings()
    try:
        yield
    finally:
        tempfile.tempdir = folder
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _quiet_warnings() -> None:
    """Hold back what litellm and the libraries under it warn about: it is nothing that a user can change.

    Done before each request, since filters that litellm sets itself get lost where others reset them.
    """
    import warnings

    warnings.filterwarnings("ignore", module=_WARNING)


def _silence() -> None:
    import logging

    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
        logger.setLevel(logging.CRITICAL + 1)
