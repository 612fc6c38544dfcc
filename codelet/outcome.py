"""The outcome of a prompt: the answer, its end and the exit status, for the command line and for `run` in Python."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from codelet import events
from codelet.errors import EXIT_DONE, EXIT_INCOMPLETE, EXIT_REFUSED, CodeletError, NoAnswer
from codelet.events import Cut
from codelet.loop.session import Session
from codelet.record import Record
from codelet.safety.secrets import mask
from codelet.system.text import is_blank
from codelet.usage import Usage

if TYPE_CHECKING:
    from codelet.providers.facts import ModelChange


class Outcome(Record):
    """The answer and how it ended: `partial` if something cut it short, `exit_status` of the process.

    `cost` is in US dollars, None if prices are unknown or nothing is charged; `refused` are the calls that the policy
    refused, and `denied` gives the reasons of those that no flag would have permitted; `cut` is the input that was not
    sent whole, `fallbacks` are the models that replaced others. `model` is the model used, if any; `turns` counts
    steps, as `--max-turns` does; `duration` is the wall-clock time in seconds. `sandbox` is what confined commands,
    "none", "off", or None if no command ran. `metrics` gives the figures of the session as in an export, None without a
    session. `structured` holds the value that meets the schema, if one was given and the answer met it. `more` are keys
    of the JSON result that extensions add.
    """

    result: str
    partial: bool
    exit_status: int
    error: str | None
    usage: Usage
    cost: float | None
    refused: tuple[str, ...]
    denied: Mapping[str, str] = MappingProxyType({})
    cut: tuple[Cut, ...] = ()
    fallbacks: tuple[ModelChange, ...] = ()
    model: str | None = None
    turns: int = 0
    duration: float = 0.0
    sandbox: str | None = None
    metrics: Callable[[], object] = lambda: None
    structured: tuple[object, ...] | None = None
    more: Mapping[str, object] = MappingProxyType({})


def _metrics(session: Session) -> object:
    """The session's figures, masked: a tool that a model calls and no one has may be named like a secret."""
    parts = [part for each in session.extensions for part in each.parts if part.key == "metrics"]
    return _cleaned(parts[0].save(), session.mask) if parts else None


def _reported(session: Session) -> Mapping[str, object]:
    """Return what extensions add to the result, masked."""
    found: dict[str, object] = {}
    for each in session.extensions:
        found |= {name: _cleaned(value, session.mask) for name, value in each.reported().items()}
    return found


def _cleaned(value: object, mask: Callable[[str], str]) -> object:
    """A JSON value with its texts masked."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, list):
        return [_cleaned(each, mask) for each in value]
    if isinstance(value, dict):
        return {mask(name): _cleaned(each, mask) for name, each in value.items()}
    return value


def _structured(session: Session | None, mask: Callable[[str], str]) -> tuple[object, ...] | None:
    """`Outcome.structured` of a session."""
    required = session.upkeep.required if session else None
    if required is None:
        return None
    return () if required.text is None else (_cleaned(required.value, mask),)


def _masked(session: Session) -> tuple[ModelChange, ...]:
    return tuple(change.replace(reason=session.mask(change.reason)) for change in session.models.changes)


def unread(cut: Sequence[Cut]) -> str:
    """Describe the input that the model was not sent; empty if it got all of it."""
    parts = [f"of {each.name} the model was sent {each.read:,} of {each.bytes:,} bytes" for each in cut]
    return "; ".join(part for part, each in zip(parts, cut, strict=True) if each.read < each.bytes)


class TurnProgress:
    """The progress of a turn: the text of its last step, and whether it ended.

    `begun` is when the run began, by the monotonic clock.
    """

    def __init__(self, begun: float) -> None:
        self.is_over = False
        self._begun = begun
        self._steps = 0
        self._answer: list[str] = []
        self._earlier = ""

    def see(self, event: events.Event) -> None:
        """Take in an event of the turn."""
        match event:
            case events.StepStart():
                self._steps = event.step
                self._begin_anew()
            case events.Retry():  # the answer is requested again
                self._begin_anew()
            case events.Text():
                self._answer.append(event.delta)
            case events.TurnEnd():
                self._steps = event.steps

    def _begin_anew(self) -> None:
        self._earlier = "".join(self._answer) or self._earlier
        self._answer.clear()

    def outcome(
        self,
        session: Session | None,
        error: CodeletError | None,
        *,
        model: str | None,
        allow_cut: bool,
        stopped: tuple[int, str] | None = None,
        unsaved: CodeletError | None = None,
    ) -> Outcome:
        """Return the outcome: `error` ended it, or the signal with the exit status and words in `stopped`.

        `session` can be None, with `model` as the user named it. With `allow_cut` input that was not read is no
        failure. `unsaved` is why the session could not be saved.
        """
        without_secrets = session.mask if session else mask
        refused = tuple(session.toolbox.approvals.refused) if session else ()
        if stopped is not None:
            status, message = stopped
        elif error is not None:
            status, message = error.exit_status, without_secrets(str(error))
        else:
            status, message = (EXIT_REFUSED if refused else EXIT_DONE), None
        cut, partial = session.entry.cut if session else (), not self.is_over  # a signal while saving takes nothing
        if status in (EXIT_DONE, EXIT_REFUSED) and not allow_cut and (missed := unread(cut)):
            partial, status, message = True, EXIT_INCOMPLETE, f"{missed}; --allow-cut counts that as success"
        if unsaved is not None:
            status = status if stopped is not None else unsaved.exit_status
            message = without_secrets(f"{message}; {unsaved}" if message else str(unsaved))
        structured = _structured(session, without_secrets)
        required = session.upkeep.required.text if session and session.upkeep.required and structured else None
        return Outcome(
            result=self._result(error, partial=partial) if required is None else without_secrets(required),
            partial=partial,
            exit_status=status,
            error=message,
            usage=session.meter.spent if session else Usage(),
            cost=session.meter.spent_cost if session else None,
            refused=refused,
            denied=dict(session.toolbox.approvals.denied) if session else {},
            cut=cut,
            fallbacks=_masked(session) if session else (),
            model=without_secrets((session.provider.model if session else model) or "") or None,
            turns=self._steps,
            duration=time.monotonic() - self._begun,
            sandbox=None if session is None or session.safeguards.sandbox is None else session.safeguards.sandbox.state,
            metrics=lambda: None if session is None else _metrics(session),
            structured=structured,
            more={} if session is None else _reported(session),
        )

    def _result(self, error: CodeletError | None, *, partial: bool) -> str:
        from codelet.providers.content.inline_reasoning import split_reasoning  # it is there since the first answer

        answer = split_reasoning("".join(self._answer))[1]
        if isinstance(error, NoAnswer):
            return "" if is_blank(answer) else answer
        return answer or (self._earlier if partial else "")
