"""Judge a git command: its options by the table, its repository by where the command runs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from codelet.safety.paths import contained, why_unread
from codelet.safety.shell.folders import Location, folder_reached
from codelet.safety.shell.git_commands import CONFIG_SECTIONS, GIT_VARIABLES, READ_ONLY_GIT, STASH_LISTS, split_git
from codelet.safety.shell.git_content import possible_paths, refuse_bare_content, refuse_printed_secrets
from codelet.safety.shell.git_state import RepositoryState, ask_git, repository_state
from codelet.safety.shell.program_arguments import ParsedArguments, RefusedError, parse_arguments
from codelet.system.git.hardening import Repository

_INDEX_CAP = 32 * 1024 * 1024


def git_place(words: Sequence[str], place: Location) -> Location:
    """Where git works: in the folder of `-C DIR`, each seen from the one before; raises as `folder_reached` does."""
    index, _ = split_git(words)
    at = 0
    while at < index:
        if words[at] == "-C":
            at += 1
            text = words[at] if at < len(words) else ""
            place = Location(folder_reached("git -C", text, place), place.root)
        at += 1
    return place


def check_git(words: Sequence[str], place: Location) -> ParsedArguments:
    """The paths that `git WORDS` reads in the workspace's own repository; raises RefusedError where it does more.

    `place` is where git works.
    """
    parsed = permitted_git(words, place)
    found = _refuse_other_repository(place)
    index, name = split_git(words)
    if name == "diff" and parsed.operands and not found.configuration.is_repository:
        # Outside of a repository git compares any two files or folders.
        raise RefusedError("git diff of files outside a repository")
    if name in READ_ONLY_GIT:
        operands = parsed.operands[-1:] if name == "cat-file" and not parsed.has("-t", "-s", "-e") else []
        for operand in operands:
            refuse_bare_content(operand, place)
        blanks = found.configuration.blanks()
        unusual = [word for word in words[:index] if word.startswith("-") and word != "-C"]
        refuse_printed_secrets(name, words[index + 1 :], parsed, place, blanks, unusual=unusual)
    if name == "range-diff" and any(one.name.endswith(".textconv") for one in found.configuration.settings):
        # The git log that it starts takes no option that switches them off.
        raise RefusedError("git range-diff runs the text converters that the configuration names")
    _paths(parsed)
    return parsed


def permitted_git(words: Sequence[str], place: Location) -> ParsedArguments:
    """The arguments of a git command that only reads; raises RefusedError where it is none."""
    index, name = split_git(words)
    if name in ("--version", "-v") and len(words) == index + 1:
        return ParsedArguments()
    program = READ_ONLY_GIT.get(name or "")
    if name is None or program is None:
        raise RefusedError(f"git {name or ''} is not known to be read-only".replace("  ", " "))
    parsed = parse_arguments(f"git {name}", program, words[index + 1 :])
    if name in ("stash", "worktree") and words[index + 1 : index + 2] != parsed.operands[:1]:
        # `git stash -p list` is `git stash push -p list`: the subcommand must come first.
        raise RefusedError(f"git {name} without its subcommand in front")
    if program.check:
        _CHECKS[program.check](parsed, place)
    return parsed


def _paths(parsed: ParsedArguments) -> None:
    """Turn revisions and paths into the paths they may name: `HEAD:.env` and `:(top).env` both read .env."""
    found = []
    for kind, text in parsed.uses:
        found.append((kind, text))
        if kind == "rev":
            found += [("rev", path) for path in dict.fromkeys(possible_paths(text))]
    for value in parsed.values("-L"):
        # Which colon ends the range is git's to say: what stands behind any of them may be the path.
        found += [("rev", value[at + 1 :]) for at, letter in enumerate(value) if letter == ":" and value[at + 1 :]]
    parsed.uses[:] = found


def _format(parsed: ParsedArguments, _: Location) -> None:
    """Signature fields make git run the signature program; a named format may hide one."""
    for value in parsed.values("--format", "--pretty"):
        _refuse_signatures(value)
        if "%" not in value and value not in _FORMATS:
            raise RefusedError(f"the format {value!r} is defined by the repository")


def _refuse_signatures(form: str) -> None:
    if re.search(r"%[-+ ]?G|signature|%\([^)]*gpg", form):
        raise RefusedError("a format with a signature (%G) runs the signature program")


def _shortlog(parsed: ParsedArguments, _: Location) -> None:
    """What it groups by may be a format."""
    for value in parsed.values("--group"):
        _refuse_signatures(value)


_FORMATS = ("oneline", "short", "medium", "full", "fuller", "reference", "email", "raw", "mboxrd", "")


def _listing(parsed: ParsedArguments, place: Location) -> None:
    """`git branch` and `git tag` list; with a bare name they create."""
    _format_of_references(parsed, place)
    lists = ("-l", "--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
    if parsed.operands and not parsed.has(*lists):
        raise RefusedError("git branch and git tag with a name create it")
    # `--contains` and the like take the next word as a commit, whatever it is.
    parsed.uses[:] = []


def _format_of_references(parsed: ParsedArguments, place: Location) -> None:
    for value in parsed.values("--format", "--sort"):
        if "remotename" in value:  # it may be an address
            _refuse_passwords(place)
        _refuse_signatures(value)
        if "raw" in value.lower():
            raise RefusedError("a format with %(raw) prints content whose file is not named")


def _for_each(parsed: ParsedArguments, place: Location) -> None:
    _format_of_references(parsed, place)


def _cat_file(parsed: ParsedArguments, _: Location) -> None:
    types = ("blob", "tree", "commit", "tag")
    if parsed.has("-t", "-s", "-e", "-p"):
        if len(parsed.operands) != 1:
            raise RefusedError("git cat-file takes one object")
        parsed.uses.append(("rev", parsed.operands[0]))
    elif len(parsed.operands) != 2 or parsed.operands[0] not in types:
        raise RefusedError("git cat-file takes a type and an object")


def _stash(parsed: ParsedArguments, place: Location) -> None:
    if not parsed.operands or parsed.operands[0] not in STASH_LISTS:
        raise RefusedError("git stash changes the tree")
    _format(parsed, place)


def _reflog(parsed: ParsedArguments, place: Location) -> None:
    if parsed.operands and parsed.operands[0] in ("expire", "delete", "drop", "write"):
        raise RefusedError(f"git reflog {parsed.operands[0]} writes")
    _format(parsed, place)


def _remote(parsed: ParsedArguments, place: Location) -> None:
    if parsed.operands or parsed.has("-v", "--verbose"):
        _refuse_passwords(place)
    if parsed.operands and (parsed.operands[0] != "get-url" or len(parsed.operands) != 2):
        raise RefusedError(f"git remote {parsed.operands[0]} writes or reaches the network")


def _worktree(parsed: ParsedArguments, _: Location) -> None:
    if parsed.operands != ["list"]:
        raise RefusedError("git worktree writes")


def _refuse_passwords(place: Location) -> None:
    if repository_state(place).configuration.holds_password():
        raise RefusedError("an address in git's configuration holds a password")


_CREDENTIAL = re.compile(r"token|secret|password|passwd|pass$|auth|(?<!signing)key|credential|header|cookie")


def _config(parsed: ParsedArguments, place: Location) -> None:
    if len(parsed.operands) != 1:
        raise RefusedError("git config writes, or shows credentials")
    name = parsed.operands[0].lower()
    if not name.startswith(CONFIG_SECTIONS) or _CREDENTIAL.search(name.rpartition(".")[2]):
        raise RefusedError(f"{parsed.operands[0]} may hold credentials")
    if not name.startswith("user."):
        _refuse_passwords(place)


def _var(parsed: ParsedArguments, _: Location) -> None:
    if parsed.operands and parsed.operands[0] not in GIT_VARIABLES:
        raise RefusedError("git var of this name is not known to be read-only")


def _grep(parsed: ParsedArguments, place: Location) -> None:
    """`git grep` reads every tracked file, so the index must not name a secret one."""
    repository = repository_state(place).repository
    if repository is None:
        raise RefusedError("git grep outside a repository")
    before = parsed.operands if parsed.ended is None else parsed.operands[: parsed.ended]
    revisions = before if parsed.has("-e") else before[1:]
    if "--" in parsed.operands or (parsed.ended is not None and (revisions or not (before or parsed.has("-e")))):
        # Behind a `--` only the rest are paths, whatever files there are.
        raise RefusedError("git grep in an old revision, whose files are not known")
    given = parsed.operands if parsed.has("-e") else parsed.operands[1:]
    if any(not Path(place.cwd, path).exists() for path in given):
        raise RefusedError("git grep in an old revision, whose files are not known")
    paths = _tracked(repository)
    for path in paths:
        if why_unread(path):
            raise RefusedError(f"git grep reaches {path}")
    # A folder that became a link is followed: git looks only at the last component.
    for folder in {path[:at] for path in paths for at in _slashes(path)}:
        if os.path.islink(f"{repository.folder}/{folder}"):
            raise RefusedError(f"git grep follows the link {folder}")


def _tracked(repository: Repository) -> frozenset[str]:
    """The tracked paths, as git lists them; the list is kept until the index is another."""
    try:
        facts = os.lstat(f"{repository.git_folder}/index")
    except FileNotFoundError:
        return frozenset()
    return _listed(repository.folder, repository.git_folder, (facts.st_ino, facts.st_ctime_ns, facts.st_size))


@lru_cache(maxsize=4)
def _listed(folder: str, _: str, __: tuple[int, ...]) -> frozenset[str]:
    done = ask_git(folder, ("ls-files", "-z"), None, _INDEX_CAP)
    if done.exit_code != 0:
        raise RefusedError("git cannot say which files git grep would search")
    return frozenset(done.stdout.decode("utf-8", "surrogateescape").split("\0"))


def _slashes(path: str) -> list[int]:
    return [at for at, letter in enumerate(path) if letter == "/" and at]


_CHECKS: dict[str, Callable[[ParsedArguments, Location], None]] = {
    "cat-file": _cat_file,
    "config": _config,
    "format": _format,
    "grep": _grep,
    "listing": _listing,
    "reflog": _reflog,
    "remote": _remote,
    "shortlog": _shortlog,
    "stash": _stash,
    "var": _var,
    "worktree": _worktree,
    "references": _for_each,
}


def _refuse_other_repository(place: Location) -> RepositoryState:
    """Only the workspace's own repository is read: one inside it came with the files, as may its settings."""
    folder = place.cwd
    while True:
        if all(Path(folder, name).exists() for name in ("HEAD", "objects", "refs")):
            raise RefusedError(f"{folder} is a bare repository among the files")
        if os.path.lexists(f"{folder}/.git") or folder in ("/", place.root):
            break
        folder = folder.rpartition("/")[0] or "/"
    if folder != place.root and contained(folder, place.root):
        raise RefusedError(f"{folder} holds another repository")
    found = repository_state(place)
    if found.reason is not None:
        raise RefusedError(found.reason)
    return found
