"""A prompt that is a /command: what works without a terminal is run, a path stays a prompt, a slip is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codelet.errors import UsageError
from codelet.events import Text
from codelet.extensions.base import Command, Extension
from codelet.frontends.command_prompt import run_command, text_commands
from codelet.loop.session import Session
from codelet.providers.content.replay import ReplayProvider, read_recording
from codelet.safety import Policy
from tests.support.program import Finished, run
from tests.support.recorded import recording, step

ANSWER = "The model answers."


@pytest.fixture
def ask(tmp_path: Path, repo: Path, home: Path):
    """Asks the program with a recording for its model."""
    model = recording(tmp_path, step(ANSWER))

    def asked(prompt: str, *arguments: str, **options: object) -> Finished:
        return run("--model", model, "-p", prompt, *arguments, cwd=repo, home=home, **options)

    return asked


@pytest.mark.parametrize(
    ("prompt", "told"),
    [
        ("/tools", "  bash     execute  "),
        ("/usage", "0 turns, 0 tokens in\n"),
        ("/permissions", "  mode   ask\n"),
        ("/context", "system prompt\n"),
        ("/context all", "tools\n"),
        ("/reminders", "  environment         0 tokens       0 sent  on\n"),
        ("/reminders environment off", "reminder environment: off from the next step\n"),
        ("/why", "nothing was compacted yet"),
        ("/diff", "no changes\n"),
        ("/USAGE ", "0 turns, 0 tokens in\n"),
        ("/status", "  mode     ask\n"),
        ("/compact why", "nothing was compacted yet"),
        ("/context tools", "  bash     execute  "),
        ("/help usage", "  /status  model, mode, context"),
    ],
)
def test_its_text_is_the_answer(ask, prompt: str, told: str):
    done = ask(prompt)
    assert (done.exit, done.err) == (0, "")
    assert told in done.out
    assert ANSWER not in done.out


@pytest.mark.parametrize("prompt", ["/help", "/tools", "/usage", "/permissions", "/reminders", "/diff", "/context"])
def test_a_command_needs_no_model(prompt: str, repo: Path, home: Path):
    done = run("-p", prompt, cwd=repo, home=home)
    assert (done.exit, done.err) == (0, "")
    assert done.out.strip()
    told = run("-p", prompt, "--output-format", "json", "--max-cost", "1", cwd=repo, home=home)
    assert (told.exit, told.err, told.json()["model"]) == (0, "", None)


def test_what_is_not_kept_is_not_called_kept(ask, tmp_path: Path):
    told = "--export FILE"
    for prompt in ("/facts add the port is 8443", "/plan add write tests"):
        assert told in ask(prompt).out.splitlines()[-1]
        assert told not in ask(prompt, "--export", str(tmp_path / "kept.json"), "--force").out
    for prompt in ("/facts", "/stats"):
        assert told not in ask(prompt).out
    assert ask("/facts add the port is 8443", "--facts", str(tmp_path / "team.facts")).out.startswith("kept: ")
    assert told not in ask("/facts", "--resume", str(tmp_path / "kept.json")).out


def test_a_prompt_that_begins_with_a_hash_is_kept_as_a_fact_or_an_error(ask, tmp_path: Path):
    kept, facts = tmp_path / "kept.json", tmp_path / "team.facts"
    for number, where in enumerate((("--continue", str(kept)), ("--facts", str(facts)))):
        done = ask("#[db] postgres", *where)
        assert (done.exit, "[db] postgres" in done.out, ANSWER in done.out) == (0, True, False), number
    assert json.loads(kept.read_bytes())["facts"] == ["postgres"]
    assert "[db] postgres" in ask("/facts", "--continue", str(kept)).out
    assert "[db] postgres" in ask("/facts", "--facts", str(facts)).out
    refused = ask("#[db] postgres")
    assert (refused.exit, refused.out) == (2, "") and "--session" in refused.err
    for prompt in ("# Task\nDo it.", " #7 is broken"):
        assert ANSWER in ask(prompt).out
    assert ANSWER in ask("# Review this", stdin=b"a change").out


def test_a_path_needs_a_model_and_a_model_that_is_named_has_to_be_there(repo: Path, home: Path):
    for words in (("-p", "/etc/hosts: what is it?"), ("-p", "hello")):
        done = run(*words, "--export", "kept.json", cwd=repo, home=home)
        assert (done.exit, done.out) == (2, "")
        assert done.err.startswith("codelet: no model")
    assert run("--model", "nobody/has-it", "-p", "/help", cwd=repo, home=home).exit == 2


def test_what_is_saved_without_a_model_names_none(repo: Path, home: Path, tmp_path: Path):
    done = run("-p", "/usage", "--export", "kept.json", cwd=repo, home=home)
    assert (done.exit, done.err) == (0, "")
    assert "model" not in json.loads((repo / "kept.json").read_text())
    again = run("--resume", "kept.json", "-p", "hi", "--model", recording(tmp_path, step(ANSWER)), cwd=repo, home=home)
    assert (again.exit, again.out) == (0, f"{ANSWER}\n")


def test_a_reminder_that_was_switched_off_is_shown_so_before_anything_is_told(ask, tmp_path: Path):
    kept = str(tmp_path / "kept.json")
    ask("/reminders gitStatus off", "--export", kept)
    rows = [line.split() for line in ask("/reminders", "--resume", kept).out.splitlines()]
    assert ("gitStatus", "off") in [(row[0], row[-1]) for row in rows]
    assert ("tokenStatus", "on") in [(row[0], row[-1]) for row in rows]


def test_help_lists_what_works_here(ask):
    listed = ask("/help").out
    assert "/context tools" in listed and "/context [all|N]" in listed
    assert "/rewind" not in listed and "/exit" not in listed and "Ctrl-R" not in listed


@pytest.mark.parametrize("columns", [30, 40, 80])
def test_help_fits_the_screen_and_leaves_meanings_room(ask, columns: int):
    listed = ask("/help", env={"COLUMNS": str(columns)}).out.splitlines()
    assert max(map(len, listed)) <= columns
    assert len(listed) <= 80


@pytest.mark.parametrize(
    "prompt", ["/etc/hosts: what is it?", "/tmp", "/", "/ usage", "//", "/xylophone solo", "usage", " /usage"]
)
def test_what_is_no_command_is_a_prompt(ask, prompt: str):
    done = ask(prompt)
    assert (done.exit, done.out) == (0, f"{ANSWER}\n")


@pytest.mark.parametrize(
    ("prompt", "named"),
    [
        ("/contxt", "/context"),
        ("/tokens", "/status"),
        ("/usage now", "now"),
        ("/context foo", "foo"),
        ("/rewind", "/rewind"),
        ("/exit", "/exit"),
        ("/help nothing", "/nothing"),
    ],
)
def test_a_command_that_cannot_run_is_an_error(ask, prompt: str, named: str):
    done = ask(prompt)
    assert (done.exit, done.out) == (2, "")
    assert [named in line for line in done.complaints] == [True]


@pytest.mark.parametrize(
    "command", ["/context", "/pin", "/unpin", "/drop", "/plan done", "/facts forget", "/tasks stop"]
)
def test_a_number_without_end_is_no_number(ask, command: str):
    done = ask(f"{command} {'9' * 5_000} x")
    assert (done.exit, done.out, len(done.complaints)) == (2, "", 1)
    assert "a bug" not in done.err


def test_columns_without_end_are_none(ask):
    assert ask("/help", env={"COLUMNS": "9" * 5_000}).exit == 0


def test_nothing_is_piped_to_a_command(ask):
    done = ask("/usage", stdin=b"something\n")
    assert (done.exit, done.out) == (2, "")
    assert ["/status" in line for line in done.complaints] == [True]
    assert ask("/usage", stdin=b"\n").exit == 0


def test_the_machine_formats_have_it_as_their_result(ask):
    whole = json.loads(ask("/permissions", "--output-format", "json").out)
    assert whole["result"].startswith("  mode   ask\n")
    assert (whole["exit"], whole["partial"], whole["error"], whole["usage"], whole["turns"]) == (
        0,
        False,
        None,
        None,
        0,
    )
    lines = ask("/permissions", "--output-format", "stream-json").lines()
    assert [line["type"] for line in lines] == ["text", "turn_end"]
    assert lines[0]["delta"] == lines[1]["result"] == whole["result"]
    assert (lines[1]["reason"], lines[1]["exit"]) == ("done", 0)
    refused = json.loads(ask("/rewind", "--output-format", "json").out)
    assert (refused["exit"], refused["result"]) == (2, "")
    assert "terminal" in refused["error"]


def test_a_new_file_is_one_row_whatever_its_name_holds(ask, repo: Path):
    (repo / "a\n  new b\r  new c\x1b[2J").write_text("x\n")
    assert [line for line in ask("/diff").out.split("\n") if "new" in line] == ["  new a new b new c"]


def test_a_saved_session_can_be_looked_at(ask, repo: Path):
    assert ask("What is here?", "--export", "work.json").exit == 0
    before = (repo / "work.json").read_bytes()
    done = ask("/context", "--resume", "work.json")
    assert (done.exit, done.err) == (0, "")
    assert "What is here?" in done.out and ANSWER in done.out
    assert (repo / "work.json").read_bytes() == before


def test_a_saved_session_with_a_call_of_nothing_but_brackets_can_be_looked_at(ask, repo: Path):
    assert ask("What is here?", "--export", "work.json").exit == 0
    saved = json.loads((repo / "work.json").read_text())
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "[" * 100_000}}
    [at] = [number for number, each in enumerate(saved["messages"]) if each["role"] == "assistant"]
    saved["messages"][at] |= {"content": None, "tool_calls": [call]}
    saved["messages"].insert(at + 1, {"role": "tool", "tool_call_id": "c", "name": "read", "content": "x"})
    (repo / "work.json").write_text(json.dumps(saved))
    shown = [ask(f"/context {number}", "--resume", "work.json") for number in range(1, at + 3)]
    assert {each.exit for each in shown} == {0}
    assert any("[[[[" in each.out for each in shown)


async def greet(session: Session, name: str) -> str:
    if not name:
        raise UsageError("greet whom?")
    return f"Hello {name} from {session.provider.model}\x1b[31m\nsk-secret-of-mine"


class Greeting(Extension):
    commands = (Command("greet", "say hello", greet, "NAME"),)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    text = json.dumps({"version": 1, "model": "recorded", "steps": [step(ANSWER)]})
    provider = ReplayProvider(read_recording(text, "of a test"), "of a test")
    return Session(provider, workspace=tmp_path, policy=Policy(tmp_path), extensions=[Greeting()])


async def text_of(session: Session, prompt: str) -> str:
    answer = await run_command(session, prompt)
    assert not isinstance(answer, str), answer
    [event] = [event async for event in answer]
    assert isinstance(event, Text)
    return event.delta


async def test_a_command_of_an_extension(session: Session):
    assert await text_of(session, "/greet  world ") == "Hello world from recorded\nsk-secret-of-mine"
    assert "/greet NAME" in await text_of(session, "/help")
    assert "greet" in {each.name for each in text_commands(session)}
    for wrong in ("/greet", "/gret you"):
        with pytest.raises(UsageError, match="greet"):
            await text_of(session, wrong)
    assert await run_command(session, "/grotto") == "/grotto"
