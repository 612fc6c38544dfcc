"""The verdict on a whole command line: each part by what it does, then by the rules and the mode.

Listed programs with options that only read run without asking. Confined, a line may have variables, patterns, loops and
here-documents: the sandbox stops their effects, so none of them is evaluated here. A command asks if its program is not
listed, an option makes it write or run something, a word names a secret or a place outside the workspace, or git would
print content that no sandbox hides. Without a sandbox (strict) all words must be plain, all paths inside the workspace,
and programs with a language ask.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from codelet.record import Record
from codelet.safety.paths import judge_path, relative_name, why_unread, workspace_root
from codelet.safety.rules import Rule, parse_rule
from codelet.safety.shell import critical, programs
from codelet.safety.shell.critical import FIND_RUNS, REWRITES_HISTORY, nested_scripts, unwrapped, with_nested
from codelet.safety.shell.git_words import check_git
from codelet.safety.shell.programs import Location, ParsedArguments, RefusedError
from codelet.safety.shell.rule_cover import rule_for, runs_free, why_not_covered
from codelet.safety.shell.script_parser import Redirect, Script, ScriptPart, SimpleCommand, UnclearPart, read_script
from codelet.safety.tables import read_table, word_list
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
    programs.resolved.cache_clear()
    programs.is_supplied.cache_clear()
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
    if not sandboxed and not _is_plain(command):
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
    """Return why a part asks in the read-only sandbox, perhaps without `mounts`, or without one; None if it may run."""
    if isinstance(part, UnclearPart):
        return None if confined and part.confinable else PartFinding(part.reason)
    if lost:
        return PartFinding("a command before it in the same shell may have changed the folder or the meaning of words")
    try:
        if isinstance(part, SimpleCommand):
            _check_command(part, rules.workspace, confined=confined, mounts=mounts and rules.mounts)
        elif part.access == "read" or part.target.text.startswith(("/dev/tcp/", "/dev/udp/")):
            _check_redirect(part, rules.workspace, confined=confined)
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
    """The first rule that covers a file into which the script redirects, or a command that it may start."""
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
    """The parts that may do more than read, and the commands that they start; what changes something comes first."""
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


_WALK_CAP = 20_000
_BUILTINS = frozenset(word_list("shell", "unasked builtins"))
_BUILTIN_WORDS = read_table("shell")["words of builtins"]
_OWN_VARIABLE = re.compile(r"[a-z][a-z0-9_]*|LC_[A-Z]+|LANG|LANGUAGE|TZ|IFS", re.ASCII)
_PLAIN_PIECE = re.compile(
    r"""(?<![^\s;|&])[012]?(?:>&[012]|>{1,2}[ ]?[\w./-]+|<[ ]?[\w./-]+)"""
    r"""|[ \t\n]+|[\w./:=,+@%^-]+|'[^']*'|"[^"$`\\!]*"|&&|\|\|?|;"""
)
"""A separate redirection, plain words, a quoted text without expansions, or an operator."""


def _is_plain(line: str) -> bool:
    """Return whether a line has plain words alone, which every shell parses alike."""
    return bool(line) and not _PLAIN_PIECE.sub("", line)


class _Unknown(str):
    """A word that is known only when the line runs."""

    __slots__ = ()


class _Place(Location):
    """The place of a command, not `known` after a `cd` to an unknown one. `mounts`: see `check_git`."""

    known: bool
    confined: bool
    mounts: bool


def _places(part: SimpleCommand | Redirect, workspace: Path, *, confined: bool, mounts: bool = True) -> list[_Place]:
    root = workspace_root(workspace)
    return [_Place(cwd, root, not part.lost, confined, mounts) for cwd in sorted(part.folders)]


def _check_command(command: SimpleCommand, workspace: Path, *, confined: bool, mounts: bool = True) -> None:
    """Raise RefusedError unless the command may run without asking, `confined` or anywhere."""
    for name in command.variables:
        if not confined or not _OWN_VARIABLE.fullmatch(name):
            raise RefusedError(f"it sets the variable {name}")
    for word in command.words if not confined else ():
        if not word.plain or word.text.startswith("~"):
            raise RefusedError(f"{word.raw}: only plain words run without a sandbox")
    words = [word.text if word.plain else _Unknown(word.text) for word in command.words]
    for place in _places(command, workspace, confined=confined, mounts=mounts) if words else ():
        if words[0] != "cd":
            _check(words, place)
        elif not confined or (len(words) == 2 and not isinstance(words[1], _Unknown)):
            operands = words[2:] if words[1:2] == ["--"] else words[1:]
            if len(operands) != 1 or operands[0].startswith("-") or not operands[0]:
                raise RefusedError("cd to a place that is not certain")
            if os.environ.get("CDPATH") and not operands[0].startswith(("/", ".")):
                raise RefusedError("cd with CDPATH set")
            programs.folder_reached("cd", operands[0], place)


def _check_redirect(redirect: Redirect, workspace: Path, *, confined: bool) -> None:
    """Raise RefusedError for a redirection from a secret, or from a place outside."""
    text, plain = redirect.target.text, redirect.target.plain
    is_network = text.startswith(("/dev/tcp/", "/dev/udp/"))
    if is_network or not (confined or plain):
        raise RefusedError("it opens a network connection" if confined else "it reads from a place that is not plain")
    for place in _places(redirect, workspace, confined=confined):
        _check_paths([("read", text if plain else _Unknown(text))], place)


def _check(words: Sequence[str], place: _Place) -> None:
    """Raise RefusedError unless the words run a listed program."""
    name, rest = words[0], list(words[1:])
    if isinstance(name, _Unknown):
        raise RefusedError("the program's name is known only at run time")
    loaded = "" if place.confined else programs.LOADING_VARIABLES.get(name, "")
    if variable := next((one for one in loaded.split() if os.environ.get(one)), None):
        raise RefusedError(f"{name} loads what the environment names ({variable})")
    for started in {name, "grep"} if name in ("egrep", "fgrep") else {name}:  # scripts of the system that start grep
        if started not in (*_BUILTINS, "command", "time") and programs.is_supplied(started, place.root):
            raise RefusedError(f"{started} is a program of the workspace")
    is_version = len(rest) == 1 and (name, rest[0]) in programs.VERSIONS
    if is_version or (place.confined and _is_confined(name, rest, place)):
        return
    program = programs.READ_ONLY_PROGRAMS.get(name)
    if program is None:
        raise RefusedError(f"{name} is not known to be read-only")
    if name == "find":
        _find(rest, place)
    elif place.confined:
        _listed(name, program, rest, place)
    elif "language" in program.marks:
        raise RefusedError(f"{name} asks without a sandbox")
    else:
        parsed = ParsedArguments() if "raw" in program.marks else programs.parse_arguments(name, program, rest)
        _check_strictly(name, rest, parsed, place)
        _check_paths(parsed.uses, place)


def _check_paths(uses: Sequence[tuple[str, str]], place: _Place, *, sure: bool = True) -> None:
    """Raise RefusedError for a path outside the workspace, or of a secret; without `sure`, it may be no path.

    `-` is standard input to most programs, a file to some, and to bash after `<`.
    """
    harmless = ("/dev/null", "/dev/stdin", *(("-", "/dev/stdout", "/dev/stderr") if place.confined else ()))
    for kind, text in dict.fromkeys(uses):
        if isinstance(text, _Unknown) or text in harmless:
            continue
        found = judge_path(text, "list" if kind == "list" else "read", Path(place.root), place.cwd, shell=True)
        no_path = place.confined and found.action == "deny" and (kind == "rev" or not sure)
        certain = place.known or found.sensitive or text.startswith("/")
        if found.action != "allow" and certain and not no_path:
            raise RefusedError(found.reason)


def _is_confined(name: str, rest: list[str], place: _Place) -> bool:
    """Return whether the words run a builtin, a wrapper or git, looked at here. Raises RefusedError."""
    form = _BUILTIN_WORDS.get(name, "")
    if form and not (rest and all(re.fullmatch(form, word, re.DOTALL) for word in rest)) and (rest or name == "set"):
        raise RefusedError(f"{name} may change its shell")
    if name == "printf" and rest and rest[0].startswith("-v"):
        raise RefusedError("printf sets a variable")
    if name == "git":
        _check_paths(check_git(rest, place, mounts=place.mounts).uses, place)
    elif name in programs.WRAPPERS and not (name == "command" and rest[:1] and rest[0] in ("-v", "-V")):
        inner = programs.parse_arguments(name, programs.WRAPPERS[name], rest).operands[name == "timeout" :]
        if inner:
            _check(inner, place)
        elif name != "xargs":
            raise RefusedError(f"{name} without a command")
    else:
        return name in _BUILTINS
    return True


def _listed(name: str, program: programs.Program, rest: list[str], place: _Place) -> None:
    if "raw" in program.marks:  # a filter of jq, say
        _check_paths([("read", word) for word in rest[1:] if not word.startswith("-")], place, sure=False)
        return
    if not any(isinstance(word, _Unknown) for word in rest):
        _check_paths(programs.parse_arguments(name, program, rest).uses, place)
        return
    # An unknown word may become an option, whose writes fail. The known ones still count.
    loose = program.replace(operands="read*", marks=program.marks - {"options-first"})
    try:
        _check_paths(programs.parse_arguments(name, loose, rest).uses, place, sure=False)
    except RefusedError as refused:
        if "the value of" not in str(refused) and "takes a number" not in str(refused):
            raise


def _find(rest: list[str], place: _Place) -> None:
    """Check `find PATH… TESTS`: every word must be a test without effect, or run a permitted command."""
    follows = ("-P", "-H", "-L") if place.confined else ("-P",)
    while rest and rest[0] in follows:
        rest.pop(0)
    uses = []
    while rest and not rest[0].startswith(("-", "(", "!", ",")):
        uses.append(("list", rest.pop(0)))
    _check_paths(uses, place)
    while rest:
        word = rest.pop(0)
        kind = programs.FIND_TESTS.get(word)
        if place.confined and (isinstance(word, _Unknown) or word in follows or word.startswith("-newer")):
            del rest[: word.startswith("-newer")]
        elif place.confined and word in FIND_RUNS:
            end = next((at for at, one in enumerate(rest) if one in (";", "+")), len(rest))
            _check([_Unknown(one) if "{}" in one else one for one in rest[:end]] or [""], place)
            del rest[: end + 1]
        elif kind is None:
            raise RefusedError(f"find {word} is not known to be read-only")
        elif kind != "none" and not rest and not place.confined:
            raise RefusedError(f"find {word} lacks its value")
        elif kind != "none":
            _check_paths([(kind, value) for value in rest[:1] if kind == "list"], place)
            del rest[:1]


def _check_strictly(name: str, words: Sequence[str], parsed: ParsedArguments, place: Location) -> None:
    """Raise RefusedError for uses of a program that its permitted options and operands do not cover."""
    match name:
        case "printf":  # `-v` and `%n` set a variable, whose subscript would be evaluated
            rest = list(words[1:] if words[:1] == ["--"] else words)
            if rest and (rest[0].startswith("-") or re.search(r"%[^%a-zA-Z]*[hlLqjzt]*n", rest[0].replace("%%", ""))):
                raise RefusedError("printf sets a variable")
        case "date":
            if parsed.operands and not parsed.operands[0].startswith("+"):
                raise RefusedError("date with an operand sets the clock")
        case "command":
            if not parsed.has("-v", "-V"):
                raise RefusedError("command runs another program")
        case "strings" | "less":  # `strings @FILE` takes options from the file, `less +!CMD` runs a command
            if any(word.startswith(("@", "+")) for word in words):
                raise RefusedError(f"{name} with a word that begins with @ or +")
        case "diff":
            if any(Path(place.cwd, operand).is_dir() for operand in parsed.operands):
                raise RefusedError("diff of folders reads every file in them")
        case "grep" | "egrep" | "fgrep" | "rg":
            _search(name, parsed, place)


def _search(name: str, parsed: ParsedArguments, place: Location) -> None:
    """Check the tree of `grep -r` and `rg`: no file may have a secret's name, and it must not be too large."""
    if parsed.has("-R", "--dereference-recursive"):
        raise RefusedError("grep -R follows links")
    if not (parsed.has("-r", "--recursive") if name != "rg" else not parsed.has("--files", "--type-list")):
        return
    who = "rg" if name == "rg" else "grep -r"
    given = parsed.operands if parsed.has("-e", "--regexp") else parsed.operands[1:]
    seen, waiting = 0, [os.path.join(place.cwd, folder) for folder in (given or ["."])]
    while waiting:
        entries: list[os.DirEntry[str]] = []
        with suppress(OSError):
            entries += os.scandir(waiting.pop())
        seen += len(entries)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting += [] if name == "rg" and entry.name == ".git" else [entry.path]
            elif why := why_unread(entry.path, place.root):
                raise RefusedError(f"{who} reaches {entry.name}, which {why}")
        if seen > _WALK_CAP:
            raise RefusedError(f"{who} searches more than {_WALK_CAP} files, too many to look for secrets first")
