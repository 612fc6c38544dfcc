"""`!command`: a shell command that the user runs; the model sees its output with the next prompt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path

from codelet.events import Event, ResultStatus, ToolCallStarted, ToolProgress, ToolResult
from codelet.frontends.terminal.show.call_rows import USER_COMMAND
from codelet.system.process import Finished, StartError, run_child
from codelet.tools.bash import exit_line

_OUTPUT_LIMIT = 30_000
_SECONDS = 3_600.0
_ID = "user"


class UserCommand:
    """One run of a command. `events` shows it like a tool call; `text` is what the model will read."""

    def __init__(self, command: str, workspace: Path) -> None:
        self._command = command
        self._workspace = workspace
        self._finished: Finished | None = None
        self._seen: list[str] = []
        self._stopped = False

    @property
    def text(self) -> str:
        """The command with its output and exit code, as a terminal would show it."""
        if self._finished is None:
            output = "".join(self._seen)[-_OUTPUT_LIMIT:]
            return f"$ {self._command}\n{output}\n[stopped by the user]"
        output = self._finished.output.rstrip("\n")
        return f"$ {self._command}\n{output}\n{exit_line(self._finished.exit_code)}"

    async def events(self) -> AsyncGenerator[Event, None]:
        """Run the command in the workspace; its output while it comes, then its result."""
        yield ToolCallStarted(id=_ID, name=USER_COMMAND, arguments={"command": self._command}, title=self._command)
        pieces: asyncio.Queue[str | None] = asyncio.Queue()
        task = asyncio.create_task(self._run(pieces))
        try:
            while (piece := await pieces.get()) is not None:
                self._seen.append(piece)
                yield ToolProgress(_ID, piece)
            result = await task
        except asyncio.CancelledError:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            yield ToolResult(id=_ID, name=USER_COMMAND, status="interrupted", text="".join(self._seen))
            raise
        yield result

    async def _run(self, pieces: asyncio.Queue[str | None]) -> ToolResult:
        try:
            done = await run_child(
                self._command,
                cwd=self._workspace,
                timeout=_SECONDS,
                output_limit=_OUTPUT_LIMIT,
                on_output=pieces.put_nowait,
            )
        except StartError as error:
            return ToolResult(id=_ID, name=USER_COMMAND, status="failed", text=str(error))
        finally:
            pieces.put_nowait(None)
        self._finished = done
        status: ResultStatus = "done" if done.exit_code == 0 else "failed"
        return ToolResult(
            id=_ID,
            name=USER_COMMAND,
            status=status,
            text=exit_line(done.exit_code),
            display=done.output,
            seconds=done.seconds,
        )
