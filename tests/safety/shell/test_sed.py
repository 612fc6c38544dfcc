"""Sed scripts: what runs, writes or reads another file is never read as harmless, and the second wall stands."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from codelet.safety import Policy
from codelet.safety.shell.program_arguments import RefusedError
from codelet.safety.shell.sed import read_sed

HARMLESS = {
    "p": "p",
    "1,5p": "p",
    "$!{p;d}": "{pd}",
    "/a/,/b/{s/x/y/g;=}": "{s=}",
    "0~4p;1,+2d;/a/,~3!l": "pdl",
    "0,/re/d": "d",
    "\\,a/b,Ip": "p",
    "s/[a-z]*/x/;s|[^]a]*|y|2gp": "ss",
    "s/[[:alpha:]_]\\/[\\/]/x/": "s",
    "s/a\\/b/&\\n/I": "s",
    "s/a/x\\\ny/": "s",
    "y/abc/xyz/;h;G;x": "yhGx",
    ":a;N;$!ba;s/\\n/ /g": ":Nbs",
    "ta;b end;: a\n:end": "tb::",
    "1i a header; w PWN": "i",
    "$a\\\nthe end\np": "ap",
    "p # w PWN": "p",
    "#n\np;q5": "pq",
    "": "",
    "1~2p": "p",
    "2,~4d": "d",
    "p;;p": "pp",
    "{p}": "{p}",
    "{p;}": "{p}",
    "{p;};d": "{p}d",
    "{{p}}": "{{p}}",
    "l 5": "l",
    "q 3": "q",
    "Q": "Q",
    "l5;p": "lp",
    "s/a/b/;#c": "s",
    "a\\\ntext": "a",
    "i text\np": "ip",
    "s|a|b|": "s",
    "y|a|b|": "y",
    "\\%a%p": "p",
    "5!p": "p",
    "5! p": "p",
    "s/a/b/gI;p": "sp",
    "bend;:end": "b:",
    "t": "t",
    "c\\\nx": "c",
    "\n;p": "p",
    "p ;p": "pp",
    "$p": "p",
    "0,/x/p": "p",
    "1 , 3 p": "p",
    "/a/,$p": "p",
    "s/\\[/x/p": "s",
    "s/[a]b[c]/x/": "s",
    "s/[^a]/x/": "s",
    "/a/Ip": "p",
    "/a/M,/b/Ip": "p",
    "#p": "",
    "# a\np": "p",
    "p#c": "p",
    "{p#c\n}": "{p}",
    "T;b a;: a": "Tb:",
    "s/a/\\n/": "s",
    "s/a\\nb/x/": "s",
    "y/\\n/x/": "y",
    "s/a/[/": "s",
    "z;F;=;P;D;H;G;N;n": "zF=PDHGNn",
    "\\/a/p": "p",
    "1{2{p}}": "{{p}}",
}
HARMFUL = (
    "w PWN", "1w PWN", "/a/w PWN", "W PWN", "r .env", "R .env", "e", "1e touch PWN", "s/a/b/w PWN", "s/a/touch PWN/e",
    "s/a/b/ge", "s/a/b/ e", "s/a/b/2pe", "p;w PWN", "p\nw PWN", "{p;w PWN\n}", "{p}w PWN", "b;w PWN", "ba;e", ":a;e",
    "s/[/]/1;s/e#/x/", "s/[^/]/1;s/w PWN#/x/", "s/[]/]/1;s/e#/x/", "s/[^]/]/1;s/e#/x/", "s/[[:alpha:]/]/1;s/e#/x/",
    "s:[:]:1;s:e;#:x:", "s,[,],1;s,e#,x,", "/[/]/s/[/]/1;s/e#/x/", "\\,[,],s/a/b/e", "s/[[./.]]/1;s/e#/x/",
    "s/[[=/=]]/1;s/e#/x/", "s/[\\]/]/1;s/e#/x/", "s/[a\\]/1;s/]e#/x/", "y/a/b/;e", "a\\", "a\\\n", "a text\\\nw", "a",
    "1!!p", "p p", "}", "{", "v", "F;L", "s/a/b", "s", "/a", "/a/", "1,p", "1,", "5", "sxaxbx", "s/a\nb/c/", "x{p}",
    "s/a/b/}w", "{b}#;};w PWN", "{s/x/é}/", ":a}", "1:a", "p\rw PWN", "a" + "x" * 5000,
    "{p}}", ":", ": ;p", "1,x p", "lx", "q5x", "s/a/b/x", "y/a/b/g", "sab", "+1p", "~1p", "\\", "\\xaxp", "a  ",
    "a x\\", "a\\\n\\x", "1p2", "1 ,", "p;{", "2~", "/a/,~p", "/a/,+p", "1~2~3p", "s/a/b/;}", "s/a\\\nb/c/", "b x y",
    "t x}p", "x y", "=5", "d3", "1,2,3p", "$$p", "!", "5!", "s/a/b\nc/", "y/a\n/b/", "/[/p", "/[]/p", "/[^]/p",
    "s/[[:alpha/]/x/", "k", "1;p", "{;p", "é@p", "sé]éxé", "a\\text", " p;W x", "s/a/b/ w x", "s/[a-z/]/w/x/",
)  # fmt: skip


@pytest.mark.parametrize("script", HARMLESS)
def test_the_commands_of_a_harmless_script_are_read(script: str) -> None:
    assert read_sed([script]) == HARMLESS[script]


@pytest.mark.parametrize("script", HARMFUL)
def test_what_does_more_or_is_not_certain_is_refused(script: str) -> None:
    with pytest.raises(RefusedError):
        read_sed([script])


def test_a_block_may_go_over_several_scripts() -> None:
    assert read_sed(["1{", "p", "}"]) == "{p}"
    with pytest.raises(RefusedError):
        read_sed(["1{", "p"])
    with pytest.raises(RefusedError):
        read_sed(["a\\", "w PWN"])


@pytest.mark.needs("sed", "bash")
def test_an_allowed_sed_is_told_to_do_no_more_than_print(workspace: Path) -> None:
    policy = Policy(workspace, "ask", allow=["bash(sed *)"])
    for command in ("sed -n p a.txt", "cat a.txt | sed 's/one/x/' | sed -E d"):
        prepared = policy.prepare(command)
        assert prepared.count("sed --sandbox") == command.count("sed ")
        assert subprocess.run(["bash", "-c", prepared], cwd=workspace, capture_output=True, check=False).returncode == 0
    # What a person or a rule allowed because it writes stays what it is.
    for command in ("sed 'w PWN' a.txt", "sed -i s/a/b/ a.txt", "sed --sandbox -f x.sed a.txt"):
        assert policy.prepare(command) == command


@pytest.mark.needs("bash")
def test_a_sed_that_does_not_know_the_option_runs_without_it(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "sed"
    other.write_text("#!/bin/sh\necho other\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert Policy(workspace).prepare("sed -n p a.txt") == "sed -n p a.txt"
