"""The command line's ends: streams that are closed, full or broken, odd arguments, and which exit status wins."""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codelet.errors import UsageError
from codelet.frontends.arguments import parse_command_line
from codelet.frontends.flags import FROM_PIPE
from codelet.frontends.parsers import build_parser
from codelet.settings import SETTINGS
from tests.support.program import CODELET, ROOT, Finished, environment, run, start, stop
from tests.support.proxy import Proxy
from tests.support.script import Call, HttpError, Reply, Stop
from tests.support.server import ModelServer
from tests.support.waiting import PATIENCE, Neighbour, at_rest

KEY = {"OPENAI_API_KEY": "test-key"}
WRITE = Call("w", "write", {"path": "new.txt", "content": "x\n"})
FORMATS = ("text", "json", "stream-json")


class Codelet:
    """codelet against the model server; `shell` runs it as "$@" inside a line of bash."""

    def __init__(self, server: ModelServer, cwd: Path, home: Path) -> None:
        self.server, self.cwd, self.home = server, cwd, home

    @property
    def model(self) -> list[str]:
        return ["--model", "openai/scripted", "--api-base", self.server.openai]

    def __call__(self, *arguments: str, env: dict[str, str] | None = None, stdin: bytes = b"") -> Finished:
        return run(*self.model, *arguments, cwd=self.cwd, home=self.home, env=KEY | (env or {}), stdin=stdin)

    def shell(self, line: str, *arguments: str, env: dict[str, str] | None = None) -> Finished:
        words = (line, "bash", *CODELET, *self.model, *arguments)
        return run(*words, command=("bash", "-c"), cwd=self.cwd, home=self.home, env=KEY | (env or {}))


@pytest.fixture
def codelet(model_server: ModelServer, repo: Path, home: Path) -> Codelet:
    model_server.script = lambda request: Reply("the answer")
    return Codelet(model_server, repo, home)


def one_line(done: Finished, status: int) -> str:
    assert done.exit == status, done.err
    assert "Traceback" not in done.err
    assert len(done.complaints) == 1, done.err
    return done.complaints[0]


def test_a_closed_stdout_is_said_before_anything_is_spent(codelet: Codelet):
    done = codelet.shell('"$@" >&-', "-p", "go")
    assert "stdout is closed" in one_line(done, 5)
    assert codelet.server.requests == []


@pytest.mark.parametrize("form", FORMATS)
def test_a_full_stdout_is_incomplete(codelet: Codelet, form: str):
    done = codelet.shell('"$@" >/dev/full', "-p", "go", "--output-format", form)
    assert os.strerror(errno.ENOSPC) in one_line(done, 5)


def test_a_closed_stderr_loses_only_what_goes_there(codelet: Codelet):
    done = codelet.shell('"$@" 2>&-', "-p", "go")
    assert (done.exit, done.out) == (0, "the answer\n")
    codelet.server.script = lambda request: HttpError(401, "no")
    assert codelet.shell('"$@" 2>&-', "-p", "go").exit == 3
    assert codelet.shell('"$@" 2>&-', "--no-such-flag").exit == 2
    assert codelet.shell('"$@" 2>&-', "-p", " ").exit == 2
    assert codelet.shell('"$@" <&- >&- 2>&-', "-p", "go").exit == 5


def test_a_stderr_that_breaks_does_not_end_the_run(codelet: Codelet):
    def script(request):
        if request.number % 6 == 5:
            return Reply("the answer")
        return Reply(calls=[Call(f"r{request.number}", "read", {"path": "missing"})])

    codelet.server.script = script
    for line in ('"$@" 2>/dev/full', '"$@" 2> >(exec true)', '"$@" 2>&1 >&3 3>&- | true; exit ${PIPESTATUS[0]}'):
        done = codelet.shell(f"exec 3>&1; {line}", "-p", "go")
        assert (done.exit, done.out) == (0, "the answer\n"), line
        assert "Traceback" not in done.err


def test_a_closed_stdin_is_no_pipe(codelet: Codelet):
    assert codelet.shell('"$@" <&-', "-p", "go").out == "the answer\n"
    assert "give a prompt" in one_line(codelet.shell('"$@" <&-'), 2)


def test_no_descriptor_of_a_closed_stream_is_given_to_a_socket(codelet: Codelet):
    """Else what is written to stderr would go to the model's server."""
    codelet.server.script = [Reply(calls=[WRITE]), Reply("done")]
    codelet.shell('"$@" <&- 2>&-', "-p", "go", "--debug")
    assert [request.method for request in codelet.server.requests] == ["POST", "POST"]
    assert all(request.json for request in codelet.server.requests)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_reader_that_leaves_hides_no_refusal_and_no_failure(codelet: Codelet, form: str):
    line = '"$@" | head -c 1 >/dev/null; exit ${PIPESTATUS[0]}'
    codelet.server.script = [Reply(calls=[WRITE]), Reply("x" * 300_000), HttpError(401, "no")]
    done = codelet.shell(line, "-p", "go", "--output-format", form)
    assert done.exit == 6, done.err
    assert "Traceback" not in done.err
    done = codelet.shell(line.replace("head -c 1", "true"), "-p", "go", "--output-format", form)
    assert done.exit == 3, done.err
    assert "Traceback" not in done.err


def test_a_reader_that_leaves_a_stream_of_events_ends_the_run(codelet: Codelet):
    codelet.server.script = lambda request: Reply(calls=[Call(f"r{request.number}", "read", {"path": "app.py"})])
    done = codelet.shell('"$@" | head -n 1; exit ${PIPESTATUS[0]}', "-p", "go", "--output-format", "stream-json")
    assert (done.exit, done.err) == (0, "")
    assert len(done.lines()) == 1


def test_version_and_help_into_broken_streams(codelet: Codelet):
    assert one_line(codelet.shell('"$@" >/dev/full', "--version"), 5)
    done = codelet.shell('"$@" | true; exit ${PIPESTATUS[0]}', "--help")
    assert (done.exit, done.err) == (0, "")
    assert codelet.shell('"$@" >&-', "--version").exit == 0


def test_an_encoding_that_cannot_hold_the_answer(codelet: Codelet):
    codelet.server.script = lambda request: Reply("größer → 🎉")
    done = codelet("-p", "go", env={"PYTHONIOENCODING": "latin-1"})
    assert (done.exit, done.stdout) == (0, "größer ? ?\n".encode("latin-1"))
    assert codelet("-p", "go", env={"LC_ALL": "C", "PYTHONUTF8": "0"}).exit == 0


def test_no_tools_at_all(codelet: Codelet):
    codelet.server.script = [Reply(calls=[Call("r", "read", {"path": "app.py"})]), Reply("none then")]
    done = codelet("-p", "go", "--tools", "", "--output-format", "json")
    assert (done.exit, done.json()["result"]) == (0, "none then"), done.err
    first, second = (request.json for request in codelet.server.requests)
    assert "tools" not in first
    assert "no tool 'read'" in str(second["messages"])


def test_a_prompt_as_long_as_an_argument_can_be(codelet: Codelet):
    prompt = "wörd " * 20_000
    assert codelet("-p", prompt).out == "the answer\n"
    assert prompt.strip() in codelet.server.requests[0].body.decode()


def test_the_address_alone_takes_the_model_that_it_lists(codelet: Codelet):
    done = run("-p", "go", "--api-base", codelet.server.openai, cwd=codelet.cwd, home=codelet.home)
    assert (done.exit, done.out) == (0, "the answer\n"), done.err
    assert codelet.server.requests[0].json["model"] == "scripted"


def test_a_cost_limit_is_kept_before_the_request(codelet: Codelet):
    """What answers on this machine is free; what has no price elsewhere, or costs too much, is not asked."""
    listed = ("-p", "go", "--output-format", "json", "--max-cost")
    here = codelet(*listed, "1")
    assert (here.exit, here.err, here.json()["cost"], here.json()["cache_share"]) == (0, "", None, 0.0)
    with Proxy(to=f"127.0.0.1:{codelet.server.port}") as proxy:
        away = {"HTTP_PROXY": proxy.address, "NO_PROXY": None}

        def elsewhere(model: str, *more: str) -> Finished:
            return codelet(*listed, *more, "--model", model, "--api-base", "http://models.example/v1", env=away)

        asked = len(codelet.server.requests)
        unknown = elsewhere("openai/scripted", "1")
        assert all(word in one_line(unknown, 2) for word in ("openai/scripted", "--max-cost"))
        dear = elsewhere("openai/gpt-4o-mini", "0.00001")
        assert (dear.exit, dear.json()["turns"], dear.json()["usage"]) == (4, 0, None)
        assert "1e-05 dollars (--max-cost)" in str(dear.json()["error"])
        assert len(codelet.server.requests) == asked, "nothing was sent"
        assert elsewhere("openai/scripted", "1", "--allow-unknown-cost").json()["cost"] is None
        known = elsewhere("openai/gpt-4o-mini", "1")
    assert known.err == ""
    assert known.json()["cost"] == pytest.approx(0.000021)  # 100 tokens in, 10 out


def test_another_model_goes_on_where_the_first_fails(codelet: Codelet):
    """At its own address, not at that of the first; the JSON result and one line on stderr say so."""
    codelet.server.script = lambda request: HttpError(529, "overloaded", retry_after=0)
    with ModelServer([Reply("from the other one")]) as other:
        env = {"OLLAMA_HOST": f"127.0.0.1:{other.port}"}
        words = ("-p", "go", "--fallback-model", "ollama/qwen3", "--output-format")
        done = codelet(*words, "json", env=env)
        assert (done.exit, done.err, done.json()["result"]) == (0, "", "from the other one")
        (change,) = json.loads(done.out)["fallbacks"]
        assert (change["from"], change["to"]) == ("openai/scripted", "ollama/qwen3")
        assert "overloaded" in change["reason"]
        assert done.json()["model"] == "ollama/qwen3"
        assert len(codelet.server.requests) == 3
        other.script = [Reply("again")]
        reported = codelet(*words, "text", env=env)
        (line,) = [line for line in reported.complaints if "ollama/qwen3" in line]
        assert "openai/scripted" in line and "3 times" in line
        assert sum("overloaded" in each for each in reported.complaints) == 2, "each attempt said why"
        assert [request.json["model"] for request in other.requests] == ["qwen3"] * 2
    wrong = codelet("-p", "go", "--fallback-model", "anthropic/claude-x", env={"ANTHROPIC_API_KEY": None})
    assert "--fallback-model anthropic/claude-x" in one_line(wrong, 2)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("OPENAI_API_KEY", "sk-…", "no key has"),
        ("HTTP_PROXY", "socks5://127.0.0.1:1", "not supported"),
        ("CODELET_YES", "1", "CODELET_YES"),
        ("CODELET_MAX_TURNS", "many", "CODELET_MAX_TURNS: must be"),
    ],
)
def test_a_wrong_variable_is_one_line(codelet: Codelet, name: str, value: str, says: str):
    done = codelet("-p", "go", env={name: value, "NO_PROXY": ""})
    assert says in one_line(done, 2)
    assert codelet.server.requests == []


def test_a_home_that_cannot_be_looked_into(codelet: Codelet):
    done = codelet("-p", "go", env={"HOME": "/" + "x" * 300})
    assert (done.exit, done.out, done.err) == (0, "the answer\n", "")


def test_a_bug_is_one_line_and_with_debug_a_traceback(codelet: Codelet, tmp_path: Path):
    """A broken installation stands for a bug: a library that fails in a way that nobody expects."""
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "h11.py").write_text("raise RuntimeError('this copy is damaged')\n")
    env = {"PYTHONPATH": f"{broken}{os.pathsep}{ROOT}"}
    line = one_line(codelet("-p", "go", env=env), 70)
    assert "RuntimeError: this copy is damaged" in line and "--debug" in line
    done = codelet("-p", "go", "--debug", env=env)
    assert done.exit == 70
    assert "Traceback" in done.err
    assert "RuntimeError: this copy is damaged" in done.complaints[-1] and "--debug" not in done.complaints[-1]


@pytest.mark.parametrize(
    ("last", "arguments", "status"),
    [
        (Reply("done"), [], 6),
        (HttpError(401, "no"), [], 3),
        (Reply("do", finish="length"), [], 4),
        (Reply("do", fault=Stop("cut", 2)), [], 3),
        (Stop("stall"), ["--timeout", "1.5"], 4),
        (Reply("done"), ["--max-turns", "1"], 4),
    ],
)
def test_a_refusal_is_said_but_a_failure_or_a_limit_wins(
    codelet: Codelet, last: object, arguments: list[str], status: int
):
    codelet.server.script = [Reply(calls=[WRITE]), last]
    done = codelet("-p", "go", "--output-format", "json", *arguments)
    result = done.json()
    assert (done.exit, result["exit"]) == (status, status), done.err
    assert result["refused"] == ["write new.txt"]
    assert result["partial"] is (status != 6)


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["INT", "TERM", "HUP"],
)
def test_a_signal_wins_over_all_and_keeps_the_partial_answer(codelet: Codelet, number: int, status: int):
    codelet.server.script = [Reply(calls=[WRITE]), Reply(["half ", "an"], fault=Stop("stall", 3))]
    arguments = [*codelet.model, "-p", "go", "--output-format", "json"]
    child = start(*arguments, cwd=codelet.cwd, home=codelet.home, env=KEY)
    assert codelet.server.wait_for(2).started.wait(PATIENCE)
    at_rest(child.pid)
    with Neighbour() as clock:
        out, err = stop(child, number)
    assert clock.passed < 3
    assert child.returncode == status
    assert b"Traceback" not in err
    assert b'"result": "half an", "partial": true, "exit": %d' % status in out
    assert b'"refused": ["write new.txt"]' in out


def test_a_signal_while_the_pipe_is_waited_for(codelet: Codelet):
    command = [*CODELET, *codelet.model, "-p", "go"]
    child = subprocess.Popen(
        command,
        cwd=codelet.cwd,
        env=environment(codelet.home, KEY),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stderr
    assert b"waiting for the pipe on stdin" in child.stderr.readline()
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 130
    assert b"Traceback" not in err


@pytest.mark.parametrize("flags", [("-p",), ("-p", "-"), ("-p", "--quiet"), ("--prompt",)])
def test_a_prompt_flag_without_a_prompt_means_the_pipe(codelet: Codelet, flags: tuple[str, ...]):
    done = codelet(*flags, stdin=b"what is in the pipe?")
    assert (done.exit, done.out) == (0, "the answer\n"), done.err
    assert "what is in the pipe?" in codelet.server.requests[-1].body.decode()
    assert "nothing to answer" in one_line(codelet(*flags, stdin=b""), 2)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("login", "API_KEY"), ("logout", "API_KEY"), ("login status", "API_KEY"), ("mcp", "check"),
        ("mcp add server", "check"), ("--mcp-config x.json", "--mcp FILE"), ("resume", "--session"),
        ("resume 0199-abcd", "--session"),
        ("exec", "-p"), ("exec 'fix the tests'", "-p"), ("exec --full-auto hi", "-p"), ("chat", "session"),
        ("init", "/init"), ("config set model x", "config.toml"), ("-c", "--session"), ("-c hi", "--session"),
        ("--continue", "FILE"), ("--continue -p hi", "FILE"), ("--resume", "--session"), ("--yolo", "--mode auto"),
        ("--print hi", "-p PROMPT"), ("--permission-mode plan", "--plan"), ("--full-auto hi", "--mode auto"),
        ("--dangerously-skip-permissions -p hi", "--yes"), ("-a never hi", "--mode"), ("--vim", "--edit-mode"),
        ("--ask-for-approval never hi", "--mode"), ("--allowedTools Bash -p hi", "--allow RULE"), ("-C dir hi", "cd"),
        ("--sandbox workspace-write hi", "--mode"), ("-p hi --approval-mode=yolo", "--mode"),
    ],
)  # fmt: skip
def test_words_of_other_programs_are_answered_without_a_request(codelet: Codelet, line: str, names: str):
    assert names in one_line(codelet(*shlex.split(line)), 2)
    assert codelet.server.requests == []


@pytest.mark.parametrize(
    "line",
    [
        "'exec the tests and fix'", "exec the tests and fix", "resume where we stopped", "'login fails'",
        "login is slow", "'init'' the project'", "run tests", "-- login", "-p login",
        "-p resume", "-- exec hi", "config of ruff",
    ],
)  # fmt: skip
def test_a_prompt_that_begins_with_such_a_word_reaches_the_model(codelet: Codelet, line: str):
    words = shlex.split(line)
    assert codelet(*words).exit == 0
    prompt = " ".join(word for word in words if not word.startswith("-"))
    assert prompt in codelet.server.requests[-1].body.decode()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--modle", "x", "-p", "hi"), "unknown option --modle; did you mean --model?"),
        (("--modle=x", "-p", "hi"), "unknown option --modle; did you mean --model?"),
        (("-p", "--modle", "x"), "unknown option --modle; did you mean --model?"),
        (("-p", "hi", "--max-truns", "3"), "unknown option --max-truns; did you mean --max-turns?"),
        (("--nonsense", "f.png", "-p", "hi"), "unknown option --nonsense; see codelet --help"),
        (("--yolo", "-p", "hi"), "unknown option --yolo: --mode auto"),
        (("-qz", "-p", "hi"), "unknown option -z; see codelet --help"),
        (("doctor", "--jsno"), "unknown option --jsno; did you mean --json?"),
        (("doctor", "--modle", "x"), "unknown option --modle; did you mean --model?"),
        (("doctor", "--model", "m"), "--model is no option of doctor"),
        (("policy", "check", "--mdoe", "ask", "ls"), "unknown option --mdoe; did you mean --mode?"),
        (("sessions", "list", "--nothing"), "unknown option --nothing; codelet sessions list --help"),
        (("--keep", "demo"), "unknown option --keep; did you mean codelet demo --keep?"),
        (("--jsno", "doctor"), "unknown option --jsno; did you mean codelet doctor --json?"),
        (("dmeo",), "there is no command 'dmeo'; did you mean demo?"),
        (("revew", "--uncommitted"), "there is no command 'revew'; did you mean review?"),
        (("--continue", "a.json", "--export", "b.json", "-p", "x"), "--export TARGET --resume"),
        (("--allow", "Bash(git log:*)", "-p", "x"), "write 'bash(git log *)'"),
        (("--allow", "Edit(/src/**)", "-p", "x"), "write 'edit(src/**)'"),
        (("--allow", "Read(//etc/hosts)", "-p", "x"), "write 'read(/etc/hosts)'"),
        (("demo", "the", "feature"), "with -p"),
        (("help", "dmeo"), "did you mean codelet help demo?"),
        (("fix", "-p", "the test"), "two prompts"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_is_wrong_is_named(codelet: Codelet, arguments: tuple[str, ...], says: str):
    assert says in one_line(codelet(*arguments), 2)
    assert codelet.server.requests == []


@pytest.mark.parametrize(
    ("arguments", "prompt"),
    [
        (("fix the test",), "fix the test"),
        (("fix", "the", "test"), "fix the test"),
        (("frobnicate",), "frobnicate"),
        (("demo of a feature",), "demo of a feature"),
        (("-p", "demo"), "demo"),
        (("-p", "dmeo"), "dmeo"),
        (("-p=--weird",), "--weird"),
        (("-p", "--weird as it is"), "--weird as it is"),
        (("- a list, not an option",), "- a list, not an option"),
        (("fix", "-q", "it"), "fix it"),
        (("--narrative", "off", "fix", "it"), "fix it"),
        (("--notify", "fix", "it"), "fix it"),
        (("-qp", "fix it"), "fix it"),
        (("--", "--weird", "doctor"), "--weird doctor"),
        (("--", "demo"), "demo"),
        (("--", "dmeo"), "dmeo"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_prompt_in_a_pipe_is_one_shot(codelet: Codelet, arguments: tuple[str, ...], prompt: str):
    done = codelet(*arguments)
    assert (done.exit, done.out, done.err) == (0, "the answer\n", "")
    assert sent(codelet) == [prompt]
    codelet(*arguments, stdin=b"what came in the pipe")
    (asked,) = sent(codelet)
    assert asked.startswith(f"{prompt}\n\n")
    assert "what came in the pipe" in asked


def sent(codelet: Codelet) -> list[str]:
    """The user's words in the last request, reminders left out."""
    messages = codelet.server.requests[-1].json["messages"]
    said = [message["content"] for message in messages if message["role"] == "user"]
    plain = (re.sub(r"(?s)<system-reminder>.*?</system-reminder>", "", words).strip() for words in said)
    return [words for words in plain if words]


@pytest.mark.parametrize("form", ["json", "stream-json"])
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--modle", "x", "-p", "hi"), "unknown option --modle"),
        (("-p", "hi", "--max-turns", "none"), "--max-turns: must be"),
        (("-p", "hi", "--mode", "wild"), "invalid choice"),
        (("-p", ""), "is empty"),
        (("-p", "hi", "--tools", "read,telepathy"), "telepathy"),
    ],
)
def test_a_usage_error_is_json_where_json_was_asked_for(
    codelet: Codelet, arguments: tuple[str, ...], says: str, form: str
):
    for asked in (("--output-format", form), (f"--output-format={form}",)):
        done = codelet(*arguments, *asked)
        told = json.loads(done.out)
        assert says in one_line(done, 2)
        assert says in told["error"]
        assert (told["exit"], told["result"], told["usage"], told["cost"]) == (2, "", None, None)
        assert told["partial"] is True
        assert (told["model"], told["turns"]) == (
            "openai/scripted" if "telepathy" in says or "empty" in says else None,
            0,
        )
        assert told["duration"] > 0
        assert ("type" in told) == (form == "stream-json")
    assert codelet(*arguments).out == ""
    assert codelet(*arguments, "--output-format", "text").out == ""


def test_a_command_without_its_word_names_what_is_missing(codelet: Codelet):
    assert one_line(codelet("mcp"), 2) == "codelet: missing: check; see codelet mcp --help"


def test_help_and_version(codelet: Codelet):
    whole = codelet("help")
    assert (whole.exit, whole.out) == (0, codelet("--help").out)
    assert "codelet [options] [PROMPT]" in whole.out
    assert "--compact-entries" in codelet("help", "options").out
    assert "--compact-entries" not in whole.out and "codelet help options" in whole.out
    assert codelet("help", "doctor").out == codelet("doctor", "--help").out
    assert "prune" in codelet("help", "sessions").out
    for flag in ("-v", "-V", "--version"):
        assert run(flag, cwd=codelet.cwd, home=codelet.home).out.startswith("codelet 0.")


def test_a_variable_that_is_nearly_a_setting_is_told(codelet: Codelet):
    said = one_line(codelet("-p", "go", env={"CODELET_MODLE": "x"}), 2)
    assert "CODELET_MODLE" in said and "CODELET_MODEL?" in said
    known = {"CODELET_SHARED": "x", "CODELET_REDIS_PASSWORD": "x"}
    done = codelet("-p", "go", env=known)
    assert (done.exit, done.err) == (0, "")
    done = codelet("-p", "go", env=known | {"CODELET_COLOUR": "x"})
    assert done.exit == 0 and "CODELET_COLOUR" in done.err and done.err.count("\n") == 1
    assert codelet("-q", "-p", "go", env={"CODELET_COLOUR": "x"}).err == ""


def test_continue_begins_a_session_and_goes_on_with_it(codelet: Codelet, tmp_path: Path):
    for prompt in ("the first", "the second"):
        done = codelet("-p", prompt, "--continue", str(tmp_path / "work.json"))
        assert done.exit == 0, done.err
    said = codelet.server.requests[-1].body.decode()
    assert "the first" in said
    assert "the second" in said


_WORDS = [
    *(flag for each in SETTINGS.values() if each.group is not None for flag in (each.flag, each.short) if flag),
    *("-p", "--prompt", "-q", "--quiet", "--trust", "--debug", "--output-format", "--continue", "--version", "--help"),
    *("-", "--", "-pq", "--model=x", "-mx", "review", "models", "--nosuch", ""),
]
_VALUES = sorted({choice for each in SETTINGS.values() for choice in each.choices} | {*FORMATS, "x", "a b", "-x", "12"})


@given(st.lists(st.sampled_from(_WORDS) | st.sampled_from(_VALUES), max_size=7))
@pytest.mark.parametrize("first", [[], ["-p", "say hello"]])
def test_the_command_line_reads_as_argparse_reads_it(first: list[str], more: list[str]):
    """Only what argparse cannot do is left out: bare words, and flags that take the next word only if they know it."""
    words = [*first, *more]
    ours, theirs = read_by(parse_command_line, words), read_by(build_parser().parse_args, words)
    bare = ours is not None and (ours["bare_prompt"] or ours["command"])
    alone = {"--prompt", "-p", "-pq"} | {each.flag for each in SETTINGS.values() if each.alone}
    if bare or not alone.isdisjoint(more) or {"--", "--continue"} & set(more) or (theirs or {}).get("command"):
        return
    if theirs is not None:
        del theirs["continue"]
        theirs["bare_prompt"] = False
    assert ours == theirs


def read_by(read: Callable[[list[str]], argparse.Namespace], words: list[str]) -> dict[str, Any] | None:
    """The words as one of the readers takes them; None if it refuses them or prints a help page."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return dict(vars(read(words)))
    except (UsageError, SystemExit):
        return None


def test_the_usual_command_lines():
    read = parse_command_line(
        ["-m", "openai/x", "--api-base", "http://h/v1", "--output-format", "json", "--max-cost", "1", "-q", "-p", "go"]
    )
    assert (read.model, read.output_format, read.quiet, read.prompt) == ("openai/x", "json", True, "go")
    for opens_the_terminal in ([], ["-m", "openai/x"], ["--theme", "dark", "--debug"]):
        assert parse_command_line(opens_the_terminal).prompt is None
    assert parse_command_line(["-p"]).prompt == FROM_PIPE
    assert parse_command_line(["-qmx", "--narrative", "off", "a", "b"]).narrative == "off"
    assert parse_command_line(["--max-turns", "-3", "--deny", "a", "--deny", "b"]).deny == ["a", "b"]
    for wrong in (
        ["-p", "go", "--nosuch", "x"],
        ["-p", "go", "--output-format", "yaml"],
        ["-p", "a", "b"],
        ["--yes=no"],
        ["--model"],
        ["--model", "--yes"],
        ["-qx"],
        ["models", "--nosuch"],
    ):
        with pytest.raises(UsageError):
            parse_command_line(wrong)


def test_the_options_of_a_command_win_over_those_before_it():
    assert parse_command_line(["--force", "sessions", "delete", "x", "y"]).force is False
    assert parse_command_line(["-m", "a", "review", "-q", "--model", "b"]).model == "b"
    assert parse_command_line(["-m", "a", "review"]).model == "a"
