"""Judge a whole command line: every part by what it does, then by the rules and the mode."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from codelet.policy.commands import Finding, Folders, judge_command, judge_redirect
from codelet.policy.critical import find_critical
from codelet.policy.git_table import GIT
from codelet.policy.paths import judge_path, relative_name
from codelet.policy.program_table import PROGRAMS
from codelet.policy.rules import Rule
from codelet.policy.shell import read_script
from codelet.policy.syntax import Obstacle, Part, Redirect, Script
from codelet.policy.unwrap import SHELLS, WRAPPERS, nested_scripts, unwrapped
from codelet.policy.verdict import Mode, Tier, Verdict


class Rules(Protocol):
    """What the policy of a session says beside the classifier."""

    workspace: Path
    mode: Mode
    sandboxed: bool
    allow: list[Rule]
    deny: list[Rule]
    ask: list[Rule]


@dataclass(frozen=True)
class _Judged:
    """One part with what was found, and the rule that lifted it."""

    finding: Finding
    rule: str | None = None


def judge_script(command: str, rules: Rules) -> Verdict:
    """The verdict on a command line, before anybody is asked."""
    if not command.strip():
        return Verdict("ask", "execute", "an empty command")
    if "\0" in command:
        return Verdict("ask", "execute", "it holds a NUL character")
    try:
        return _judged(command, rules)
    except OSError:
        return Verdict("ask", "execute", "the files that it names changed while they were looked at")


def _judged(command: str, rules: Rules) -> Verdict:
    script = read_script(command)
    why = find_critical(command, script, rules.workspace)
    if why:
        return Verdict("deny", "critical", f"critical: {why}")
    if rule := _rule_for_any(script, rules.deny):
        return Verdict("deny", "execute", f"the rule {rule.text} denies it", rule=rule.text)
    asking = _rule_for_any(script, rules.ask)
    if asking:
        return Verdict("ask", "execute", f"the rule {asking.text} asks", rule=asking.text)
    bare = next((rule for rule in rules.allow if rule.tool == "bash" and rule.body is None), None)
    if bare and not script.unread:
        return Verdict("allow", "execute", f"the rule {bare.text} allows it", rule=bare.text)
    return _by_parts(script, rules)


def _by_parts(script: Script, rules: Rules) -> Verdict:
    if script.unread:
        return Verdict("ask", "execute", next(part.reason for part in script.parts if isinstance(part, Obstacle)))
    folders = Folders(rules.workspace)
    judged = [_judge_part(part, folders, rules) for part in script.parts]
    open_ones = [one.finding for one in judged if one.finding.reason is not None]
    used = next((one.rule for one in judged if one.rule), None)
    if not open_ones:
        if all(one.finding.tier == "read" for one in judged):
            return Verdict("allow", "read", "reads in the workspace", rule=used)
        return Verdict("allow", "execute" if used else "write", "every part is allowed", rule=used)
    tier: Tier = "write" if all(one.tier == "write" for one in open_ones) else "execute"
    reason = str(open_ones[0].reason)
    if len(open_ones) > 1:
        reason += f" (and {len(open_ones) - 1} more)"
    if rules.mode == "auto" and rules.sandboxed:
        return Verdict("allow", tier, f"auto, in the sandbox: {reason}")
    if rules.mode == "auto" and not rules.sandboxed:
        reason += "; auto runs it only in a sandbox, and there is none"
    return Verdict("ask", tier, reason, suggestion=_suggestion(open_ones))


def _judge_part(part: Part, folders: Folders, rules: Rules) -> _Judged:
    if isinstance(part, Obstacle):
        return _Judged(Finding(part.reason))
    if not folders.known(part):
        return _Judged(Finding("what ran before it in the same shell may have changed the folder or what words mean"))
    if isinstance(part, Redirect):
        finding = judge_redirect(part, folders)
        return _Judged(_judge_write(part, finding, folders, rules) if finding.write_to else finding)
    finding = judge_command(part, folders)
    if finding.reason is None or finding.words is None:
        return _Judged(finding)
    for rule in rules.allow:
        if rule.tool == "bash" and rule.matches_words(finding.words):
            folders.ran_by_rule(part)
            return _Judged(Finding(None, "execute"), rule.text)
    return _Judged(finding)


def _judge_write(part: Redirect, finding: Finding, folders: Folders, rules: Rules) -> Finding:
    """A redirection into a file is a write like any other: the mode or a rule for `write` may allow it."""
    for cwd in folders.of(part):
        found = judge_path(part.target.text, "write", rules.workspace, cwd, shell=True)
        if found.place is None:
            return Finding(found.reason)
        name = relative_name(found.place, rules.workspace)
        by_rule = any(rule.tool == "write" and rule.body and rule.matches_path(name) for rule in rules.allow)
        if found.action == "deny" or (found.action == "ask" and not (by_rule and not found.sensitive)):
            return Finding(f"it writes to {part.target.text}: {found.reason}", "write")
        if not by_rule and rules.mode not in ("auto-edit", "auto"):
            return finding
    return Finding(None, "write")


def _rule_for_any(script: Script, rules: Sequence[Rule], depth: int = 0) -> Rule | None:
    """The first rule that covers any command of the script, behind wrappers and in nested scripts too."""
    rules = [rule for rule in rules if rule.tool == "bash"]
    if not rules:
        return None
    for rule in rules:
        if rule.body is None:
            return rule
    for command in script.commands:
        words = [word.text for word in command.words]
        for inner in unwrapped(words):
            for rule in rules:
                if rule.matches_words(inner) or (
                    "/" in inner[0] and rule.matches_words([inner[0].rpartition("/")[2], *inner[1:]])
                ):
                    return rule
        for text in nested_scripts(words):
            if depth < 3 and (found := _rule_for_any(read_script(text), rules, depth + 1)):
                return found
    return None


_TWO_WORDS = frozenset(
    ["git", "npm", "pnpm", "yarn", "cargo", "go", "docker", "podman", "pip", "uv", "poetry", "make",
     "just", "bundle", "dotnet", "gradle", "mvn", "kubectl", "terraform", "gh", "conda", "apt", "apt-get",
     "brew", "systemctl"]
)  # fmt: skip
_NO_RULE = SHELLS | WRAPPERS | frozenset(("eval", "source", ".", "python", "python3", "node", "perl", "ruby", "rm"))


def _suggestion(findings: Sequence[Finding]) -> str | None:
    """The rule that "always for this session" makes: the program, with its subcommand where it has some."""
    if len(findings) != 1 or not findings[0].words or findings[0].write_to:
        return None
    words = findings[0].words
    name = words[0]
    if name in PROGRAMS or (name == "git" and words[1:2] and words[1] in GIT):
        # Known to read in other uses: only this very use becomes a rule, not every file or every option.
        plain = all(re.fullmatch(r"[\w./:=,+@%^~-]+", word) for word in words)
        return f"bash({' '.join(words)})" if plain and name != "cd" else None
    if name in _NO_RULE or any(set(word) & set("*()\n\t ") for word in words[:2]):
        return None
    if name in _TWO_WORDS:
        if len(words) < 2 or words[1].startswith("-"):
            return None
        return f"bash({name} {words[1]} *)"
    return f"bash({name} *)"
