"""The git commands that only read, and those that print content that no sandbox hides.

In a read-only sandbox with mounts, git's attributes mark secret files as binary: `log -p`, `diff` and `show` print
none. The rest asks: objects without a file name, searches that reveal whether a secret matches, and addresses with
passwords.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from codelet.safety.git_targets import ask_git, file_facts, holds_password
from codelet.safety.paths import contained, why_unread
from codelet.safety.sandbox.places import find_attributes
from codelet.safety.shell import programs
from codelet.safety.shell.programs import Location, ParsedArguments, RefusedError, folder_reached
from codelet.safety.tables import word_list
from codelet.system.git.hardening import OPTIONS, Repository, find_repository, stray

_MOST_OBJECTS = 8
_PRINTS = word_list("shell", "git", "commands")
_PATCH, _SUMMARIES = word_list("shell", "git", "print"), word_list("shell", "git", "sum up")
_ORACLES = frozenset(word_list("shell", "git", "search"))
"""Options that print or search secret files in spite of the attributes."""
_LISTS = word_list("shell", "git", "list")
_HASH = re.compile(r"[0-9a-f]{4,64}")
_CREDENTIAL = re.compile(r"token|secret|password|passwd|pass$|auth|(?<!signing)key|credential|header|cookie")
_PLAIN_OPTIONS = frozenset((*OPTIONS, "--literal-pathspecs", "--no-replace-objects", "-C"))
_SURE_COMMIT = re.compile(r"(?:HEAD|@)(?:[~^]\d*)*", re.ASCII)


def check_git(words: Sequence[str], place: Location, *, mounts: bool) -> ParsedArguments:
    """Return the paths in `git WORDS`. Raises RefusedError if it does more than read, or may print a secret.

    `mounts`: the sandbox can mount git's attributes.
    """
    place, rest = Location(place.cwd, place.root), [*words, ""]
    while rest[0] in _PLAIN_OPTIONS:
        if rest.pop(0) == "-C":
            place = Location(folder_reached("git -C", rest.pop(0), place), place.root)
    name, rest = rest[0], rest[1:-1]
    if name in ("--version", "-v") and not rest:
        return ParsedArguments()
    if name not in programs.READ_ONLY_GIT:
        raise RefusedError(f"git {name} is not known to be read-only".replace("  ", " "))
    parsed = programs.parse_arguments(f"git {name}", programs.READ_ONLY_GIT[name], rest)
    if name in ("stash", "worktree") and rest[:1] != (parsed.operands[:1] or [""]):
        raise RefusedError(f"git {name} without a subcommand in front")
    folder = place.cwd  # the repository must be the workspace's own: another one inside came with the files
    while not os.path.lexists(f"{folder}/.git") and folder not in ("/", place.root):
        if all(Path(folder, name).exists() for name in ("HEAD", "objects", "refs")):
            raise RefusedError(f"{folder} is a bare repository among the files")
        folder = folder.rpartition("/")[0] or "/"
    if folder != place.root and contained(folder, place.root):
        raise RefusedError(f"{folder} holds another repository")
    repository = find_repository(place.cwd)
    if repository is not None and (why := stray(repository, place.root)):
        raise RefusedError(why)
    if name in ("branch", "tag"):
        if parsed.operands and not parsed.has(*_LISTS):
            raise RefusedError("git branch and git tag with a name create it")
        parsed.uses[:] = []  # `--contains` and the like take any next word as a commit
    if name == "reflog" and parsed.operands[:1] and parsed.operands[0] in ("expire", "delete", "drop", "write"):
        raise RefusedError(f"git reflog {parsed.operands[0]} writes")
    _refuse_passwords(name, parsed, repository)
    _refuse_content(name, parsed, place, mounts=mounts)
    for _, text in list(parsed.uses):
        parsed.uses += [("rev", path) for path in dict.fromkeys(possible_paths(text))]
    return parsed


def _refuse_passwords(name: str, parsed: ParsedArguments, repository: Repository | None) -> None:
    """Raise RefusedError if it may print a credential, or a remote's address with a password."""
    if name == "config":
        key = "".join(parsed.operands).lower()
        if not key.startswith(word_list("git", "words", "config")) or _CREDENTIAL.search(key.rpartition(".")[2]):
            raise RefusedError(f"git config {key} may hold credentials")
    shows = (
        (name == "remote" and (parsed.operands or parsed.has("-v", "--verbose")))
        or (name == "config" and not key.startswith("user."))
        or any("remotename" in (value or "") or "url" in (value or "") for _, value in parsed.options)
    )
    if shows and repository is not None and any(map(holds_password, repository.configurations)):
        raise RefusedError("an address in git's configuration holds a password")


def _refuse_content(name: str, parsed: ParsedArguments, place: Location, *, mounts: bool) -> None:
    """Raise RefusedError if it may print content in spite of the attributes."""
    for value in (value for option, value in parsed.options if option in ("--format", "--sort", "--pretty") and value):
        if name in ("branch", "tag", "for-each-ref") and "raw" in value.lower():
            raise RefusedError("a format with %(raw) prints content whose file is not named")
    if name not in _PRINTS:
        return
    objects = parsed.operands if name == "show" else []
    if name == "cat-file" and not parsed.has("-t", "-s", "-e"):
        objects = parsed.operands[-1:]
        parsed.uses += [("rev", operand) for operand in objects]
    elif name == "show" and parsed.has("--all", "--branches", "--tags", "--remotes", "--glob", "--reflog"):
        raise RefusedError("git show of many references, which may be content whose file is not named")
    elif name == "diff":
        objects = [one for one in parsed.operands if _HASH.fullmatch(one)]
    if len(objects) > _MOST_OBJECTS:
        raise RefusedError(f"git shows more than {_MOST_OBJECTS} objects")
    for one in objects:  # content that is named by its hash or a tag: its file's name is unknown
        if type(one) is not str:
            raise RefusedError("git shows an object that is known only at run time")
        if ":" in one or one == "--" or _SURE_COMMIT.fullmatch(one) or Path(place.cwd, one).exists():
            continue
        if _ask(place, "cat-file", "-t", f"{one.lstrip('^').partition('..')[0]}^{{}}").strip() == "blob":
            raise RefusedError(f"{one} is content whose file is not named")
    prints = name in ("show", "diff", "grep", "range-diff") or parsed.has(*_PATCH)
    prints = prints or (name == "stash" and parsed.operands[:1] == ["show"] and bool(parsed.options))
    if not prints or (name != "grep" and parsed.has(*_SUMMARIES) and not parsed.has("-S", "-G", "-L")):
        return
    oracle = sorted(_ORACLES & {option for option, _ in parsed.options})
    if name != "grep" and not oracle and mounts and find_attributes(place.root) is not None:
        return
    named = [one for one in parsed.operands[not parsed.has("-e") :] if one != "--"]
    if name == "grep" and named and all(Path(place.cwd, one).is_file() and not why_unread(one) for one in named):
        return
    history = name != "grep" or not all(Path(place.cwd, one).exists() for one in named)
    if secret := kept_secret(place, history=history):
        what = f"git {name} {oracle[0]}" if oracle else f"git {name}"
        raise RefusedError(f"{what} may show {secret}, which git keeps")


_ADDED = "--all --root -c --full-history --no-renames --diff-filter=A --name-only --format= -z".split()
"""Options of `git log` to list each file that any commit added, merges and first commits included."""


def kept_secret(place: Location, *, history: bool) -> str | None:
    """A file with a secret's name in the index, or with `history` in any commit; None without one.

    git lists the files again only when the index or a reference has changed.
    """
    repository = find_repository(place.cwd)
    if repository is None:
        return None
    references = _ask(place, "show-ref", "--head") if history else ""
    return _kept(place, history, (references, file_facts(f"{repository.git_folder}/index")))


@lru_cache(maxsize=32)
def _kept(place: Location, history: bool, state: object) -> str | None:
    listed = _ask(place, "ls-files", "-z") + "\0" + (_ask(place, "log", *_ADDED) if history else "")
    names = map(str.strip, dict.fromkeys(listed.split("\0")))
    return next((name for name in names if why_unread(name)), None)


def _ask(place: Location, *words: str) -> str:
    if (printed := ask_git(place.cwd, *words)) is None:
        raise RefusedError("git does not answer in time what the command would read")
    return printed[1]


def possible_paths(text: str) -> Iterator[str]:
    """Every path that a word may name: in a revision with a path, a range of two, or a pathspec."""
    for one in {text, *text.split("..", 1), *text.split("...", 1)}:
        yield from (one[at + 1 :] for at, letter in enumerate(one) if letter == ":" and one[at + 1 :])
    if text.startswith(":"):
        yield re.sub(r"^:\([^)]*\)|^:[!^/]*", "", text) or "."
