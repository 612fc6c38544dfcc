"""A result, which is what one check of `codelet doctor` came to, and how results are printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from codelet import __version__
from codelet.record import Record
from codelet.system.text import one_line

if TYPE_CHECKING:
    from rich.text import Text

_NAME_COLUMNS = 15
_LONGEST = 600

CheckState = Literal["ok", "warn", "fail"]


class CheckResult(Record):
    """One line: `name` of the check, its state, `detail` of the finding, `advice` for the user.

    `fail` is for a problem that makes codelet unusable or unsafe, `warn` for one that it can do without.
    """

    name: str
    state: CheckState
    detail: str
    advice: str = ""


def print_json(results: Sequence[CheckResult], status: int) -> None:
    """Print one JSON object; `status` is the exit status."""
    import json

    checks = [{name: getattr(result, name) for name in CheckResult.fields} for result in results]
    print(json.dumps({"version": __version__, "exit": status, "checks": checks}, ensure_ascii=True, indent=2))


def print_lines(results: Sequence[CheckResult]) -> None:
    """Print the results as lines."""
    from codelet.frontends.terminal.show.console import OutputConsole

    console = OutputConsole()
    for result in results:
        for row in _rows(result, max(console.width, 40)):
            console.print(row, soft_wrap=True)


def _rows(result: CheckResult, width: int) -> list[Text]:
    """CheckState, name and detail; the advice below it. Long ones continue below, indented."""
    from rich.text import Text

    from codelet.frontends.terminal.show.console import wrap
    from codelet.frontends.terminal.show.style import BAD, GOOD, WARN

    style = {"ok": GOOD, "warn": WARN, "fail": BAD}[result.state]
    margin = 6 + _NAME_COLUMNS
    first, *rest = wrap(Text(one_line(result.detail, _LONGEST)), width - margin)
    head = Text.assemble((f"{result.state:<6}", style), (f"{result.name:<{_NAME_COLUMNS}}", "bold"), first)
    advice = wrap(Text(one_line(result.advice, _LONGEST), style), width - margin) if result.advice else []
    return [head, *(Text.assemble(" " * margin, row) for row in (*rest, *advice))]
