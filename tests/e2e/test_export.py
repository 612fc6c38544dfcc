"""A one-shot session that is kept in a file: resumed, saved on the way, and never at the cost of the answer."""

from __future__ import annotations

import json
import platform
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from codelet.errors import UsageError
from codelet.export.decode import from_json
from codelet.export.encode import to_json
from codelet.settings import load_settings
from tests.e2e.conftest import KEYS, Codelet
from tests.export import material
from tests.support.bodies import messages_of
from tests.support.program import CODELET, start, stop
from tests.support.script import Call, HttpError, Reply, Stop, Tokens
from tests.support.server import Recorded
from tests.support.waiting import PATIENCE, at_rest

LOOK = Call("look", "read", {"path": "app.py"})
SMALL_FILES = ("bash", "-c", 'ulimit -f 8; export PYTHONDONTWRITEBYTECODE=1; exec "$@"', "bash", *CODELET)


def said(request: Recorded) -> list[tuple[str, str]]:
    """The conversation in a request, without reminders and system prompt: role and text."""
    entries = [(message["role"], str(message.get("content"))) for message in messages_of(request)]
    return [(role, text) for role, text in entries if role != "system" and "<system-reminder>" not in text]


def saved(path: Path) -> dict[str, Any]:
    """The document, checked whole."""
    from_json(path.read_bytes(), path.name)
    document: dict[str, Any] = json.loads(path.read_bytes())
    return document


def conversation(path: Path) -> list[tuple[str, str]]:
    entries = [(message["role"], str(message["content"])) for message in saved(path)["messages"]]
    return [(role, text) for role, text in entries if "<system-reminder>" not in text]


def keep(name: str) -> list[str]:
    return ["--export", name, "--resume", name]


def left_over(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".") and path.name != ".git"]


def test_a_session_goes_on_in_another_process(codelet: Codelet):
    codelet.server.script = [Reply("Looking.", calls=[LOOK]), Reply("It prints hello."), Reply("It is Python.")]
    first = codelet("-p", "what is it?", *keep("work.json"))
    assert (first.exit, first.out) == (0, "It prints hello.\n"), first.err
    path = codelet.cwd / "work.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert left_over(codelet.cwd) == []
    document = saved(path)
    assert document["model"] == "openai/scripted"
    assert document["tool_stats"] == {"total_calls": 1, "by_tool": {"read": 1}, "failures": 0}
    assert len(document["timeline"]) == 2
    seen = document["last_known_environment"]
    assert (seen["workspace"], seen["git_branch"]) == (str(codelet.cwd), "main")
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=codelet.cwd, capture_output=True, text=True, check=True)
    assert seen["git_commit"] == head.stdout.strip()
    assert seen["python"] == platform.python_version()
    assert 0 < seen["memory_used_mb"] < seen["memory_total_mb"]
    assert 0 < len(seen["processes"]) <= 20
    assert all(process["pid"] > 0 and process["name"] for process in seen["processes"])
    largest = [process["memory_mb"] for process in seen["processes"]]
    assert largest == sorted(largest, reverse=True)

    second = codelet("-p", "and the language?", *keep("work.json"))
    assert (second.exit, second.out) == (0, "It is Python.\n"), second.err
    before = said(codelet.server.requests[1])
    assert said(codelet.server.requests[2]) == [
        *before,
        ("assistant", "It prints hello."),
        ("user", "and the language?"),
    ]
    assert saved(path)["session_id"] == document["session_id"]
    assert saved(path)["token_usage"]["turns"] == 2


def test_usage_that_nobody_reported_is_null_in_the_file(codelet: Codelet):
    codelet.server.script = [
        Reply("one", usage=None),
        Reply("two", usage=None),
        Reply("three", usage=Tokens(100, output=7)),
    ]
    path = codelet.cwd / "work.json"
    for turns in (1, 2):
        assert codelet("-p", "go on", *keep("work.json")).exit == 0
        counts = saved(path)["token_usage"]
        assert counts.pop("turns") == turns
        assert set(counts.values()) == {None} and len(counts) == 6
    assert codelet("-p", "go on", *keep("work.json")).exit == 0
    assert (saved(path)["token_usage"]["output"], saved(path)["token_usage"]["cost"]) == (7, None)


def test_the_resumed_model_is_used_unless_another_is_named(codelet: Codelet):
    codelet.server.script = lambda request: Reply("ok")
    assert codelet("-p", "one", "--export", "work.json").exit == 0
    base = ["--api-base", codelet.server.openai]

    def run(*arguments: str):
        return subprocess.run(
            [*CODELET, *base, "-p", "two", "--resume", "work.json", *arguments],
            cwd=codelet.cwd,
            env={**_environment(codelet), "CODELET_MODEL": "openai/from-the-environment"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
        )

    assert run().returncode == 0
    assert run("--model", "openai/other").returncode == 0
    assert [request.json["model"] for request in codelet.server.requests] == ["scripted", "scripted", "other"]


def test_a_session_with_a_recording_plays_it_again_only_if_the_user_names_it(codelet: Codelet):
    recording = codelet.cwd / "recording.json"
    recording.write_text(json.dumps({"version": 1, "model": "demo", "steps": [{"text": "Recorded."}]}))

    def go_on(*arguments: str):
        return subprocess.run(
            [*CODELET, "-p", "go", *keep("work.json"), *arguments], cwd=codelet.cwd, env=_environment(codelet),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30,
        )  # fmt: skip

    named = ("--model", "replay:recording.json")
    first, second = go_on(*named), go_on(*named)
    assert (first.returncode, second.returncode, second.stdout) == (0, 0, "Recorded.\n"), second.stderr
    assert saved(codelet.cwd / "work.json")["model"] == "replay:recording.json"
    codelet.server.script = [Reply(text="Live.")]
    third = go_on("--api-base", codelet.server.openai)
    assert (third.returncode, third.stdout) == (0, "Live.\n"), third.stderr
    assert "replay:recording.json" in third.stderr
    recording.unlink()
    fourth = go_on(*named)
    assert (fourth.returncode, fourth.stdout) == (2, "")
    assert "recording.json" in fourth.stderr


def _environment(codelet: Codelet) -> dict[str, str]:
    from tests.support.program import environment

    return environment(codelet.home, KEYS)


def test_limits_and_usage_are_those_of_the_run(codelet: Codelet):
    codelet.server.script = lambda request: Reply("ok", usage=Tokens(total_input=100, output=30))
    for run in (1, 2, 3):
        done = codelet("-p", "go", *keep("work.json"), "--max-tokens", "40", "--output-format", "json")
        assert done.exit == 0, done.out
        usage = done.json()["usage"]
        assert isinstance(usage, dict)
        assert (usage["total_input"], usage["output"]) == (100, 30)
        assert saved(codelet.cwd / "work.json")["token_usage"]["output"] == 30 * run


@pytest.mark.parametrize("end", ["limit", "failure", "terminated", "interrupted", "reader gone"])
def test_whatever_ends_it_leaves_the_session_saved(codelet: Codelet, end: str):
    step = Reply("Looking.", calls=[LOOK])
    path = codelet.cwd / "work.json"
    codelet.server.script = [
        step,
        HttpError(401) if end == "failure" else Reply(["Half", " a"], fault=Stop("stall", 3)),
    ]
    arguments = [*codelet.arguments, "-p", "what is it?", *keep("work.json")]
    if end in ("limit", "failure"):
        done = codelet("-p", "what is it?", *keep("work.json"), *(["--max-turns", "1"] if end == "limit" else []))
        assert done.exit == (4 if end == "limit" else 3), done.err
    elif end == "reader gone":
        codelet.server.script = [step, Reply("word " * 40_000)]
        line = ["bash", "-c", 'exec "$@" --output-format stream-json | head -c 100', "bash", *CODELET, *arguments]
        subprocess.run(line, cwd=codelet.cwd, env=_environment(codelet), stdin=subprocess.DEVNULL)
    else:
        child = start(*arguments, cwd=codelet.cwd, home=codelet.home, env=KEYS)
        try:
            codelet.server.wait_for(2).started.wait(PATIENCE)
            at_rest(child.pid)
            child.send_signal(signal.SIGTERM if end == "terminated" else signal.SIGINT)
            out, err = child.communicate(timeout=PATIENCE)
        finally:
            stop(child)
        assert child.returncode == (143 if end == "terminated" else 130), err
        assert b"Half a" in out
    texts = [text for _, text in conversation(path)]
    assert texts[0] == "what is it?"
    assert left_over(codelet.cwd) == []
    if end == "reader gone":
        return
    assert "print('hello')" in texts[2]
    assert saved(path)["interruption"]["messages"] is not None
    codelet.server.script = lambda request: Reply("It prints hello.")
    more = codelet("-p", "continue", *keep("work.json"))
    assert (more.exit, more.out) == (0, "It prints hello.\n"), more.err
    assert [role for role, _ in said(codelet.server.requests[-1])] == ["user", "assistant", "tool"]
    assert saved(path).get("interruption") is None


def test_a_kill_in_mid_turn_loses_at_most_the_step_in_hand(codelet: Codelet):
    calls = [Call(f"look{number}", "bash", {"command": f"echo {number} >> log.txt; cat log.txt"}) for number in (1, 2)]
    codelet.server.script = [Reply("One.", calls=calls[:1]), Reply("Two.", calls=calls[1:]), Stop("stall", None)]
    arguments = [*codelet.arguments, "-p", "go", *keep("work.json"), "--yes"]
    child = start(*arguments, cwd=codelet.cwd, home=codelet.home, env=KEYS)
    try:
        codelet.server.wait_for(3)
        at_rest(child.pid)
    finally:
        stop(child, signal.SIGKILL)
    asked = said(codelet.server.requests[2])
    assert [text for role, text in asked if role == "tool"][1].startswith("1\n2")
    codelet.server.script = lambda request: Reply("Both are done.")
    more = codelet("-p", "continue", *keep("work.json"))
    assert (more.exit, more.out) == (0, "Both are done.\n"), more.err
    assert said(codelet.server.requests[3]) == asked
    assert (codelet.cwd / "log.txt").read_text() == "1\n2\n"
    assert left_over(codelet.cwd) == []


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_full_disk_costs_neither_the_answer_nor_the_old_file(codelet: Codelet, form: str):
    codelet.server.script = [Reply("short"), Reply("long " * 4_000)]
    assert codelet("-p", "one", *keep("work.json")).exit == 0
    path = codelet.cwd / "work.json"
    codelet.server.script = lambda request: Reply("long " * 4_000)
    done = codelet("-p", "two", *keep("work.json"), "--output-format", form, command=SMALL_FILES)
    assert done.exit == 2, done.err
    if form == "json":
        result = done.json()
        assert (result["result"], result["exit"], result["partial"]) == ("long " * 4_000, 2, False)
        assert "not saved" in str(result["error"])
    else:
        assert done.out.strip() == ("long " * 4_000).strip()
        assert "work.json: not saved" in done.complaints[-1]
    # What was saved last is the state right before the answer.
    assert [text for _, text in conversation(path)] == ["one", "short", "two"]
    assert left_over(codelet.cwd) == []


def test_an_existing_file_is_refused_and_force_replaces_it(codelet: Codelet):
    codelet.server.script = lambda request: Reply("ok")
    path = codelet.cwd / "work.json"
    path.write_text("mine")
    done = codelet("-p", "go", "--export", "work.json")
    assert (done.exit, path.read_text()) == (2, "mine")
    assert len(done.complaints) == 1
    assert "--force" in done.err
    assert codelet.server.requests == []
    assert codelet("-p", "go", "--export", "work.json", "--force").exit == 0
    assert conversation(path)[0] == ("user", "go")


def test_a_page_is_no_place_to_save_along(codelet: Codelet):
    done = codelet("-p", "go", "--export", "page.html")
    assert (done.exit, len(done.complaints), codelet.server.requests) == (2, 1, [])
    assert not (codelet.cwd / "page.html").exists()


def test_a_link_is_refused(codelet: Codelet):
    target = codelet.cwd / "elsewhere.json"
    (codelet.cwd / "work.json").symlink_to(target)
    for more in ([], ["--force"]):
        done = codelet("-p", "go", "--export", "work.json", *more)
        assert done.exit == 2
        assert "link" in done.complaints[0]
    assert not target.exists()
    assert codelet.server.requests == []


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b'{"version": "9.0", "timestamp": 1, "tokenCount": 1, "messages": []}',
        b'{"version": "1.0", "timestamp": 1, "tokenCount": 1, "messages": [{"role": "root", "content": "x"}]}',
        b"[" * 100_000,
    ],
    ids=["empty", "newer", "role", "deep"],
)
def test_a_bad_file_is_one_line_and_stays_as_it_is(codelet: Codelet, raw: bytes):
    path = codelet.cwd / "work.json"
    path.write_bytes(raw)
    done = codelet("-p", "go", *keep("work.json"), "--force")
    assert (done.exit, done.out, path.read_bytes()) == (2, "", raw)
    assert len(done.complaints) == 1
    assert "work.json" in done.complaints[0]
    assert codelet.server.requests == []


def test_a_file_that_is_not_there_cannot_be_resumed(codelet: Codelet):
    done = codelet("-p", "go", "--resume", "work.json")
    assert (done.exit, len(done.complaints)) == (2, 1)
    assert codelet.server.requests == []


def test_keys_are_masked_unless_raw_is_given(codelet: Codelet):
    secret = "Kx9-quite-a-long-secret-value"
    token = "ghp_" + "a1B2" * 9
    (codelet.cwd / "notes.txt").write_text(f"{secret}\n")
    codelet.server.script = lambda request: (
        Reply(f"The token is {token}.")
        if request.number % 2
        else Reply(calls=[Call("n", "read", {"path": "notes.txt"})])
    )
    masked = codelet("-p", f"use {token}", "--export", "masked.json", env={"SERVICE_TOKEN": secret})
    raw = codelet("-p", f"use {token}", "--export", "raw.json", "--raw", env={"SERVICE_TOKEN": secret})
    assert (masked.exit, raw.exit) == (0, 0), masked.err + raw.err
    text = (codelet.cwd / "masked.json").read_text()
    assert secret not in text
    assert token not in text
    saved(codelet.cwd / "masked.json")
    text = (codelet.cwd / "raw.json").read_text()
    assert secret in text
    assert token in text


def test_only_the_command_line_asks_for_it(codelet: Codelet):
    names = ("EXPORT", "RESUME", "SNAPSHOTS", "EXPORT_EVERY", "EXPORT_ARCHIVE", "FORCE", "RAW")
    folder = codelet.home / ".config" / "codelet"
    folder.mkdir(parents=True)
    here = {"XDG_CONFIG_HOME": str(codelet.home / ".config")}
    for name in names:
        (folder / "config.toml").unlink(missing_ok=True)
        with pytest.raises(UsageError, match=f"--{name.lower().replace('_', '-')}"):
            load_settings({}, workspace=codelet.cwd, environment=here | {f"CODELET_{name}": "1"})
        (folder / "config.toml").write_text(f"{name.lower()} = '1'\n")
        with pytest.raises(UsageError, match=f"{name.lower()}.*may not"):
            load_settings({}, workspace=codelet.cwd, environment=here)
    done = codelet("-p", "go")
    assert (done.exit, len(done.complaints), codelet.server.requests) == (2, 1, [])


def test_snapshots_stand_in_their_folder(codelet: Codelet):
    codelet.server.script = lambda request: Reply("ok")
    assert codelet("-p", "go", "--snapshots", "kept/here").exit == 0
    found = sorted((codelet.cwd / "kept" / "here").iterdir())
    assert len(found) in (1, 2)
    for path in found:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert conversation(found[-1])[-1] == ("assistant", "ok")


def test_without_the_options_none_of_it_is_imported(codelet: Codelet):
    codelet.server.script = lambda request: Reply("ok")
    command = (sys.executable, "-X", "importtime", "-m", "codelet")
    plain = codelet("-p", "go", command=command)
    kept = codelet("-p", "go", "--export", "work.json", command=command)
    assert "codelet.loop.session" in plain.err
    assert "codelet.export" not in plain.err
    assert "exporting" not in plain.err
    assert "msgspec" not in plain.err
    assert "codelet.export" in kept.err
    assert "msgspec" in kept.err
    assert "jinja2" not in kept.err, "that is the page's alone"


def test_every_part_of_a_foreign_export_survives_a_turn(codelet: Codelet):
    """Facts, plan, tasks and the like have no place in the list, and are handed on; what ran does not run any more."""
    codelet.server.script = lambda request: Reply("ok")
    whole = material.whole().replace(facts=("a  fact", "a fact", "another"), archive=None, interruption=None)
    (codelet.cwd / "work.json").write_bytes(to_json(whole, mask=None))
    before = saved(codelet.cwd / "work.json")
    profiles = codelet.home / ".config" / "codelet" / "profiles"
    profiles.mkdir(parents=True)
    (profiles / f"{before['profile']}.yaml").write_text("autonomy_mode: confirm\n")
    done = codelet("-p", "go", *keep("work.json"))
    assert done.exit == 0, done.err
    after = saved(codelet.cwd / "work.json")
    for name in ("session_id", "profile", "plan", "anchors", "system_state"):
        assert after[name] == before[name], name
    ran = [task | {"status": "Interrupted"} for task in before["active_tasks"] if task["status"] == "Running"]
    assert [task for task in after["active_tasks"] if task["status"] == "Interrupted"] == ran != []
    assert after["facts"] == ["a fact", "another"]
    assert after["tool_stats"] == before["tool_stats"]
    assert after["model"] == "openai/scripted"


def test_the_sessions_command_finds_what_was_kept(codelet: Codelet):
    codelet.server.script = lambda request: Reply("The walrus answers. \x1b[31m")
    assert codelet("-p", "who is there?", "--export", "work.json").exit == 0
    listed = codelet("sessions", "list", ".")
    assert (listed.exit, listed.complaints) == (0, [])
    assert "work.json" in listed.out
    assert "who is there?" in listed.out
    found = codelet("sessions", "search", ".", "walrus")
    assert "The walrus answers." in found.out
    assert "\x1b" not in found.out
    assert codelet("sessions", "delete", ".", "work.json").exit == 0
    assert not (codelet.cwd / "work.json").exists()
    assert codelet("sessions", "list", "nowhere").exit == 2
