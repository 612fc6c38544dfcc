"""Judge a tool call: what the classifiers found, the rules, the mode, and who answers.

The order: what is critical or leads where nothing may go is denied; a deny rule denies; what is read-only
in the workspace is allowed; an allow rule allows; the mode decides on the rest; `yes` answers what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from codelet.policy.paths import Access, PathVerdict, judge_path, relative_name
from codelet.policy.rules import Rule, escaped, parse_rule
from codelet.policy.verdict import Action, Mode, Parts, Tier, Verdict

_PATH_TOOLS: dict[str, tuple[Access, Tier]] = {
    "read": ("read", "read"),
    "grep": ("read", "read"),
    "find": ("list", "read"),
    "write": ("write", "write"),
    "edit": ("write", "write"),
}


_IN_MEMORY = frozenset(("recall", "plan", "remember"))
"""Tools that touch nothing but the session's own memory."""


class Policy:
    """The rules of one session. `mode` may be switched at any time; `yes` answers every ask.

    Rules bind in every mode, but in `read-only` the tools that write files are denied whatever the rules say.
    `sandboxed` says that commands run in a sandbox: only then does the mode `auto` run what is not read-only.
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
        sandboxed: bool = False,
    ) -> None:
        self.workspace = workspace
        self.mode: Mode = mode
        self.yes = yes
        self.sandboxed = sandboxed
        self.allow = [parse_rule(rule) for rule in allow]
        self.deny = [parse_rule(rule) for rule in deny]
        self.ask = [parse_rule(rule) for rule in ask]
        self.exact: set[tuple[str, Parts]] = set()

    @property
    def rules(self) -> dict[str, list[str]]:
        """The rules in force, as written, by their action."""
        lists = {"deny": self.deny, "ask": self.ask, "allow": self.allow}
        rules = {action: [rule.text for rule in rules] for action, rules in lists.items()}
        rules["allow"] += [f"bash, exactly: {command}" for command, _ in sorted(self.exact)]
        return rules

    def add_allow(self, rule: str) -> None:
        """Allow what the rule covers for the rest of the session; raises UsageError on a bad rule."""
        self.allow.append(parse_rule(rule))

    def allow_exactly(self, command: str, parts: Parts) -> None:
        """Allow this very command line for the rest of the session, while its parts are judged as they were."""
        self.exact.add((command, parts))

    def judge(self, tool_name: str, arguments: dict[str, Any]) -> Verdict:
        """The verdict on one tool call, before anybody is asked."""
        if tool_name in _PATH_TOOLS:
            verdict = self._judge_path(tool_name, str(arguments.get("path") or "."))
        elif tool_name == "bash":
            verdict = self._judge_command(str(arguments.get("command") or ""))
        else:
            verdict = self._judge_other(tool_name)
        if verdict.action == "ask" and self.yes:
            return verdict.replace(action="allow", reason=f"--yes: {verdict.reason}")
        return verdict

    def _judge_path(self, tool: str, path: str) -> Verdict:
        access, tier = _PATH_TOOLS[tool]
        found = judge_path(path, access, self.workspace)
        if found.action == "deny" or found.place is None:
            return Verdict("deny", tier, found.reason)
        return self._judge_place(tool, tier, found, found.place).replace(place=found.place)

    def _judge_place(self, tool: str, tier: Tier, found: PathVerdict, place: Path) -> Verdict:
        name = relative_name(place, self.workspace)
        if rule := _first(self.deny, tool, name):
            return Verdict("deny", tier, f"the rule {rule.text} denies it", rule=rule.text)
        if self.mode == "read-only" and tier == "write":
            return Verdict("deny", tier, "the mode is read-only: nothing is written; /mode changes it")
        if rule := _first(self.ask, tool, name):
            return Verdict("ask", tier, f"the rule {rule.text} asks", rule=rule.text)
        if rule := _first(self.allow, tool, name, exact=found.sensitive):
            return Verdict("allow", tier, f"the rule {rule.text} allows it", rule=rule.text)
        suggestion = _path_rule(tool, name, found)
        if found.action == "ask":
            return Verdict("ask", tier, found.reason, suggestion=suggestion)
        if tier == "write" and self.mode == "ask":
            return Verdict("ask", tier, f"{tool} changes {name}", suggestion=suggestion, lifted_by="auto-edit")
        return Verdict("allow", tier, found.reason)

    def _judge_command(self, command: str) -> Verdict:
        # The parser is loaded at the first command, not at the start.
        from codelet.policy.script import judge_script

        return judge_script(command, self)

    def prepare(self, command: str) -> str:
        """The command as it is to run: every read-only git in it keeps off the repository's own code, every
        search through a tree off files with secrets. The shell tool runs this in place of the model's text.
        """
        from codelet.policy.prepare import prepare_command

        return prepare_command(command, self.workspace)

    def _judge_other(self, tool: str) -> Verdict:
        actions: dict[Action, list[Rule]] = {"deny": self.deny, "ask": self.ask, "allow": self.allow}
        for action, rules in actions.items():
            for rule in rules:
                if rule.tool == tool and rule.body is None:
                    return Verdict(action, "execute", f"the rule {rule.text} decides", rule=rule.text)
        if tool in _IN_MEMORY:
            return Verdict("allow", "read", f"{tool} changes nothing outside this process")
        return Verdict("ask", "execute", f"{tool} is not a tool that the policy knows", suggestion=tool)


def _first(rules: Sequence[Rule], tool: str, name: str, *, exact: bool = False) -> Rule | None:
    """The first rule that covers the path; `exact` takes only rules that spell this very path."""
    for rule in rules:
        if rule.tool != tool or not rule.matches_path(name):
            continue
        if not exact or rule.spells(name):
            return rule
    return None


def _path_rule(tool: str, name: str, found: PathVerdict) -> str | None:
    """The rule that "always for this session" makes: the folder, or the very path where that is delicate."""
    if not name.isprintable() or name != name.strip():
        return None
    folder = name.rpartition("/")[0]
    return f"{tool}({escaped(name)})" if found.sensitive or not folder else f"{tool}({escaped(folder)}/**)"
