"""A model that litellm reaches: requests as litellm takes them, chunks as they come out of its process.

Retries, time limits and the folding of tool calls are codelet's own.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import AsyncGenerator
from typing import Any

from codelet.errors import ProviderError
from codelet.providers.addresses.clouds import credentials
from codelet.providers.by_litellm.request import Requests, is_claude
from codelet.providers.catalog import asked_wire, real_name, vendor_of
from codelet.providers.endpoint import base_of, key_variable, quirks_of
from codelet.providers.facts import on_this_machine
from codelet.providers.failure import stalled
from codelet.providers.protocol import (
    LONGEST_ORIGIN,
    Chunk,
    FinishChunk,
    NoteChunk,
    ProviderOptions,
    Request,
    with_retries,
)

_SILENCE = 1.0
"""Seconds of the import after which the user is told of it."""
IMPORTING = "litellm is being imported, which takes some seconds"


@functools.cache
def _process() -> Any:
    from codelet.providers.by_litellm.pipe import LiteLLMProcess  # with the first use

    return LiteLLMProcess()


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
        self._place: tuple[str, str, list[str]] | None = None
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
        _process().warm(self)

    async def ask(self) -> None:
        """Nobody can be asked: litellm has its own ways to servers."""

    async def close(self) -> None:
        """Give the process back, which ends when nobody needs it."""
        if _process.cache_info().currsize:
            await asyncio.wrap_future(_process().release(self))

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
        """One attempt. Leaving it cancels the request in litellm's process, which closes the connection."""
        from codelet.providers.by_litellm.pipe import chunk_in, failure_in

        warmed = asyncio.wrap_future(_process().warm(self))
        done, _ = await asyncio.wait([warmed], timeout=_SILENCE)
        if not done and not self._told:
            self._told = True
            yield NoteChunk(IMPORTING)
        await warmed
        if self._place is None:
            self._place = await self._resolved()
        deadlines = self._options.deadlines
        reading = max(deadlines.first_token, deadlines.between_chunks) + 5  # later than ours
        call: dict[str, Any] = {
            "arguments": self._arguments(request, *self._place),
            "about": self._about,
            "limits": [reading, deadlines.connect],
            "counts": not is_claude(self.model),
        }
        if self._options.debug_requests:
            from codelet.providers.content.shown_requests import show_arguments

            show_arguments(call["arguments"])
        now = asyncio.get_running_loop().time
        limit = deadlines.first_token
        latest = now() + limit
        begun = False
        async with _process().request(self, {"call": call}) as answers:
            due = latest
            while True:
                try:
                    async with asyncio.timeout_at(due):
                        answer = await answers.get()
                except TimeoutError:
                    raise stalled(f"no data for {limit:g} seconds: the answer has stalled") from None
                if "failed" in answer:
                    raise failure_in(answer["failed"])
                if "ended" in answer:
                    return
                if "chunk" in answer:
                    chunk = chunk_in(answer["chunk"])
                    begun, latest = True, now() + max(deadlines.first_token, deadlines.between_chunks)
                    bound = isinstance(chunk, FinishChunk) and self.prefix_bound
                    yield chunk.replace(bound_to=self._requests.digest()) if bound else chunk
                    await asyncio.sleep(0)  # however much has come, signals and other tasks have their turn
                if begun:
                    limit = deadlines.between_chunks
                    due = min(now() + limit, latest)

    async def _resolved(self) -> tuple[str, str, list[str]]:
        """The model's name and provider as litellm splits them, and which parameters it takes there."""
        from codelet.providers.by_litellm.pipe import failure_in

        name = self.model if asked_wire(self.model) == "responses" else real_name(self.model)
        vendor = vendor_of(name)
        if vendor is not None and "/" not in name:
            name = f"{vendor.prefix}/{name}"
        if name.startswith("ollama/"):
            name = name.replace("ollama/", "ollama_chat/", 1)  # the other one has no tools
        asked = {"name": name, "about": self._about, "has_base": self._options.api_base is not None}
        async with _process().request(self, {"resolve": asked}) as answers:
            answer = await answers.get()
        if "failed" in answer:
            raise failure_in(answer["failed"])
        model, provider, supported = answer["resolved"]
        return model, provider, supported

    @property
    def _about(self) -> dict[str, Any]:
        """What an error's message says of the request."""
        return {
            "model": self.model,
            "place": self.name,
            "key_name": self.key_name,
            "local": self.local,
            "key": self._key,
        }

    def _arguments(self, request: Request, model: str, provider: str, supported: list[str]) -> dict[str, Any]:
        arguments = self._requests.arguments(request, marks=is_claude(model) and provider != "openai")
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
