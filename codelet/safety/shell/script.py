"""Judge a whole command line: every part by what it does, then by the rules and the mode."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from codelet.record import Record
from codelet.safety.paths import judge_path, relative_name
from codelet.safety.rules import Rule, parse_rule
from codelet.safety.shell.confined import check_confined, check_redirect
from codelet.safety.shell.critical import REWRITES_HISTORY, find_critical
from codelet.safety.shell.folders import Folders
from codelet.safety.shell.nested import nested_scripts, unwrapped
from codelet.safety.shell.program_arguments import RefusedError
from codelet.safety.shell.rule_cover import runs_free, why_not_covered
from codelet.safety.shell.script_parser import Redirect, Script, ScriptPart, SimpleCommand, UnclearPart, read_script
from codelet.safety.shell.strict import check_strict, is_plain, refuse_path
from codelet.safety.shell.suggestion import rule_for
from codelet.safety.verdict import CommandParts, Mode, SandboxKind, Tier, Verdict


class Rules(Protocol):
    """What the policy of a session says besides the classifier."""

    workspace: Path
    mode: Mode
    kept: frozenset[Path]
    allow: list[Rule]
    deny: list[Rule]
    ask: list[Rule]
    exact: set[tuple[str, CommandParts]]
    mounts: bool


class PartVerdict(Record):
    """What was found about one part: None as `reason` means that it is read-only.

    `words` are the command's words where a rule may cover it: every one of them is known.
    """

    reason: str | None
    tier: Tier = "execute"
    words: tuple[str, ...] | None = None
    write_to: str | None = None


class _Judged(Record):
    """One part with what was found, and the rule that lifted it; `confined` says that the rule is no yes to run free.

    `offered` is the rule that would cover it and its like, where it is open and there is one.
    """

    finding: PartVerdict
    rule: str | None = None
    confined: bool = False
    offered: str | None = None


def judge_script(command: str, rules: Rules, *, sandboxed: bool, unconfined: bool = False) -> Verdict:
    """Return the verdict on a command line, before the user is asked.

    `sandboxed`: whether a sandbox works for it; `unconfined` asks to run it without.
    """
    if not command.strip():
        return Verdict("ask", "execute", "an empty command")
    if "\0" in command:
        return Verdict("ask", "execute", "it holds a NUL character")
    try:
        return _judged(command, rules, sandboxed=sandboxed, unconfined=unconfined and sandboxed)
    except OSError:
        return Verdict("ask", "execute", "the files that it names changed while they were looked at")


def _judged(command: str, rules: Rules, *, sandboxed: bool, unconfined: bool) -> Verdict:
    script = read_script(command, rules.workspace)
    why = find_critical(command, script, rules.workspace)
    if why and why != REWRITES_HISTORY:
        return Verdict("deny", "critical", f"critical: {why}")
    if rule := _rule_for_any(script, rules.deny):
        return Verdict("deny", "execute", f"the rule {rule.text} denies it", rule=rule.text)
    if why:
        parts = _by_parts(command, script, rules, sandboxed=sandboxed).parts
        return Verdict("deny", "critical", f"critical: {why}", parts=parts, person_may=True)
    asking = _rule_for_any(script, rules.ask)
    if asking:
        return Verdict("ask", "execute", f"the rule {asking.text} asks", rule=asking.text)
    bare = next((rule for rule in rules.allow if rule.tool == "bash" and rule.body is None), None)
    if script.unread or bare is None:
        return _by_parts(command, script, rules, sandboxed=sandboxed, unconfined=unconfined)
    judged = _by_parts(command, script, rules, sandboxed=sandboxed)
    if judged.tier == "read" and judged.action == "allow" and not unconfined:
        return judged  # it reads, rule or not: a plan and a profile let it through
    return Verdict("allow", "execute", f"the rule {bare.text} allows it", rule=bare.text)


def _by_parts(command: str, script: Script, rules: Rules, *, sandboxed: bool, unconfined: bool = False) -> Verdict:
    """A line runs in the read-only sandbox as a whole; or each part reads anywhere, or a rule allows it."""
    kind: SandboxKind = "workspace" if rules.mode == "auto" else "read-only"
    if not sandboxed and not is_plain(command):
        script.parts.insert(0, UnclearPart("only plain words run without a sandbox"))
    reasons = _reasons(script, rules, sandboxed=sandboxed)
    if not any(reasons) and not unconfined:
        return Verdict("allow", "read", "reads in the workspace", sandbox=kind)
    folders = Folders(rules.workspace)
    moved = any(command.words and command.words[0].text in ("cd", "pushd", "popd") for command in script.commands)
    ruled = any(rule.tool in ("bash", "write") for rule in rules.allow) or unconfined
    judged = [
        _offering(part, _judge_part(part, why, folders, rules, ruled=ruled), folders, moved=moved)
        for part, why in zip(script.parts, reasons, strict=True)
    ]
    open_ones = [one.finding for one in judged if one.finding.reason is not None]
    pairs = zip(script.parts, (one.finding.reason for one in judged), strict=True)
    described = (each for part, reason in pairs if reason is not None for each in _described(part, reason))
    parts = tuple(sorted(dict.fromkeys(described), key=_changes_least))
    if script.unread:
        return Verdict("ask", "execute", parts[0][1], parts=parts)
    used = next((one.rule for one in judged if one.rule), None)
    tier: Tier
    if not open_ones:
        tier = "execute" if used else "write"
        free = used and not any(one.confined for one in judged)
        if unconfined and not free:
            return Verdict("ask", "execute", "it asks to run outside the sandbox", exactly=command)
        return Verdict("allow", tier, "every part is allowed", rule=used, sandbox=None if free else "workspace")
    tier = "write" if all(one.tier == "write" for one in open_ones) else "execute"
    reason = str(open_ones[0].reason)
    if len(open_ones) > 1:
        reason += f" (and {len(open_ones) - 1} more)"
    if (command, parts) in rules.exact:
        return Verdict("allow", tier, "exactly this command is allowed for this session")
    if unconfined:
        return Verdict("ask", "execute", "it asks to run outside the sandbox", parts=parts)
    if rules.mode == "auto" and sandboxed:
        return Verdict("allow", tier, f"auto, in the sandbox: {reason}", sandbox="workspace")
    if rules.mode == "auto" and not sandboxed:
        reason += "; auto runs it only in a sandbox, and there is none"
    suggestion = _suggestion(judged)
    return Verdict("ask", tier, reason, suggestion=suggestion, exactly=None if suggestion else command, parts=parts)


def _reasons(script: Script, rules: Rules, *, sandboxed: bool) -> list[PartVerdict | None]:
    """Of each part why it is not run unasked: in the read-only sandbox, or where there is none."""
    folders = Folders(rules.workspace)
    return [_reason(part, folders, rules, confined=sandboxed) for part in script.parts]


def _reason(part: ScriptPart, folders: Folders, rules: Rules, *, confined: bool) -> PartVerdict | None:
    if isinstance(part, UnclearPart):
        return None if confined and part.confinable else PartVerdict(part.reason)
    if not confined and not folders.known(part):
        return PartVerdict("what ran before it in the same shell may have changed the folder or what words mean")
    try:
        if isinstance(part, Redirect):
            return _redirected(part, folders, confined=confined)
        if confined:
            check_confined(part, folders, mounts=rules.mounts)
        else:
            check_strict(part, folders)
    except RefusedError as refused:
        words = None
        if isinstance(part, SimpleCommand) and not part.assignments and not any(word.dynamic for word in part.words):
            words = tuple(word.text for word in part.words)
        return PartVerdict(str(refused), words=words)
    return None


def _redirected(part: Redirect, folders: Folders, *, confined: bool) -> PartVerdict | None:
    target = part.target
    if part.access == "write" and not re.match(r"/dev/(?:tcp|udp)/", target.text):
        if not target.plain:
            return PartVerdict("it redirects to a place known only at run time")
        return PartVerdict(f"it writes to {target.text}", "write", write_to=target.text)
    if confined:
        check_redirect(part, folders)
        return None
    if not target.plain or re.match(r"/dev/(?:tcp|udp)/", target.text):
        raise RefusedError("it reads from a place that is not plain")
    for cwd in folders.of(part):
        refuse_path("read", target.text, cwd, folders.workspace)
    return None


def _offering(part: ScriptPart, judged: _Judged, folders: Folders, *, moved: bool) -> _Judged:
    """The part with the rule that "always" may add. What a rule would not cover is not offered as covered."""
    finding = judged.finding
    if finding.reason is None or not finding.words or finding.write_to or not isinstance(part, SimpleCommand):
        return judged
    rule = rule_for(finding.words, moved=moved)
    covers = rule is not None and why_not_covered(parse_rule(rule), part, folders) is None
    return judged.replace(offered=rule) if covers else judged


def _judge_part(part: ScriptPart, why: PartVerdict | None, folders: Folders, rules: Rules, *, ruled: bool) -> _Judged:
    """A part of a line that does not run in the read-only sandbox as a whole: `why` is what stands against that.

    Where a rule may lift it, the others have to read wherever they run.
    """
    strict = _reason(part, folders, rules, confined=False)
    if why is None and ruled and strict is not None and _is_named_git(part, folders):
        return _Judged(PartVerdict(None, "read"), confined=True)
    if why is None:
        why = strict if ruled and rules.mode != "auto" else None
    if why is None or why.write_to:
        return _Judged(PartVerdict(None, "read") if why is None else _judge_write(part, why, folders, rules))
    if why.words is None or not isinstance(part, SimpleCommand) or not folders.known(part):
        return _Judged(why)
    for rule in rules.allow:
        if rule.tool != "bash" or not rule.matches_words(why.words):
            continue
        if uncovered := why_not_covered(rule, part, folders):
            why = why.replace(reason=uncovered)
            continue
        folders.ran_by_rule(part)
        return _Judged(PartVerdict(None, "execute"), rule.text, confined=not runs_free(rule))
    return _Judged(why)


def _is_named_git(part: ScriptPart, folders: Folders) -> bool:
    """Whether a part is a git command of plain words that shows no secret even where nothing hides one from it."""
    if not isinstance(part, SimpleCommand) or not part.words or part.words[0].text != "git":
        return False
    try:
        for word in part.words:
            if not word.plain:
                return False
        check_confined(part, folders, mounts=False)
    except RefusedError:
        return False
    return True


def _judge_write(part: ScriptPart, finding: PartVerdict, folders: Folders, rules: Rules) -> PartVerdict:
    """A redirection into a file is a write like any other: the mode or a rule for `write` may allow it."""
    assert isinstance(part, Redirect)
    for cwd in folders.of(part):
        found = judge_path(part.target.text, "write", rules.workspace, cwd, shell=True)
        if found.place is None:
            return PartVerdict(found.reason)
        if found.place in rules.kept:
            return PartVerdict(
                f"it writes to {part.target.text}, a file of your settings that nothing may write", "write"
            )
        name = relative_name(found.place, rules.workspace)
        by_rule = any(rule.tool == "write" and rule.body and rule.matches_path(name) for rule in rules.allow)
        if found.action == "deny" or (found.action == "ask" and not (by_rule and not found.sensitive)):
            return PartVerdict(f"it writes to {part.target.text}: {found.reason}", "write")
        if not by_rule and rules.mode not in ("auto-edit", "auto"):
            return finding
    return PartVerdict(None, "write")


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


def _described(part: ScriptPart, reason: str) -> Iterator[tuple[str, str]]:
    """The source of a part that may do more than read, with the reason; then the commands that it starts."""
    if isinstance(part, SimpleCommand):
        yield " ".join(word.raw for word in part.words), reason
        for script in nested_scripts([word.text for word in part.words]):
            for command in read_script(script).commands:
                yield " ".join(word.raw for word in command.words), f"run by {part.words[0].text}"
    else:
        yield (f"> {part.target.raw}" if isinstance(part, Redirect) else ""), reason


_CHANGES = re.compile(
    r"> |(?:sudo )?(?:rm|rmdir|mv|unlink|shred|truncate|dd|chmod|chown|git (?:push|reset|clean|rm|mv))\b"
)


def _changes_least(part: tuple[str, str]) -> bool:
    """Orders the parts for a person: those that change or delete something by their words come first."""
    return _CHANGES.match(part[0]) is None


def _suggestion(judged: Sequence[_Judged]) -> str | None:
    """The rule that "always for this session" makes, where one covers the command and not much more."""
    open_ones = [one for one in judged if one.finding.reason is not None]
    return open_ones[0].offered if len(open_ones) == 1 else None
