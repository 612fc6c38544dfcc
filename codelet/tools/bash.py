"""The tool `bash`: a shell command in the workspace."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from codelet import prompt
from codelet.errors import ToolError
from codelet.safety.verdict import Touch
from codelet.tools.tool import Arguments, Preview, Progress, ToolContext, ToolOutput

if TYPE_CHECKING:
    from codelet.system.process import Finished

_SHOWN = 30_000
_KEPT = 4 << 20
_LONGEST = 600.0


def touches(arguments: Arguments) -> tuple[Touch, ...]:
    """The command."""
    return (Touch("run", str(arguments.get("command") or "")),)


def title(arguments: Arguments) -> str:
    """The command."""
    return str(arguments.get("command") or "")


def preview(context: ToolContext, arguments: Arguments) -> Preview:
    """The whole command."""
    return Preview(arguments["command"])


async def bash(context: ToolContext, progress: Progress, *, command: str, timeout: float = 120) -> ToolOutput:
    """Run a shell command in the workspace, for `timeout` seconds (most 600). No stdin; ends background processes."""
    from codelet.system.git import hardened_environment
    from codelet.system.process import StartError, child_environment, run_child

    seconds = min(max(timeout, 0.1), _LONGEST)
    began = time.time_ns()
    if not command.strip():
        raise ToolError("the command is empty")
    prepared = context.prepare_command(command) if context.prepare_command else command
    own = hardened_environment(child_environment() if context.environment is None else context.environment)
    try:
        done = await run_child(
            context.wrap_command(prepared, own) if context.wrap_command else prepared,
            cwd=context.workspace,
            environment=own,
            timeout=seconds,
            output_limit=_KEPT,
            on_output=progress,
        )
    except StartError as error:
        raise ToolError(str(error)) from error
    failed = done.timed_out or done.exit_code != 0
    text = _text(done, seconds)
    context.outputs.append((began, f"{command}\n{text}"))
    shown = f"{text}\n{prompt.SANDBOXED}" if failed and context.wrap_command else text
    return ToolOutput(shown, failed=failed, most=_SHOWN)


def _text(done: Finished, seconds: float) -> str:
    from codelet.tools.encoding import readable

    # A NUL is legal in JSON, but several servers refuse it.
    parts = [readable(done.output).replace("\0", "\N{REPLACEMENT CHARACTER}").rstrip("\n")]
    if done.timed_out:
        parts.append(prompt.TIMED_OUT.format(seconds=seconds))
    elif done.exit_code < 0:
        parts.append(prompt.ENDED_BY_SIGNAL.format(number=-done.exit_code))
    else:
        parts.append(prompt.EXIT_CODE.format(code=done.exit_code))
    if done.background:
        parts.append(prompt.BACKGROUND_ENDED)
    return "\n".join(part for part in parts if part)
