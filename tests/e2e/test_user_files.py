"""The user's skills and commands in the program: in one shot, in the REPL, on each wire; off they cost no byte."""

from __future__ import annotations

import json
from pathlib import Path

from codelet.errors import EXIT_DONE, EXIT_REFUSED, EXIT_USAGE
from tests.e2e.conftest import KEYS, Codelet
from tests.support.recorded import ask
from tests.support.script import Call, Reply
from tests.support.terminal import Terminal

SKILL = "---\nname: greeting\ndescription: Say hello the right way.\n---\nAlways say: Good evening.\n"


def write(home: Path, name: str, text: str) -> Path:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_without_a_folder_the_first_request_has_the_same_bytes(codelet_on_each_wire: Codelet, home: Path) -> None:
    codelet = codelet_on_each_wire
    codelet.server.script = [Reply("ok") for _ in range(4)]
    assert codelet("-p", "hello").exit == EXIT_DONE
    assert codelet("-p", "hello", "--skills", "off").exit == EXIT_DONE
    write(home, ".claude/skills/greeting/SKILL.md", SKILL)
    write(home, ".claude/commands/greet.md", "Say hello to $1.")
    assert codelet("-p", "hello", "--skills", "off").exit == EXIT_DONE
    assert codelet("-p", "hello").exit == EXIT_DONE
    first, off, still_off, on = (request.body for request in codelet.server.requests)
    assert first == off == still_off != on
    assert b"greeting" in on and b"greeting" not in first and b"Good evening" not in on


def test_nothing_of_it_is_imported_without_a_folder(codelet: Codelet) -> None:
    codelet.server.script = [Reply("ok")]
    done = codelet("-p", "hello", env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert done.exit == EXIT_DONE
    for name in ("codelet.extensions.prompt_files", "codelet.extensions.front_matter"):
        assert name not in done.err
    assert "codelet.extensions.manifest" in done.err


def test_one_shot(codelet: Codelet, home: Path, repo: Path) -> None:
    write(home, ".agents/skills/greeting/SKILL.md", SKILL)
    write(home, ".config/codelet/commands/git/hello.md", "Greet $1 on !`git branch --show-current` as in @note.txt.")
    write(home, ".config/codelet/commands/danger.md", "Look: !`touch made`")
    (repo / "note.txt").write_text("the attached note")
    codelet.server.script = [
        Reply(calls=[Call("c1", "skill", {"name": "greeting"})]),
        Reply("Good evening."),
        Reply("Good evening again."),
        Reply('{"hello": "Ann"}'),
    ]
    done = codelet("-p", "greet Ann")
    assert (done.exit, done.out) == (EXIT_DONE, "Good evening.\n")
    assert "Always say" in codelet.server.requests[1].body.decode()
    assert codelet("-p", "/greeting Ann", "--output-format", "json").exit == EXIT_DONE
    asked = codelet.server.requests[2].messages[-1]
    assert any("Always say" in str(each["content"]) for each in codelet.server.requests[2].messages), asked
    (repo / "schema.json").write_text(json.dumps({"type": "object"}))
    done = codelet("-p", "/git:hello Ann", "--json-schema", "schema.json", stdin=b"piped in")
    assert (done.exit, json.loads(done.out)) == (EXIT_DONE, {"hello": "Ann"}), done.err
    sent = codelet.server.requests[3].body.decode()
    assert "Greet Ann on main" in sent and "the attached note" in sent and "piped in" in sent
    refused = codelet("-p", "/danger")
    assert refused.exit == EXIT_REFUSED and "touch made" in refused.err and not (repo / "made").exists()
    assert codelet("-p", "/git:helo Ann").exit == EXIT_USAGE
    listed = codelet("-p", "/skills")
    assert listed.exit == EXIT_DONE and "/greeting" in listed.out
    assert "/git:hello" in codelet("-p", "/help").out
    assert len(codelet.server.requests) == 4


def test_in_the_terminal(codelet: Codelet, home: Path) -> None:
    write(home, ".agents/skills/greeting/SKILL.md", SKILL)
    write(home, ".claude/commands/s3_up-2.md", "---\nargument-hint: NAME\n---\nUpload $1.\n!`touch made`")
    codelet.server.script = [Reply("first answer"), Reply("second answer")]
    with codelet.terminal() as terminal:
        terminal.type("/s3")
        terminal.wait_for("Upload $1.")
        terminal.type("_up-2 a.txt")
        terminal.key("enter")
        terminal.wait_for("touch made")
        terminal.type("y")
        terminal.wait_for("first answer")
        ask(terminal, "/greeting Ann", "second answer")
        terminal.line("/exit")
        assert terminal.wait_exit() == 0
    first, second = (json.dumps(request.messages) for request in codelet.server.requests)
    assert "Upload a.txt." in first and "Always say" in second


def test_a_trusted_projects_are_named_in_the_question(codelet: Codelet, repo: Path) -> None:
    write(repo, ".agents/skills/greeting/SKILL.md", SKILL)
    write(repo, ".claude/commands/git/greet.md", "Say hello to $1.")
    write(repo, ".codelet/config.toml", "max_turns = 3\n")
    codelet.server.script = [Reply("the answer")]
    with Terminal(*codelet.arguments, cwd=repo, home=codelet.home, env=KEYS) as terminal:
        asked = terminal.wait_for("[y/N]")
        assert "skills = greeting" in asked and "commands = greet" in asked
        terminal.line("y")
        terminal.wait_for("›")
        ask(terminal, "/git:greet Ann", "the answer")
        terminal.line("/exit")
        assert terminal.wait_exit() == 0
    assert "Say hello to Ann." in codelet.server.requests[0].body.decode()
