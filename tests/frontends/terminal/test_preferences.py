"""Settings of the terminal: keys, history file, notifications, title."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from codelet.api import settings_from
from codelet.errors import UsageError
from codelet.frontends.terminal.draft import HistoryFile
from codelet.frontends.terminal.prompt_layout import bindings_of
from codelet.frontends.terminal.status_row import LONG_SECONDS, Attention
from codelet.settings import Settings, load_settings
from tests.support.recorded import STATUS, Start, step

TOKEN = "ghp_" + "a1B2c3D4e5" * 4


def entries(history: HistoryFile) -> list[str]:
    return list(history.load_history_strings())


def test_history_is_shared_through_the_file(tmp_path: Path) -> None:
    path = tmp_path / "typed"
    one = HistoryFile(path, lambda text: text.replace("[pasted #1, 12 lines]", "a\nb"), pytest.fail)
    other = HistoryFile(path, str, pytest.fail)
    assert entries(one) == []
    one.append_string("first")
    other.append_string("second, of another session")
    one.append_string(f"with [pasted #1, 12 lines] and {TOKEN}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    later = entries(HistoryFile(path, str, pytest.fail))
    assert later == ["with a\nb and [masked token]", "second, of another session", "first"]
    with path.open("ab") as file:
        file.write(b'"cut off by a cra')
    assert entries(HistoryFile(path, str, pytest.fail)) == later


def test_only_the_newest_of_a_long_history_are_read(tmp_path: Path) -> None:
    path = tmp_path / "typed"
    path.write_text("".join(f'"{number} {"x" * 1000}"\n' for number in range(4_000)))
    found = entries(HistoryFile(path, str, pytest.fail))
    assert found[0].startswith("3999 ")
    assert 2_000 < len(found) < 2_100


def test_a_file_that_is_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# my notes\n")
    (tmp_path / "link").symlink_to(tmp_path / "notes.md")
    os.mkfifo(tmp_path / "pipe")
    for name in ("notes.md", "link", "pipe", "", "missing/typed"):
        with pytest.raises(UsageError, match="--history"):
            HistoryFile(tmp_path / name, str, pytest.fail)
    assert (tmp_path / "notes.md").read_text() == "# my notes\n"


def test_a_history_that_can_no_longer_be_written_is_told_once(tmp_path: Path) -> None:
    told: list[str] = []
    path = tmp_path / "typed"
    history = HistoryFile(path, str, told.append)
    path.unlink()
    path.mkdir()
    history.append_string("one")
    history.append_string("two")
    assert len(told) == 1 and "not kept" in told[0] and f"{path}: Is a directory" in told[0]
    assert history.get_strings() == ["one", "two"], "this session has them all the same"


def test_no_variable_and_no_file_names_a_history(home: Path) -> None:
    with pytest.raises(UsageError, match="CODELET_HISTORY"):
        load_settings({}, workspace=home, environment={"CODELET_HISTORY": "x"})


@pytest.mark.parametrize(
    ("way", "sent"),
    [
        ("off", ""),
        ("bell", "\x07"),
        ("osc9", r"\x1b]9;codelet\b[^\x07]*%s[^\x07]* \(proj\)\x07"),
        ("osc777", r"\x1b]777;notify;codelet;codelet\b[^\x07]*%s[^\x07]* \(proj\)\x07"),
    ],
)
def test_attention_is_called_as_asked(monkeypatch: pytest.MonkeyPatch, way: str, sent: str) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    told: list[str] = []
    attention = Attention(way, title=False, workspace=Path("/x/pr\x07oj"), send=told.append)
    attention.begin()
    attention.asked()
    attention.ended(LONG_SECONDS - 1, "done")
    assert re.fullmatch(sent.replace("%s", "asks"), "".join(told))
    attention.ended(LONG_SECONDS, "failed")
    assert re.fullmatch(sent.replace("%s", "failed"), "".join(told[1:]))
    attention.end()
    assert len(told) == (2 if sent else 0)


def test_tmux_hands_a_notification_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMUX", "x")
    told: list[str] = []
    Attention("osc9", title=False, workspace=Path("/w"), send=told.append).asked()
    (sequence,) = told
    assert re.fullmatch(r"\x1bPtmux;\x1b\x1b]9;codelet asks[^\x07]* \(w\)\x07\x1b\\", sequence)


def test_keys_are_named_and_wrong_ones_are_told() -> None:
    settings = settings_from({"keys": {"send": ["c-s", "a-enter"], "stop": "f9", "later": "a-q"}})
    assert bindings_of(settings) == [
        ("send", ("c-s",)),
        ("send", ("escape", "c-m")),
        ("stop", ("f9",)),
        ("later", ("escape", "q")),
    ]
    for wrong, told in [
        ({"sned": "c-s"}, "there is no 'sned'; there are send, newline"),
        ({"send": 5}, "keys.send must be a key"),
        ({"send": "ctrl+s"}, "keys.send: there is no key 'ctrl\\+s'"),
    ]:
        with pytest.raises(UsageError, match=told):
            bindings_of(settings_from({"keys": wrong}))
    assert bindings_of(Settings()) == []


def test_a_session_with_all_of_it(start: Start, home: Path, repo: Path) -> None:
    (home / ".config" / "codelet").mkdir(parents=True)
    (home / ".config" / "codelet" / "config.toml").write_text('[keys]\nsend = "c-o"\nnewline = "enter"\nstop = "f9"\n')
    (home / "typed").write_text('"from another day"\n')
    writing = step("I write.", ("write", {"path": "new.txt", "content": "x"}))
    options = ("--edit-mode", "vi", "--history", str(home / "typed"), "--notify", "--title")
    terminal = start(writing, step("Done."), arguments=options)
    terminal.wait_for(STATUS)
    assert b"\x1b[22;2t" in terminal.raw
    terminal.key("up")
    terminal.wait_for("› from another day")
    terminal.type("\x1b")  # to vi's commands: two words go, one comes
    terminal.settle()
    terminal.type("0dwdwihello \r")
    terminal.wait_for("› hello")
    terminal.type("second row\x0f")  # Enter was a new line, Ctrl-O sends
    terminal.wait_for("? Write")
    assert terminal.raw.count(b"asking - ") == 1
    assert b"\x07" in terminal.raw.replace(b" - codelet\x07", b"")
    terminal.type("\x1b[20~")  # F9
    terminal.wait_for("stopped")
    terminal.wait_for(STATUS)
    terminal.key("ctrl-d")
    assert terminal.wait_exit() == 0
    assert terminal.raw.count(b"\x1b[23;2t") == 1
    assert (home / "typed").read_text() == '"from another day"\n"hello \\nsecond rowday"\n'
