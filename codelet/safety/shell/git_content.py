"""Which files a git command would print or search: read from its words and asked of git itself.

What has a secret's name is neither printed nor searched unasked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from codelet.safety.paths import why_unread
from codelet.safety.shell.folders import Location
from codelet.safety.shell.git_commands import READ_ONLY_GIT
from codelet.safety.shell.git_state import ask_git
from codelet.safety.shell.program_arguments import ParsedArguments, RefusedError, end_of_options
from codelet.system.git.hardening import OPTIONS

_PATCH = frozenset(
    ("-p", "-u", "--patch", "-U", "--unified", "--patch-with-raw", "--patch-with-stat", "-c", "--cc", "-m", "--check",
     "-W", "--function-context", "--binary", "--color-words", "--word-diff", "--word-diff-regex", "-L")
)  # fmt: skip
"""Options that make git print content, or may."""
_SUMMARIES = frozenset(
    ("--stat", "--numstat", "--shortstat", "--dirstat", "--summary", "--name-only", "--name-status", "--raw", "-s",
     "--no-patch", "--quiet", "--compact-summary", "--cumulative")
)  # fmt: skip
"""Options that make it print names and numbers in place of content."""
_FORMS = frozenset(
    ("--graph", "--no-graph", "--oneline", "--format", "--pretty", "--color", "--no-color", "--color-moved",
     "--no-color-moved", "--line-prefix", "--relative", "--exit-code", "-z", "--notes", "--no-notes", "--decorate",
     "--no-decorate", "--show-linear-break", "--log-size", "--source", "--left-right", "--parents", "--children",
     "--expand-tabs", "--count", "--ext-diff", "--textconv", "-R", "--abbrev-commit", "--relative-date")
)  # fmt: skip
"""Options that only say how it looks: left out when git is asked for names alone."""
_SEARCHES = frozenset(("-S", "-G"))
"""Options that search what stands in files: which commits are listed says whether it matches."""
_VERBS = {"prints": "print", "searches": "search"}
_OF_A_SEARCH = _SEARCHES | {"--pickaxe-all", "--pickaxe-regex", "-NUM", "-n", "--max-count", "--skip"}
"""Left out where a search is asked about: it goes through all files, however few of the matches it lists."""
_LISTED = (_PATCH - {"-c", "--cc", "-m"}) | _SUMMARIES | _FORMS

_NOTHING_TO_PRINT = re.compile(
    r"(?:fatal|error): (?:your current branch|ambiguous argument|bad revision|bad object|bad default revision|"
    r"not a git repository|invalid object name|path '|log for|no merge base|.* is not a stash-like commit|"
    r".*not a valid (?:reference|object name)|unknown revision)|No stash entries found",
    re.IGNORECASE,
)
"""How git says that there is no such revision or path; with other options it says the same."""
_COMMITS = re.compile(r"(?:HEAD|@|ORIG_HEAD|FETCH_HEAD|MERGE_HEAD|stash@\{\d+\})(?:[~^]\d*)*")
_NAMES_CAP = 4 << 20


def revision_path(text: str) -> str | None:
    """The path in `REVISION:PATH` or `:N:PATH` as git takes it apart, or None where the text is a revision alone.

    A colon in braces belongs to the revision: `HEAD^{/fix: all}:a.txt`, `main@{10:30:00}:a.txt`.
    """
    if text.startswith(":/"):
        return None
    if text.startswith(":"):
        return re.sub(r"^:(?:[0-3]:)?", "", text)
    depth = 0
    for position, letter in enumerate(text):
        if letter == "{":
            depth += 1
        elif letter == "}" and depth:
            depth -= 1
        elif letter == ":" and not depth:
            return text[position + 1 :]
    return None


def possible_paths(text: str) -> Iterator[str]:
    """Every path that a word may name as a revision with a path, as a range of two, or as a pattern of paths."""
    for one in {text, *text.split("..", 1), *text.split("...", 1)}:
        path = revision_path(one.lstrip("^"))
        if path is not None:
            yield path or "."
        # What git tries first, and what another version reads otherwise: every reading is judged.
        yield from (part for part in (one.partition(":")[2], one.rpartition(":")[2]) if part)
    if text.startswith(":"):
        yield re.sub(r"^:\([^)]*\)|^:[!^/]*", "", text) or "."


def prints_content(name: str, parsed: ParsedArguments) -> bool:
    """Whether `git NAME` with these options prints what stands in files, not only their names."""
    if parsed.has(*_PATCH):
        return True
    # `git stash show` gives a summary; with any option it gives content, as `git diff` does.
    by_default = name in ("diff", "show") or (name == "stash" and parsed.operands[:1] == ["show"] and parsed.options)
    return bool(by_default) and not parsed.has(*_SUMMARIES)


def refuse_printed_secrets(
    name: str,
    words: Sequence[str],
    parsed: ParsedArguments,
    place: Location,
    settings: Mapping[str, str],
    *,
    unusual: Sequence[str],
) -> None:
    """Raise RefusedError where the command would print or search a file with a secret's name, or git cannot say so.

    `words` are those behind `git NAME`, `unusual` those in front; `settings` blank the repository's own filters.
    """
    if name == "show":
        _refuse_shown_content(words, parsed, place)
    if name == "range-diff":
        _refuse_secrets_of_ranges(words, parsed, place, settings)
    prints = name in ("diff", "show", "log", "reflog", "stash") and prints_content(name, parsed)
    if not prints and not parsed.has(*_SEARCHES):
        return
    does = "prints" if prints else "searches"
    if other := sorted(set(unusual) - set(OPTIONS)):
        raise RefusedError(f"git {other[-1]} with a command that {does} what stands in files")
    before, behind = _operands(name, words, parsed)
    subcommand = before[:1] if name == "stash" or (name == "reflog" and before[:1] == ["show"]) else []
    before = before[len(subcommand) :]
    if name == "diff":
        for operand in before:
            refuse_bare_content(operand, place, sure=bool(behind))
    if parsed.has("-L"):
        _refuse_renamed(parsed, before, place)
        return
    a_diff = name == "diff" or (name == "stash" and subcommand == ["show"])
    plain = [] if a_diff else ["--format="]
    # To `git stash show`, `-u` is no `-p`: it adds the files that were not tracked.
    untracked = ["-u"] if subcommand == ["show"] and parsed.has("-u") and name == "stash" else []
    asked = [name, *subcommand, *_kept(parsed), *untracked, *plain, "--name-status", "-z", *before, *behind]
    _refuse_listed(name, asked, place, settings, does)


def _refuse_listed(
    name: str, asked: Sequence[str], place: Location, settings: Mapping[str, str], does: str = "prints"
) -> None:
    """Raise RefusedError where git, asked for the files of `git NAME`, names a secret one, or cannot say."""
    done = ask_git(place.cwd, asked, settings, _NAMES_CAP)
    _refuse_secret_names(name, done.stdout, does)
    said = done.stderr.decode("utf-8", "replace")
    if done.exit_code != 0 and not any(_NOTHING_TO_PRINT.match(line) for line in said.split("\n")):
        raise RefusedError(f"git cannot say which files git {name} would {_VERBS[does]}")


def _refuse_secret_names(name: str, listed: bytes, does: str = "prints") -> None:
    """Raise RefusedError where one of the paths that git listed, as it does with `-z`, has a secret's name."""
    for path in listed.decode("utf-8", "surrogateescape").split("\0"):
        if why := why_unread(path.lstrip("\n")):
            raise RefusedError(f"git {name} {does} {path.lstrip()}, which {why}")


_RANGE = re.compile(r"[\w/@~^{}+-][\w/.@~^{}+-]*?\.\.\.?[\w/@~^{}+-][\w/.@~^{}+-]*", re.ASCII)


def _refuse_secrets_of_ranges(
    words: Sequence[str], parsed: ParsedArguments, place: Location, settings: Mapping[str, str]
) -> None:
    """`git range-diff` prints the changes of two ranges: `A...B`, `A..B C..D`, or those of two branches `BASE A B`."""
    before, behind = _operands("range-diff", words, parsed)
    if len(before) == 3 and not any(".." in one for one in before):
        ranges = [f"{before[0]}..{one}" for one in before[1:]]
    else:
        ranges = list(before)
    if behind or not 1 <= len(ranges) <= 2 or not all(_RANGE.fullmatch(one) for one in ranges):
        raise RefusedError("git range-diff of ranges that are not plain")
    for one in ranges:
        _refuse_listed("range-diff", ["log", "--format=", "--name-status", "-z", one, "--"], place, settings)


_MANY = ("--all", "--branches", "--tags", "--remotes", "--glob", "--reflog")


def _refuse_shown_content(words: Sequence[str], parsed: ParsedArguments, place: Location) -> None:
    """Raise RefusedError where `git show` would print an object whose file has no known name."""
    if parsed.has(*_MANY):
        raise RefusedError("git show of many references, each of which may be content whose file is not named")
    before, behind = _operands("show", words, parsed)
    for operand in before:
        refuse_bare_content(operand, place, sure=bool(behind))


_LINES = r"(?:\d+|/[^/\\:]*/)"
_LINES_OF_PATH = re.compile(rf"(?:{_LINES}(?:,(?:[+-]?\d+|{_LINES}))?|:[^:\\]*):([^:]+)")


def _refuse_renamed(parsed: ParsedArguments, revisions: Sequence[str], place: Location) -> None:
    """`-L` prints the lines of the files that it names, which are judged as paths, and of those they once were."""
    for value in parsed.values("-L"):
        found = _LINES_OF_PATH.fullmatch(value)
        if found is None:
            raise RefusedError(f"git -L {value}: which file it means is not certain")
        words = ("--follow", "--format=", "--name-only", "-z", *revisions, "--", found[1])
        done = ask_git(place.cwd, ("log", *words), None, _NAMES_CAP)
        _refuse_secret_names("-L", done.stdout)


def refuse_bare_content(operand: str, place: Location, *, sure: bool = True) -> None:
    """Raise RefusedError where the operand is a blob named only by its hash: nobody knows its file's name.

    `sure` says that it must be a revision; else a file of that name is taken for the file, as git does.
    """
    for one in operand.split("..") if ".." in operand else [operand]:
        revision = one.lstrip("^.")
        if not revision or _COMMITS.fullmatch(revision) or revision_path(revision) is not None:
            continue
        if revision.startswith(":/"):  # always a commit
            continue
        if not sure and Path(place.cwd, revision).exists():
            continue
        # A tag may stand for content too.
        done = ask_git(place.cwd, ("cat-file", "-t", f"{revision}^{{}}"))
        if done.stdout.strip() == b"blob":
            raise RefusedError(f"{one} is content whose file is not named")


def _operands(name: str, words: Sequence[str], parsed: ParsedArguments) -> tuple[list[str], list[str]]:
    """The operands in front of a `--` that ends the options, and those behind it together with the `--`."""
    end = end_of_options(READ_ONLY_GIT[name], words)
    behind = list(words[end:])
    return parsed.operands[: len(parsed.operands) - max(len(behind) - 1, 0)], behind


def _kept(parsed: ParsedArguments) -> Iterator[str]:
    """The options that decide which files there are, without those that decide how it looks."""
    dropped = _LISTED | _OF_A_SEARCH if parsed.has(*_SEARCHES) else _LISTED
    for option, value in parsed.options:
        if option in dropped:
            continue
        if option == "-NUM":
            yield f"-{value}"
        elif value is None:
            yield option
        elif option.startswith("--"):
            yield f"{option}={value}"
        elif value:
            yield f"{option}{value}"
        else:
            yield from (option, value)
