"""`codelet sessions …` over both stores, as the command line calls it."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import pytest

from codelet.errors import ExportError, SessionHeld
from codelet.export.document import Document
from codelet.export.encode import to_json
from codelet.export.saver import save_once
from codelet.export.search import Index, texts_of
from codelet.export.store_target import Target, open_target
from codelet.export.stores.store import Store
from codelet.frontends.commands.session_commands import add_arguments, run_sessions
from codelet.messages import assistant, tool_call, tool_result, user
from tests.export import material


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return run_sessions(parser.parse_args(words))


def talk(*pairs: tuple[str, str]) -> Document:
    messages = [message for prompt, answer in pairs for message in (user(prompt), assistant(answer))]
    return Document(timestamp=1.0, token_count=10, messages=tuple(messages), model="anthropic/claude")


@pytest.fixture
def filled(store: Store) -> Store:
    save_once(
        Target(store, "parser.json"), [to_json(talk(("Fix the parser", "Fixed IndexError in tokenize()")), mask=None)]
    )
    save_once(Target(store, "docs.json"), [to_json(material.whole(), mask=None)])
    return store


@pytest.mark.usefixtures("filled")
def test_list_names_each_session(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", place) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert any("parser.json  (2 messages)  Fix the parser" in line for line in lines)
    assert run("list", place, "--json") == 0
    rows = {row["name"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert rows["docs.json"]["tokens"] == 1234
    assert rows["parser.json"]["prompt"] == "Fix the parser"


def test_list_says_who_holds_a_session(place: str, filled: Store, capsys: pytest.CaptureFixture[str]) -> None:
    lease = filled.lock("docs.json")
    run("list", place)
    assert f"process {os.getpid()} on " in capsys.readouterr().out
    with pytest.raises(SessionHeld):
        run("delete", place, "docs.json")
    lease.release()


@pytest.mark.usefixtures("filled")
def test_show_prints_the_conversation(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    run("show", place, "docs.json")
    out = capsys.readouterr().out
    assert "Run the tests, please" in out
    assert '→ bash {"command": "pytest -q"}' in out
    assert "2 passed in 0.1s" in out
    assert "fact: python is 3.11" in out
    run("show", place, "docs.json", "--last", "1")
    out = capsys.readouterr().out
    assert "All green." in out
    assert "Run the tests" not in out
    with pytest.raises(ExportError, match="no such session"):
        run("show", place, "other.json")
    run("show", place, "docs")
    assert "── 4 assistant\nAll green." in capsys.readouterr().out
    first, _, options = place.partition("?")
    run("show", f"{first}/docs.json" + (f"?{options}" if options else ""))
    assert "── 4 assistant\nAll green." in capsys.readouterr().out


def test_show_leaves_reminders_out_and_prints_words_before_calls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reminder = user("<system-reminder>\n<!-- type:gitStatus -->\nBranch: main\n</system-reminder>")
    call = assistant("Let me look.", [tool_call("c", "read", '{"path": "a"}')])
    messages = (user("what is it?"), call, tool_result("c", "x"), reminder)
    save_once(
        open_target(str(tmp_path / "x.json")),
        [to_json(Document(timestamp=1.0, token_count=1, messages=messages), mask=None)],
    )
    run("show", str(tmp_path / "x.json"), "--last", "2")
    out = capsys.readouterr().out
    [counts] = [line for line in out.splitlines() if "4 messages" in line]
    assert "1 of them reminders" in counts and "--all" in counts
    assert '── 1 assistant\nLet me look.\n→ read {"path": "a"}\n\n── 2 tool c\nx\n' in out
    assert "Branch: main" not in out
    run("show", str(tmp_path / "x.json"), "--all")
    assert "Branch: main" in capsys.readouterr().out


def test_list_looks_in_the_current_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save_once(
        open_target(str(tmp_path / "here.json")),
        [to_json(Document(timestamp=1.0, token_count=1, messages=(user("hi"),)), mask=None)],
    )
    monkeypatch.chdir(tmp_path)
    run("list")
    assert "here.json" in capsys.readouterr().out


@pytest.mark.usefixtures("filled")
def test_search_finds_words_in_messages_facts_and_summaries(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    run("search", place, "indexerror", "tokenize")
    first = capsys.readouterr().out.splitlines()[0]
    assert first == "parser.json: turn 1, message 1, assistant: Fixed IndexError in tokenize()"
    for word, where in (
        ("tabs", "fact: the user prefers tabs"),
        ("rewritten", "summary of turns 0-3"),
        ("older", "summary: Older: the project was set up."),
        ("unicode", "message 1, user"),  # found without its diacritic
        ("pytest", "message 2, call"),
        ("old request", "archive r1, user"),
        ('"project was set"', "summary: Older"),
    ):
        run("search", place, word)
        assert where in capsys.readouterr().out, word
    run("search", place, "absent-word")
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == "codelet: nothing found\n"


def test_search_takes_any_text_as_words() -> None:
    with Index() as index:
        index.put("a", texts_of(talk(("x OR y NEAR z", 'say "hello" to src/app.py:12'))))
        for words in (
            "src/app.py:12",
            "x OR y",
            "hello AND",
            "col:x",
            "a^b NOT",
            '"unclosed',
            "(",
            '"*"',
            "x*",
            "it's",
        ):
            try:
                index.search(words)
            except ExportError as error:
                assert "needs a word" in str(error)
        assert [hit.place for hit in index.search("app.py")] == ["turn 1, message 1, assistant"]
        assert index.search("x AND nothing") == []


@pytest.mark.usefixtures("filled")
def test_delete_removes_by_name(place: str, filled: Store, capsys: pytest.CaptureFixture[str]) -> None:
    run("delete", place, "parser.json")
    assert [entry.name for entry in filled.entries()] == ["docs.json"]
    assert "deleted" in capsys.readouterr().out


def test_prune_by_age_and_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from codelet.export.stores.file import FileStore

    store = FileStore(tmp_path)
    for number in range(5):
        save_once(Target(store, f"{number}.json"), [to_json(material.numbered(number), mask=None)])
        os.utime(tmp_path / f"{number}.json", (time.time() - number * 86_400,) * 2)  # clock: ages are told
    (tmp_path / "old-notes.json").write_text("{}")
    os.utime(tmp_path / "old-notes.json", (1, 1))
    held = store.lock("4.json")
    run("prune", str(tmp_path), "--older-than", "36h", "--dry-run")
    assert len(os.listdir(tmp_path)) == 7
    run("prune", str(tmp_path), "--older-than", "36h")
    output = capsys.readouterr()
    assert sorted(os.listdir(tmp_path)) == [".4.json.lock", "0.json", "1.json", "4.json", "old-notes.json"]
    assert "kept: " in output.err
    assert "in use by" in output.err
    assert "old-notes.json: has no version" in output.err
    held.release()
    run("prune", str(tmp_path), "--keep", "1")
    assert sorted(os.listdir(tmp_path)) == ["0.json", "old-notes.json"]
    with pytest.raises(Exception, match="prune needs"):
        run("prune", str(tmp_path))


def test_hostile_content_cannot_write_to_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from codelet.export.stores.file import FileStore

    evil = "evil \x1b]0;owned\x07\x1b[2J\x9b31m\u202e\rwords \x02\x03"
    snapshot = Document(
        timestamp=1.0, token_count=1,
        messages=(user(evil), assistant(evil, [tool_call(evil, evil, evil)]), tool_result(evil, evil)),
        facts=(evil,), model=evil,
    )  # fmt: skip
    save_once(Target(FileStore(tmp_path), "x.json"), [to_json(snapshot, mask=None)])
    (tmp_path / "bad\x1b[2J.json").write_text("x")
    for words in (["list"], ["show", "x.json"], ["search", "words"], ["search", "evil"]):
        run(words[0], str(tmp_path), *words[1:])
        output = capsys.readouterr()
        for character in "\x1b\x07\x9b\u202e\r\x02\x03":
            assert character not in output.out
            assert character not in output.err


def test_a_place_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    for place in (str(tmp_path / "none"), "redis://127.0.0.1/0/name"):
        with pytest.raises(ExportError):
            run("list", place)
