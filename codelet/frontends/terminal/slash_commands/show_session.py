"""/status, /context tools, /permissions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codelet.context.tokens import estimate_text
from codelet.context.tokens.budget import percent_of
from codelet.frontends.terminal.show.numbers import money, plural, tokens
from codelet.frontends.terminal.show.style import ACCENT, QUIET
from codelet.system.text import clean, first_sentence, one_line

if TYPE_CHECKING:
    from rich.text import Text

    from codelet.frontends.terminal.screen import Screen
    from codelet.loop.session import Session
    from codelet.tools.tool import Tool

_ROWS = 40
_NAME_COLUMNS = 8


def styled(*parts: str | tuple[str, str]) -> Text:
    """Assemble a row of plain and styled parts."""
    from rich.text import Text

    return Text.assemble(*parts)


async def status(screen: Screen, session: Session, argument: str) -> None:
    """Show model, mode, context, token usage and cost."""
    from codelet.frontends.terminal.show.console import wrap

    used, budget, policy = session.usage, session.window.budget.limit, session.policy
    share = f" ({used.cache_share:.0%})" if used.cache_share else ""
    cached = f", {tokens(used.cache_read)} from the cache{share}" if used.cache_read else ""
    written = f", {tokens(used.cache_write)} written to it" if used.cache_write else ""
    thought = f", {tokens(used.reasoning)} of it reasoning" if used.reasoning else ""
    rows = [
        (
            "model",
            f"{session.provider.model}{f', effort {session.provider.effort}' if session.provider.effort else ''}",
        ),
        ("mode", f"{policy.mode} --yes" if policy.yes else policy.mode),
        ("folder", str(session.workspace)),
        ("context", f"{tokens(session.size)} of {tokens(budget)} tokens, {percent_of(session.size, budget)}%"),
        ("used", f"{plural(session.turns, 'turn')}, {tokens(used.total_input)} tokens in{cached}{written}"),
        ("", f"{tokens(used.output)} tokens out{thought}"),
        ("cost", _cost(session)),
    ]
    if session.meter.dropped:
        rows.append(("dropped", f"{plural(session.meter.dropped, 'block')} of earlier reasoning, by the server"))
    for name, value in rows:
        first, *more = wrap(styled(clean(value)), max(screen.width - 11, 20))
        screen.say(styled((f"  {name:<9}", ACCENT)) + first, *(styled(" " * 11) + row for row in more))
    if session.turns and "stats" in session.commands:
        screen.text(await session.run_command("stats"))


def _cost(session: Session) -> str:
    if session.meter.cost:
        return f"{money(session.meter.cost)} by list price"
    if session.models.facts.free:
        return "free (local model)"
    if not session.usage.total:
        return "none yet"
    unknown = session.meter.cost is None or session.models.facts.prices is None
    return "unknown: no price for this model, or no usage reported" if unknown else "none yet"


async def tools(screen: Screen, session: Session, argument: str) -> None:
    """List the tools, their effect, and their descriptions."""
    entries = []
    columns = max(_NAME_COLUMNS, *(len(tool.name) for tool in session.toolbox.tools.values()), 0)
    for tool in session.toolbox.tools.values():
        first = first_sentence(tool.description)
        line = styled(
            (f"  {tool.name:<{columns}} ", ACCENT),
            (f"{_effect(tool):<8} {tokens(estimate_text(str(tool.schema()))):>5} tokens  ", QUIET),
            one_line(first, screen.width),
        )
        entries.append(screen.truncate(line))
    screen.say(*entries)


def _effect(tool: Tool) -> str:
    """A tool's effect; "asks" if it depends on the call."""
    touches = tool.touched({})
    if touches is None:
        return "asks"
    kinds = {touch.kind for touch in touches}
    if "run" in kinds:
        return "execute"
    if "write" in kinds:
        return "write"
    return "read" if kinds else "memory"


async def permissions(screen: Screen, session: Session, argument: str) -> None:
    """Show mode, rules, and decisions of this session."""
    policy = session.policy
    lines = [styled("  mode   ", (policy.mode, ACCENT))]
    for action, rules in policy.rules.items():
        lines.extend(styled(f"  {action:<6} ", (clean(rule), ACCENT)) for rule in rules)
    if len(lines) == 1:
        lines.append(styled(("  no rules; the answer a to a question makes one for this session", QUIET)))
    screen.say(*lines, *(screen.truncate(row) for row in _decisions(screen, session)))


def _decisions(screen: Screen, session: Session) -> list[Text]:
    """The session's decisions, newest last."""
    history = session.toolbox.approvals.history
    rows = [styled("")] if history else []
    for decision in list(history)[-_ROWS:]:
        line = styled((f"  {decision.outcome:<14} ", ACCENT), one_line(decision.about, screen.width))
        if decision.reason:
            line.append(f"  {one_line(decision.reason, screen.width)}", QUIET)
        rows.append(line)
    return rows
