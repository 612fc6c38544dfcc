"""`codelet doctor`: what codelet finds on this machine, what is wrong with it, and what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from codelet import __version__
from codelet.errors import EXIT_DONE, EXIT_USAGE
from codelet.frontends.doctor import machine, models, packages
from codelet.frontends.doctor.finding import Finding
from codelet.frontends.workspace import current_folder
from codelet.settings import Settings
from codelet.text import one_line

if TYPE_CHECKING:
    from rich.text import Text

_NAME_COLUMNS = 15
_LONGEST = 600


async def run_doctor(settings: Settings, *, json: bool) -> int:
    """Print the findings, as lines or as one JSON object; gives the exit status, not 0 if one is a `fail`."""
    findings = await examine(settings)
    status = EXIT_USAGE if any(finding.state == "fail" for finding in findings) else EXIT_DONE
    if json:
        _print_json(findings, status)
    else:
        _print_lines(findings)
    return status


async def examine(settings: Settings) -> list[Finding]:
    """All checks, those that wait for something at once."""
    folder = current_folder()
    model, servers, git, ripgrep, sandbox = await asyncio.gather(
        models.model(settings),
        models.servers(),
        machine.git(folder),
        machine.ripgrep(folder),
        machine.sandbox(folder),
    )
    return [
        machine.python(),
        machine.itself(),
        model,
        models.keys(),
        servers,
        models.settings_files(settings),
        models.proxies(),
        models.certificates(),
        git,
        ripgrep,
        sandbox,
        machine.terminal(),
        packages.litellm(),
        packages.tiktoken(),
        packages.start_files(),
    ]


def _print_json(findings: Sequence[Finding], status: int) -> None:
    import json

    checks = [{name: getattr(finding, name) for name in Finding.fields} for finding in findings]
    print(json.dumps({"version": __version__, "exit": status, "checks": checks}, ensure_ascii=True, indent=2))


def _print_lines(findings: Sequence[Finding]) -> None:
    from codelet.frontends.render.console import OutputConsole

    console = OutputConsole()
    for finding in findings:
        for row in _rows(finding, max(console.width, 40)):
            console.print(row, soft_wrap=True)


def _rows(finding: Finding, width: int) -> list[Text]:
    """State, name and detail; the advice below it. Long ones go on below, indented."""
    from rich.text import Text

    from codelet.frontends.render.style import BAD, GOOD, WARN
    from codelet.frontends.render.wrap import wrap

    style = {"ok": GOOD, "warn": WARN, "fail": BAD}[finding.state]
    margin = 6 + _NAME_COLUMNS
    first, *rest = wrap(Text(one_line(finding.detail, _LONGEST)), width - margin)
    head = Text.assemble((f"{finding.state:<6}", style), (f"{finding.name:<{_NAME_COLUMNS}}", "bold"), first)
    advice = wrap(Text(one_line(finding.advice, _LONGEST), style), width - margin) if finding.advice else []
    return [head, *(Text.assemble(" " * margin, row) for row in (*rest, *advice))]
