"""What a command line consists of: simple commands, redirections, and parts that are not understood."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal


@dataclass(frozen=True)
class Word:
    """One word of a command.

    `text` is what the program gets, as far as it is known. `glob` is the file pattern that bash will expand,
    with a backslash before quoted letters and nowhere else, or None. `dynamic` marks a word with a part that is
    known only at run time, `splits` one that may become several words. `start` and `end` are byte offsets in the
    command.
    """

    text: str
    raw: str
    start: int
    end: int
    glob: str | None = None
    dynamic: bool = False
    splits: bool = False


@dataclass(frozen=True)
class SimpleCommand:
    """One simple command: its words, its assignments (name, value), and how it hangs on what is before it.

    `after` is the operator in front: "&&", "||" (also where its success is turned round) or ";". Inside a
    pipeline it is the one in front of the pipeline. `scope` names the subshells it runs in, outermost first.
    `piped_from` are the commands in front of it in its pipeline, None where one of them is no simple command, or its
    input may be another.
    """

    words: tuple[Word, ...]
    assignments: tuple[tuple[str, Word | None], ...]
    after: str
    scope: tuple[int, ...]
    piped_from: tuple[SimpleCommand, ...] | None = ()


@dataclass(frozen=True)
class Redirect:
    """A redirection to or from a file: `access` is what it does there; `after` and `scope` as in SimpleCommand."""

    target: Word
    access: Literal["read", "write"]
    after: str
    scope: tuple[int, ...]


NOT_PARSED, PASSED_OVER = "it cannot be parsed", "it has text that the parser passed over"


@dataclass(frozen=True)
class UnclearPart:
    """A part that is not understood, or never harmless: the reason in words."""

    reason: str

    @property
    def unparsed(self) -> bool:
        """Whether the parser could not make sense of it: then positions in the command are not reliable either."""
        return self.reason in (NOT_PARSED, PASSED_OVER)


ScriptPart = SimpleCommand | Redirect | UnclearPart


@dataclass
class Script:
    """What a command line consists of, in order of execution; `unread` says that it was too much to read.

    `text_input` says that a here-string is the input of some command.
    """

    parts: list[ScriptPart] = field(default_factory=list)
    unread: bool = False
    text_input: bool = False
    fork_bomb: bool = False

    @property
    def commands(self) -> Iterator[SimpleCommand]:
        """The simple commands, in order."""
        return (part for part in self.parts if isinstance(part, SimpleCommand))


def tell_pipeline(
    script: Script, start: int, front: tuple[SimpleCommand, ...] | None
) -> tuple[SimpleCommand, ...] | None:
    """Tell a pipeline's newest part, the script's parts from `start` on, what is in front of it.

    Gives what is in front of the next part, None where that is not one simple command after the other.
    """
    parts = script.parts[start:]
    commands = [part for part in parts if isinstance(part, SimpleCommand)]
    if len(commands) != 1:
        front = None
    script.parts[start:] = [replace(one, piped_from=front) if isinstance(one, SimpleCommand) else one for one in parts]
    return None if front is None else (*front, *commands)


def forget_pipes(script: Script) -> None:
    """Where something is redirected to be an input, no command is sure to read what is in front of it in its pipeline.

    A redirection belongs to the last command of a pipeline or to the whole, and the parser says neither.
    """
    if script.text_input or any(isinstance(part, Redirect) and part.access == "read" for part in script.parts):
        script.parts[:] = [
            replace(part, piped_from=None) if isinstance(part, SimpleCommand) else part for part in script.parts
        ]
