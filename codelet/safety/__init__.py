"""The policy: a verdict on each tool call, by its touches. Nothing runs without one, a command without approval runs
confined, and no secret leaves.

In this order: critical commands and forbidden places are denied; deny rules deny; a rewrite of shared history is denied
unless a user can be asked; reads in the workspace are allowed; allow rules allow; the mode decides the rest; `yes`
answers what still asks. tests/safety/test_unseen_tool.py brings a tool that no one knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from codelet.safety.verdict import CommandParts, Mode, SandboxKind, Tier, Touch, Verdict, VerdictAction

if TYPE_CHECKING:
    from codelet.safety.paths import PathVerdict
    from codelet.safety.rules import Rule

_COVERING = {"write": "edit", "run": "bash"}
"""Rules with these names cover every tool with such a touch."""

_ACTIONS: tuple[VerdictAction, ...] = ("allow", "ask", "deny")
_KINDS: tuple[SandboxKind, ...] = ("read-only", "workspace")
_TIERS: tuple[Tier, ...] = ("read", "write", "execute", "critical")


class Policy:
    """One session's rules. `mode` can change at any time; `yes` answers every question.

    Rules apply in every mode, except that `read-only` denies every tool that writes files. No rule or mode lets a tool
    write the files `kept`, such as the audit file. `mounts`: the sandbox can mount a file over another, as bubblewrap
    does. `exact` are the command lines that are allowed as long as their parts get the same verdicts. Raises UsageError
    for a bad rule.
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
        """The rules in force by action, as the user wrote them."""
        rules = {str(action): [rule.text for rule in rules] for action, rules in self._by_action()}
        rules["allow"] += [f"bash, exactly: {command}" for command, _ in sorted(self.exact)]
        return rules

    def _by_action(self) -> list[tuple[VerdictAction, list[Rule]]]:
        return [("deny", self.deny), ("ask", self.ask), ("allow", self.allow)]

    def add_allow(self, rule: str) -> None:
        """Add a rule for the rest of the session. Raises UsageError for a bad rule."""
        self.allow += _parsed([rule])

    def covered(self, rule: str) -> list[str]:
        """Return up to ten commands that the rule would allow."""
        from codelet.safety.shell.rule_cover import candidates

        with_rule = Policy(self.workspace, "ask", [rule])
        judged = ((each, with_rule.judge("bash", [Touch("run", each)])) for each in candidates(rule))
        allowed = (each for each, verdict in judged if verdict.action == "allow" and verdict.rule == rule)
        return list(islice(allowed, 10))

    def judge(self, tool: str, touches: Sequence[Touch] | None, *, sandboxed: bool = True, source: str = "") -> Verdict:
        """Return the verdict on a call, before the user is asked.

        No touches: the call changes only this process's memory; None: they are unknown. `sandboxed`: a sandbox works
        for commands. Without one, only programs that can do nothing but read run without asking, also in `auto`.
        `source` is the tool's origin, if known.
        """
        if touches:
            verdict = _strictest([self._judge_touch(tool, touch, sandboxed=sandboxed) for touch in touches])
        elif found := self._by_name(tool, "execute"):
            verdict = found
        elif touches is not None:
            verdict = Verdict("allow", "read", f"{tool} changes nothing outside this process")
        else:
            reason = f"{tool} is a tool of {source}" if source else f"{tool} is not a tool that the policy knows"
            verdict = Verdict("ask", "execute", reason, suggestion=tool)
        if verdict.action == "ask" and self.yes:
            return verdict.replace(action="allow", reason=f"--yes: {verdict.reason}")
        return verdict

    def _judge_touch(self, tool: str, touch: Touch, *, sandboxed: bool) -> Verdict:
        if touch.kind == "run":
            from codelet.safety.shell.script import judge_script  # loads the parser, so not at the start

            verdict = judge_script(touch.what, self, sandboxed=sandboxed, unconfined=touch.unconfined)
            own = tool == _COVERING["run"] or verdict.action == "deny"
            return verdict if own else self._by_name(tool, verdict.tier) or verdict
        if touch.kind == "fetch":
            # A request changes nothing here, but its address can carry file content away: no mode allows it.
            host = touch.what
            covered = self._by_rule("read", lambda rule: rule.tool in (tool, "fetch") and rule.matches_host(host))
            return covered or Verdict("ask", "read", f"{tool} sends a request to {host}", suggestion=f"{tool}({host})")
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
        suggestion = None  # the rule of "always": for the folder, or for a sensitive path alone
        if name.isprintable() and name == name.strip():
            from codelet.safety.rules import escaped

            folder = name.rpartition("/")[0]
            covered = escaped(name) if found.sensitive or not folder else f"{escaped(folder)}/**"
            suggestion = f"{tool}({covered})"
        if found.action == "ask":
            return Verdict("ask", tier, found.reason, suggestion=suggestion)
        if tier == "write" and self.mode == "ask":
            return Verdict("ask", tier, f"{tool} changes {name}", suggestion=suggestion, lifted_by="auto-edit")
        return Verdict("allow", tier, found.reason)

    def _by_name(self, tool: str, tier: Tier) -> Verdict | None:
        """Return the verdict of a rule for every use of the tool, if there is one."""
        return self._by_rule(tier, lambda rule: rule.body is None and rule.covers(tool))

    def _by_rule(self, tier: Tier, covers: Callable[[Rule], bool]) -> Verdict | None:
        for action, rules in self._by_action():
            for rule in filter(covers, rules):
                return Verdict(action, tier, f"the rule {rule.text} decides", rule=rule.text)
        return None


def _parsed(rules: Sequence[str]) -> list[Rule]:
    if not rules:
        return []
    from codelet.safety.rules import parse_rule  # most sessions start without any

    return [parse_rule(rule) for rule in rules]


def _strictest(verdicts: Sequence[Verdict]) -> Verdict:
    """Join the verdicts on a call's touches; what would lift the question is offered only if a single touch asks."""
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
    """Return the first rule that covers the path; with `exact` only a rule that spells this very path."""
    names = (tool, _COVERING["write"]) if tier == "write" else (tool,)
    for rule in rules:
        if rule.tool not in names or not rule.matches_path(name):
            continue
        if not exact or rule.spells(name):
            return rule
    return None
