"""Completion scripts in the shells themselves, and the man page in man."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from codelet.frontends.commands.shell_completion import FORMS, completion_text
from codelet.frontends.commands.shell_completion.command_table import CommandTable, table_of
from codelet.frontends.flags import COMMANDS
from codelet.frontends.parsers import build_parser
from codelet.settings import SETTINGS
from tests.support.program import run
from tests.support.terminal import Terminal

ASK_BASH = """
. {script}
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _codelet; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
# What is typed, its last word unfinished; some of what has to be offered, and what must not be.
CASES = [
    (("--mo",), {"--mode", "--model"}, {"--memory"}),
    (("--mode", ""), {"read-only", "auto"}, {"review"}),
    (("rev",), {"review"}, {"--review", "sessions"}),
    (("sessions", ""), {"list", "prune"}, {"review"}),
    (("sessions", "prune", "--"), {"--older-than", "--keep"}, {"--mode"}),
    (("--model", "review", "--eff"), {"--effort"}, {"--fail-on"}),  # `review` is a value there
    (("--narrative", "rev"), {"review"}, set()),  # which takes no word after it
    (("review", "--fail-on", ""), {"high", "never"}, {"--model"}),
    (("completion", ""), {"bash", "man"}, {"list"}),
]


def table() -> CommandTable:
    return table_of(build_parser(COMMANDS), frozenset(setting.flag for setting in SETTINGS.values() if setting.alone))


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    for form in FORMS:
        (folder / ("_codelet" if form == "zsh" else f"codelet.{form}")).write_text(completion_text(form, table()))
    return folder


def needs(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")


def test_the_program_prints_what_is_tested_here(scripts: Path, tmp_path: Path):
    assert run("completion", "bash", cwd=tmp_path, home=tmp_path).out == (scripts / "codelet.bash").read_text()
    wrong = run("completion", "csh", cwd=tmp_path, home=tmp_path)
    assert (wrong.exit, wrong.out) == (2, "")
    assert "'csh' (choose from 'bash', 'zsh', 'fish', 'man')" in wrong.err


def test_every_option_and_command_is_in_every_form(scripts: Path):
    for command in table().every():
        for name in (name for option in command.options for name in option.names):
            spelled = {"fish": f"-l {name[2:]} ", "man": name.replace("-", "\\-"), "bash": name, "_codelet": name}
            for file in scripts.iterdir():
                own = spelled.get(file.suffix[1:] or file.name, name)
                assert len(name) == 2 or own in file.read_text(), (file.name, name)
        for file in scripts.iterdir():
            assert not command.path or command.path[-1] in file.read_text()
    assert {"list", "verify", "check", "review", "completion"} <= {
        each.path[-1] for each in table().every() if each.path
    }


@pytest.mark.parametrize(("words", "offered", "kept_back"), CASES)
def test_bash_offers_what_fits(scripts: Path, words: tuple[str, ...], offered: set[str], kept_back: set[str]):
    quoted = " ".join(f"'{word}'" for word in ("codelet", *words))
    program = ASK_BASH.format(script=scripts / "codelet.bash", words=quoted)
    done = subprocess.run(["bash", "--norc", "-c", program], capture_output=True, text=True, timeout=60)
    found = set(done.stdout.split())
    assert offered <= found, done.stderr
    assert not kept_back & found


@pytest.mark.parametrize(("words", "offered", "kept_back"), CASES)
def test_fish_offers_what_fits(scripts: Path, words: tuple[str, ...], offered: set[str], kept_back: set[str]):
    needs("fish")
    program = f"source {scripts / 'codelet.fish'}; complete -C 'codelet {' '.join(words)}'"
    done = subprocess.run(
        ["fish", "--no-config", "-c", program], capture_output=True, text=True, timeout=60,
        env={"PATH": "/usr/bin:/bin", "HOME": str(scripts), "LANG": "C.UTF-8"},
    )  # fmt: skip
    found = {line.partition("\t")[0] for line in done.stdout.splitlines()}
    assert offered <= found, done.stderr
    assert not kept_back & found


def test_zsh_offers_what_fits(scripts: Path, tmp_path: Path):
    needs("zsh")
    begun = f"PS1='> '; fpath=({scripts} $fpath); autoload -U compinit; compinit -D; setopt no_list_beep"
    with Terminal(cwd=tmp_path, home=tmp_path, command=("zsh", "-f"), columns=120, rows=50) as zsh:
        zsh.line(f"{begun}; echo rea''dy")
        zsh.wait_for("\nready")
        for words, offered, kept_back in CASES[::2]:
            zsh.type("\x15\x0c")  # an empty line and screen
            zsh.wait_for("ready", gone=True)
            line = " ".join(("codelet", *words))
            zsh.type(line + "\t")
            zsh.settle()
            zsh.type("\t")
            text = zsh.settle()
            assert all(word in text for word in offered), (words, text)
            assert not any(f"\n{word} " in text for word in kept_back), (words, text)
            zsh.type("\x03")
            zsh.line("clear; echo rea''dy")
            zsh.wait_for("ready")


def test_man_shows_the_page(scripts: Path):
    needs("man")
    done = subprocess.run(
        ["man", "--warnings", "-l", str(scripts / "codelet.man")], capture_output=True, text=True, timeout=60,
        env={"PATH": "/usr/bin:/bin", "MANWIDTH": "100", "LANG": "C.UTF-8"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "--output-format text|json|stream-json" in done.stdout
    assert "codelet sessions prune" in done.stdout
    assert "whether the model opens a compaction" in done.stdout
