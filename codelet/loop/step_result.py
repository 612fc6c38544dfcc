"""What a step comes to once its answer is there, or has failed: its cost, its place in the list, its calls.

Imported with the first answer.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING

from codelet import events, prompt
from codelet.errors import LimitReached, ProviderError
from codelet.loop.final_answer import asked_again_or_failed, final_or_again
from codelet.messages import tool_result
from codelet.system.text import is_blank

if TYPE_CHECKING:
    from codelet.loop.reply import Reply
    from codelet.loop.turn import TurnState

_UNUSABLE_STEPS = 5


async def act_on(turn: TurnState, reply: Reply) -> AsyncGenerator[events.Event, None]:
    """Take the reply in and run the calls that it asks for; one without ends the turn, or is asked for once more."""
    answered = _take_in(turn, reply)
    for event in _spend(turn, reply, answered):
        yield event
    if reply.is_void:
        yield asked_again_or_failed(turn, reply)
        return
    turn.asked_again = False
    if turn.calls is not None:
        async with aclosing(turn.calls.run()) as results:
            async for event in results:
                yield event
        _after_calls(turn)
        turn.wrote_call = False
    elif (again := final_or_again(turn, reply)) is not None:
        yield again


def once_more(turn: TurnState, error: ProviderError) -> Iterator[events.Event]:
    """Raise the error, unless the step is worth making once more: after one forced compaction, or by another model.

    What did not fit may have been the room for the answer alone: then a window that the refusal names is enough.
    """
    turn.spend_reported()  # before another model, which has other prices
    if not error.overflow:
        begun = turn.reply is not None and turn.reply.has_begun and not turn.upkeep.unseen
        if not turn.standby.opened().gave_up(error, begun=begun):
            raise error
        return
    if turn.standby.route is not None:
        turn.standby.route.worked()  # it took the request in: a probe is over
    if turn.overflow != "no":
        raise error
    too_long, told = turn.upkeep.overflowed(error)
    yield from told
    if too_long:
        if not turn.upkeep.may_compact:
            why = f"{error}; compaction is off (--compact auto)"
            raise ProviderError(why, status=error.status, overflow=True) from error
        turn.overflow = "now"


def _spend(turn: TurnState, reply: Reply, answered: int) -> Iterator[events.Event]:
    """Count what the reply cost, where the provider says it; what is to be told of that."""
    written = reply.newly_written()
    turn.meter.dropped += reply.dropped
    if reply.usage is None:
        turn.meter.count(None, written)
        return
    turn.usage += reply.usage
    yield from turn.meter.spend(reply.usage, answered, written)


def _take_in(turn: TurnState, reply: Reply) -> int:
    """Put the finished reply into the list, together with a placeholder result for each call.

    Gives the index behind the assistant message.
    """
    calls = reply.calls(turn.conversation.call_ids)
    turn.reply = None
    if not calls and is_blank(reply.text):
        return len(turn.conversation.messages)
    message = reply.message(calls, turn.standby.provider.origin)
    placeholders = [tool_result(call["id"], prompt.INTERRUPTED) for call in calls]
    place = turn.conversation.append(message, *placeholders)
    if calls:
        from codelet.loop.calls import CallRunner  # many answers ask for none

        log, answer = turn.conversation.record, turn.conversation.answer
        turn.calls = CallRunner(calls, turn.toolbox, answer, cut=reply.finish == "length", log=log)
    return place + 1


def _after_calls(turn: TurnState) -> None:
    assert turn.calls is not None
    if turn.calls.changed:
        turn.upkeep.after_calls()
    turn.unusable_steps = turn.unusable_steps + 1 if turn.calls.all_unusable else 0
    turn.calls = None
    if turn.unusable_steps >= _UNUSABLE_STEPS:
        raise LimitReached(
            f"the model made unusable tool calls in {_UNUSABLE_STEPS} steps in a row; try another --model"
        )
