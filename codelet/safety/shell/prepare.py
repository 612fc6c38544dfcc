"""Rewrite an allowed command before it runs: git keeps off the repository's code, searches off secrets.

A plain `git status` runs what the repository's configuration names. What git cannot be told in the
environment is put into the command itself, at each read-only git command; a search through a tree gets
the names of secret files as exceptions, and a sed that only reads is told to do no more than that. The rest of
the command stays as it was, byte for byte.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from codelet.safety import sensitive_names
from codelet.safety.paths import workspace_root
from codelet.safety.shell.folders import Folders, Location
from codelet.safety.shell.git_checks import git_place, permitted_git
from codelet.safety.shell.git_commands import STASH_LISTS, split_git
from codelet.safety.shell.git_state import repository_state
from codelet.safety.shell.program_arguments import RefusedError, end_of_options
from codelet.safety.shell.programs import READ_ONLY_PROGRAMS
from codelet.safety.shell.script_parser import read_script
from codelet.safety.shell.simple_commands import judge_command
from codelet.safety.shell.syntax import SimpleCommand, UnclearPart
from codelet.safety.shell.xargs import end_of_own_words
from codelet.system.git.hardening import COMMAND_OPTIONS, ENVIRONMENT, NO_PROGRAMS, OPTIONS, SETTINGS, overrides_of
from codelet.system.process import find_program, outside_path

_PROGRAM_CAP = 16 * 1024 * 1024
"""Bytes of a program whose text is searched."""


def prepare_command(command: str, workspace: Path) -> str:
    """The command to run in place of `command`, whoever allowed it; `command` itself where nothing needs to change."""
    if "\0" in command:
        return command
    script = read_script(command, workspace)
    if script.unread or any(isinstance(part, UnclearPart) and part.unparsed for part in script.parts):
        return command
    folders = Folders(workspace)
    edits: list[tuple[int, str]] = []
    for part in script.commands:
        here = folders.of(part)
        name = part.words[0].text if part.words else ""
        # Judging follows a `cd`, and tells which sed is harmless; a git was judged already, which asks git itself.
        found = judge_command(part, folders) if name != "git" else None
        if part.words:
            edits += _edits(part, here, workspace_root(workspace))
        if name == "sed" and found is not None and found.reason is None and _sed_has_sandbox(workspace):
            edits.append((part.words[0].end, f" {_SANDBOX}"))
        if name == "xargs" and found is not None and found.reason is None:
            edits.append((part.words[end_of_own_words(part)].end, " --"))
    source = command.encode("utf-8", "surrogateescape" if command.isascii() else "replace")
    for offset, text in sorted(set(edits), reverse=True):
        source = source[:offset] + text.encode() + source[offset:]
    return source.decode("utf-8") if edits else command


_SANDBOX = "--sandbox"


def _sed_has_sandbox(workspace: Path) -> bool:
    """Whether the sed in PATH can be told to neither run, write nor read other files: GNU's can since 4.3."""
    program = find_program("sed", workspace)
    if program is None:
        return False
    facts = Path(program).stat()
    return _names_option(program, facts.st_mtime_ns, facts.st_size)


@lru_cache(maxsize=4)
def _names_option(program: str, _changed: int, size: int) -> bool:
    """Whether the program's own text names the option: to ask it would mean to run it."""
    return size < _PROGRAM_CAP and _SANDBOX.encode() in Path(program).read_bytes()


def _edits(command: SimpleCommand, folders: frozenset[str], root: str) -> list[tuple[int, str]]:
    """What to insert, and at which byte."""
    words = [word.text for word in command.words]
    if words[0] == "git":
        try:
            folders = frozenset(git_place(words[1:], Location(one, root)).cwd for one in folders)
            parsed = permitted_git(words[1:], Location(min(folders), root))
        except RefusedError:
            return _edits_where_allowed(command, words, folders, root)
        return _git_edits(command, words, folders, root, bare=not parsed.options)
    bundled = "".join(word[1:] for word in words if word.startswith("-") and not word.startswith("--"))
    recursive = set("rR") & set(bundled) or {"--recursive", "--dereference-recursive"} & set(words)
    if words[0] in ("grep", "egrep", "fgrep") and recursive:
        return [_at_options(command, words, search_exceptions("grep"))]
    if words[0] == "rg" and "--files" not in words:
        return [_at_options(command, words, search_exceptions("rg"))]
    return []


def _edits_where_allowed(
    command: SimpleCommand, words: Sequence[str], folders: frozenset[str], root: str
) -> list[tuple[int, str]]:
    """What keeps a command off the repository's programs that shows history, with options that are not known here.

    A person or a rule allowed it, so its own options, which come behind these, still count.
    """
    index, name = split_git(words[1:])
    if name not in ("blame", "diff", "grep", "log", "show"):
        return []
    settings = {key: SETTINGS[key] for key in ("core.fsmonitor", "core.hooksPath")} | _blanks(folders, root)
    options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
    programs = [one for one in COMMAND_OPTIONS[name] if one in NO_PROGRAMS]
    return [
        (command.words[0].end, "".join(f" {shlex.quote(one)}" for one in options)),
        (command.words[index + 1].end, f" {' '.join(programs)}"),
    ]


def _blanks(folders: frozenset[str], root: str) -> dict[str, str]:
    """The settings that take the place of programs which the repository around one of the folders names."""
    found = [repository_state(Location(folder, root)).configuration.blanks() for folder in folders]
    return {key: value for one in found for key, value in one.items() if "=" not in key and key.isprintable()}


def _at_options(command: SimpleCommand, words: Sequence[str], options: Sequence[str]) -> tuple[int, str]:
    """Where the options are inserted: after all others, so that they win, but before a `--`."""
    end = end_of_options(READ_ONLY_PROGRAMS[words[0]], words[1:])
    return command.words[end].end, "".join(f" {shlex.quote(option)}" for option in options)


def search_exceptions(program: str) -> list[str]:
    """The options that keep a recursive grep or rg from files with secrets."""
    if program == "rg":
        folders = [f"--iglob=!**/{folder}/**" for folder in (*sensitive_names.SECRET_FOLDERS, ".git")]
        copies = "{" + ",".join(sensitive_names.COPIES) + "}"
        files = [f"--iglob=!{pattern}{end}" for pattern in sensitive_names.SECRET_FILES for end in ("", copies)]
        return [*files, *(f"--iglob=!**/{place}" for place in sensitive_names.SECRET_PLACES), *folders]
    folders = [f"--exclude-dir={folder}" for folder in (*sensitive_names.SECRET_FOLDERS, ".git")]
    return [f"--exclude={pattern}" for pattern in sensitive_names.SECRET_FILES] + folders


def _git_edits(
    command: SimpleCommand, words: Sequence[str], folders: frozenset[str], root: str, *, bare: bool
) -> list[tuple[int, str]]:
    index, name = split_git(words[1:])
    settings = SETTINGS | _blanks(folders, root)
    options = [*OPTIONS, *(part for key, value in settings.items() for part in ("-c", f"{key}={value}"))]
    git = command.words[0]
    edits = [(git.start, _variables(root)), (git.end, "".join(f" {shlex.quote(one)}" for one in options))]
    at = index + 1
    following = words[at + 1] if len(words) > at + 1 else ""
    if (name == "stash" and following in STASH_LISTS) or (name == "reflog" and following == "show"):
        # Any option makes `git stash show` print content in place of the summary.
        summary = ("--stat",) if following == "show" and name == "stash" and bare else ()
        edits.append((command.words[at + 1].end, " " + " ".join((*summary, *NO_PROGRAMS))))
    elif name == "reflog" and following not in ("list", "exists"):
        edits.append((command.words[at].end, " show " + " ".join(NO_PROGRAMS)))
    elif name in COMMAND_OPTIONS:
        edits.append((command.words[at].end, " " + " ".join(COMMAND_OPTIONS[name])))
    return edits


def _variables(root: str) -> str:
    """The assignments in front of git: its own, and what takes the place of the user's that would write or mislead."""
    variables = ENVIRONMENT | overrides_of(os.environ)
    search = os.environ.get("PATH", os.defpath)
    outside = outside_path(Path(root))
    if outside != search:
        variables |= {"PATH": outside}  # git looks for its helpers there
    return "".join(f"{key}={shlex.quote(value)} " for key, value in variables.items())
