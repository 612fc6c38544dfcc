"""Files of a change that are not sent to a model, and why: every report lists them.

Names decide, if they were there before the change: a name that the change itself adds takes nothing out of the review.
"""

from __future__ import annotations

import re

from codelet.review.diff import FileDiff

_LOCK_FILES = frozenset(
    ("package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lockb", "poetry.lock", "uv.lock",
     "pdm.lock", "Pipfile.lock", "Cargo.lock", "Gemfile.lock", "composer.lock", "go.sum", "flake.lock", "mix.lock",
     "pubspec.lock", "Podfile.lock", "packages.lock.json", "deno.lock")
)  # fmt: skip
_GENERATED = re.compile(
    r"(?:\.min\.(?:js|css|mjs)|\.(?:js|css|mjs)\.map|\.pb\.go|\.pb\.(?:cc|h)|_pb2(?:_grpc)?\.pyi?|\.g\.dart"
    r"|\.freezed\.dart|\.designer\.cs|\.generated\.\w+|\.snap)$",
    re.IGNORECASE,
)
_VENDORED = re.compile(r"(?:^|/)(?:vendor|node_modules|third_party|bower_components|Pods|\.yarn/(?:cache|releases))/")
_BUILD_FILES = frozenset(("makefile", "dockerfile", "gemfile", "rakefile", "justfile", "cmakelists.txt"))
_SOURCES = frozenset(
    (
        "adb ads asm awk bash c cc cjs clj cljs cmake conf cpp cr cs css cts cxx d dart el elm erl ex exs fish fs"
        " fsx go gradle graphql groovy h hh hpp hrl hs htm html ini java jl js jsonc json5 jsx kt kts less lisp lua"
        " m md mjs mk mm mts nim nix php pl pm pro proto ps1 py pyi r rb rkt rs s sass scala scm scss sh sol sql sv"
        " svelte svg swift tcl tex tf toml ts tsx v vhd vhdl vue xhtml xml yaml yml zig zsh"
    ).split()
)
REMOVED = "the file was removed"
_CONTROLS = bytes({*range(0x20)} - {*b"\t\n\f\r\x1b"})


def why_left_out(file: FileDiff, *, generated: bool = False) -> str | None:
    """Return why a file is not reviewed; None if it is. `generated` includes files that programs write."""
    if file.unread:
        return file.unread
    if file.submodule:
        return "a submodule: its commits are in another repository"
    if (file.binary and not file.hunks) or (
        any(looks_binary(hunk.body) for hunk in file.hunks) and not _is_program(file)
    ):
        return "a binary file"
    if file.state == "removed":
        return REMOVED
    if not file.hunks:
        if file.state in ("renamed", "copied"):
            return f"{file.state} without a change"
        if file.modes is not None:
            return f"only its mode changed, from {file.modes[0]} to {file.modes[1]}"
        return "an empty file" if file.state == "added" else "nothing in it changed"
    if generated or is_new_name(file):
        return None
    return _why_by_name(file.path)


def is_new_name(file: FileDiff) -> bool:
    """Return whether a file has a name that is left out and that the change itself gives it.

    Such a file is reviewed all the same, or else counts as not reviewed: a change must not take itself out.
    """
    if file.state not in ("added", "renamed", "copied") or _why_by_name(file.path) is None:
        return False
    if file.old_path is not None and _why_by_name(file.old_path) is not None:
        return False
    return not (file.in_known_folder and vendored_folder(file.path))


def vendored_folder(path: str) -> str | None:
    """The folder of others' code in which a path lies."""
    found = _VENDORED.search(path)
    return path[: found.end() - 1] if found is not None else None


def _why_by_name(path: str) -> str | None:
    name = path.rpartition("/")[2]
    if name in _LOCK_FILES:
        return "a lock file, which a program writes"
    if _VENDORED.search(path):
        return "vendored: it is in a folder of third-party code"
    return "a generated file" if _GENERATED.search(name) else None


def looks_binary(data: bytes) -> bool:
    """Return whether bytes are no text: they hold a NUL, and one in twenty, or more, is a control character.

    Few programs take a NUL; most take other control characters in a comment, whatever the name of their file.
    """
    return b"\0" in data and len(data) - len(data.translate(None, _CONTROLS)) > len(data) // 20


def _is_program(file: FileDiff) -> bool:
    """Return whether something runs or compiles the file by its name or first line, whatever characters are in it.

    Most languages take control characters in a comment or a string, so they make no program a binary file.
    """
    first = file.hunks[0]
    starts = first.new_start == 1 and re.search(rb"^[+ ](?:\xef\xbb\xbf)?#!", first.body[:100]) is not None
    name = file.path.rpartition("/")[2].lower()
    return starts or name in _BUILD_FILES or name.rpartition(".")[2] in _SOURCES
