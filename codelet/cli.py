"""The command line: arguments → Settings → one front end → exit status."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, NoReturn

from codelet import __version__

if TYPE_CHECKING:
    import argparse

    from codelet.settings import Settings

_EXIT_BUG = 70
_EXIT_INTERRUPT = 130


def main() -> NoReturn:
    """Run codelet with the process's arguments and exit."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):  # nothing else is imported for it
        print(f"codelet {__version__}")
        sys.exit(0)
    gc.disable()  # nothing made while starting is garbage; the front end turns it on again
    debug = "--debug" in arguments
    try:
        status = _run(arguments)
    except KeyboardInterrupt:
        status = _EXIT_INTERRUPT
    except BrokenPipeError:
        status = 0  # the reader has what it wanted (`codelet … | head -1`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except Exception as error:
        status = _report(error, debug=debug)
        if status == _EXIT_BUG and debug:
            raise
    _leave(status)


def _run(arguments: list[str]) -> int:
    from codelet.frontends.arguments import build_parser

    options = build_parser().parse_args(arguments)
    if options.version:
        print(f"codelet {__version__}")
        return 0
    if options.command is not None or _interactive(options):
        gc.enable()
    if options.command == "policy":
        from codelet.frontends.policy_check import run_check

        return run_check(options)
    if options.command == "demo":
        return _demo(keep=options.keep)
    settings = _settings(options)
    if options.command == "doctor":
        return _doctor(settings, as_json=options.json)
    if _interactive(options):
        return _repl(settings)
    from codelet.frontends.one_shot import run_one_shot

    return run_one_shot(
        settings,
        options.prompt,
        output_format=options.output_format or "text",
        quiet=options.quiet,
    )


def _interactive(options: argparse.Namespace) -> bool:
    return options.prompt is None and sys.stdin is not None and sys.stdin.isatty()


def _settings(options: argparse.Namespace) -> Settings:
    from codelet.frontends.workspace import current_folder
    from codelet.settings import PARSERS, load_settings

    flags = {key: getattr(options, key, None) for key in PARSERS}
    return load_settings(flags, workspace=current_folder(), trust=options.trust)


def _demo(*, keep: bool) -> int:
    import asyncio

    from codelet.frontends.demo import run_demo

    return asyncio.run(run_demo(keep=keep))


def _doctor(settings: Settings, *, as_json: bool) -> int:
    import asyncio

    from codelet.frontends.doctor import run_doctor

    return asyncio.run(run_doctor(settings, json=as_json))


def _repl(settings: Settings) -> int:
    import asyncio

    from codelet.frontends.repl import run_repl

    return asyncio.run(run_repl(settings))


def _report(error: Exception, *, debug: bool) -> int:
    """One line on stderr for what went wrong; the exit status that it leads to."""
    from codelet.errors import CodeletError
    from codelet.text import one_line

    if isinstance(error, CodeletError):
        line, status = str(error), error.exit_status
    else:
        hint = "" if debug else "; run it again with --debug"
        line, status = f"a bug in codelet: {type(error).__name__}: {error}{hint}", _EXIT_BUG
    if sys.stderr is not None:
        sys.stderr.write(f"codelet: {one_line(line, 2_000)}\n")
    return status


def _leave(status: int) -> NoReturn:
    """Exit without waiting for the interpreter to take itself apart; everything is flushed by now."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            status = status or _EXIT_BUG
    os._exit(status)
