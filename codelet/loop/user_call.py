"""A tool call that the user asks for: judged, asked about, run and noted like the model's, with none of it in the list.

What the model has seen stays as it was, so it has to read a file again that was changed this way.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator

from codelet.errors import ToolError, UsageError
from codelet.events import Event, ResultStatus, ToolCallStarted, ToolResult
from codelet.extensions.base import GuardedCall
from codelet.loop.session import Session
from codelet.tools.tool import Arguments, ToolContext, ToolOutput

_ID = "user"


async def user_call(
    session: Session, context: ToolContext, name: str, arguments: Arguments
) -> AsyncGenerator[Event, None]:
    """The events of one call of the session's tool `name`. Raises UsageError where the session has no such tool.

    `context` says what of the files is known; a change needs the fingerprint of its file in `seen`.
    """
    tool = next((each for each in session.tools if each.name == name), None)
    if tool is None:
        raise UsageError(f"this session has no tool {name}")
    call = GuardedCall(_ID, name, arguments, tool)
    yield ToolCallStarted(id=_ID, name=name, arguments=arguments, title=call.title)
    begun = time.monotonic()
    guards = session.approvals.guards
    status: ResultStatus = "failed"
    try:
        call = call.replace(arguments=tool.checked(arguments))
        admission = await session.approvals.admit(call, context)
        call = call.replace(verdict=admission.verdict)
        if admission.refusal is not None:
            status, output = "refused", ToolOutput(admission.refusal, failed=True)
        else:
            call = call.replace(ran=True)
            ready = context.replace(place=admission.verdict.place, change=admission.change)
            session.touched.note(call.touches or (), admission.verdict.place)
            output = await tool.run(ready, lambda text: None, **call.arguments)
            status = "failed" if output.failed else "done"
            if any(touch.kind == "write" for touch in call.touches or ()):
                guards.record("change", call, summary=output.text, diff=output.display)
    except ToolError as error:
        output = ToolOutput(str(error), failed=True)
    output = await guards.after(call, output)
    seconds = time.monotonic() - begun
    if status != "refused":
        guards.record("execution", call, status=status, seconds=round(seconds, 3))
    yield ToolResult(id=_ID, name=name, status=status, text=output.text, display=output.display, seconds=seconds)
