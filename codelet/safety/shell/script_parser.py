"""Read a bash command line into its simple commands, redirections and the parts that are not understood.

tree-sitter-bash finds the structure, unless the command is too long or too involved to be looked at.
"""

from __future__ import annotations

import re
from pathlib import Path

from codelet.safety.shell.grammar import parser
from codelet.safety.shell.script_reader import ScriptReader
from codelet.safety.shell.syntax import NOT_PARSED, PASSED_OVER, Script, UnclearPart, forget_pipes
from codelet.system.process import find_program
from codelet.system.text import clean

LENGTH_CAP = 16_384
"""Bytes of a command that is looked at; a longer one asks."""
NODE_CAP = 6_000
SIGN_CAP = 600
"""Signs of the shell in a command; with more of them it is not even parsed."""
COMMAND_CAP = 40

_ONLY_BASH = re.compile(r"\$['\"]|<\(|<<<|&>|>&[^0-9-]|\|&")
_ANYWHERE = Path("/")


def read_script(command: str, workspace: Path = _ANYWHERE) -> Script:
    """The parts of `command`. What cannot be read is an UnclearPart, never left out.

    In `workspace` it would run, by a shell from outside it.
    """
    script = Script()
    source = command.encode("utf-8", "surrogateescape" if command.isascii() else "replace")
    if len(source) > LENGTH_CAP:
        return _unread(f"the command is longer than {LENGTH_CAP} bytes")
    if sum(map(source.count, (b"|", b";", b"&", b"\n", b"$", b"`", b"(", b"{", b"[", b"<", b">", b'"'))) > SIGN_CAP:
        return _unread("it has too many parts to look at")
    if clean(command) != command or "\r" in command or re.search(r"[^\S \t\n]", command):
        script.parts.append(UnclearPart("it holds control characters, invisible letters or unusual blanks"))
    if _ONLY_BASH.search(command) and find_program("bash", workspace) is None:
        script.parts.append(UnclearPart("it has signs that only bash reads in this way, and there is no bash"))
    root = parser().parse(source).root_node
    if root.descendant_count > NODE_CAP:
        return _unread("it has too many parts to look at")
    if root.has_error:
        script.parts.append(UnclearPart(NOT_PARSED))
    if (source[: root.start_byte] + source[root.end_byte :]).strip(b" \t\n"):
        script.parts.append(UnclearPart(PASSED_OVER))
    ScriptReader(source, script).read(root)
    forget_pipes(script)
    if sum(1 for _ in script.commands) > COMMAND_CAP:
        script.unread = True
        script.parts.insert(0, UnclearPart(f"it has more than {COMMAND_CAP} commands"))
    return script


def _unread(reason: str) -> Script:
    script = Script(unread=True)
    script.parts.append(UnclearPart(reason))
    return script
