"""Who may do what: the policy judges a call by what it touches. Nothing runs without a verdict, what no one said yes to
runs confined, and no secret leaves.

It weighs what the classifiers found, the rules, the mode, and who answers.

The order: what is critical or leads where nothing may go is denied; a deny rule denies; what rewrites shared history
is denied where no person can be asked about it; what is read-only in the workspace is allowed; an allow rule allows;
the mode decides on the rest; `yes` answers what is left.

tests/safety/test_unseen_tool.py brings a tool that no one knows, tests/safety/test_secrets.py lets tools print keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from codelet.safety.verdict import CommandParts, Mode, SandboxKind, Tier, Touch, Verdict, VerdictAction

if TYPE_CHECKING:
    from codelet.safety.paths import PathVerdict
    from codelet.safety.rules import Rule

_COVERING = {"write": "edit", "run": "bash"}
"""The rules of these names cover every tool that touches so, whatever it is called."""

_ACTIONS: tuple[VerdictAction, ...] = ("allow", "ask", "deny")
_KINDS: tuple[SandboxKind, ...] = ("read-only", "workspace")
_TIERS: tuple[Tier, ...] = ("read", "write", "execute", "critical")


class Policy:
    """The rules of one session. `mode` may be switched at any time; `yes` answers every ask.

    Rules apply in every mode, except that `read-only` denies every tool that writes files. `kept` are files that
    nothing may write, whatever rule or mode says: the audit file, say. `mounts` says that the sandbox for commands
    can put a file over another, as bubblewrap does.
    Raises UsageError on a bad rule.
    """

    def __init__(
        self,
        workspace: Path,
        mode: Mode = "ask",
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        yes: bool = False,
        *,
        ask: Sequence[str] = (),
        kept: Sequence[Path] = (),
    ) -> None:
        self.workspace = workspace
        self.mode: Mode = mode
        self.yes = yes
        self.kept = frozenset(path.resolve() for path in kept)
        self.allow = _parsed(allow)
        self.deny = _parsed(deny)
        self.ask = _parsed(ask)
        self.exact: set[tuple[str, CommandParts]] = set()
        self.mounts = True

    @property
    def rules(self) -> dict[str, list[str]]:
        """The rules in force, as written, by their action."""
        lists = {"deny": self.deny, "ask": self.ask, "allow": self.allow}
        rules = {action: [rule.text for rule in rules] for action, rules in lists.items()}
        rules["allow"] += [f"bash, exactly: {command}" for command, _ in sorted(self.exact)]
        return rules

    def add_allow(self, rule: str) -> None:
        """Allow what the rule covers for the rest of the session; raises UsageError on a bad rule."""
        self.allow += _parsed([rule])

    def covered(self, rule: str) -> list[str]:
        """Return up to ten commands that a rule for commands would allow, each judged as it would be then."""
        from codelet.safety.shell.rule_cover import candidates

        with_rule = Policy(self.workspace, "ask", [rule])
        judged = ((each, with_rule.judge("bash", [Touch("run", each)])) for each in candidates(rule))
        allowed = (each for each, verdict in judged if verdict.action == "allow" and verdict.rule == rule)
        return list(islice(allowed, 10))

    def allow_exactly(self, command: str, parts: CommandParts) -> None:
        """Allow this very command line for the rest of the session, while its parts are judged as they were."""
        self.exact.add((command, parts))

    def judge(self, tool: str, touches: Sequence[Touch] | None, *, sandboxed: bool = True, source: str = "") -> Verdict:
        """Return the verdict on a call of the tool by what it touches, before the user is asked.

        No touches: nothing but this process's memory; None: not known. `sandboxed`: whether a sandbox works for its
        commands. Without one, only programs that can do nothing but read run without asking, in the mode `auto` too.
        `source` says whose tool it is, if that is known.
        """
        if touches:
            verdict = _strictest([self._judge_touch(tool, touch, sandboxed=sandboxed) for touch in touches])
        else:
            verdict = self._judge_other(tool, source, in_memory=touches is not None)
        if verdict.action == "ask" and self.yes:
            return verdict.replace(action="allow", reason=f"--yes: {verdict.reason}")
        return verdict

    def _judge_touch(self, tool: str, touch: Touch, *, sandboxed: bool) -> Verdict:
        if touch.kind == "run":
            return self._judge_command(tool, touch, sandboxed=sandboxed)
        if touch.kind == "fetch":
            return self._judge_host(tool, touch.what)
        from codelet.safety.paths import PathVerdict, judge_path  # not needed before the first call

        if touch.own:
            place = Path(touch.what)
            found = PathVerdict("allow", "an option names this file", place)
            verdict = self._judge_place(tool, "write", found, place)
            if verdict.action == "ask" and verdict.rule is None:
                return Verdict("allow", "write", found.reason)
            return verdict
        tier: Tier = "write" if touch.kind == "write" else "read"
        found = judge_path(touch.what or ".", touch.kind, self.workspace)
        if found.action == "deny" or found.place is None:
            return Verdict("deny", tier, found.reason)
        if tier == "write" and found.place in self.kept:
            return Verdict("deny", tier, f"{touch.what} is a file of your settings that nothing may write")
        return self._judge_place(tool, tier, found, found.place).replace(place=found.place)

    def _judge_place(self, tool: str, tier: Tier, found: PathVerdict, place: Path) -> Verdict:
        from codelet.safety.paths import relative_name

        name = relative_name(place, self.workspace)
        if rule := _first(self.deny, tool, tier, name):
            return Verdict("deny", tier, f"the rule {rule.text} denies it", rule=rule.text)
        if self.mode == "read-only" and tier == "write":
            return Verdict("deny", tier, "the mode is read-only: nothing is written; /mode changes it")
        if rule := _first(self.ask, tool, tier, name):
            return Verdict("ask", tier, f"the rule {rule.text} asks", rule=rule.text)
        if rule := _first(self.allow, tool, tier, name, exact=found.sensitive):
            return Verdict("allow", tier, f"the rule {rule.text} allows it", rule=rule.text)
        suggestion = _path_rule(tool, name, found)
        if found.action == "ask":
            return Verdict("ask", tier, found.reason, suggestion=suggestion)
        if tier == "write" and self.mode == "ask":
            return Verdict("ask", tier, f"{tool} changes {name}", suggestion=suggestion, lifted_by="auto-edit")
        return Verdict("allow", tier, found.reason)

    def _judge_command(self, tool: str, touch: Touch, *, sandboxed: bool) -> Verdict:
        # The parser is loaded at the first command, not at the start.
        from codelet.safety.shell.script import judge_script

        verdict = judge_script(touch.what, self, sandboxed=sandboxed, unconfined=touch.unconfined)
        if tool == _COVERING["run"] or verdict.action == "deny":
            return verdict
        return self._by_name(tool, verdict.tier) or verdict

    def _judge_host(self, tool: str, host: str) -> Verdict:
        """Fetching changes nothing here, but an address can carry what is read here: no mode allows it."""
        rules: dict[VerdictAction, list[Rule]] = {"deny": self.deny, "ask": self.ask, "allow": self.allow}
        for action, listed in rules.items():
            for rule in listed:
                if rule.tool in (tool, "fetch") and rule.matches_host(host):
                    return Verdict(action, "read", f"the rule {rule.text} decides", rule=rule.text)
        return Verdict("ask", "read", f"{tool} sends a request to {host}", suggestion=f"{tool}({host})")

    def _judge_other(self, tool: str, source: str, *, in_memory: bool) -> Verdict:
        if verdict := self._by_name(tool, "execute"):
            return verdict
        if in_memory:
            return Verdict("allow", "read", f"{tool} changes nothing outside this process")
        reason = f"{tool} is a tool of {source}" if source else f"{tool} is not a tool that the policy knows"
        return Verdict("ask", "execute", reason, suggestion=tool)

    def _by_name(self, tool: str, tier: Tier) -> Verdict | None:
        """Return what a rule for every use of the tool decides, if there is one."""
        actions: dict[VerdictAction, list[Rule]] = {"deny": self.deny, "ask": self.ask, "allow": self.allow}
        for action, rules in actions.items():
            for rule in rules:
                if rule.body is None and rule.covers(tool):
                    return Verdict(action, tier, f"the rule {rule.text} decides", rule=rule.text)
        return None


def _parsed(rules: Sequence[str]) -> list[Rule]:
    if not rules:
        return []
    from codelet.safety.rules import parse_rule  # most sessions start without any

    return [parse_rule(rule) for rule in rules]


def _strictest(verdicts: Sequence[Verdict]) -> Verdict:
    """One verdict on a call that touches several things: all of them must be allowed.

    What "always" would add, and the mode that would not have asked, are offered only where one question is open.
    """
    if len(verdicts) == 1:
        return verdicts[0]
    worst = max(verdicts, key=lambda each: _ACTIONS.index(each.action))
    alike = [each for each in verdicts if each.action == worst.action]
    places = [each.place for each in verdicts if each.place is not None]
    joined = worst.replace(
        tier=max((each.tier for each in verdicts), key=_TIERS.index),
        place=places[0] if len(places) == 1 else None,
        person_may=False,
        sandbox=min((each.sandbox for each in verdicts if each.sandbox is not None), key=_KINDS.index, default=None),
    )
    if worst.action != "ask" or len(alike) == 1:
        return joined
    parts = tuple(part for each in alike for part in (each.parts or (("", each.reason),)))
    reason = f"{worst.reason} (and {len(alike) - 1} more)"
    lifted = worst.lifted_by if all(each.lifted_by == worst.lifted_by for each in alike) else None
    return joined.replace(reason=reason, suggestion=None, exactly=None, lifted_by=lifted, parts=parts)


def _first(rules: Sequence[Rule], tool: str, tier: Tier, name: str, *, exact: bool = False) -> Rule | None:
    """The first rule that covers the path; `exact` takes only rules that spell this very path."""
    names = (tool, _COVERING["write"]) if tier == "write" else (tool,)
    for rule in rules:
        if rule.tool not in names or not rule.matches_path(name):
            continue
        if not exact or rule.spells(name):
            return rule
    return None


def _path_rule(tool: str, name: str, found: PathVerdict) -> str | None:
    """The rule that the answer "always for this session" adds: for the folder, or for a sensitive path alone."""
    from codelet.safety.rules import escaped

    if not name.isprintable() or name != name.strip():
        return None
    folder = name.rpartition("/")[0]
    return f"{tool}({escaped(name)})" if found.sensitive or not folder else f"{tool}({escaped(folder)}/**)"
