"""A server's facts about its model: asked once per model, during a turn, and learnt from its refusals.

Servers of vendors whose models the list knows are not asked. Nothing of this is imported before the first request has
left, unless that one is long: a server that silently cuts what does not fit would cut it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from codelet.errors import ProviderError

if TYPE_CHECKING:
    from codelet.loop.models import Models
    from codelet.loop.toolbox import Toolbox
    from codelet.providers.asking import ServerFacts


class AskedServer:
    """Asks the server of the current model, and has `models` keep to what it says; `toolbox` has the model's tools."""

    def __init__(self, models: Models, toolbox: Toolbox) -> None:
        self._models = models
        self._toolbox = toolbox
        self._of: tuple[str, str] | None = None
        self._asking: asyncio.Task[ServerFacts | None] | None = None

    def begin(self) -> None:
        """Begin to ask what the list of models does not tell; a second time only for another model."""
        provider = self._models.current
        here = (provider.model, provider.origin)
        if here == self._of or not (provider.local or not self._models.facts.known):
            return
        self._stop()
        self._of, self._asking = here, asyncio.create_task(provider.ask())

    async def settle(self, seconds: float) -> None:
        """Use the server's reply, once. Wait for it at most this long."""
        if self._asking is not None:
            await asyncio.wait([self._asking], timeout=seconds)
            self.take()

    def take(self) -> None:
        """Use what it has said by now."""
        if self._asking is None or not self._asking.done():
            return
        asked, self._asking = self._asking, None
        said = asked.result()
        if said is None or self._of != (self._models.current.model, self._models.current.origin):
            return
        self._keep(said.window, said.max_output, said.images)
        if said.tools is False and self._toolbox.tools:
            told = "does not support tools (reported by its server): it cannot use files; choose another --model"
            self._toolbox.notices.say(f"{self._of[0]} {told}")

    def refused(self, error: ProviderError) -> bool:
        """Keep to the window that a refusal names. Return whether the prompt itself has to shrink."""
        models = self._models
        if error.window is None or error.window >= models.budget.window:
            return True
        if models.limits.window is not None:
            models.limits = models.limits.replace(window=error.window)
        self._keep(error.window, None)
        told = f"the model's window is {error.window:,} tokens (reported by its server)"
        self._toolbox.notices.say(told)
        return error.prompt_size is None or error.prompt_size > models.budget.limit

    async def close(self) -> None:
        """Ask no more."""
        asking = self._asking
        self._stop()
        if asking is not None:
            await asyncio.wait([asking])

    def _stop(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    def _keep(self, window: int | None, max_output: int | None, images: bool | None = None) -> None:
        facts = self._models.facts
        if window is not None:
            facts = facts.replace(window=window, told=True)
        if max_output is not None:
            facts = facts.replace(max_output=max_output)
        if images is not None:
            facts = facts.replace(images=images)
        self._models.learn(facts)
