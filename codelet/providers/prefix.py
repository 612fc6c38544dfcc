"""The beginning of a wire's requests: each message is encoded once, and reasoning goes back only while it is valid.

Some models bind an answer's reasoning to everything before it (system prompt, tools, messages, earlier reasoning) and
refuse a request with another prefix. Sources: Anthropic, "Preserved thinking" and "Prefix checks". The rule applies
here, to the bytes: an answer carries the digest of its request, and its reasoning is left out if the prefix has another
digest. Later reasoning, bound to a prefix that held it, is then left out too; answers to later requests are valid
again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import is_
from typing import Literal

from codelet.messages import Message, has_reasoning, without_reasoning

EncodeMessage = Callable[[Message, str], tuple[bytes, str]]
Returned = Literal["all", "valid", "none"]
"""The reasoning that goes back: all, what is valid after this prefix, or none."""


def cache_places(stable: Sequence[Message], last: int, most: int) -> list[int]:
    """Return where to mark a prompt for the cache: at most `most` ends of requests, newest first.

    A server reads its cache only at the request's marks. A request ends with a prompt or the last result of a step.
    `last` is the newest mark of the provider's last request.
    """
    found: list[int] = []
    at = len(stable) - 1
    while at >= 0 and len(found) < most:
        role = stable[at]["role"]
        if role in ("user", "tool") and (not found or stable[at + 1]["role"] == "assistant"):
            found.append(at)
        at -= 1
    if 0 <= last < len(stable) and last not in found and stable[last]["role"] in ("user", "tool"):
        found = [*found[: most - 1], last]
    return found


@lru_cache(maxsize=16)
def _shared(head: bytes) -> bytes:
    """The same object for the same bytes: sessions of one process often begin alike."""
    return head


class PrefixCache:
    """The encoded messages of a list, reused as far as the list is unchanged.

    `encode(message, state)` returns a message's bytes and the state for the next one (the open role). Messages are
    compared by identity: a message in a list is never changed.
    """

    def __init__(self, encode: EncodeMessage, returned: Returned = "all") -> None:
        self._encode = encode
        self._returned = returned
        self._head = b""
        self._messages: list[Message] = []
        self._fragments: list[bytes] = []
        self._states: list[str] = []
        self._digests: list[str] = []

    def fragments(self, messages: Sequence[Message], head: bytes = b"") -> list[bytes]:
        """One fragment for each message, in order; only new messages are encoded.

        `head` precedes the messages and is bound like them: tools and system prompt.
        """
        same = list(map(is_, self._messages, messages)) if head == self._head else [False]
        keep = same.index(False) if False in same else len(same)
        del self._messages[keep:], self._fragments[keep:], self._states[keep:]
        del self._digests[keep + 1 if head == self._head else 0 :]
        self._head = _shared(head)
        for message in messages[keep:]:
            sent = message if self._goes_back(message) else without_reasoning(message)
            fragment, state = self._encode(sent, self.state)
            self._messages.append(message)
            self._fragments.append(fragment)
            self._states.append(state)
        return list(self._fragments)

    @property
    def state(self) -> str:
        """The state after the last message."""
        return self._states[-1] if self._states else ""

    def seal(self) -> Callable[[], str]:
        """Return a function for this request's digest, unaffected by later use of the cache.

        It is called after the request has left: the first request does not wait for it.
        """
        known, fragments, head = list(self._digests), list(self._fragments), self._head
        return lambda: _digests(head, fragments, known)[-1]

    def _goes_back(self, message: Message) -> bool:
        if self._returned == "all" or message["role"] != "assistant" or not has_reasoning(message):
            return True
        if self._returned == "none" or "bound_to" not in message:
            return False
        return message["bound_to"] == _digests(self._head, self._fragments, self._digests)[-1]


def _digests(head: bytes, fragments: Sequence[bytes], known: list[str]) -> list[str]:
    """Complete the digests of a request: of its head, and up to the end of each fragment."""
    from hashlib import sha256  # not on the way to the first request

    if not known:
        known.append(sha256(head).hexdigest()[:32])
    for fragment in fragments[len(known) - 1 :]:
        known.append(sha256(known[-1].encode() + fragment).hexdigest()[:32])
    return known
