"""The verdict on a whole command line: each part by its effects, then by the rules and the mode."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from codelet.record import Record
from codelet.safety.paths import judge_path, relative_name
from codelet.safety.rules import Rule, parse_rule
from codelet.safety.shell import critical
from codelet.safety.shell.critical import REWRITES_HISTORY, nested_scripts, unwrapped, with_nested
from codelet.safety.shell.programs import RefusedError, is_supplied, resolved
from codelet.safety.shell.rule_cover import rule_for, runs_free, why_not_covered
from codelet.safety.shell.script_parser import Redirect, Script, ScriptPart, SimpleCommand, UnclearPart, read_script
from codelet.safety.shell.unasked import check_command, check_redirect, is_plain
from codelet.safety.verdict import CommandParts, Mode, SandboxKind, Tier, Verdict


class Rules(Protocol):
    """The session's policy."""

    workspace: Path
    mode: Mode
    kept: frozenset[Path]
    allow: list[Rule]
    deny: list[Rule]
    ask: list[Rule]
    exact: set[tuple[str, CommandParts]]
    mounts: bool


class PartFinding(Record):
    """The finding about one part of a line; without a `reason` the part may run.

    `words` are the command's words if all are known, so that a rule may cover it. `writes` marks a redirection into a
    file. `rule` is the rule that allows it, with `confined` only in the sandbox. `offered` is the rule that would cover
    it and similar ones.
    """

    reason: str | None = None
    tier: Tier = "execute"
    words: tuple[str, ...] = ()
    writes: bool = False
    rule: str | None = None
    confined: bool = False
    offered: str | None = None


def judge_script(command: str, rules: Rules, *, sandboxed: bool, unconfined: bool = False) -> Verdict:
    """Return the verdict on a command line, before the user is asked.

    `sandboxed`: a sandbox works for it; `unconfined` requests to run it without.
    """
    if not command.strip() or "\0" in command:
        return Verdict("ask", "execute", "it holds a NUL character" if "\0" in command else "an empty command")
    unconfined = unconfined and sandboxed
    resolved.cache_clear()
    is_supplied.cache_clear()
    try:
        script = read_script(command, rules.workspace)
        why = critical.find_critical(script, rules.workspace)
        if why and why != REWRITES_HISTORY:
            return Verdict("deny", "critical", f"critical: {why}")
        if rule := _rule_for_any(script, rules.deny, rules.workspace):
            return Verdict("deny", "execute", f"the rule {rule.text} denies it", rule=rule.text)
        if why:
            parts = _by_parts(command, script, rules, sandboxed=sandboxed).parts
            return Verdict("deny", "critical", f"critical: {why}", parts=parts, person_may=True)
        if rule := _rule_for_any(script, rules.ask, rules.workspace):
            return Verdict("ask", "execute", f"the rule {rule.text} asks", rule=rule.text)
        bare = next((rule for rule in rules.allow if rule.tool == "bash" and rule.body is None), None)
        if script.unread or bare is None:
            return _by_parts(command, script, rules, sandboxed=sandboxed, unconfined=unconfined)
        judged = _by_parts(command, script, rules, sandboxed=sandboxed)
        if judged.tier == "read" and judged.action == "allow" and not unconfined:
            return judged  # it only reads: plans and profiles allow that
        return Verdict("allow", "execute", f"the rule {bare.text} allows it", rule=bare.text)
    except OSError:
        return Verdict("ask", "execute", "the files that it names changed while they were looked at")


def _by_parts(command: str, script: Script, rules: Rules, *, sandboxed: bool, unconfined: bool = False) -> Verdict:
    """Allow a line that runs in the read-only sandbox as a whole, or whose parts only read or have a rule."""
    if script.unread:
        reason = next(part.reason for part in script.parts if isinstance(part, UnclearPart))
        return Verdict("ask", "execute", reason, parts=_described([(part, reason) for part in script.parts]))
    kind: SandboxKind = "workspace" if rules.mode == "auto" else "read-only"
    if not sandboxed and not is_plain(command):
        script.parts.insert(0, UnclearPart("only plain words run without a sandbox"))
    reasons = [_why_asked(part, rules, confined=sandboxed) for part in script.parts]
    if not any(reasons) and not unconfined:
        return Verdict("allow", "read", "reads in the workspace", sandbox=kind)
    moved = any(command.words and command.words[0].text in ("cd", "pushd", "popd") for command in script.commands)
    ruled = any(rule.tool in ("bash", "write") for rule in rules.allow) or unconfined
    judged: list[PartFinding] = []
    lost = False  # a command that a rule allowed may have changed its shell: the folder, or the meaning of words
    for part, why in zip(script.parts, reasons, strict=True):
        judged.append(_judge_part(part, why, rules, ruled=ruled, moved=moved, lost=lost))
        lost = lost or (judged[-1].rule is not None and critical.changes_shell(_texts(part)))
    pairs = [(part, one) for part, one in zip(script.parts, judged, strict=True) if one.reason is not None]
    parts = _described([(part, str(one.reason)) for part, one in pairs])
    if not pairs:
        used = next((one.rule for one in judged if one.rule), None)
        free = used and not any(one.confined for one in judged)
        if unconfined and not free:
            return Verdict("ask", "execute", "it asks to run outside the sandbox", exactly=command)
        tier: Tier = "execute" if used else "write"
        return Verdict("allow", tier, "every part is allowed", rule=used, sandbox=None if free else "workspace")
    tier = "write" if all(one.tier == "write" for _, one in pairs) else "execute"
    reason = str(pairs[0][1].reason) + (f" (and {len(pairs) - 1} more)" if len(pairs) > 1 else "")
    if (command, parts) in rules.exact:
        return Verdict("allow", tier, "exactly this command is allowed for this session")
    if unconfined:
        return Verdict("ask", "execute", "it asks to run outside the sandbox", parts=parts)
    if rules.mode == "auto":
        if sandboxed:
            return Verdict("allow", tier, f"auto, in the sandbox: {reason}", sandbox="workspace")
        reason += "; auto runs it only in a sandbox, and none works here"
    suggestion = pairs[0][1].offered if len(pairs) == 1 else None
    return Verdict("ask", tier, reason, suggestion=suggestion, exactly=None if suggestion else command, parts=parts)


def _texts(part: ScriptPart) -> tuple[str, ...]:
    return tuple(word.text for word in part.words) if isinstance(part, SimpleCommand) else ()


def _why_asked(
    part: ScriptPart, rules: Rules, *, confined: bool, lost: bool = False, mounts: bool = True
) -> PartFinding | None:
    """Return why a part asks: in the read-only sandbox, perhaps without `mounts`, or without one. None if it does
    not.
    """
    if isinstance(part, UnclearPart):
        return None if confined and part.confinable else PartFinding(part.reason)
    if lost:
        return PartFinding("a command before it in the same shell may have changed the folder or the meaning of words")
    try:
        if isinstance(part, SimpleCommand):
            check_command(part, rules.workspace, confined=confined, mounts=mounts and rules.mounts)
        elif part.access == "read" or part.target.text.startswith(("/dev/tcp/", "/dev/udp/")):
            check_redirect(part, rules.workspace, confined=confined)
        elif part.target.plain:
            return PartFinding(f"it writes to {part.target.text}", "write", writes=bool(part.target.text))
        else:
            return PartFinding("it redirects to a place known only at run time")
    except RefusedError as refused:
        known = isinstance(part, SimpleCommand) and not (part.variables or any(word.dynamic for word in part.words))
        return PartFinding(str(refused), words=_texts(part) if known else ())
    return None


def _judge_part(
    part: ScriptPart, why: PartFinding | None, rules: Rules, *, ruled: bool, moved: bool, lost: bool
) -> PartFinding:
    """Judge a part of a line that cannot run in the read-only sandbox as a whole; `why` is its own reason, if any.

    If a rule may lift that, the other parts must only read outside a sandbox too. `moved`: the line changes its folder.
    """
    if why is None and ruled and (strict := _why_asked(part, rules, confined=False, lost=lost)) is not None:
        is_git = isinstance(part, SimpleCommand) and _texts(part)[:1] == ("git",) and all(w.plain for w in part.words)
        if is_git and _why_asked(part, rules, confined=True, mounts=False) is None:  # it shows no secret anywhere
            return PartFinding(tier="read", confined=True)
        why = strict if rules.mode != "auto" else None
    if why is None:
        return PartFinding(tier="read")
    if why.writes and isinstance(part, Redirect):
        return _judge_write(part, why, rules)
    if not why.words or not isinstance(part, SimpleCommand):
        return why
    for rule in rules.allow if not lost else ():
        if rule.tool != "bash" or not rule.matches_words(why.words):
            continue
        if uncovered := why_not_covered(rule, part, rules.workspace):
            why = why.replace(reason=uncovered)
            continue
        return PartFinding(rule=rule.text, confined=not runs_free(rule))
    offered = rule_for(why.words, moved=moved)
    covers = offered is not None and why_not_covered(parse_rule(offered), part, rules.workspace) is None
    return why.replace(offered=offered) if covers else why


def _judge_write(part: Redirect, finding: PartFinding, rules: Rules) -> PartFinding:
    """Judge a redirection into a file as a write, which the mode or a rule for `write` may allow."""
    target = part.target.text
    for cwd in sorted(part.folders):
        found = judge_path(target, "write", rules.workspace, cwd, shell=True)
        if found.place is None:
            return PartFinding(found.reason)
        if found.place in rules.kept:
            return PartFinding(f"it writes to {target}, a file of your settings that nothing may write", "write")
        name = relative_name(found.place, rules.workspace)
        by_rule = any(rule.tool == "write" and rule.body and rule.matches_path(name) for rule in rules.allow)
        if found.action == "deny" or (found.action == "ask" and not (by_rule and not found.sensitive)):
            return PartFinding(f"it writes to {target}: {found.reason}", "write")
        if not by_rule and rules.mode not in ("auto-edit", "auto"):
            return finding
    return PartFinding(tier="write")


def _rule_for_any(script: Script, rules: Sequence[Rule], workspace: Path) -> Rule | None:
    """The first rule that covers a file into which the script redirects, or any of its commands, also in wrappers and
    nested scripts.
    """
    of_files = [rule for rule in rules if rule.tool in ("write", "edit")]
    for part in script.parts if of_files else ():
        if isinstance(part, Redirect) and part.access == "write":
            target = part.target.text
            found = [judge_path(target, "write", workspace, cwd, shell=True).place or target for cwd in part.folders]
            names = [relative_name(place, workspace) for place in found]
            if rule := next((one for one in of_files if any(map(one.matches_path, names))), None):
                return rule
    rules = [rule for rule in rules if rule.tool == "bash"]
    if bare := next((rule for rule in rules if rule.body is None), None):
        return bare
    commands = (command for each in (with_nested(script, Path("/")) if rules else ()) for command in each.commands)
    for words in (words for command in commands for words in unwrapped([word.text for word in command.words])):
        named = [words[0].rpartition("/")[2], *words[1:]]
        if rule := next((one for one in rules if one.matches_words(words) or one.matches_words(named)), None):
            return rule
    return None


_CHANGES = re.compile(
    r"> |(?:sudo )?(?:rm|rmdir|mv|unlink|shred|truncate|dd|chmod|chown|git (?:push|reset|clean|rm|mv))\b"
)


def _described(reasons: Sequence[tuple[ScriptPart, str]]) -> CommandParts:
    """The texts of parts that may do more than read, each with its reason, and of the commands that they start; those
    that change or delete something come first.
    """
    found: list[tuple[str, str]] = []
    for part, reason in reasons:
        if not isinstance(part, SimpleCommand):
            found.append((f"> {part.target.raw}" if isinstance(part, Redirect) else "", reason))
            continue
        found.append((" ".join(word.raw for word in part.words), reason))
        for script in nested_scripts(_texts(part)):
            inner = (" ".join(word.raw for word in command.words) for command in read_script(script).commands)
            found += [(text, f"run by {part.words[0].text}") for text in inner]
    return tuple(sorted(dict.fromkeys(found), key=lambda each: _CHANGES.match(each[0]) is None))
