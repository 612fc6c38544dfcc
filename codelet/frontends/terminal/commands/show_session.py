"""Commands that show something: help, context, usage, tools, rules, the diff."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from codelet.frontends.terminal.prompt_line import KEYS_HELP
from codelet.frontends.terminal.show.numbers import money, plural, tokens
from codelet.frontends.terminal.show.style import ACCENT, QUIET
from codelet.git import run_git
from codelet.text import clean, first_sentence, one_line

if TYPE_CHECKING:
    from rich.text import Text

    from codelet.frontends.terminal.commands.table import Command
    from codelet.frontends.terminal.repl import Repl
    from codelet.tools.tool import Tool

_ROWS = 40
_DIFF_ROWS = 400


def show_help(repl: Repl, commands: Sequence[Command], *, keys: bool = True) -> None:
    """The commands and, with `keys`, what else can be typed and pressed."""
    entries = [(f"/{command.name} {command.arguments}".rstrip(), command.help) for command in commands]
    if keys:
        entries.append(("!COMMAND", "run a shell command; the model sees its output with your next prompt"))
        entries.append(("@PATH", "name a file, with completion"))
    pressed = KEYS_HELP if keys else ()
    name_width = max(len(name) for name, _ in (*entries, *pressed)) + 2
    repl.say(*_columns(entries, name_width, repl))
    if pressed:
        repl.say(text(""), *_columns(pressed, name_width, repl))


def _columns(entries: Iterable[tuple[str, str]], name_width: int, repl: Repl) -> list[Text]:
    from codelet.frontends.terminal.show.console import wrap

    rows = []
    for name, meaning in entries:
        for number, row in enumerate(wrap(text(meaning), max(repl.width - name_width - 2, 20))):
            lead = name if number == 0 else ""
            rows.append(text((f"  {lead:<{name_width}}", ACCENT), row.plain))
    return rows


def text(*parts: str | tuple[str, str]) -> Text:
    """A row of parts, each plain or with its style."""
    from rich.text import Text

    return Text.assemble(*parts)


async def usage(repl: Repl, argument: str) -> None:
    """Tokens as the provider reported them, and what they cost."""
    session = repl.session
    used = session.usage
    cached = f", {tokens(used.cache_read)} of it read from the cache" if used.cache_read else ""
    written = f", {tokens(used.cache_write)} written to it" if used.cache_write else ""
    thought = f", {tokens(used.reasoning)} of it reasoning" if used.reasoning else ""
    lines = [
        f"{plural(session.turns, 'turn')}",
        f"{tokens(used.total_input)} tokens in{cached}{written}",
        f"{tokens(used.output)} tokens out{thought}",
    ]
    if session.cost is None:
        lines.append("cost unknown: there is no price for this model")
    elif session.cost:
        lines.append(f"{money(session.cost)} by list price")
    repl.say(*(text(f"  {line}") for line in lines))


async def tools(repl: Repl, argument: str) -> None:
    """The tools, what their calls do, and the first sentence of what the model reads of them."""
    entries = []
    for tool in repl.session.tools:
        first = first_sentence(tool.description)
        line = text((f"  {tool.name:<8} ", ACCENT), (f"{_effect(tool):<8} ", QUIET), one_line(first, repl.width))
        entries.append(repl.cut(line))
    repl.say(*entries)


def _effect(tool: Tool) -> str:
    """What the calls of a tool do; "asks" where only a call tells, or nobody knows."""
    touches = tool.touched({})
    if touches is None:
        return "asks"
    kinds = {touch.kind for touch in touches}
    if "run" in kinds:
        return "execute"
    if "write" in kinds:
        return "write"
    return "read" if kinds else "memory"


async def permissions(repl: Repl, argument: str) -> None:
    """The mode and the rules of this session, and what was asked and refused."""
    policy = repl.session.policy
    lines = [text("  mode   ", (policy.mode, ACCENT))]
    for action, rules in policy.rules.items():
        lines.extend(text(f"  {action:<6} ", (clean(rule), ACCENT)) for rule in rules)
    if len(lines) == 1:
        lines.append(text(("  no rules; a question answered with a makes one for this session", QUIET)))
    repl.say(*lines, *(repl.cut(row) for row in _decisions(repl)))


def _decisions(repl: Repl) -> list[Text]:
    """What was asked and refused in this session, the newest last."""
    history = repl.session.approvals.history
    rows = [text("")] if history else []
    for decision in list(history)[-_ROWS:]:
        row = text((f"  {decision.outcome:<14} ", ACCENT), one_line(decision.about, repl.width))
        rows.append(row.append(f"  {one_line(decision.reason, repl.width)}", QUIET) if decision.reason else row)
    return rows


async def diff(repl: Repl, argument: str) -> None:
    """What changed in the work tree since the last commit."""
    from codelet.frontends.terminal.show.diff_rows import set_diff

    folder = repl.session.workspace
    answer = await run_git(folder, "diff", "HEAD", limit=4 << 20)
    if answer is not None and answer.exit_code != 0:
        answer = await run_git(folder, "diff", limit=4 << 20)
    if answer is None or answer.exit_code != 0:
        repl.fail("there is no git repository here" if answer is not None else "there is no git to ask")
        return
    changes = repl.session.approvals.masker.mask(answer.stdout.decode("utf-8", "replace"))
    fresh = await run_git(folder, "ls-files", "--others", "--exclude-standard", "-z")
    names = fresh.stdout.decode("utf-8", "replace").split("\0")[:-1] if fresh is not None else []
    if not changes.strip() and not names:
        repl.note("no changes")
        return
    rows = set_diff(changes, repl.width, repl.signs, limit=_DIFF_ROWS, files=True)
    repl.say(*rows, *(text("  new ", (clean(name), "green")) for name in names[:_ROWS]))


async def reasoning(repl: Repl, argument: str) -> None:
    """The last reasoning, whole."""
    from codelet.frontends.terminal.show.console import wrap

    if not repl.renderer.reasoning:
        repl.note("the model has shown no reasoning yet")
        return
    repl.say(*wrap(text((clean(repl.renderer.reasoning.strip()), QUIET)), min(repl.width, 100)))
