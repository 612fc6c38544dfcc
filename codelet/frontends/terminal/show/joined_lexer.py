"""pygments' lexers with each state's patterns joined into one: a token costs one match, not one per rule.

The alternatives keep their order, so the first match is the same; an empty group after each identifies it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from pygments.lexer import RegexLexer
from pygments.token import Error, Whitespace, _TokenType

Token = tuple[int, tuple[str, ...], str]
"""Start, type, text."""

_ALONE = re.compile(r"\\[1-9]|\(\?P|\(\?\(|^\(\?[aiLmsux]+\)|\(\?[a-zA-Z]*x")
"""Patterns that count or name groups, or set flags: they change meaning when joined."""
_FLAGS = re.compile(r"^\(\?[aiLmsux]+\)")
_GROUP = re.compile(r"(\\.|\[\^?\]?(?:\\.|[^\]\\])*\])|\((?!\?)", re.DOTALL)


class JoinedLexer:
    """A pygments lexer with its own loop and the same tokens."""

    def __init__(self, lexer: RegexLexer) -> None:
        self._lexer = lexer
        self._tokens = lexer._tokens  # the rules of each state, compiled
        self._state = cache(self._joined)

    def get_tokens_unprocessed(self, text: str) -> list[Token]:
        states, tokens, at = ["root"], list[Token](), 0
        parts, rules = self._state("root")
        while True:
            for match in parts:
                if (found := match(text, at)) is not None:
                    break
            else:
                if at >= len(text):
                    return tokens
                if text[at] == "\n":
                    states = ["root"]
                    parts, rules = self._state("root")
                tokens.append((at, Whitespace if text[at] == "\n" else Error, text[at]))
                at += 1
                continue
            match, action, following = rules[found.lastgroup or ""]
            end = found.end()
            if type(action) is _TokenType:
                tokens.append((at, action, text[at:end]))
            elif action is not None:
                tokens.extend(action(self._lexer, match(text, at)))
            at = end
            if following is not None:
                states = _followed(states, following)
                parts, rules = self._state(states[-1])

    def _joined(self, name: str) -> tuple[list[Any], dict[str, Any]]:
        """A state's patterns, joined if possible, and its rules by group name."""
        rules = {f"r{number}": rule for number, rule in enumerate(self._tokens[name])}
        joined: list[tuple[int, list[str]]] = []
        is_open = False
        for group, (match, _, _) in rules.items():
            pattern, flags = match.__self__.pattern, match.__self__.flags & ~re.UNICODE
            alone = bool(_ALONE.search(pattern) or flags & re.VERBOSE)
            if alone:  # the flags at its beginning are among those it was compiled with
                inner = _FLAGS.sub("", pattern) + ("\n" if flags & re.VERBOSE else "")
            else:
                inner = _GROUP.sub(lambda found: found[1] or "(?:", pattern)
            if alone or not is_open or joined[-1][0] != flags:
                joined.append((flags, []))
            joined[-1][1].append(f"(?:{inner})(?P<{group}>)")
            is_open = not alone
        return [re.compile("|".join(patterns), flags).match for flags, patterns in joined], rules


def _followed(states: list[str], following: object) -> list[str]:
    """The next states: names, `#pop`, `#push`, or a number to pop; the first never ends."""
    if isinstance(following, int):
        return states[:following] if -following < len(states) else states[:1]
    for name in following if isinstance(following, tuple) else (following,):
        if name == "#pop":
            states = states[:-1] if len(states) > 1 else states
        else:
            states = [*states, states[-1] if name == "#push" else name]
    return states
