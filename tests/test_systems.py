"""Systems other than Linux: told in one line, or given their own sandbox. What needs no such machine is held here."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from codelet.safety.sandbox import Confinement, Sandbox
from codelet.safety.sandbox.command_lines import Bounds, profile

AS_ON = (
    "import sys; sys.platform = {system!r}; sys.argv = ['codelet', *{words!r}]; from codelet.cli import main; main()"
)


def started(system: str, *words: str) -> subprocess.CompletedProcess[str]:
    """codelet started by a Python that says it is on this system."""
    program = AS_ON.format(system=system, words=words)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("words", [(), ("-p", "hi"), ("doctor",), ("--help",)])
def test_windows_is_told_in_one_line_what_is_needed(words: tuple[str, ...]) -> None:
    done = started("win32", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and "WSL" in done.stderr and "Traceback" not in done.stderr


def test_the_version_is_told_everywhere() -> None:
    assert started("win32", "--version").stdout.startswith("codelet ")


def test_a_profile_for_a_mac_denies_before_it_allows() -> None:
    bounds = Bounds(root='/w/a "b"\\c', kind="workspace", protected=("/w/.git",), hidden=("/h/.ssh",))
    rules = profile(bounds).split("\n")
    assert rules.index("(deny file-write*)") < rules.index('(allow file-write* (subpath "/w/a \\"b\\"\\\\c"))')
    protected = '(deny file-write* (subpath "/w/.git") (subpath "/w/a \\"b\\"\\\\c/.git/hooks"))'
    assert rules.index(protected) > rules.index('(allow file-write* (subpath "/w/a \\"b\\"\\\\c"))')
    assert '(deny file-read* file-write* (subpath "/h/.ssh"))' in rules and "(deny network*)" in rules
    assert '(deny file-write-unlink (literal "/w/a \\"b\\"\\\\c/.git"))' in rules, "else it is put aside with its hooks"
    assert all(rule.count("(") == rule.count(")") for rule in rules)
    settled = profile(bounds.replace(settled=True))
    assert '(deny file-write* (subpath "/w/.git") (subpath "/w/a \\"b\\"\\\\c/.git"))' in settled
    reading = profile(bounds.replace(kind="read-only", network=True))
    assert "(allow file-write* (subpath" not in reading and "network" not in reading


def test_a_profile_for_a_mac_shows_of_the_home_what_is_seen() -> None:
    home = os.path.expanduser("~")
    rules = profile(Bounds(root="/w", seen=(f"{home}/.cargo/bin",), hidden=("/w/.env",))).split("\n")
    denied = next(number for number, rule in enumerate(rules) if f'(subpath "{home}")' in rule and "deny" in rule)
    shown = next(number for number, rule in enumerate(rules) if f'(subpath "{home}/.cargo/bin") (subpath "/w")' in rule)
    assert denied < shown < rules.index('(deny file-read* file-write* (subpath "/w/.env"))')
    assert '(subpath "/Users")' in rules[denied]
    assert "/Users" not in profile(Bounds(root="/w", open_home=True))


def test_a_command_is_confined_by_the_way_that_was_found(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    sandbox.found = Confinement("sandbox-exec", "")
    words = list(sandbox.wrap("ls", {"PATH": "/usr/bin:/bin"}, "read-only"))
    assert words[:2] == ["/usr/bin/sandbox-exec", "-p"] and words[2].startswith("(version 1)") and words[-1] == "ls"
    sandbox.found = Confinement("bubblewrap", "", "/usr/bin/bwrap")
    assert sandbox.wrap("ls", {"PATH": "/usr/bin:/bin"}, "read-only")[0] == "/usr/bin/bwrap"
    sandbox.found = Confinement("bubblewrap", "")
    with pytest.raises(FileNotFoundError, match="not installed"):
        sandbox.wrap("ls", {"PATH": "/usr/bin:/bin"}, "read-only")


def test_what_no_profile_can_say_is_refused() -> None:
    with pytest.raises(FileNotFoundError, match="control character"):
        profile(Bounds(root="/w\n(allow default)", kind="workspace"))


def test_the_classifiers_name_what_is_supported() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    systems = [each for each in project["classifiers"] if each.startswith("Operating System")]
    assert systems == ["Operating System :: POSIX :: Linux"]
