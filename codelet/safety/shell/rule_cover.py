"""The words that a rule's `*` covers: plain words, paths inside the workspace, and options that only select or report.

A rule such as `bash(ruff *)` allows every later command that begins so, with words of the model's choice. They must not
choose a file to write, a program to run or a file to load. Options that are not listed ask, because a program's next
version may add some. The words before the `*` are the user's own and stay allowed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from glob import iglob
from itertools import islice
from pathlib import Path

from codelet.safety.paths import judge_path, why_unread, workspace_root
from codelet.safety.rules import Rule
from codelet.safety.shell.git_words import possible_paths
from codelet.safety.shell.programs import READ_ONLY_GIT, READ_ONLY_PROGRAMS, Location, RefusedError
from codelet.safety.shell.script_parser import SimpleCommand
from codelet.safety.tables import read_table, word_list

_LETTERS = frozenset("ahjknqvV0123456789")
"""Short options that are harmless for any program, also in a bundle."""
_MATCH_CAP = 1_000
_VARIABLE = re.compile(r"[A-Za-z_][\w.]*[:+?!]*=", re.ASCII)
_ELSEWHERE = re.compile(r"[A-Za-z][\w+.-]*://|file:|(?:ext|fd)::|[\w.-]+@[\w.-]+:", re.ASCII)
_BARE = re.compile(r"[\w-]+", re.ASCII)
_PIECES = re.compile(r"[\s=:,;]+")


def runs_free(rule: Rule) -> bool:
    """Return whether the rule lets commands run outside the sandbox: it names an exact command, or a git command that
    changes the repository, which every sandbox protects.
    """
    return rule.prefix is None or (
        rule.prefix[0] == "git" and rule.prefix[1:2] != () and rule.prefix[1] in word_list("rules", "git")
    )


def why_not_covered(rule: Rule, command: SimpleCommand, workspace: Path) -> str | None:
    """Return why the rule does not cover the words after its prefix; None if it does."""
    prefix = rule.prefix
    if prefix is None:
        return None
    for cwd in sorted(command.folders):
        place = Location(cwd, workspace_root(workspace))
        try:
            rest: list[str] = []
            for word in command.words[len(prefix) :]:  # each with the files that its pattern matches now
                if word.glob and (set("[]{}\\\"'") & set(word.raw) or word.dynamic):
                    raise RefusedError(f"{word.raw}: a pattern that is not plain")
                found = list(islice(iglob(word.text, root_dir=cwd), _MATCH_CAP + 1)) if word.glob else []
                if len(found) > _MATCH_CAP:
                    raise RefusedError(f"{word.raw}, which matches more than {_MATCH_CAP} files")
                rest += [word.text, *found]
            _refuse_words(prefix, rest, place)
        except RefusedError as refused:
            return f"the rule {rule.text} does not cover {refused}"
    return None


def _refuse_words(prefix: Sequence[str], rest: Sequence[str], place: Location) -> None:
    """Raise RefusedError at the first word that the `*` does not cover."""
    of_program = read_table("rules")["of a program"]
    known = frozenset(option for name in prefix for option in of_program.get(name, "").split())
    expected = "message" if _takes_message(prefix, prefix[-1] if prefix else "") else ""
    for word in rest:
        before, expected = expected, ""
        if before == "message":
            continue
        if before == "format" and not _BARE.fullmatch(word):
            raise RefusedError(word)
        if not word.startswith("-") or word in ("-", "--"):
            _refuse_operand(word, word, place)
            for path in possible_paths(word) if prefix[:1] == ("git",) else ():
                if why := why_unread(path):  # `HEAD~3:.env` need not be there now
                    raise RefusedError(f"{word}: {path} {why}")
            continue
        option, attached, value = word.partition("=")
        if not _is_harmless(option, bool(attached), known):
            raise RefusedError(option)
        if option in word_list("rules", "harmless options", "formats"):
            if attached and not _BARE.fullmatch(value):
                raise RefusedError(word)
            expected = "" if attached else "format"
        elif _takes_message(prefix, option):
            expected = "" if attached else "message"
        elif attached:
            _refuse_operand(word, value, place)


def _takes_message(prefix: Sequence[str], option: str) -> bool:
    """Return whether the word after the option is a message for git."""
    with_message = prefix[:1] == ("git",) and prefix[1:2] in (("commit",), ("merge",), ("stash",), ("tag",))
    return with_message and re.fullmatch(r"-[anqv]*m|--message", option) is not None


def _is_harmless(option: str, attached: bool, known: frozenset[str]) -> bool:
    if option in known or option in word_list("rules", "harmless options", "whole", "formats"):
        return True
    if not option.startswith("--"):
        letters = _LETTERS | {name[1] for name in known if len(name) == 2}
        return not attached and set(option[1:]) <= letters
    pieces = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", option[2:]).lower().split("-")
    is_switched_off = pieces[0] == "no" and not attached
    return is_switched_off or set(pieces) <= set(word_list("rules", "harmless options", "pieces"))


def _refuse_operand(word: str, text: str, place: Location) -> None:
    """Raise RefusedError for a file of options, a variable, another machine or a place outside the workspace."""
    if text.startswith(("@", "+")) or _VARIABLE.match(text) or _ELSEWHERE.match(text):
        raise RefusedError(word)
    # Pieces may be paths too: `html:/tmp/x`, `src:../y`.
    pieces = (one for one in _PIECES.split(text) if one.startswith(("/", "~")) or ".." in one.split("/"))
    for path in dict.fromkeys((text, *pieces)):
        if path.startswith("~"):
            raise RefusedError(f"{word}: {path} is outside the workspace")
        for access in ("read", "write") if path not in ("", "-", "--", "/dev/null") else ():
            found = judge_path(path, access, Path(place.root), place.cwd)
            # A sensitive name of no file is only a word.
            there = os.path.lexists(path if path.startswith("/") else f"{place.cwd}/{path}")
            if found.action != "allow" and (there or not found.sensitive):
                raise RefusedError(f"{word}: {found.reason}")


_NAME = re.compile(r"[A-Za-z0-9][\w.:@%+/-]*")
_WORD = re.compile(r"[\w./:=,+@%^~-]+")


def rule_for(words: Sequence[str], *, moved: bool) -> str | None:
    """The rule that covers this command and similar ones, None if that would be too much.

    `moved`: it may run in another folder than the workspace, where its paths mean something else.
    """
    name = words[0]
    if name in READ_ONLY_PROGRAMS or (name == "git" and words[1:2] and words[1] in READ_ONLY_GIT):
        # It only reads in other uses: only this very use becomes a rule, not every file or option.
        one_use = not moved and all(map(_WORD.fullmatch, words))
        return f"bash({' '.join(words)})" if one_use else None
    prefix = _prefix(list(words))
    return f"bash({' '.join(prefix)} *)" if prefix else None


def _prefix(words: list[str]) -> list[str] | None:
    """The first words, after which any others may follow."""
    name, rest = words[0], words[1:]
    table = read_table("rules")
    if name in word_list("rules", "any arguments", "programs", "make"):
        return [name]
    if re.fullmatch(r"python3?", name):
        known = rest[:1] == ["-m"] and rest[1:2] and rest[1] in word_list("rules", "any arguments", "python -m")
        return words[:3] if known else None
    if not rest or not _NAME.fullmatch(rest[0]):
        return None
    if " ".join(words[:2]) in table["run"]["scripts"].split(", "):
        return words[:3] if len(words) > 2 and _NAME.fullmatch(words[2]) else None
    if " ".join(words[:2]) in table["run"]["launchers"].split(", "):
        inner = _prefix(words[2:]) if len(words) > 2 else None
        return [*words[:2], *inner] if inner else None
    following = table["first words"].get(name, "").split()
    return words[:2] if rest[0] in following or "*" in following else None


def candidates(rule: str) -> list[str]:
    """Commands that a rule may cover: its prefix with frequent endings."""
    body = rule.removeprefix("bash(").removesuffix(")")
    prefix = body.removesuffix("*").rstrip()
    endings = read_table("rules")["endings"]["endings"].split(", ") if body.endswith("*") else ()
    return [prefix, *(f"{prefix} {ending}" for ending in endings)]
