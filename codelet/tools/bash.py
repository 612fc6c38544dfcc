"""The tool `bash`: a shell command in the workspace."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from codelet.call_record import CommandEnd
from codelet.errors import ToolError
from codelet.safety.verdict import Touch
from codelet.tools.tool import Arguments, Preview, Progress, ToolContext, ToolOutput, tool

if TYPE_CHECKING:
    from codelet.system.process import Finished

_EXIT_CODE = "[exit code {code}]"
_ENDED_BY_SIGNAL = "[ended by signal {number}]"
_TIMED_OUT = "[timed out after {seconds:g} s; it and all its processes were ended]"
PIPELINE_FAILED = "[pipeline exit codes: {codes}]"
PIPELINE_UNKNOWN = "[pipeline exit codes: unknown]"
"""Its own EXIT trap took the place of codelet's, for example."""

_RESOURCE_LIMITS = {
    "memory": "[a process may have {most} MiB of data (setting command_memory)]",
    "processes": "[the user may have {most} processes and threads in total (setting command_processes)]",
    "file_size": "[a file that a command writes may get {most} MiB large (setting command_file_size)]",
}
"""The note on the limit that was in force, if a failed command's output speaks of it."""
_BACKGROUND_ENDED = "[it left processes in the background; they were ended. With background=true a command continues]"
SUPERVISOR_LOST = "[a process of codelet that supervises commands was killed; another took its place]"
_FULL_SCREEN = (
    "[it was ended: it draws on a terminal's whole screen or reads keys, and there is neither here; use a command that "
    "prints and ends]"
)


_NOT_THERE = re.compile("No such file|Permission denied|not found", re.IGNORECASE)
_PLAIN = re.compile(r"[\w./=,:@%+ -]+")
_SHOWN = 30_000
_KEPT = 4 << 20
_LONGEST = 600.0
_BEFORE = 400
"""Bytes of earlier output that are looked at with each piece."""
_IN_BACKGROUND = " (in the background)"


def is_control(command: str) -> bool:
    """Return whether a command is no shell's but shows, awaits or ends a background task: `wait %1 for PATTERN`, say.

    The command of a call is run by a shell that has no jobs, in which none of these could do anything.
    """
    verb, *words = command.split(None, 3)
    if not words:
        return verb == "jobs"
    if words[0][:1] != "%" or not words[0][1:].isdecimal():
        return False
    if len(words) == 1:
        return verb in ("jobs", "wait", "kill")
    return verb == "wait" and words[1] == "for" and len(words) == 3


def touches(arguments: Arguments) -> tuple[Touch, ...]:
    """The command; nothing if it is for a task that runs already."""
    command = str(arguments.get("command") or "")
    if command.strip() and is_control(command):
        return ()
    return (Touch("run", command, arguments.get("unconfined") is True),)


def title(arguments: Arguments) -> str:
    """The command."""
    return f"{arguments.get('command') or ''}{_IN_BACKGROUND if arguments.get('background') else ''}"


def preview(context: ToolContext, arguments: Arguments) -> Preview:
    """The whole command."""
    asks = "run this command in the background until the session ends" if arguments.get("background") else ""
    return Preview(arguments["command"], asks)


async def bash(
    context: ToolContext,
    progress: Progress,
    *,
    command: str,
    timeout: float = 120,
    background: bool = False,
    unconfined: bool = False,
) -> ToolOutput:
    """Run a shell command in the workspace: build, test, run programs, use git.

    The answer is what it prints on stdout and stderr, then `[exit code N]`; long output is cut in the middle, and
    recall reads the rest. To read, search or change files, use the other tools. Each call is a new shell in the
    workspace: `cd` and variables do not last, so write `cd web && npm test`. There is no terminal and no input: pass
    options such as --yes or -m, and start no editor, pager or watch mode. What still runs when the command ends is
    ended; start servers with `background`.

    command: The command line.
    timeout: The time limit in seconds, at most 600. Default: 120.
    background: true lets the command run on; the answer gives its number, such as %1. Then the command `jobs %1`
        shows its output, `wait %1` waits for its end, `wait %1 for REGEX` for a line of its output, and `kill %1`
        ends it.
    unconfined: true asks the user to run it outside the sandbox. Use it only if the sandbox made the command fail.
    """
    seconds = min(max(timeout, 0.1), _LONGEST)
    if not command.strip():
        raise ToolError("the command is empty")
    if (tasks := context.tasks) is None and (background or is_control(command)):
        raise ToolError("nothing runs in the background here")
    if tasks is not None and is_control(command):  # it was judged as such: no shell may ever see it
        return await tasks().control(command, seconds, progress)
    if tasks is not None and background:
        from codelet.system.process.shell_start import start_variables

        argv, own, shell = _prepared(context, command, lasting=True)
        return await tasks().start(command, argv, context, {**own, **start_variables(context.resources, shell, None)})
    return await _run_to_its_end(context, progress, command, seconds)


def alone(arguments: Arguments) -> bool:
    """Return whether other calls of the step have to wait: for a server to start, for `kill %1` to end one."""
    command = str(arguments.get("command") or "")
    return bool(arguments.get("background")) or bool(command.strip() and is_control(command))


TOOLS = (tool(bash, touches=touches, title=title, preview=preview).replace(alone=alone),)
"""In the order in which the model sees them."""


async def _run_to_its_end(context: ToolContext, progress: Progress, command: str, seconds: float) -> ToolOutput:
    from codelet.system.process import StartError, run_child
    from codelet.system.process.shell_start import (
        PREFIX,
        PipelineReport,
        has_pipe,
        is_bash,
        limits_hit,
        start_variables,
    )

    began = time.time_ns()
    argv, own, shell = _prepared(context, command)
    with PipelineReport(is_bash(shell) and has_pipe(command)) as report:
        try:
            done = await run_child(
                argv,
                cwd=context.workspace,
                environment={**own, **start_variables(context.resources, shell, report)},
                timeout=seconds,
                output_limit=_KEPT,
                on_output=lambda piece: progress(piece.replace(PREFIX, "")),
                stop_when=_screen_watch(),
                keep=report.descriptors,
            )
        except StartError as error:
            raise ToolError(str(error)) from error
        if done.stopped:
            shown = printed(done.output.replace(PREFIX, ""))
            return ToolOutput(f"{shown}\n{_FULL_SCREEN}".lstrip("\n"), failed=True, most=_SHOWN)
        ended = CommandEnd(code=None if done.timed_out else done.exit_code, pipeline=report.codes())
    failed = ended.code != 0
    caveat, *line = _pipeline(() if failed else ended.pipeline)
    hit = limits_hit(context.resources, shell, done.exit_code, done.output)
    notes = [_RESOURCE_LIMITS[name].format(most=context.resources[name]) for name in hit]
    text = "\n".join((_text(done, seconds), *line, *notes))
    context.outputs.append((began, f"{command}\n{text}"))
    blocked = failed and context.kept_from_writing is not None and context.kept_from_writing(text)
    rule = f"bash({command})" if _PLAIN.fullmatch(command) else "bash"
    told = [context.write_note.format(rule=rule)] if blocked else []
    told += [context.sandbox_note, context.home_note if _misses_home(context, text) else ""] if failed else []
    text = "\n".join(filter(None, (text, *told)))
    return ToolOutput(text, failed=failed, most=_SHOWN, caveat=caveat, ended=ended, blocked=blocked)


def _prepared(
    context: ToolContext, command: str, *, lasting: bool = False
) -> tuple[Sequence[str], dict[str, str], str]:
    """The words that run a command, what they get for an environment, and the shell among them."""
    from codelet.system.git import hardened_environment
    from codelet.system.process import child_environment, shell_argv
    from codelet.system.process.shell_start import PREFIX

    prepared = PREFIX + command
    own = hardened_environment(child_environment() if context.environment is None else context.environment)
    shell = shell_argv(prepared, own, context.workspace)
    wrap = (context.wrap_lasting if lasting else None) or context.wrap_command
    return shell if wrap is None else wrap(prepared, own), own, shell[0]


def printed(output: str) -> str:
    """Return a command's output as a result can hold it: the final state of a terminal's lines, without escapes.

    A NUL is legal in JSON, but several servers refuse it.
    """
    from codelet.system.text.printout import as_printed
    from codelet.tools.encoding import readable

    return readable(as_printed(output)).replace("\0", "\N{REPLACEMENT CHARACTER}").rstrip("\n")


def exit_line(code: int) -> str:
    """Return how a command ended; the code is negative for a signal."""
    return _ENDED_BY_SIGNAL.format(number=-code) if code < 0 else _EXIT_CODE.format(code=code)


def _screen_watch() -> Callable[[bytes], bool]:
    """Return what is given a command's output, and is true once that draws on a whole screen: it would never end."""
    before = b""

    def draws(data: bytes) -> bool:
        nonlocal before
        seen, before = before + data, (before + data)[-_BEFORE:]
        if b"\x1b" not in data and b"Vim: " not in data:
            return False
        from codelet.system.text.printout import draws_on_screen

        return draws_on_screen(seen.decode("utf-8", "replace"))

    return draws


def _pipeline(codes: tuple[int, ...] | None) -> tuple[str, ...]:
    """A few words for the user, or none, and a line for the model if a part may have failed."""
    from codelet.system.process.shell_start import has_failed_part

    if codes is None:
        return "exit codes unknown", PIPELINE_UNKNOWN
    if not has_failed_part(codes):
        return ("",)
    return f"exit {' | '.join(map(str, codes))}", PIPELINE_FAILED.format(codes=" ".join(map(str, codes)))


def _misses_home(context: ToolContext, text: str) -> bool:
    """Return whether the output says that something of the home, outside the workspace, is missing or unreadable."""
    home, root = os.path.expanduser("~"), str(context.workspace)
    lines = (line.replace(root, "") for line in text.splitlines() if _NOT_THERE.search(line))
    return any(f"{home}/" in line or "~/" in line for line in lines)


def _text(done: Finished, seconds: float) -> str:
    from codelet.system.process.shell_start import PREFIX

    parts = [printed(done.output.replace(PREFIX, ""))]
    parts.append(_TIMED_OUT.format(seconds=seconds) if done.timed_out else exit_line(done.exit_code))
    if done.background:
        parts.append(_BACKGROUND_ENDED)
    if done.lost:
        parts.append(SUPERVISOR_LOST)
    return "\n".join(part for part in parts if part)
