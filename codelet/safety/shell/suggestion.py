"""What "always for this session" may allow: never more than the question lets a person expect.

A rule for every use of a program (`bash(pytest *)`) is offered only for programs of this page: no option and no
operand of theirs is a command line or a program of one's choice. Whatever is not listed here gets no such rule; the
exact command may still be allowed as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from codelet.safety.shell.git_commands import READ_ONLY_GIT
from codelet.safety.shell.programs import READ_ONLY_PROGRAMS

# Run the project's own tests and checks, whatever their arguments are.
_RUNNERS = frozenset(
    ["pytest", "py.test", "mypy", "ruff", "black", "isort", "flake8", "pyright", "basedpyright", "jest", "vitest",
     "mocha", "tsc", "eslint", "prettier", "rspec", "rubocop", "shellcheck", "golangci-lint", "gofmt", "rustfmt",
     "clang-format", "markdownlint", "yamllint", "hadolint", "lint-imports"]
)  # fmt: skip
_PYTHON_MODULES = frozenset(("pytest", "unittest", "mypy", "ruff", "black", "isort", "flake8"))
_MAKE_NOTHING_ELSE = frozenset(("mkdir", "touch"))

# Programs whose first word says what they do, and the words behind which anything may follow. Not here: those that take
# a command line in an option, as `git rebase --exec`, `git push --receive-pack` or `cargo test --config`.
_SUBCOMMANDS: dict[str, frozenset[str]] = {
    "git": frozenset(
        ("add", "branch", "checkout", "cherry-pick", "commit", "merge", "mv", "restore", "revert", "stash", "switch",
         "tag")
    ),
    "npm": frozenset(("test",)),
    "pnpm": frozenset(("test",)),
    "yarn": frozenset(("test",)),
    "go": frozenset(("fmt", "doc")),
    "terraform": frozenset(("fmt", "validate")),
}  # fmt: skip
_BUILDERS = frozenset(("make", "gmake"))
"""Run what the project calls by a name: the rule covers that name alone."""

_SCRIPTS = (("npm", "run"), ("npm", "run-script"), ("pnpm", "run"), ("yarn", "run"))
_LAUNCHERS = (("uv", "run"), ("poetry", "run"), ("pdm", "run"), ("hatch", "run"), ("pipenv", "run"), ("bundle", "exec"))
_NAME = re.compile(r"[A-Za-z0-9][\w.:@%+/-]*")
_WORD = re.compile(r"[\w./:=,+@%^~-]+")


def rule_for(words: Sequence[str], *, moved: bool) -> str | None:
    """The rule that covers this command and its like, None where that would be too much.

    `moved` says that it may run in another folder than the workspace: there its paths mean something else.
    """
    name = words[0]
    if name in READ_ONLY_PROGRAMS or (name == "git" and words[1:2] and words[1] in READ_ONLY_GIT):
        # Known to read in other uses: only this very use becomes a rule, not every file or every option.
        # What xargs does depends on what it reads, which no rule names.
        one_use = not moved and name not in ("cd", "xargs") and all(map(_WORD.fullmatch, words))
        return f"bash({' '.join(words)})" if one_use else None
    prefix = _prefix(list(words))
    return f"bash({' '.join(prefix)} *)" if prefix else None


def _prefix(words: list[str]) -> list[str] | None:
    """The first words, behind which any others may follow."""
    name, rest = words[0], words[1:]
    if name in _RUNNERS or name in _MAKE_NOTHING_ELSE:
        return [name]
    if re.fullmatch(r"python3?", name):
        known = rest[:1] == ["-m"] and rest[1:2] and rest[1] in _PYTHON_MODULES
        return words[:3] if known else None
    if not rest or not _NAME.fullmatch(rest[0]):
        return None
    if tuple(words[:2]) in _SCRIPTS:
        return words[:3] if len(words) > 2 and _NAME.fullmatch(words[2]) else None
    if tuple(words[:2]) in _LAUNCHERS:
        inner = _prefix(words[2:]) if len(words) > 2 else None
        return [*words[:2], *inner] if inner else None
    if rest[0] in _SUBCOMMANDS.get(name, ()) or name in _BUILDERS:
        return words[:2]
    return None


_ENDINGS = (
    "", "src", "tests", ".", "-v", "-q tests", "--help", "--fix .", "-x", "--verbose src", "new", "-m text", "--all",
    "src tests", "main", "--no-color", "-n 4", "--watch", "-a", "--force",
)  # fmt: skip


def candidates(rule: str) -> list[str]:
    """Commands that a rule may cover, to be judged: the words in front of its `*` with what often follows them."""
    body = rule.removeprefix("bash(").removesuffix(")")
    prefix = body.removesuffix("*").rstrip()
    return [f"{prefix} {ending}".rstrip() for ending in (_ENDINGS if body.endswith("*") else ("",))]
