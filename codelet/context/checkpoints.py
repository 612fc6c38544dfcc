"""Checkpoints: the list as it was before each of the last prompts, so that a turn can be taken back."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from codelet.messages import Message
from codelet.prompt import is_cut, is_segment
from codelet.record import Record
from codelet.reminders import zones

_MOST = 50


class Checkpoint(Record):
    """The list before a prompt, and that prompt."""

    messages: list[Message]
    prompt: str


class Checkpoints:
    """The newest 50, the last one first out."""

    def __init__(self) -> None:
        self._kept: deque[Checkpoint] = deque(maxlen=_MOST)

    @property
    def latest(self) -> Checkpoint | None:
        """Where one step back leads to."""
        return self._kept[-1] if self._kept else None

    def take(self, messages: Sequence[Message], prompt: str) -> None:
        """Remember the list as it is before `prompt`."""
        self._kept.append(Checkpoint(list(messages), prompt))

    def back(self) -> Checkpoint | None:
        """Take the latest one out; None if there is none."""
        return self._kept.pop() if self._kept else None

    def clear(self) -> None:
        """Forget all of them."""
        self._kept.clear()

    def rebuild(self, messages: Sequence[Message], before: Sequence[Message] | None) -> None:
        """Find the places in a list that came from elsewhere; `before` is the list before its last prompt, if known."""
        self._kept.clear()
        places = [place for place, message in enumerate(messages) if is_prompt(message)]
        for place in places[-_MOST:]:
            self.take(messages[:place], messages[place]["content"] or "")
        if before is not None and (latest := self.back()) is not None:
            self.take(before, latest.prompt)


def is_prompt(message: Message) -> bool:
    """Whether a message is what the user typed: no reminder, no segment."""
    return message["role"] == "user" and zones.kind_of(message) is None and not is_segment(message["content"])


def last_of(messages: Sequence[Message]) -> Message | None:
    """The conversation's last message, reminders left out."""
    place = len(messages) - zones.tail_length(messages) - 1
    return messages[place] if place >= 0 and zones.kind_of(messages[place]) is None else None


def without_partial(messages: list[Message]) -> bool:
    """Take the text of an answer that was cut off out of the list's end; False where there is none."""
    last = last_of(messages)
    if last is None or last["role"] != "assistant" or not is_cut(last["content"]):
        return False
    del messages[len(messages) - zones.tail_length(messages) - 1]
    return True


def is_open(messages: Sequence[Message]) -> bool:
    """Whether a turn in the list did not come to its answer, as when its process was killed."""
    last = last_of(messages)
    return last is not None and (last["role"] == "tool" or is_prompt(last) or bool(last.get("tool_calls")))
