"""pygments' lexers with the patterns of each state joined into one: a token then costs one match, not one a rule.

A rule is a pattern, what it makes of the text, and the state that follows; pygments tries one after the other in a
Python loop. Joined as alternatives, in the same order, the first one that matches is the same, and an empty group
behind each tells which it was. A state is joined when the text first comes to it, so that most are never compiled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import PurePath
from typing import Any

from pygments.lexer import Future, RegexLexer, RegexLexerMeta
from pygments.lexers import find_lexer_class_by_name, get_all_lexers
from pygments.token import Error, Whitespace, _TokenType
from pygments.util import ClassNotFound

Token = tuple[int, tuple[str, ...], str]
"""Where it begins, its kind, its text."""

_Match = Callable[[str, int], re.Match[str] | None]

_FLAGS = re.compile(r"\(\?([aiLmsux]+)\)")
_ALONE = re.compile(r"\\[1-9]|\(\?P|\(\?\(|\(\?[aiLmsux]+\)")
"""What counts or names groups, or sets flags for a whole pattern, would mean something else among others."""
_GROUP = re.compile(r"(\\.|\[\^?\]?(?:\\.|[^\]\\])*\])|\((?!\?)", re.DOTALL)
_VERBOSE = re.compile(r"\(\?[a-zA-Z]*x")


class _Rule:
    """What is done where a pattern matches: a kind, or one that is computed from the pattern's own match."""

    def __init__(self, pattern: str, flags: int, action: Any, following: Any) -> None:
        is_kind = type(action) is _TokenType
        self.kind: tuple[str, ...] | None = action if is_kind else None
        self.compute = None if is_kind else action
        self.following = following
        self._pattern = pattern
        self._flags = flags
        self._match: _Match | None = None

    def match(self, text: str, at: int) -> re.Match[str] | None:
        """The match of this pattern alone."""
        if self._match is None:
            self._match = re.compile(self._pattern, self._flags).match
        return self._match(text, at)


class _State:
    """A state's rules by the name of the group that tells of each, and `match`, which finds the first that fits."""

    def __init__(self, rules: Sequence[tuple[Any, Any, Any]], flags: int) -> None:
        self.rules: dict[str | None, _Rule] = {}
        self._flags = flags
        self._parts: list[_Match] = []
        joined: list[str] = []
        for number, (regex, action, following) in enumerate(rules):
            pattern = regex if isinstance(regex, str) else regex.__self__.pattern  # of what has no pattern of its own
            self.rules[f"r{number}"] = _Rule(pattern, flags, action, following)
            scoped = _scoped(pattern)
            alone = _ALONE.search(scoped) is not None
            end = "\n)" if flags & re.VERBOSE else ")"  # there a comment ends with its line
            told = f"(?:{scoped if alone or end != ')' else _uncounted(scoped)}{end}(?P<r{number}>)"
            if alone:
                self._join(joined)
                self._join([told])
                joined = []
            else:
                joined.append(told)
        self._join(joined)
        self.match: _Match = self._parts[0] if len(self._parts) == 1 else self._first

    def _join(self, patterns: list[str]) -> None:
        if patterns:
            self._parts.append(re.compile("|".join(patterns), self._flags).match)

    def _first(self, text: str, at: int) -> re.Match[str] | None:
        for part in self._parts:
            if (found := part(text, at)) is not None:
                return found
        return None


def _scoped(pattern: str) -> str:
    """The pattern with the flags at its beginning for it alone."""
    flags = _FLAGS.match(pattern)
    if flags is None:
        return pattern
    return f"(?{flags[1]}:{pattern[flags.end() :]}" + ("\n)" if "x" in flags[1] else ")")


def _uncounted(pattern: str) -> str:
    """The pattern with groups that nobody asks for: those that are kept hide from `re` what a pattern begins with."""
    return pattern if _VERBOSE.match(pattern) else _GROUP.sub(lambda found: found[1] or "(?:", pattern)


def _tokens(lexer: Any, text: str, stack: Sequence[str] = ("root",)) -> list[Token]:
    """The tokens of a text; what `RegexLexer.get_tokens_unprocessed` gives one by one."""
    states, tokens, at = list(stack), list[Token](), 0
    state = lexer.joined_state(states[-1])
    while True:
        if (found := state.match(text, at)) is None:
            if at >= len(text):
                return tokens
            if text[at] == "\n":
                state = lexer.joined_state((states := ["root"])[-1])
            tokens.append((at, Whitespace if text[at] == "\n" else Error, text[at]))
            at += 1
            continue
        rule, end = state.rules[found.lastgroup], found.end()
        if rule.kind is not None:
            tokens.append((at, rule.kind, text[at:end]))
        elif rule.compute is not None:
            tokens.extend(rule.compute(lexer, rule.match(text, at)))
        at = end
        if rule.following is not None:
            states = _followed(states, rule.following)
            state = lexer.joined_state(states[-1])


def _followed(states: list[str], following: Any) -> list[str]:
    """The states with what follows: names, `#pop` and `#push`, or how many end; the first one never does."""
    if isinstance(following, int):
        return states[:following] if -following < len(states) else states[:1]
    for name in following if isinstance(following, tuple) else (following,):
        if name == "#pop":
            states = states[:-1] if len(states) > 1 else states
        else:
            states = [*states, states[-1] if name == "#push" else name]
    return states


def _uncompiled(cls: Any, regex: Any, flags: int, state: str) -> Any:
    """A rule's pattern as text, where pygments compiles it: only joined ones are wanted."""
    return regex.get() if isinstance(regex, Future) else regex


_Uncompiled: Any = type("_Uncompiled", (RegexLexerMeta,), {"_process_regex": _uncompiled})


def _joined(lexer: Any) -> Any:
    """The class of lexers with its patterns joined, or as it is, where it does not read by pygments' own loop.

    One with variants has a table of states for each, which it makes for itself.
    """
    own_loop = getattr(lexer, "get_tokens_unprocessed", None) is RegexLexer.get_tokens_unprocessed
    if not own_loop or getattr(lexer, "token_variants", False):
        return lexer

    @cache
    def joined_state(name: str) -> _State:
        return _State(joined._tokens[name], joined.flags)

    own = {"get_tokens_unprocessed": _tokens, "joined_state": staticmethod(joined_state)}
    joined = _Uncompiled(lexer.__name__, (lexer,), own)
    return joined


def lexer_named(name: str) -> Any | None:
    """The lexer of a language, which leaves tabs and blank lines as they are; None for an unknown one."""
    try:
        return _joined(find_lexer_class_by_name(name))(stripnl=False, ensurenl=True)
    except ClassNotFound:
        return None


def language_of_file(name: str) -> str:
    """The language that a file's name tells, as `lexer_named` takes it; empty for none.

    An ending is most often a name of the language too. pygments' own search compiles each of its thousand patterns.
    """
    ending = PurePath(name).suffix.lower()
    languages, files = _languages()
    return files.get(name, "") or (languages.get(ending[1:], "") or files.get(f"*{ending}", "") if ending else "")


@cache
def _languages() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Languages by their names, and by the names and endings of files; the first one that claims it has it."""
    found: tuple[dict[str, str], dict[str, str]] = ({}, {})
    for _, names, files, _ in get_all_lexers(plugins=False):
        for kind, claimed in zip(found, (names, files) if names else ((), ()), strict=True):
            for each in claimed:
                kind.setdefault(each, names[0])
    return found
