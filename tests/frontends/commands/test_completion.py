"""Completion scripts in the shells themselves."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from codelet.frontends.commands.shell_completion import FORMS, completion_text
from codelet.frontends.flags import COMMANDS, FLAGS
from codelet.frontends.parsers import build_parser
from tests.support.program import run
from tests.support.terminal import Terminal

ASK_BASH = """
. {script}
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _shtab_codelet; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
# What is typed, its last word unfinished; some of what has to be offered, and what must not be.
CASES = [
    (("--mo",), {"--mode", "--model"}, {"--memory"}),
    (("--mode", ""), {"read-only", "auto"}, {"review"}),
    (("rev",), {"review"}, {"--review", "sessions"}),
    (("sessions", ""), {"list", "delete"}, {"review"}),
    (("sessions", "show", "--"), {"--last", "--all"}, {"--mode"}),
    (("--effort", "high", "--mo"), {"--model"}, {"--memory"}),
    (("review", "--fail-on", ""), {"high", "never"}, {"--model"}),
    (("completion", ""), {"bash", "fish"}, {"list"}),
]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    for form in FORMS:
        (folder / ("_codelet" if form == "zsh" else f"codelet.{form}")).write_text(
            completion_text(form, build_parser(COMMANDS))
        )
    return folder


def needs(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")


def test_the_program_prints_what_is_tested_here(scripts: Path, tmp_path: Path):
    assert run("completion", "bash", cwd=tmp_path, home=tmp_path).out == (scripts / "codelet.bash").read_text()
    wrong = run("completion", "csh", cwd=tmp_path, home=tmp_path)
    assert (wrong.exit, wrong.out) == (2, "")
    assert all(name in wrong.err for name in ("csh", "bash", "zsh", "fish"))


def test_every_option_and_command_is_in_every_form(scripts: Path):
    for file in scripts.iterdir():
        text = file.read_text()
        spelled = "-l {}" if file.suffix == ".fish" else "--{}"
        for row in FLAGS:
            assert spelled.format(row.flag[2:]) in text, (file.name, row.flag)
        assert [word for word in (*COMMANDS, "verify", "delete", "check") if word not in text] == [], file.name


def test_bash_offers_what_fits(scripts: Path):
    for words, offered, kept_back in CASES:
        quoted = " ".join(f"'{word}'" for word in ("codelet", *words))
        program = ASK_BASH.format(script=scripts / "codelet.bash", words=quoted)
        done = subprocess.run(["bash", "--norc", "-c", program], capture_output=True, text=True, timeout=60)
        found = set(done.stdout.split())
        assert offered <= found, (words, found, done.stderr)
        assert not kept_back & found, words


def test_fish_offers_what_fits(scripts: Path):
    needs("fish")
    for words, offered, kept_back in CASES:
        program = f"source {scripts / 'codelet.fish'}; complete -C 'codelet {' '.join(words)}'"
        done = subprocess.run(
            ["fish", "--no-config", "-c", program], capture_output=True, text=True, timeout=60,
            env={"PATH": "/usr/bin:/bin", "HOME": str(scripts), "LANG": "C.UTF-8"},
        )  # fmt: skip
        found = {line.partition("\t")[0] for line in done.stdout.splitlines()}
        assert offered <= found, (words, done.stderr)
        assert not kept_back & found, words


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
