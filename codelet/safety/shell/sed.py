"""Read sed scripts by GNU sed's grammar, and refuse what another sed could read differently.

Permitted are the commands that print, edit or jump; those that run (`e`), write (`w`, `W`) or read another
file (`r`, `R`) are not, nor is what is not known. Versions of sed differ, above all in whether a bracket hides
the delimiter: a script is read only if every way of reading it ends at the same letter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from codelet.safety.shell.program_arguments import RefusedError

LENGTH_CAP = 4_000
"""Letters of a script that are read; a longer one is refused."""

_DELIMITERS = "/|#,:@!%~;_+="
_NUMBER = re.compile(r"[0-9]+")
_DIGITS = re.compile(r"[0-9]*")
_BLANKS = re.compile(r"[ \t]*")
_SEPARATORS = re.compile(r"[ \t\n;]*")
_LABEL = re.compile(r"[ \t]*(\w*)(?=[ \t\n;]|\Z)", re.ASCII)
_FLAGS = re.compile(r"[gpiImM0-9]*")
_STEP = re.compile(r"(?:~[0-9]+)?")
_MODIFIERS = re.compile(r"[ \t]*[IM]*")
_PLAIN_COMMANDS = "=dDFgGhHnNpPxz"
_COMMANDS_WITH_NUMBER = "lqQ"
_JUMPS = "btT"
_TEXTS = "aic"
_BRACKET = re.compile(r"\[\^?+\]?+(?:\[:[a-z]+:\]|\\[^]\\[]|\[(?![.:=])|[^]\\[])*+\]")
"""A bracket that ends at the same letter whichever way a backslash or a bracket in it is read."""


def read_sed(scripts: Sequence[str]) -> str:
    """The letters of the commands that the scripts (one for each -e) consist of, in order.

    Raises RefusedError where they do, or may do, more than print what is read.
    """
    commands: list[str] = []
    depth = 0
    for script in scripts:
        reader = _SedReader(script, depth)
        commands += reader.read()
        depth = reader.depth
    if depth:
        raise RefusedError("a sed script with a block that is not closed")
    return "".join(commands)


class _SedReader:
    """One walk over one script."""

    def __init__(self, script: str, depth: int) -> None:
        if len(script) > LENGTH_CAP:
            raise RefusedError("a sed script too long to read")
        # In some charsets such a letter takes in the sign after it.
        if re.search(r"[^\x00-\x7f][@\[\\\]^_`{|}~]", script):
            raise RefusedError("a sed script with a sign behind a letter that is not ASCII")
        self.script = script
        self.depth = depth
        self.at = 0

    def read(self) -> list[str]:
        """The letters of the commands, in order."""
        commands: list[str] = []
        while True:
            self._take(_SEPARATORS)
            if self.at == len(self.script):
                return commands
            if self._next() == "#":
                self._line()
                continue
            addressed = self._addresses()
            command = self._letter()
            if command in ":}" and addressed:
                raise self._refused()
            self._command(command)
            commands.append(command)

    def _next(self) -> str:
        return self.script[self.at : self.at + 1]

    def _letter(self) -> str:
        letter = self._next()
        if not letter:
            raise self._refused()
        self.at += 1
        return letter

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.script, self.at)
        if found is None:
            raise self._refused()
        self.at = found.end()
        return found[0]

    def _refused(self) -> RefusedError:
        shown = self.script[max(self.at - 1, 0) : self.at + 20]
        return RefusedError(f"this sed script is not known to be read-only (at {shown!r})")

    def _line(self) -> str:
        """What is left of the line."""
        end = self.script.find("\n", self.at)
        line = self.script[self.at : end if end >= 0 else len(self.script)]
        self.at += len(line)
        return line

    def _addresses(self) -> bool:
        """Skip `1`, `$`, `/x/I`, `0~4`, `/a/,+2` and the `!` behind them; returns whether there was one."""
        found = self._address(first=True)
        if found:
            self._take(_BLANKS)
            if self._next() == ",":
                self.at += 1
                self._take(_BLANKS)
                if not self._address(first=False):
                    raise self._refused()
                self._take(_BLANKS)
        if self._next() == "!":
            self.at += 1
            self._take(_BLANKS)
        return found

    def _address(self, *, first: bool) -> bool:
        letter = self._next()
        if letter.isascii() and letter.isdigit():
            self._take(_NUMBER)
            if first:
                self._take(_STEP)
        elif letter == "$":
            self.at += 1
        elif letter in ("+", "~") and not first:
            self.at += 1
            self._take(_NUMBER)
        elif letter in ("/", "\\") and letter:
            self.at += 1
            self._delimited("/" if letter == "/" else self._delimiter(), regex=True)
            self._take(_MODIFIERS)
        else:
            return False
        return True

    def _command(self, command: str) -> None:
        if command == "{":
            self.depth += 1
            return
        if command == "}":
            self.depth -= 1
            if self.depth < 0:
                raise self._refused()
        elif command in _COMMANDS_WITH_NUMBER:
            self._take(_BLANKS)
            self._take(_DIGITS)
        elif command in _JUMPS or command == ":":
            if not self._take(_LABEL).strip() and command == ":":
                raise self._refused()
        elif command in _TEXTS:
            self._text()
            return
        elif command in "sy":
            delimiter = self._delimiter()
            self._delimited(delimiter, regex=command == "s")
            self._delimited(delimiter, regex=False)
            if command == "s":
                self._take(_FLAGS)
        elif command not in _PLAIN_COMMANDS:
            raise self._refused()
        self._end()

    def _end(self) -> None:
        """What may stand behind a command: blanks, and then nothing, a separator, `}` or a comment."""
        self._take(_BLANKS)
        if self._next() not in ("", ";", "\n", "}", "#"):
            raise self._refused()

    def _text(self) -> None:
        """The text of `a`, `i` or `c`: one line without a backslash, here or on the next line."""
        self._take(_BLANKS)
        if self.script.startswith("\\\n", self.at):
            self.at += 2
        text = self._line()
        if not text.strip() or "\\" in text:
            raise self._refused()

    def _delimiter(self) -> str:
        letter = self._letter()
        if letter not in _DELIMITERS:
            raise self._refused()
        return letter

    def _delimited(self, delimiter: str, *, regex: bool) -> None:
        """Skip to behind the next `delimiter`; of a regular expression every bracket must be closed by then."""
        start = self.at
        while (letter := self._letter()) != delimiter:
            if letter == "\\":
                letter = self._letter()
                if letter == "\n" and regex:
                    raise self._refused()
            elif letter == "\n":
                raise self._refused()
        if regex and not _brackets_closed(self.script[start : self.at - 1]):
            raise RefusedError("a sed script with a bracket that may hide the delimiter")


def _brackets_closed(pattern: str) -> bool:
    """Whether every bracket of a pattern ends in it, for whoever reads it."""
    at = 0
    while at < len(pattern):
        if pattern[at] == "[":
            bracket = _BRACKET.match(pattern, at)
            if bracket is None:
                return False
            at = bracket.end()
        else:
            at += 2 if pattern[at] == "\\" else 1
    return True
