"""Exact counts of messages for a model whose tokeniser lies on this machine, made in a thread: nobody waits for one.

Loading an encoding takes a second and large lists take a tenth of one; until both are done there is no count, and the
estimate has to do. What is small is counted at once, when the encoding is there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from codelet.context.tokens import picture_tokens
from codelet.messages import AnyMessage, text_of

if TYPE_CHECKING:
    from threading import Thread

_PER_MESSAGE = 4
_AT_ONCE = 32 * 1024
# Models with an encoding of tiktoken's. An open model of the same maker has another one.
_OWN = ("gpt-3.5", "gpt-4", "gpt-5", "chatgpt-", "o1", "o3", "o4")


def has_own_encoding(model: str) -> bool:
    """Whether the model's own tokeniser is one of those that tiktoken has: for another its counts are not exact."""
    return model.rpartition("/")[2].lower().startswith(_OWN)


class ExactCounter:
    """Counts messages as one model does. Each message is counted once; messages are never changed."""

    def __init__(self, model: str) -> None:
        self.able = has_own_encoding(model)
        self._model = model
        self._counts: dict[int, tuple[AnyMessage, int]] = {}
        self._thread: Thread | None = None
        self._loaded = False

    def total(self, messages: Sequence[AnyMessage]) -> int | None:
        """Tokens of the messages; None if they are not counted yet (this begins it) or cannot be."""
        missing = [message for message in messages if id(message) not in self._counts]
        if not self.able or (missing and not self._begin(missing)):
            return None
        return sum(self._counts[id(message)][1] for message in messages)

    def forget(self) -> None:
        """Forget all counts: those messages will not be asked for again."""
        self._counts = {}

    @property
    def begun(self) -> bool:
        """Whether anything was ever counted in the background, which loads the tokeniser."""
        return self._thread is not None

    def wait(self, seconds: float) -> None:
        """Wait for counts that were begun, at most `seconds`."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _begin(self, missing: Sequence[AnyMessage]) -> bool:
        """Count what is small at once, the rest in a thread; True if all is counted."""
        if self._loaded and sum(len(_whole(message)) for message in missing) <= _AT_ONCE:
            self._count(missing)
            return self.able
        if self._thread is None or not self._thread.is_alive():
            from threading import Thread

            # No daemon: one that is in the tokeniser's own code while the process ends would abort it.
            self._thread = Thread(target=self._count, args=(missing,), name="exact token counts")
            self._thread.start()
        return False

    def _count(self, messages: Sequence[AnyMessage]) -> None:
        from codelet.context.tokens.exact import count_tokens, encoding_name

        encoding = encoding_name(self._model)
        try:
            for message in messages:
                self._counts[id(message)] = message, count_tokens(_whole(message), encoding) + _beside(message)
            self._loaded = True
        except RuntimeError:  # ExactUnavailable is one; so is what an import raises while the process ends
            self.able = False


def exact_size(messages: Sequence[AnyMessage], beside: Sequence[str], model: str) -> int:
    """Tokens of a request by the encoding that comes nearest to the model's; `beside` are its system prompt and tools.

    Waits for the encoding: for a thread. Raises ExactUnavailable.
    """
    from codelet.context.tokens.exact import count_tokens, encoding_name

    encoding = encoding_name(model)
    listed = sum(count_tokens(_whole(message), encoding) + _beside(message) for message in messages)
    return listed + sum(count_tokens(part, encoding) for part in beside)


def _beside(message: AnyMessage) -> int:
    """Tokens of a message beside its text."""
    return _PER_MESSAGE + (picture_tokens(message) if "images" in message else 0)


def _whole(message: AnyMessage) -> str:
    """All that a message sends: its text, its calls as JSON, and the id that it answers."""
    calls = message.get("tool_calls")
    written = json.dumps(calls, ensure_ascii=False, default=str) if calls else ""
    return f"{text_of(message)}{written}{message.get('tool_call_id') or ''}"
