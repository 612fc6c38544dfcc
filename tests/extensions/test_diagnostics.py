"""Checkers around calls that write files: the real ruff, and programs that do everything wrong."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.errors import UsageError
from codelet.extensions.base import OpenedWith
from codelet.extensions.diagnostics import KNOWN, LINES, Checker, Complaint, checkers_from
from codelet.extensions.manifest import turned_on
from codelet.loop.session import Session
from codelet.loop.toolbox import Safeguards
from codelet.safety import Policy
from codelet.safety.sandbox import Sandbox, Use
from codelet.settings import Settings, load_settings
from tests.context.scripted import Answer, ScriptedProvider, turn
from tests.extensions.conftest import Open
from tests.support.waiting import happens

BIN = Path(sys.executable).parent
Opened = Callable[..., tuple[Session, ScriptedProvider]]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def opened(open_session: Open, work: Path) -> Opened:
    """Opens a session with checkers; commands run without a sandbox unless `use` says otherwise."""

    def begin(*checkers: Checker, use: Use = "off", **options: Any) -> tuple[Session, ScriptedProvider]:
        given = OpenedWith(settings=Settings(checkers=checkers), workspace=work)
        guarded = Safeguards(sandbox=Sandbox(work, use))
        options = {"policy": Policy(work, mode="auto"), "safeguards": guarded} | options
        return open_session(*turned_on(given), workspace_at=work, **options)

    return begin


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    """Makes a checker's program, outside the workspace, from the body of a shell script."""

    def made(body: str) -> str:
        path = tmp_path / "bin/lint"
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return made


def lint(*command: str, **more: Any) -> Checker:
    return Checker(name="lint", command=command, files=("*.py",), **more)


def write(content: str, path: str = "a.py") -> Answer:
    return Answer("", [("write", {"path": path, "content": content})])


def edit(old: str, new: str) -> Answer:
    return Answer("", [("edit", {"path": "a.py", "edits": [{"old": old, "new": new}]})])


async def results(
    session: Session, provider: ScriptedProvider, *answers: Answer
) -> tuple[list[events.ToolResult], list[str]]:
    """The results of calls, and the notices of the turn."""
    provider.answers.extend([*answers, Answer()])
    seen = await turn(session)
    found = [event for event in seen if isinstance(event, events.ToolResult)]
    assert [each.status for each in found] == ["done"] * len(answers), found
    return found, [event.text for event in seen if isinstance(event, events.Note)]


@pytest.mark.parametrize("use", ["off", "auto"])
async def test_ruff_reports_what_an_edit_made_worse(
    use: Use, opened: Opened, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(BIN), prepend=os.pathsep)
    if use == "auto" and (await Sandbox(work).look()).way is None:
        pytest.skip("needs a sandbox")
    (work / "a.py").write_text("import os\n\nx = 1\n")
    session, provider = opened(KNOWN["ruff"], use=use)
    read = Answer("", [("read", {"path": "a.py"})])
    (_, worse, same, fixed), notices = await results(
        session,
        provider,
        read,
        edit("x = 1", "x = undefined"),
        edit("import os\n", "# words\nimport os\n"),
        edit("x = undefined", "x = 2"),
    )
    assert "line 3: F821" in worse.text and "F401" not in worse.text and worse.caveat
    assert "line 4: F821" in same.text, "it is still there"
    assert "F821" not in fixed.text and not fixed.caveat
    assert not notices and {each.name for each in work.iterdir()} == {"a.py"}


async def test_other_files_and_other_calls_run_no_checker(
    opened: Opened, program: Callable[[str], str], tmp_path: Path
) -> None:
    session, provider = opened(lint(program("echo run >> ../ran")))
    read = Answer("", [("bash", {"command": "echo x > b.py; cat b.py"})])
    await results(session, provider, write("x", "a.txt"), read)
    assert not (tmp_path / "ran").exists()
    await results(session, provider, write("x"))
    assert (tmp_path / "ran").read_text() == "run\n", "a new file has nothing to compare with"


WRONG = {
    "hangs": ("sleep 60 & sleep 60", "within"),
    "floods": ("yes 'a.py:1: wrong'", "1 MiB"),
    "dies": ("kill -SEGV $$", "exit code -11"),
    "fails": ("echo 'no configuration' >&2; exit 2", "no configuration"),
}


@pytest.mark.parametrize(("body", "says"), WRONG.values(), ids=WRONG)
async def test_a_checker_that_fails_costs_two_tries_and_a_notice_each(
    body: str, says: str, opened: Opened, program: Callable[[str], str], tmp_path: Path
) -> None:
    session, provider = opened(lint(program(f"echo >> {tmp_path}/runs; {body}"), timeout=0.5))
    began = time.monotonic()  # clock: for what hangs
    found, (first, last) = await results(session, provider, *(write("x", f"{number}.py") for number in range(4)))
    assert time.monotonic() - began < 30  # clock: for what hangs
    assert all("lint" not in each.text and not each.caveat for each in found)
    assert says in first and says in last and "\n" not in first
    assert len((tmp_path / "runs").read_text()) == 2


async def test_a_program_that_is_missing_is_one_notice(opened: Opened) -> None:
    session, provider = opened(lint("no-such-program-here"))
    _, [notice] = await results(session, provider, write("x"), write("y", "b.py"))
    assert "no-such-program-here" in notice


async def test_no_program_and_no_file_of_the_workspace_is_run(
    opened: Opened, program: Callable[[str], str], work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.move(program("touch ../ran"), work / "lint")
    (work.parent / "link").symlink_to(work / "lint")
    inside = [lint("./lint"), lint(str(work / "lint")), lint(str(work.parent / "link")), lint("/bin/sh", "lint")]
    for checker in inside:
        with pytest.raises(UsageError, match="in the workspace"):
            opened(checker)
    monkeypatch.setenv("PATH", str(work), prepend=os.pathsep)
    session, provider = opened(lint("lint"))
    _, notices = await results(session, provider, write("x"))
    assert len(notices) == 1 and not (work.parent / "ran").exists()


async def test_a_sandbox_keeps_it_from_writing_and_without_one_it_does_not_run(
    opened: Opened, program: Callable[[str], str], work: Path
) -> None:
    session, provider = opened(lint(program('echo changed > a.py; echo "a.py:1: wrong"')), use="auto")
    sandbox = session.safeguards.sandbox
    assert sandbox is not None
    if (found := await sandbox.look()).way is None:
        pytest.skip("needs a sandbox")
    [result], _ = await results(session, provider, write("x"))
    assert "line 1: wrong" in result.text and (work / "a.py").read_text() == "x"
    sandbox.found = found.replace(way=None)
    [result], notices = await results(session, provider, write("y", "b.py"))
    assert "wrong" not in result.text and len(notices) == 1


async def test_a_cancel_ends_the_checker(opened: Opened, program: Callable[[str], str], tmp_path: Path) -> None:
    session, provider = opened(lint(program(f"echo $$ > {tmp_path}/pid; sleep 60")))
    provider.answers.extend([write("x"), Answer()])
    running = asyncio.create_task(turn(session))
    await happens(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "the checker")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_report_is_bounded_and_clean(opened: Opened, program: Callable[[str], str]) -> None:
    body = "for n in $(seq 50); do printf 'a.py:%d: \\033[31mwrong %d %0999d\\n' $n $n 0; done"
    session, provider = opened(lint(program(body)))
    [result], _ = await results(session, provider, write("x"))
    assert len(result.text) < 7_000 and "\x1b" not in result.text and "line 20: " in result.text
    assert "line 21: " not in result.text and "30 more" in result.text


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("a.py:3:7: F401 unused", Complaint(3, "F401 unused")),
        ("  {work}/a.py:3:7 - error: wrong", Complaint(3, "error: wrong")),
        ("{work}/a.py:3:7-9: wrong", Complaint(3, "wrong")),
        ("{work}/a.py:3:7-5:9: wrong", Complaint(3, "wrong")),
        ("./a.py(3,7): error TS2322: wrong", Complaint(3, "error TS2322: wrong")),
        ("b.py:3: wrong", None),
        ("Found 3 errors.", None),
    ],
)
def test_the_lines_of_compilers_are_read(line: str, found: Complaint | None, work: Path) -> None:
    file = str(work.resolve() / "a.py")
    complaints, _ = lint("lint").complaints(f"{line.format(work=work)}\n", file, work)
    assert complaints == ([] if found is None else [found])


def test_own_lines_need_no_path(work: Path) -> None:
    checker = lint("lint", lines=r"E(?P<line>\d+) (?P<text>.*)")
    assert checker.complaints("E3 wrong\nother", "/any", work) == ([Complaint(3, "wrong")], True)


def test_the_settings_name_checkers(tmp_path: Path) -> None:
    config = tmp_path / "codelet/config.toml"
    config.parent.mkdir()
    config.write_text(
        "[checkers]\nruff = true\nmypy = false\n[checkers.tsc]\ntimeout = 60\n"
        "[checkers.house]\ncommand = ['lint', '{file}']\nfiles = ['src/*.py']\n"
    )
    where: dict[str, Any] = {"workspace": tmp_path, "environment": {"XDG_CONFIG_HOME": str(tmp_path)}}
    ruff, tsc, house = load_settings({}, **where).checkers
    assert (ruff, tsc.timeout, tsc.command) == (KNOWN["ruff"], 60.0, KNOWN["tsc"].command)
    assert house.fits("src/a.py") and not house.fits("a.py") and house.lines == LINES
    assert load_settings({"checkers": "ruff, gopls"}, **where).checkers == (KNOWN["ruff"], KNOWN["gopls"])
    assert load_settings({"checkers": ""}, **where).checkers == ()


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("rufff", "rufff"),
        (3, "names"),
        ({"a": 3}, "a: "),
        ({"a": {"command": ["a"]}}, "files"),
        ({"a": {"command": "a", "files": ["*"]}}, "command"),
        ({"ruff": {"lines": "("}}, "lines"),
        ({"ruff": {"lines": "x"}}, "text"),
        ({"ruff": {"timeout": 1_000}}, "timeout"),
        ({"ruff": {"shell": True}}, "shell"),
    ],
)
def test_a_wrong_setting_is_named(value: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        checkers_from(value)
