"""The row below the prompt: model, mode, branch, how much of the budget is used, what it cost."""

from __future__ import annotations

import os
from pathlib import Path

from codelet.context.tokens.budget import percent_of
from codelet.frontends.terminal.show.numbers import money, tokens
from codelet.frontends.terminal.show.style import Signs
from codelet.loop.session import Session
from codelet.system.text import clean

_BAR = 8


def bar(part: int, whole: int, cells: int, signs: Signs) -> str:
    """A bar of so many cells; any use at all fills one."""
    filled = min(cells, max(1 if part > 0 else 0, round(part * cells / whole))) if whole > 0 else 0
    return signs.full * filled + signs.empty * (cells - filled)


def status_parts(session: Session, branch: str, attached: int, signs: Signs) -> list[str]:
    """The parts of the row, the most important first."""
    size, budget = session.size, session.budget
    mode = f"{session.policy.mode} --yes" if session.policy.yes else session.policy.mode
    parts = [clean(session.provider.model), mode, *_confinement(session)]
    parts.append(f"{bar(size, budget, _BAR, signs)} {percent_of(size, budget)}% of {tokens(budget)}")
    if session.usage.total:
        used = f"{tokens(session.usage.total_input)} in {tokens(session.usage.output)} out"
        parts.append(f"{used} {money(session.cost)}" if session.cost else used)
    parts += extension_words(session)
    if branch:
        parts.append(clean(branch))
    if attached:
        parts.append(f"{attached} output{'s' if attached > 1 else ''} to send")
    return parts


def extension_words(session: Session) -> list[str]:
    """What the session's extensions say of themselves."""
    return [clean(word) for each in session.extensions if (word := each.status())]


def _confinement(session: Session) -> list[str]:
    """What confines commands that nobody approved, where all are such; that nothing does, in any mode. Nothing until it
    was looked for.
    """
    sandbox = session.safeguards.sandbox
    if sandbox is None or not sandbox.demanded(session.policy.mode) or sandbox.found is None:
        return []
    if sandbox.found.way is None:
        return ["NO SANDBOX"]
    return [f"in {sandbox.found.way}"] if session.policy.mode == "auto" or sandbox.use == "on" else []


def fitted(parts: list[str], width: int, signs: Signs) -> str:
    """The first part, and of the others those that the width takes."""
    line = parts[0][:width] if parts else ""
    for part in parts[1:]:
        longer = f"{line} {signs.dot} {part}"
        if len(longer) <= width:
            line = longer
    return line


def short_path(path: Path) -> str:
    """The path with the home folder as `~`."""
    home = os.path.expanduser("~")
    text = str(path)
    return "~" + text[len(home) :] if home != "/" and (text == home or text.startswith(home + os.sep)) else text
