"""Messages in the order that a server needs: user and assistant take turns, a local server reads the prompt last."""

from __future__ import annotations

from collections.abc import Sequence

from codelet import prompt
from codelet.messages import Message, assistant, images_of, kind_of, user

_SEPARATOR = "\n\n"
_SHORT_PROMPT = 4_000
"""Characters of a prompt that a local server can read twice."""


class Turns:
    """Makes user and assistant take turns. A list that goes on gives the same objects again, which stay encoded.

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
    joined["content"] = _SEPARATOR.join(message["content"] or "" for message in run)
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
