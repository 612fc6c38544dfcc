"""A shell command read as far as it can be told what ran in it and how that ended; in doubt it is not understood.

The exit status of a line is that of its last pipeline, and of a pipeline that of its last command: a run that is piped
into `tail`, or followed by another command after `;`, has no status that anybody has seen.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from codelet.context.compaction.signals import EXIT_MARK

# Commands that a list like `cd src && pytest` may hold beside the one that counts: they fail with a message or never.
TRIVIAL = frozenset({"cd", "pushd", "export", "unset", "echo", "printf", "set", "true", ":", "pwd", "ulimit", "umask"})
# What programs that look at text are called: an error in what they print is text, not something that happened.
LOOKERS = frozenset(
    "grep rg egrep fgrep ag cat head tail sed awk less more find fd ls wc sort uniq diff git-grep echo printf jq tree "
    "nl bat cut tr column xxd strings stat file which cd journalctl dmesg".split()
)
# … and of programs that do many things, what they are told to look at.
_LOOKS: Mapping[str, frozenset[str]] = {
    name: frozenset(words.split())
    for name, words in (
        ("git", "grep log show diff blame status ls-files cat-file reflog"),
        ("kubectl", "logs describe get top events explain"),
        ("docker", "logs inspect ps images top events"),
        ("podman", "logs inspect ps images top events"),
        ("gh", "view list diff checks watch"),
        ("terraform", "show output graph"),
        ("systemctl", "status"),
        ("heroku", "logs"),
    )
}
# Options of theirs with a value that says where.
_PLACES = frozenset({"-n", "--namespace", "--context", "-C", "-f", "--file", "-R", "--repo"})
_NO_END = re.compile(
    r"\[(?:timed out|ended by signal|interrupted)|interrupted |Command timed out|\[Request interrupted"
)
_EDGE_LINES = 6
# With one of these the words of the line do not tell what runs.
_OPAQUE = frozenset(
    "if then elif else fi for while until do done case esac select function { } ( ) ! [[ exit return exec trap eval "
    "alias break continue source . coproc".split()
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_CD_FAILED = re.compile(r"\bcd: ")
_OPERATOR = re.compile(r"&&|\|\||;;|\|&|[;|&\n()]")
_BLANKS = re.compile(r"[ \t\r]+|\\\n")
_REDIRECT = re.compile(r"\d*(?:<<<|<<-?|<>|<&|<|>>|>\||>&|>)|&>>?")
_PREFIXES = {"time": 0, "command": 0, "nohup": 0, "builtin": 0, "nice": 0, "stdbuf": 0, "env": 0, "timeout": 1}
_WITH_VALUE = {"nice": ("-n",), "stdbuf": ("-i", "-o", "-e"), "env": ("-u",), "timeout": ("-k", "-s")}
_LARGEST_FAILURE = 123
_PLAIN = re.compile(r"[^\s;|&()<>'\"\\`$]+")
_PLAIN_QUOTED = re.compile(r"[^\"\\`$]+")


@dataclass(frozen=True)
class ShellCommand:
    """One simple command: its words without wrappers such as `time`, the folder it runs in, its variables.

    `link` is what stands before it ("" first, "&&", "||", ";", "|", "&"); `piped` says that its output goes on.
    """

    words: tuple[str, ...]
    assigned: tuple[str, ...] = ()
    folder: str = ""
    link: str = ""
    piped: bool = False
    writes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The program's name, without its folder."""
        return self.words[0].rpartition("/")[2] if self.words else ""

    @property
    def shows_text(self) -> bool:
        """Whether it only shows text."""
        if (looks := _LOOKS.get(self.name)) is not None:
            pairs = zip(("", *self.words[1:]), self.words[1:], strict=False)
            told = [word for before, word in pairs if not word.startswith("-") and before not in _PLACES]
            return any(word in looks for word in told[: 2 if self.name == "gh" or told[:1] == ["compose"] else 1])
        return self.name in LOOKERS or not self.words

    @property
    def text(self) -> str:
        """A command line for this command; equal commands have equal texts."""
        own = " ".join([*self.assigned, shlex.join(self.words)])
        return f"cd {shlex.quote(self.folder)} && {own}" if self.folder else own


class _Unreadable(Exception):
    """The line cannot be read with certainty."""


def commands(line: str) -> list[ShellCommand] | None:
    """The commands of a line, in order; None if it cannot be read with certainty."""
    if len(line) > 20_000:
        return None
    try:
        tokens = _Scanner(line).tokens()
    except _Unreadable:
        return None
    found: list[ShellCommand] = []
    link, words, writes, folder, exported = "", list[str](), list[str](), "", list[str]()
    for kind, text in [*tokens, ("operator", ";")]:
        if kind == "word":
            words.append(text)
        elif kind == "file":
            writes.append(text)
        else:
            if words or writes:
                made = _command([*exported, *words], folder, link, piped=text in ("|", "|&"), writes=writes)
                if made is None:
                    return None
                found.append(made)
                if made.name in ("cd", "pushd"):
                    folder = _joined(folder, made.words[1:])
                elif made.name == "export":
                    exported += filter(_ASSIGNMENT.match, made.words[1:])
            elif text in ("&&", "||", "|", "|&", "&"):
                return None
            link = _link(text, link if not words and not writes else "")
            words, writes = [], []
    return found


def _link(text: str, before: str) -> str:
    """What joins the next command to this one; a line end or a semicolon after `&` counts for nothing."""
    return before if before and text in (";", "\n") else {"\n": ";", "|&": "|"}.get(text, text)


def _joined(folder: str, words: Sequence[str]) -> str:
    target = words[-1] if words else "~"
    return target if target.startswith(("/", "~")) or not folder else f"{folder}/{target}"


def _command(words: list[str], folder: str, link: str, *, piped: bool, writes: list[str]) -> ShellCommand | None:
    """Make a simple command of its words; None if a reserved word makes it something else."""
    assigned: list[str] = []
    while words:
        first = words[0]
        if first in _OPAQUE:
            return None
        if _ASSIGNMENT.match(first):
            assigned.append(words.pop(0))
            continue
        name = first.rpartition("/")[2]
        if name not in _PREFIXES:
            break
        words = _unwrapped(words, name)
    return ShellCommand(tuple(words), tuple(assigned), folder, link, piped, tuple(writes))


def _unwrapped(words: list[str], name: str) -> list[str]:
    """The words behind a program that only runs another: without its options and its own arguments."""
    rest = words[1:]
    while rest and rest[0].startswith("-"):
        rest = rest[2:] if rest[0] in _WITH_VALUE.get(name, ()) else rest[1:]
    return rest[_PREFIXES[name] :]


def endings(line: str, code: int | None, output: str) -> list[tuple[ShellCommand, bool | None]]:
    """Each command of a line and how it ended (None: the exit status does not tell); [] for an unreadable line."""
    found = commands(line)
    if found is None:
        return []
    hidden = any(command.link in ("||", "&") for command in found) or line.rstrip().endswith("&")
    if code is None or hidden or _CD_FAILED.search(output):
        return [(command, None) for command in found]
    flags = {word for command in found[:1] if command.name == "set" for word in command.words[1:]}
    strict = any(flag.startswith("-") and "e" in flag for flag in flags)
    begin = 0 if strict else max((n for n, command in enumerate(found) if command.link == ";"), default=0)
    counted = [n for n in range(begin, len(found)) if not found[n].piped or ("pipefail" in flags and code == 0)]
    if code == 0:
        passed = set(counted)
        return [(command, True if n in passed else None) for n, command in enumerate(found)]
    failed = _failed(found, begin, code)
    return [(command, False if n == failed else None) for n, command in enumerate(found)]


def _failed(found: Sequence[ShellCommand], begin: int, code: int) -> int | None:
    """Which command failed, if only one of those that count can have."""
    others = [n for n in range(begin, len(found)) if found[n].name not in TRIVIAL]
    if len(others) != 1 or found[others[0]].piped or not 0 < code <= _LARGEST_FAILURE:
        return None
    return others[0]


def exit_code(output: str) -> int | None:
    """The exit status that a tool reported at the head or end of an output; None if there is none, or two differ."""
    head, heads = _at_head(output)
    if heads:  # what follows is the command's own output
        return head
    found = {code for code in (_at_end(output), head) if code is not None}
    return found.pop() if len(found) == 1 else None


def _at_end(output: str) -> int | None:
    for line in reversed(output[-4_000:].rstrip().split("\n")[-_EDGE_LINES:]):
        if _NO_END.match(line.strip()):
            return None
        if mark := EXIT_MARK.fullmatch(line.strip()):
            return int(next(filter(None, mark.groups())))
    return None


def _at_head(output: str) -> tuple[int | None, bool]:
    """The status before the output, and whether a line says that the output begins behind it."""
    code = None
    for line in output[:2_000].split("\n")[:_EDGE_LINES]:
        if line == "Output:":
            return code, code is not None
        if (mark := EXIT_MARK.fullmatch(line.strip())) and not line.startswith("[exit code"):
            code = int(next(filter(None, mark.groups())))
    return code, False


@dataclass
class _Scanner:
    """Splits a line into words, files that it writes, and operators. Raises _Unreadable in doubt."""

    line: str
    at: int = 0
    _documents: list[str] = field(default_factory=list)

    def tokens(self) -> list[tuple[str, str]]:
        """(kind, text) pairs; comments, redirections of numbers and here documents are left out."""
        found: list[tuple[str, str]] = []
        while self.at < len(self.line):
            char = self.line[self.at]
            redirect = _REDIRECT.match(self.line, self.at) if char in "<>&0123456789" else None
            if blanks := _BLANKS.match(self.line, self.at):
                self.at = blanks.end()
            elif char == "#":
                end = self.line.find("\n", self.at)
                self.at = len(self.line) if end < 0 else end
            elif redirect:
                self._redirect(redirect, found)
            elif found_operator := _OPERATOR.match(self.line, self.at):
                operator = found_operator.group()
                if operator in ("(", ")", ";;"):
                    raise _Unreadable
                self.at += len(operator)
                found.append(("operator", operator))
                if operator == "\n":
                    self._skip_documents()
            else:
                found.append(("word", self._word()))
        if self._documents:
            raise _Unreadable
        return found

    def _redirect(self, redirect: re.Match[str], found: list[tuple[str, str]]) -> None:
        self.at = redirect.end()
        sign = redirect.group().lstrip("0123456789")
        while self.at < len(self.line) and self.line[self.at] in " \t":
            self.at += 1
        target = self._word()
        if sign in ("<<", "<<-"):
            self._documents.append(target)
        elif sign in (">", ">|", "&>") and not redirect.group().startswith("2"):
            found.append(("file", target))

    def _skip_documents(self) -> None:
        """Skip the here documents that the line just ended asked for."""
        for name in self._documents:
            end = re.compile(rf"^\t*{re.escape(name)}$", re.MULTILINE).search(self.line, self.at)
            if end is None:
                raise _Unreadable
            self.at = end.end()
        self._documents.clear()

    def _word(self) -> str:
        """The next word without its quotes; substitutions stay as they are written."""
        parts: list[str] = []
        start = self.at
        while self.at < len(self.line) and self.line[self.at] not in " \t\r\n;|&()<>":
            char = self.line[self.at]
            if char == "'":
                parts.append(self._until("'"))
            elif char == '"':
                parts.append(self._quoted())
            elif char == "\\":
                parts.append(self.line[self.at + 1 : self.at + 2].strip("\n"))
                self.at += 2
            elif char == "`" or self.line.startswith("$(", self.at):
                parts.append(self._substitution())
            elif self.line.startswith("$'", self.at):
                raise _Unreadable
            else:
                plain = _PLAIN.match(self.line, self.at)
                parts.append(plain.group() if plain else char)
                self.at += len(parts[-1])
        if self.at == start:
            raise _Unreadable
        return "".join(parts)

    def _until(self, mark: str) -> str:
        end = self.line.find(mark, self.at + 1)
        if end < 0:
            raise _Unreadable
        text = self.line[self.at + 1 : end]
        self.at = end + 1
        return text

    def _quoted(self) -> str:
        """A text in double quotes."""
        parts: list[str] = []
        self.at += 1
        while self.at < len(self.line) and self.line[self.at] != '"':
            if self.line[self.at] == "\\":
                parts.append(self.line[self.at + 1 : self.at + 2])
                self.at += 2
            elif self.line[self.at] == "`" or self.line.startswith("$(", self.at):
                parts.append(self._substitution())
            else:
                plain = _PLAIN_QUOTED.match(self.line, self.at)
                parts.append(plain.group() if plain else self.line[self.at])
                self.at += len(parts[-1])
        if self.at >= len(self.line):
            raise _Unreadable
        self.at += 1
        return "".join(parts)

    def _substitution(self) -> str:
        """A command substitution; raises _Unreadable if it holds quotes or another one."""
        mark = "`" if self.line[self.at] == "`" else ")"
        start, self.at = self.at, self.at + (0 if mark == "`" else 1)
        text = self._until(mark)
        if any(sign in text for sign in "'\"()`"):
            raise _Unreadable
        return self.line[start : self.at]
