"""The change to review: files and hunks, read from git or from a diff, and the rules of the project for it.

The change cannot set rules: REVIEW.md and the instruction files are read at the base. So is the old side of a file,
wherever there is a repository; of the working tree only new files are opened.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal

from codelet.errors import UsageError
from codelet.record import Record
from codelet.review import review_prompt
from codelet.review.commit_files import ChangeSide, CommitFiles, sides_of_diff
from codelet.review.diff import FileDiff, Hunk, name_of_bytes, parse_diff, unread_file
from codelet.review.packing import vendored_folder
from codelet.system.git import revisions, run_git
from codelet.system.text import with_codes

if TYPE_CHECKING:
    from codelet.tools.tool import Tool

Kind = Literal["branch", "commits", "staged", "uncommitted", "diff"]
ProjectRules = tuple[tuple[str, str], ...]
"""Texts for the model, each with the folder that it holds for; "." is the whole repository."""

_DIFF = (
    *("--no-color", "--full-index", "--find-renames", "--unified=3", "--inter-hunk-context=10", "--no-relative"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--diff-algorithm=histogram"),
    # Attributes and a single NUL make a file binary to git, and both come with the change: `packing` decides on it.
    "--text",
    # A submodule is one line, its commit: git does not look into its files.
    "--ignore-submodules=dirty",
)
_LARGEST, _LARGEST_NEW, _MOST_NAMES = 1 << 30, 1 << 20, 16 << 20
_PATIENCE = 600.0
_MESSAGES = ("-n", "20", "--no-decorate", "--no-color", "--format=%s%n%n%b")
_RULES = "REVIEW.md"
_INSTRUCTIONS = ("CLAUDE.md", "AGENTS.md")  # the first existing one counts, as in a session
_LONGEST_RULES, _MOST_RULES = 24_000, 40


class Wanted(Record, kw_only=True):
    """The change that the user named: a range, a commit, the branch to compare with, or a diff and its rules' `base`.

    `since` is a commit that was reviewed before, or `BASE..COMMIT` with the base of that review.
    """

    kind: Kind
    name: str | None = None
    base: str | None = None
    since: str | None = None
    paths: tuple[str, ...] = ()


class ReviewedChange(Record, kw_only=True):
    """A change and its commits: `whole_base` is the base of all of it if an earlier review covered what came before.

    `after` and `before` are the sides that the model may read; unless `is_sure`, `after` may lack the change.
    `messages` are the commits' own words, `description` the author's.
    """

    subject: str
    files: tuple[FileDiff, ...]
    base: str | None = None
    head: str | None = None
    whole_base: str | None = None
    rules: ProjectRules = ()
    after: ChangeSide | None = None
    before: ChangeSide | None = None
    is_sure: bool = True
    messages: str = ""
    description: str = ""

    def tools(self) -> tuple[Tool, ...]:
        """The tools that read both sides; none without a repository."""
        from codelet.review.commit_tools import tools_for

        return () if self.after is None else tools_for(self.after, self.before)


async def change_from_diff(lines: Iterable[bytes], folder: Path, name: str, base: str | None = None) -> ReviewedChange:
    """The change in the lines of a diff, with the rules at `base`, a commit's name. Raises UsageError."""
    files = tuple(parse_diff(lines))
    head = await _head(folder)
    if not files:
        raise UsageError(f"the diff {name} is empty: what made it has failed, or there is no change")
    rules_at = (await revisions.pair_of(folder, base)).head if base is not None else None
    change = ReviewedChange(
        subject=f"the diff {name}", files=files, base=rules_at or head, rules=await _rules(folder, rules_at, files)
    )
    if head is None:
        return change
    after, before = await sides_of_diff(folder, head, files)
    return change.replace(after=after, before=before, is_sure=before is not None)


async def change_from_git(wanted: Wanted, folder: Path) -> ReviewedChange:
    """The change between commits, or in the working tree. Raises UsageError for unknown names."""
    await revisions.check_repository(folder)
    if wanted.kind in ("staged", "uncommitted"):
        return await _of_work_tree(wanted, folder)
    if wanted.kind == "branch":
        branch = await revisions.default_base(folder) if wanted.name is None else wanted.name
        pair = await revisions.since_branch(folder, branch)
        subject = f"HEAD since {branch if wanted.name is not None else revisions.short_name(branch)}"
    else:
        pair = await revisions.pair_of(folder, wanted.name or "HEAD")
        subject = f"the commits {wanted.name}" if ".." in (wanted.name or "") else f"the commit {wanted.name}"
    rules_at = None if pair.base == revisions.EMPTY_TREE else pair.base
    files = await _files(folder, wanted.paths, pair.base, pair.head)
    start = pair.base
    if wanted.since is not None:
        if (start := await _since(folder, wanted.since, pair)) != pair.base:
            own = {file.path for file in files}  # files that only the base changed are not part of it
            files = tuple(file for file in await _files(folder, wanted.paths, start, pair.head) if file.path in own)
        subject += f", since {wanted.since}" if start != pair.base else f", all of it: {wanted.since} is not in it"
    commits = pair.head if start == revisions.EMPTY_TREE else f"{start}..{pair.head}"
    log = await run_git(folder, "log", *_MESSAGES, commits, "--", limit=1 << 16)
    return ReviewedChange(
        subject=subject,
        files=await _with_known_folders(folder, files, rules_at),
        base=start,
        head=pair.head,
        whole_base=pair.base if start != pair.base else None,
        rules=await _rules(folder, rules_at, files),
        after=ChangeSide(folder, pair.head),
        before=None if start == revisions.EMPTY_TREE else ChangeSide(folder, start),
        messages=log.stdout.decode("utf-8", "replace").strip() if log is not None and log.exit_code == 0 else "",
    )


async def _since(folder: Path, name: str, pair: revisions.CommitPair) -> str:
    """The id of a commit that was reviewed last, if it is between the two, else the first of them.

    The base of that review, if named, has to be before this one's: what was in it was not reviewed.
    """
    earlier, _, last = name.rpartition("..")
    try:
        ids = [(await revisions.pair_of(folder, each)).head for each in (last, earlier) if each or each is last]
    except UsageError:
        return pair.base
    for one, other in ((ids[0], pair.head), (pair.base, ids[0]), *((each, pair.base) for each in ids[1:])):
        within = await run_git(folder, "merge-base", "--is-ancestor", one, other)
        if within is None or within.exit_code != 0:
            return pair.base
    return ids[0]


async def _of_work_tree(wanted: Wanted, folder: Path) -> ReviewedChange:
    """The staged or all uncommitted changes; untracked files come last."""
    head = await _head(folder)
    if wanted.kind == "staged":
        files = await _files(folder, wanted.paths, "--cached")
        subject = "what is staged"
    else:
        if head is None:
            raise UsageError("there is no commit yet to compare with; --staged reviews what is staged")
        files = await _files(folder, wanted.paths, head) + await new_files(folder, wanted.paths)
        subject = "what is not committed"
    change = ReviewedChange(subject=subject, files=files, base=head, rules=await _rules(folder, head, files))
    if head is None:
        return change
    return change.replace(after=ChangeSide(folder, head, files), before=ChangeSide(folder, head))


async def _head(folder: Path) -> str | None:
    """The id of HEAD; None before the first commit and outside a repository. Raises UsageError for another owner's."""
    answer = await run_git(folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if answer is not None and answer.broken_off:
        raise UsageError(f"the newest commit is not known: {answer.broken_off}")
    if answer is not None and answer.foreign_owner:
        raise UsageError(answer.foreign_owner)
    return answer.stdout.decode("ascii", "replace").strip() or None if answer and answer.exit_code == 0 else None


async def _files(folder: Path, paths: tuple[str, ...], *what: str) -> tuple[FileDiff, ...]:
    """The files of a diff that git makes."""
    answer = await run_git(folder, "diff", *_DIFF, *what, "--", *paths, timeout=_PATIENCE, limit=_LARGEST)
    if answer is not None and answer.exit_code == 0 and answer.complete:
        return tuple(parse_diff(BytesIO(answer.stdout)))
    said = (answer.broken_off, *answer.stderr.splitlines()[-1:], "it is larger than 1 GiB") if answer else ("no git",)
    raise UsageError(f"git made no diff: {next(filter(None, said))}")


async def _with_known_folders(folder: Path, files: tuple[FileDiff, ...], base: str | None) -> tuple[FileDiff, ...]:
    """The files, those marked whose folder of others' code is in the base already."""
    folders = {name for file in files if file.state != "changed" and (name := vendored_folder(file.path)) is not None}
    if base is None or not folders:
        return files
    names = await CommitFiles(folder, base).names()
    known = {name for name in folders if any(each.startswith(f"{name}/") for each in names)}
    return tuple(file.replace(in_known_folder=vendored_folder(file.path) in known) for file in files)


async def new_files(folder: Path, paths: tuple[str, ...]) -> tuple[FileDiff, ...]:
    """The files that git neither knows nor ignores, each as an added one. Raises UsageError if it cannot list all."""
    listing = ("--others", "--exclude-standard", "--full-name", "-z", "--")
    listed = await run_git(folder, "ls-files", *listing, *paths, limit=_MOST_NAMES)
    top = await run_git(folder, "rev-parse", "--show-toplevel")
    if listed is None or top is None or listed.exit_code or top.exit_code or not listed.complete:
        raise UsageError("git did not list the files that it does not know yet")
    root = top.stdout.removesuffix(b"\n")
    return tuple(_added(root, name) for name in sorted(filter(None, listed.stdout.split(b"\0"))))


def _added(root: bytes, name: bytes) -> FileDiff:
    from codelet.safety.opener import open_named
    from codelet.safety.paths import why_unread

    file = FileDiff(path=name_of_bytes(name), state="added")
    if why_unread(file.path):
        return file.replace(unread="its name says that it holds secrets")
    try:
        with os.fdopen(open_named(os.fsdecode(os.path.join(root, name)), os.O_RDONLY), "rb") as opened:
            facts = os.fstat(opened.fileno())
            if not stat.S_ISREG(facts.st_mode):
                return file.replace(unread="it is no regular file")
            if facts.st_size > _LARGEST_NEW:
                return unread_file(file, f"it is larger than {_LARGEST_NEW >> 20} MiB")
            data = opened.read(_LARGEST_NEW)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            return file.replace(unread="it is no regular file")
        return unread_file(file, f"it cannot be read: {error.strerror or error}")
    if not data:
        return file
    lines = data.removesuffix(b"\n").split(b"\n")
    body = b"\n".join(b"+" + line for line in lines) + b"\n\\ No newline at end of file" * (not data.endswith(b"\n"))
    return file.replace(hunks=(Hunk(new_start=1, new_lines=len(lines), body=body, added=len(lines)),))


async def _rules(folder: Path, at: str | None, files: Iterable[FileDiff]) -> ProjectRules:
    """The rules of a commit for changed files: those of the repository and of the folders that the files are in."""
    if at is None:
        return ()
    commit = CommitFiles(folder, at)
    names = await commit.names()
    folders = {parent.as_posix() for file in files for parent in PurePosixPath(file.path).parents} - {"."}
    found: list[tuple[str, str]] = []
    for place in (".", *sorted(folders)):
        paths = [posixpath.normpath(f"{place}/{name}") for name in (*_INSTRUCTIONS, _RULES)]
        there = [path for path in paths if path in names]
        for path in there[:1] + [path for path in there[1:] if path.endswith(_RULES)]:
            text = (await commit.blob(path) or b"").decode("utf-8", "replace").removeprefix("\ufeff")
            where = "" if place == "." else f", for files below {place}/"
            if text.strip():
                found.append((place, _rules_text(f"{path} at the base of the change{where}", text)))
    return tuple(found[:_MOST_RULES])


def system_prompt(rules: ProjectRules, own: str | None = None) -> str:
    """The system prompt: the same bytes in every request of a review. `own` are the user's rules."""
    texts = [text for folder, text in rules if folder == "."]
    texts += [_rules_text("the user", own)] if own is not None else []
    return "\n\n".join([review_prompt.SYSTEM, *texts])


def _rules_text(source: str, text: str) -> str:
    """One set of rules for the prompt. Invisible letters are written as codes: hidden text must not give orders."""
    text = with_codes(text).strip()
    if len(text) > _LONGEST_RULES:
        text = f"{text[:_LONGEST_RULES]}\n{review_prompt.RULES_CUT}"
    return review_prompt.RULES.format(source=source, text=text)
