"""`codelet help`: pages fit 80 columns, go through a pipe unchanged; a wrong name gets a hint."""

import re
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

import codelet
from codelet.frontends.terminal.help_page import page_text, topics
from codelet.system.text import clean

FOLDER = Path(codelet.__file__).with_name("help")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "codelet", "help", *arguments], capture_output=True, text=True)


def test_help_lists_every_page():
    listed = run().stdout.rpartition("codelet help TOPIC")[2]
    assert topics() == sorted(path.stem for path in FOLDER.glob("*.md"))
    assert [topic for topic in topics() if topic not in listed] == []


def test_a_page_goes_through_a_pipe_as_it_is():
    assert run("pipes").stdout == page_text("pipes")


def test_a_page_on_a_command_says_where_its_options_are():
    assert run("review").stdout.removeprefix(page_text("review")).split()[:3] == ["codelet", "review", "--help"]


def test_a_command_without_a_page_shows_its_options():
    options = subprocess.run([sys.executable, "-m", "codelet", "doctor", "--help"], capture_output=True, text=True)
    assert run("doctor").stdout == options.stdout


@pytest.mark.parametrize("topic", topics())
def test_a_page_fits_a_terminal_of_80_columns(topic: str):
    command = [sys.executable, "-m", "codelet", "help", topic]
    shown = pexpect.run(" ".join(command), dimensions=(40, 80), env={"TERM": "xterm-256color", "NO_COLOR": "1"})
    lines = [clean(line) for line in re.sub(rb"\x1b\[[0-9;]*m", b"", shown).decode().split("\r\n")]
    assert max(map(len, lines)) <= 80
    begun = [words.split() for words in re.findall(r"^\| `?([\w /.-]+)", page_text(topic), flags=re.MULTILINE)]
    begun = [words[0] for words in begun if words and not words[0].startswith("--")]
    assert [word for word in begun if not any(line.strip().startswith(word) for line in lines)] == []


@pytest.mark.parametrize(("name", "meant"), [("pipe", "pipes"), ("nothing-of-the-kind", "safety")])
def test_a_wrong_name_is_answered(name: str, meant: str):
    done = run(name)
    assert (done.returncode, done.stdout) == (2, "")
    assert name in done.stderr and meant in done.stderr and done.stderr.count("\n") == 1
