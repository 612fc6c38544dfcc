"""Whether an answer without calls may end its turn: as it is, after it was asked for once more, or not at all.

Imported once an answer is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codelet import events, prompt
from codelet.errors import LimitReached, NoAnswer
from codelet.messages import assistant, user
from codelet.system.text import is_blank, one_line

if TYPE_CHECKING:
    from codelet.loop.reply import Reply
    from codelet.loop.turn import TurnState

_LONGEST_REFUSAL = 1_000
_LONGEST_NAME = 80
_CALL_IN_TEXT = "the model wrote a call of {name} as text, so nothing was run"
_CALLS_AS_TEXT = "name another --model, or have the server parse tool calls (vLLM: --enable-auto-tool-choice)"
_PAUSED = "the provider paused the answer: it is not finished"
_UNMET = "the answer does not meet the schema, also when asked again: {problem}"
_REFUSED = "the model or the provider's content filter refused to answer"


def asked_again_or_failed(turn: TurnState, reply: Reply) -> events.Retry:
    """An answer without text and calls: asked for once more, unless it says that the model refuses.

    Raises NoAnswer where that is final, with a note of it in the answer's place: else the next prompt would follow
    right on this one.
    """
    if not is_blank(reply.refusal):
        why = f"the model refused: {_refusal(reply)}"
    else:
        why = _REFUSED if reply.finish == "refused" else "the model's answer is empty"
        if not turn.asked_again:
            turn.asked_again = True
            turn.meter.retries += 1
            turn.steps -= 1
            return events.Retry(attempt=2, attempts=2, wait=0.0, reason=why)
        why = f"{why}, also when asked again"
    turn.conversation.append(assistant(prompt.NO_TEXT.format(reason=why)))
    raise NoAnswer(why)


def _refusal(reply: Reply) -> str:
    return one_line(reply.refusal, _LONGEST_REFUSAL)


def final_or_again(turn: TurnState, reply: Reply) -> events.Retry | None:
    """The turn ends with its answer, unless that does not meet the schema that it has to: once it is asked for anew.

    Raises LimitReached and NoAnswer where the answer is not whole, or is none.
    """
    turn.open = False
    if reply.finish == "length":
        raise LimitReached(turn.meter.allowed.why_cut)
    if reply.finish == "refused":
        said = f": {_refusal(reply)}" if not is_blank(reply.refusal) else ""
        raise NoAnswer(f"{_REFUSED}{said}")
    if reply.finish == "paused":
        raise NoAnswer(_PAUSED)
    required = turn.upkeep.required
    problem = None if required is None else required.objection(reply.text)
    if (required is None or problem is not None) and (again := _call_in_text(turn, reply.text)) is not None:
        return again
    if problem is not None and turn.objected:
        raise NoAnswer(_UNMET.format(problem=problem))
    turn.meter.check()
    if problem is None:
        return None
    turn.open = turn.objected = True
    says = prompt.NOT_AS_ASKED.format(problem=problem)
    return _once_more(turn, says, f"the answer does not meet the schema: {problem}")


def _call_in_text(turn: TurnState, text: str) -> events.Retry | None:
    """Ask once for a real call if the answer ends in one that was written as text. Raises NoAnswer the second time."""
    from codelet.loop.call_in_text import called_in_text

    name = called_in_text(text) if turn.toolbox.schemas else None
    if name is None or turn.toolbox.tool_named(name) is None:
        return None
    why = _CALL_IN_TEXT.format(name=one_line(name, _LONGEST_NAME))
    if turn.wrote_call:
        raise NoAnswer(f"{why}, also when asked again; {_CALLS_AS_TEXT}")
    turn.meter.check()
    turn.open = turn.wrote_call = True
    return _once_more(turn, prompt.CALL_IN_TEXT.format(name=name), why)


def _once_more(turn: TurnState, says: str, reason: str) -> events.Retry:
    turn.conversation.append(user(says))
    return events.Retry(attempt=2, attempts=2, wait=0.0, reason=reason)
