"""Words are decoded exactly as bash decodes them, or not at all."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from codelet.safety.shell.script_parser import read_script
from codelet.safety.shell.syntax import SimpleCommand
from codelet.safety.shell.word_decoder import UnclearError, decode

pytestmark = pytest.mark.needs("bash")

PIECES = [
    "a",
    "b",
    "é",
    "'",
    '"',
    "\\",
    "$",
    "~",
    "=",
    "#",
    "!",
    "{",
    "}",
    ",",
    "..",
    "(",
    ")",
    "[",
    "]",
    "-",
    "/",
    " ",
    " ",
    "\t",
]
PIECES += [
    "'x y'",
    '"x y"',
    '"$HOME"',
    "$HOME",
    "\\ ",
    "\\(",
    '"\\$"',
    '"a\\"b"',
    "@",
    "^",
    "%",
    ":",
    "1",
    "'\\''",
    "$'a\\tb'",
    "$'",
    "~/",
    "|",
    ";",
]


def random_words(source: random.Random) -> str:
    return "echo " + "".join(source.choice(PIECES) for _ in range(source.randint(1, 9)))


def as_bash_reads(commands: list[str], folder: Path) -> list[list[str]]:
    """The words behind `echo` of each command, as bash hands them on."""
    script = "show() { printf '%s\\0' \"$@\"; printf '\\1\\0'; }\n" + "".join(
        f"show {command.removeprefix('echo')}\n" for command in commands
    )
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, capture_output=True, check=True, env=os.environ | {"LC_ALL": "C"}
    )
    assert done.stderr == b""
    # No words at all make printf print one empty one.
    groups = done.stdout.decode().split("\1\0")[:-1]
    return [group.split("\0")[:-1] for group in groups]


@pytest.mark.parametrize("seed", range(4))
def test_random_words(tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    commands: list[str] = []
    decoded: list[list[str]] = []
    while len(commands) < 250:
        command = random_words(source)
        parts = read_script(command).parts
        known = len(parts) == 1 and isinstance(parts[0], SimpleCommand)
        if known and not any(word.glob or word.dynamic for word in parts[0].words):
            commands.append(command)
            decoded.append([word.text for word in parts[0].words[1:]] or [""])
    assert decoded == as_bash_reads(commands, tmp_path)


@pytest.mark.parametrize("raw", ["'a", "a'b", '"a', 'a"b', "a'b'\"c", "'", '"'])
def test_a_quote_that_is_not_closed_is_not_decoded(raw: str) -> None:
    with pytest.raises(UnclearError, match="a quote that is not closed"):
        decode(raw, 0, len(raw), {})
