"""Session: owns the one message list, and everything that may change it.

In memory only: when the last reference goes, the conversation is gone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

from codelet import events, prompt
from codelet.calls import Toolbox
from codelet.errors import LimitReached
from codelet.messages import Message, user
from codelet.policy import Policy
from codelet.policy.verdict import Ask
from codelet.providers.base import Provider
from codelet.record import Record
from codelet.reminders import zones
from codelet.reminders.sources import Sources
from codelet.text import valid_unicode
from codelet.tokens.estimate import estimate_message, estimate_text
from codelet.tokens.usage import Usage
from codelet.tokens.windows import ModelFacts, model_facts
from codelet.tools import all_tools
from codelet.tools.tool import Tool, ToolContext
from codelet.turn import Limits, Turn, run_turn

_MAX_OUTPUT = 32_000
_CHECKPOINTS = 50


class ContextRow(Record):
    """One entry of what the model is sent: a message, with its estimate in tokens.

    `number` is the message's index in the list; the system prompt and the tools have -1.
    """

    number: int
    role: str
    source: str
    tokens: int


class _Checkpoint(Record):
    """The list as it was before a prompt, and that prompt."""

    messages: list[Message]
    prompt: str


class Session:
    """One message list with its usage, provider, tools and policy."""

    def __init__(
        self,
        provider: Provider,
        *,
        workspace: Path,
        tools: Sequence[Tool] | None = None,
        policy: Policy | None = None,
        ask: Ask | None = None,
        system_prompt: str | None = None,
        limits: Limits | None = None,
        bare: bool = False,
        window: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.messages: list[Message] = []
        self.provider = provider
        self.workspace = workspace
        self.system_prompt = prompt.SYSTEM if system_prompt is None else system_prompt
        self.limits = limits or Limits()
        self.usage = Usage()
        self.cost: float | None = 0.0
        self.turns = 0
        self.interruption: events.Interrupted | None = None
        chosen = all_tools() if tools is None else tools
        context = ToolContext(workspace, dict(environment) if environment is not None else None)
        self._toolbox = Toolbox({tool.name: tool for tool in chosen}, context, policy or Policy(workspace), ask)
        self._sources = Sources(workspace, bare=bare)
        self._window = window
        self._call_ids: set[str] = set()
        self._before: deque[_Checkpoint] = deque(maxlen=_CHECKPOINTS)
        self._partial: Message | None = None
        self._known_size: tuple[int, int] | None = None

    @property
    def policy(self) -> Policy:
        """What judges the model's actions."""
        return self._toolbox.policy

    @property
    def ask(self) -> Ask | None:
        """How a person is asked, or None."""
        return self._toolbox.ask

    @ask.setter
    def ask(self, ask: Ask | None) -> None:
        self._toolbox.ask = ask

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that the model has."""
        return tuple(self._toolbox.tools.values())

    @property
    def refused(self) -> list[str]:
        """The calls that were refused because of the policy, each in one line."""
        return self._toolbox.refused

    @property
    def facts(self) -> ModelFacts:
        """What is known of the model: sizes and prices."""
        return model_facts(self.provider.model)

    @property
    def window(self) -> int:
        """The model's window in tokens, or what the user set."""
        return self._window or self.facts.window

    @property
    def size(self) -> int:
        """The list's size in tokens: the last request's, as reported, and an estimate of what came since.

        Only what is new is looked at; the volatile reminders are left out.
        """
        end = len(self.messages) - zones.tail_length(self.messages)
        if self._known_size is None or self._known_size[1] > end:
            fixed = estimate_text(self.system_prompt) + estimate_text(str(self._toolbox.schemas))
            return fixed + sum(map(estimate_message, self.messages[:end]))
        tokens, counted = self._known_size
        return tokens + sum(map(estimate_message, self.messages[counted:end]))

    async def send(self, text: str) -> AsyncGenerator[events.Event, None]:
        """One turn: takes the prompt in, then steps until the model stops calling tools.

        Raises CancelledError, ProviderError or LimitReached, always after the turn's last event. Iterate
        inside `contextlib.aclosing`, so that leaving early stops the turn at once.
        """
        self._before.append(_Checkpoint(list(self.messages), text))
        zones.insert(self.messages, [user(prompt.escape(valid_unicode(text)))])
        self.turns += 1
        async with aclosing(self._turn()) as turn_events:
            async for event in turn_events:
                yield event

    async def resume(self) -> AsyncGenerator[events.Event, None]:
        """Take an interrupted turn up again, without a new user message.

        Text that was cut off is taken out: the model writes it anew. What tools did stands in the list.
        """
        place = len(self.messages) - zones.tail_length(self.messages) - 1
        if self._partial is not None and place >= 0 and self.messages[place] is self._partial:
            del self.messages[place]
            self._known_size = None
        async with aclosing(self._turn()) as turn_events:
            async for event in turn_events:
                yield event

    def rewind(self) -> str | None:
        """Go back to before the last prompt, which is returned; None if there is none. Files stay as they are."""
        if not self._before:
            return None
        checkpoint = self._before.pop()
        self.messages[:] = checkpoint.messages
        self.interruption = None
        self._known_size = None
        return checkpoint.prompt

    def clear(self) -> None:
        """Forget the conversation; usage and cost go on."""
        self.messages.clear()
        self._before.clear()
        self._toolbox.context.seen.clear()
        self.interruption = None
        self._known_size = None

    def switch(self, provider: Provider) -> None:
        """Go on with another model and the same list."""
        self.provider = provider
        self._known_size = None

    def context(self) -> list[ContextRow]:
        """What the next request would carry, entry by entry, with estimates."""
        rows = [
            ContextRow(-1, "system", "system prompt", estimate_text(self.system_prompt)),
            ContextRow(-1, "system", "tools", estimate_text(str(self._toolbox.schemas))),
        ]
        for number, message in enumerate(self.messages):
            rows.append(ContextRow(number, message["role"], _source(message), estimate_message(message)))
        return rows

    async def _turn(self) -> AsyncGenerator[events.Event, None]:
        self.interruption = None
        turn = Turn(
            messages=self.messages,
            provider=self.provider,
            system=self.system_prompt,
            toolbox=self._toolbox,
            limits=self.limits,
            prepare=self._renew_for_turn,
            renew_tail=self._renew_for_step,
            spend=self._spend,
            exceeded=self._exceeded,
            max_output=self._max_output,
            call_ids=self._call_ids,
        )
        try:
            yield events.TurnStart(self.turns, self.provider.model)
            async with aclosing(_until(run_turn(turn), self.limits.timeout)) as turn_events:
                async for event in turn_events:
                    yield event
        finally:
            self.interruption = turn.receipt
            self._partial = turn.partial

    async def _renew_for_turn(self) -> list[events.Event]:
        await self.provider.warm()
        head, tail = await self._sources.gather(self._toolbox.context.seen)
        return zones.renew(self.messages, head, zones.HEAD) + zones.renew(self.messages, tail, zones.TAIL)

    def _renew_for_step(self) -> list[events.Event]:
        size = self.size
        self._known_size = (size, len(self.messages) - zones.tail_length(self.messages))
        if self._sources.bare:
            return []
        text = self._sources.token_status(size, self.window)
        return zones.renew(self.messages, {"tokenStatus": text}, zones.TAIL)

    def _spend(self, usage: Usage, unanswered: int) -> events.UsageReport:
        """Take in what a step used; the results of its calls, not yet there, are not part of it."""
        self.usage += usage
        cost = self.facts.cost(usage)
        self.cost = None if cost is None or self.cost is None else self.cost + cost
        answered = len(self.messages) - zones.tail_length(self.messages) - unanswered
        self._known_size = (usage.total, answered)
        return events.UsageReport(usage, self.size, self.window)

    def _exceeded(self) -> str | None:
        """The limit that the session has passed, in words, or None."""
        limits = self.limits
        if limits.max_tokens is not None and self.usage.output >= limits.max_tokens:
            return f"the limit of {limits.max_tokens} output tokens is reached (--max-tokens)"
        if limits.max_cost is not None and self.cost is not None and self.cost >= limits.max_cost:
            return f"the limit of {limits.max_cost:g} dollars is reached (--max-cost)"
        return None

    def _max_output(self) -> int | None:
        """The output limit for a request, where one must or should be named: the model's, less what is used up."""
        facts = self.facts
        most = min(facts.max_output or _MAX_OUTPUT, _MAX_OUTPUT, facts.window // 4) if facts.known else None
        if self.limits.max_tokens is None:
            return most
        left = max(1, self.limits.max_tokens - self.usage.output)
        return left if most is None else min(left, most)


async def _until(turn: AsyncGenerator[events.Event, None], seconds: float | None) -> AsyncGenerator[events.Event, None]:
    """The turn's events under a time limit, which ends it as LimitReached instead of an interrupt."""
    if seconds is None:
        async with aclosing(turn):
            async for event in turn:
                yield event
        return
    deadline = asyncio.get_running_loop().time() + seconds
    message = f"the time limit of {seconds:g} s is reached (--timeout)"
    async with aclosing(turn):
        expired = False
        while not expired:
            try:
                async with asyncio.timeout_at(deadline) as limit:
                    event = await anext(turn)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise LimitReached(message) from None
            expired = limit.expired()
            if not expired:
                yield event
        async for event in turn:  # what the turn says of its own cancellation is said of the limit instead
            if isinstance(event, events.TurnEnd):
                yield events.TurnEnd("limit", event.steps, event.usage, message)
                break
        raise LimitReached(message)


def _source(message: Message) -> str:
    kind = zones.kind_of(message)
    if kind is not None:
        return f"reminder {kind}"
    if calls := message.get("tool_calls"):
        return "calls " + ", ".join(call["function"]["name"] for call in calls)
    return message["role"]
