"""The command line: arguments → Settings → one front end → exit status."""

from __future__ import annotations

import errno
import gc
import os
import stat
import sys
import time

from codelet import __version__

TYPE_CHECKING = False  # type checkers take it for True; importing typing for it would be half of what --version costs
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path
    from typing import NoReturn

    from codelet.settings import Settings

_VERSION = (["--version"], ["-V"], ["-v"])
_NOT_HERE = "codelet: Windows is not supported: run codelet in WSL (https://aka.ms/wsl)\n"
_EXIT_USAGE = 2
_EXIT_INCOMPLETE = 5
_EXIT_BUG = 70
_EXIT_INTERRUPT = 130
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def main() -> NoReturn:
    """Run codelet with the process's arguments and exit."""
    arguments = sys.argv[1:]
    if sys.platform == "win32" and arguments not in _VERSION:
        sys.stderr.write(_NOT_HERE)
        sys.exit(_EXIT_USAGE)
    _prepare_streams()
    gc.disable()  # nothing made while starting is garbage; the front end turns it on again
    run = _Run()
    try:
        status = _run(arguments, run)
    except KeyboardInterrupt:
        status = _EXIT_INTERRUPT
    except SystemExit as ended:  # after --help
        status = ended.code if isinstance(ended.code, int) else 0
    except BrokenPipeError:
        status = 0  # the reader has what it wanted (`codelet … | head -1`)
    except BaseException as error:
        full = isinstance(error, OSError) and error.errno in _FULL
        if isinstance(error, OSError) and (full or error.errno in _NO_DESCRIPTORS):
            status = _unwritten(error) if full else _without_descriptors(error)
        else:
            status = _report(error, run, debug="--debug" in arguments)
    run.last()
    _leave(status)


class _Run:
    """The user's `model`, when the run began, and `last`, a function to call before the exit."""

    def __init__(self) -> None:
        self.model: str | None = None
        self.begun = time.monotonic()
        self.last: Callable[[], object] = lambda: None


def _prepare_streams() -> None:
    """Open /dev/null for a closed standard stream, so that no socket takes its number.

    A closed stdout stays None: code that needs it reports that. Characters outside a stream's encoding are replaced.
    """
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: that stream's
        elif name == "stdout":
            stream.reconfigure(errors="replace")


def _end_at_interrupt() -> None:
    """Let SIGINT end the process while it starts: nothing is open yet.

    An exception in the middle of an import comes out as another one, or not at all.
    """
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(_EXIT_INTERRUPT))


def _raise_at_interrupt() -> None:
    """Turn SIGINT into an exception again, which asyncio turns into a cancel."""
    import signal

    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _run(arguments: list[str], run: _Run) -> int:
    if arguments in _VERSION:  # nothing else is imported for it
        print(f"codelet {__version__}")
        return 0
    _end_at_interrupt()
    _begin_git(arguments, run)
    from codelet.errors import UsageError
    from codelet.frontends.arguments import parse_command_line
    from codelet.frontends.flags import FROM_PIPE

    options = parse_command_line(arguments)
    if options.command == "help":
        from codelet.frontends.parsers import print_help

        print_help(options.about)
        return 0
    if options.version:
        print(f"codelet {__version__}")
        return 0
    if options.command is not None:
        return _command(options, run)
    settings = _settings(options)
    run.model = settings.model
    if _interactive(options):
        if settings.json_schema is not None:
            raise UsageError("--json-schema is for one answer: give a prompt with -p")
        return _repl(settings, lambda: _settings(options, trust=True), options.prompt)
    from codelet.frontends.printing import run_one_shot

    return run_one_shot(
        settings,
        None if options.prompt == FROM_PIPE else options.prompt,
        output_format=options.output_format or "text",
        quiet=options.quiet,
    )


def _begin_git(arguments: list[str], run: _Run) -> None:
    """Start `git status` while the rest is imported, if -p says that a model will be asked.

    Not after a pipe: its writer can change files until it ends.
    """
    mode = os.fstat(sys.stdin.fileno()).st_mode if sys.stdin is not None else 0
    piped = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    if piped or not arguments[:1] or not arguments[0].startswith("-") or "-p" not in arguments or "--bare" in arguments:
        return
    import signal

    from codelet.settings import current_folder
    from codelet.system.git import begin_status, end_ahead

    def interrupted(*_: object) -> None:
        end_ahead()
        os._exit(_EXIT_INTERRUPT)

    run.last = end_ahead
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupted)
    begin_status(current_folder())


def _command(options: argparse.Namespace, run: _Run) -> int:
    """Run a command; return its exit status."""
    if options.command != "review":
        gc.enable()
        _raise_at_interrupt()
    import asyncio

    match options.command:
        case "policy" | "audit":
            from codelet.frontends.commands.checks import run_check, run_verify

            return run_check(_settings(options), options) if options.command == "policy" else run_verify(options)
        case "sessions":
            from codelet.frontends.commands.session_commands import run_sessions

            return run_sessions(options)
        case "completion":
            from codelet.frontends.parsers import print_completion

            print_completion(options.form)
            return 0
        case "acp":
            from codelet.frontends.acp import run_acp

            return asyncio.run(run_acp(lambda folder: _settings(options, folder), options.sessions))
        case "demo":
            from codelet.frontends.commands.demo import run_demo

            return asyncio.run(run_demo(keep=options.keep))
        case "profiles":
            from codelet.frontends.commands.checks import run_profiles

            return run_profiles(_settings(options))
        case "models":
            from codelet.frontends.commands.model_list import run_models

            return asyncio.run(run_models(_settings(options), options))
        case "mcp":
            from codelet.frontends.commands.checks import run_mcp_check

            return asyncio.run(run_mcp_check(_settings(options), as_json=options.json))
        case "doctor":
            from codelet.frontends.commands.doctor import run_doctor

            return asyncio.run(run_doctor(_settings(options), json=options.json))
    from codelet.frontends.commands.review_command import run_review

    settings = _settings(options)
    run.model = settings.model
    return run_review(settings, options)


def _interactive(options: argparse.Namespace) -> bool:
    """Return whether to open the REPL: without -p it needs a terminal on both sides."""
    if sys.stdin is None or not sys.stdin.isatty():
        return False
    if options.bare_prompt:
        one_shot = options.output_format is not None or options.quiet
        return not one_shot and sys.stdout is not None and sys.stdout.isatty()
    return options.prompt is None


def _settings(options: argparse.Namespace, workspace: Path | None = None, *, trust: bool = False) -> Settings:
    from codelet.settings import SETTINGS, current_folder, load_settings

    flags = {key: getattr(options, key, None) for key in SETTINGS}
    return load_settings(flags, workspace=workspace or current_folder(), trust=trust or options.trust)


def _repl(settings: Settings, trusting: Callable[[], Settings], first: str | None) -> int:
    import asyncio

    from codelet.frontends.terminal.run import RunPlain, run_repl
    from codelet.frontends.trust import trusted

    plain: RunPlain | None = None
    if os.environ.get("TERM") == "dumb":
        from codelet.frontends.plain_repl import run_plain

        plain = run_plain
    _raise_at_interrupt()
    return asyncio.run(run_repl(trusted(settings, trusting), first, plain))


def _report(error: BaseException, run: _Run, *, debug: bool) -> int:
    """Report an error in one line on stderr; return the exit status."""
    from codelet.errors import CodeletError
    from codelet.frontends.streams import say
    from codelet.safety.secrets import mask
    from codelet.system.text import one_line

    if isinstance(error, CodeletError):
        line, status = str(error), error.exit_status
        status = _as_json(line, status, run)
    else:
        hint = "" if debug else "; run it again with --debug"
        line, status = f"a bug in codelet: {type(error).__name__}: {error}{hint}", _EXIT_BUG
        if debug:
            import traceback

            say(mask("".join(traceback.format_exception(error)).rstrip(), patterns=True))
    say(f"codelet: {one_line(mask(line, patterns=True), 2_000)}")
    return status


def _as_json(message: str, status: int, run: _Run) -> int:
    """Write the failure as JSON too, if that format was requested; return the exit status."""
    arguments = sys.argv[1:]
    if not any(word.startswith("--output-format") for word in arguments):
        return status
    from codelet.frontends.arguments import requested_json

    form = requested_json(arguments)
    if form is None or sys.stdout is None:
        return status
    from codelet.frontends.printing.json_output import write_failure
    from codelet.outcome import Outcome
    from codelet.safety.secrets import mask
    from codelet.usage import Usage

    took = time.monotonic() - run.begun
    text, model = mask(message, patterns=True), None if run.model is None else mask(run.model)
    failed = Outcome("", True, status, text, Usage(), None, (), model=model, duration=took)
    try:
        write_failure(form, failed)
    except BrokenPipeError:
        return status
    except OSError as error:
        return status or _unwritten(error)
    return status


def _without_descriptors(error: OSError) -> int:
    """Report that no file can be opened, without opening one; return the exit status."""
    why = f"codelet: {error.strerror}: the limit of open files is too low (ulimit -n)\n"
    try:
        os.write(2, why.encode())
    except OSError:
        return _EXIT_USAGE
    return _EXIT_USAGE


def _leave(status: int) -> NoReturn:
    """Exit without the interpreter's clean-up; everything is flushed."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        os._exit(status)  # the reader has what it wanted
    except OSError as error:
        status = status or _unwritten(error)
    os._exit(status)


def _unwritten(error: OSError) -> int:
    from codelet.frontends.streams import say

    say(f"codelet: the output could not be written: {error.strerror or error}")
    return _EXIT_INCOMPLETE
