"""Statuses come from runs whose exit status was seen, errors are settled by the same command, files are as they are."""

from __future__ import annotations

import json
import random

import pytest

from codelet.context.compaction import compact
from codelet.context.compaction.history import History
from codelet.context.compaction.ledger import Ledger
from codelet.context.compaction.parsing import normalise, parse_messages
from codelet.context.compaction.score import find_anchors
from codelet.context.compaction.shell_commands import commands, exit_code
from codelet.context.compaction.signals import is_error_line
from codelet.messages import kind_of, with_kinds
from tests.context.compaction.lists import Message, calling, coding_session, result, says, segments_of, user

LINES = 2_000
ERROR = "E   ValueError: the cart is empty"
NO_RUNS = (
    "grep -n {r} pyproject.toml",
    "cat {r}.log",
    "echo '{r}'",
    'echo "{r} passed"',
    "git log --grep {r}",
    "# {r}\nls",
    "man {r}",
    "which {r}",
    "vim {r}.ini",
    "ls | grep {r}",
    "rg '{r}' src",
    "sed -n 1,9p {r}.py",
    "printf '%s' {r}",
    "head -3 Makefile",
    "cat > notes.md <<'EOF'\n{r}\nEOF",
    "pip show {r}",
    "git commit -m '{r} is green' --dry-run",
    "{r} --version",
    "{r} --help",
    "X={r}",
    "alias t={r}",
    "type {r}",
    "curl -s x/{r}",
    "test -f {r}.ini",
    "ssh host {r}",
    "docker run img {r}",
    "xargs {r} < list",
    "find . -name {r} -exec cat {{}} +",
    "mkdir {r}",
    "cd {r}",
    "touch {r}",
    "tail -f {r}.log",
    "python {r}_helper.py",
    "bash -c ls",
)
HIDING = (
    "{r} | tail -5",
    "{r} 2>&1 | head",
    "{r} || true",
    "{r}; echo done",
    "{r} &",
    "({r})",
    "if {r}; then echo ok; fi",
    "! {r}",
    "{r} | tee log",
    "{r}\nls",
    "{r} || echo failed",
    "for i in 1 2; do {r}; done",
    "{r} && ls || true",
    "eval '{r}'",
    "{r}; exit 0",
    "{r} | grep -c passed",
    "nohup {r} &",
    "{r} ; true",
    "while {r}; do :; done",
    "{{ {r}; }}",
    "exit 0; {r}",
    "pytest() {{ :; }}; {r}",
)
BARE = (
    "{r}",
    "cd src && {r}",
    "FOO=1 {r}",
    "env A=b {r}",
    "timeout 60 {r}",
    "time {r}",
    "{r} 2>&1",
    "{r} > log 2>&1",
    "cd a; {r}",
    "export X=1 && {r}",
    "echo go; {r}",
    "nice -n 5 {r}",
    "ls; {r}",
    "{r} # all of them",
    "timeout -k 5 60s env A=b {r}",
    "mkdir -p x; {r}",
)
RUNNERS = (
    "pytest",
    "pytest -q",
    "python -m pytest",
    "cargo test",
    "make",
    "make test",
    "mypy src",
    "ruff check .",
    "npm test",
    "go test ./...",
    "npm run check",
    "tsc --noEmit",
    "uv run pytest",
    ".venv/bin/pytest tests",
    "yarn test",
    "tox",
    "npx eslint src",
)
WORDS = ("pytest", "ruff", "mypy", "make", "eslint", "webpack", "tsc", "cargo", "npm test", "go test")


def statuses(*runs: tuple[str, str], before: tuple[Message, ...] = ()) -> Ledger:
    """The ledger of a session of command lines and their outputs."""
    messages: list[Message] = [user("go"), *before]
    for number, (line, output) in enumerate(runs):
        messages += [calling((f"c{number}", "bash", {"command": line})), result(f"c{number}", output)]
    readings = parse_messages(normalise(messages).messages)
    history = History(readings)
    ledger = Ledger()
    ledger.take_in(list(enumerate(readings)), history, find_anchors(readings, history.executions))
    return ledger


def failing_first(line: str, output: str, first: str = "pytest tests/test_cart.py") -> Ledger:
    """The ledger after a failing run and then a line."""
    return statuses((first, f"{ERROR}\n1 failed\n[exit code 1]"), (line, output))


def test_generated_lines_give_no_false_status_and_wipe_no_error():
    chance = random.Random(20_261)
    seen = dict.fromkeys(("nothing", "hidden", "run"), 0)
    for _ in range(LINES):
        runner, code = chance.choice(RUNNERS), chance.choice((0, 0, 1, 2, 124, 137))
        kind = chance.choice(("nothing", "hidden", "run"))
        if kind == "nothing":
            line = chance.choice(NO_RUNS).format(r=chance.choice(WORDS))
        else:
            line = chance.choice(HIDING if kind == "hidden" else BARE).format(r=runner)
        output = f"3 passed, all checks passed\n[exit code {code}]"
        ledger = failing_first(line, output, first="pytest -m slow")
        seen[kind] += 1
        assert [fault.line for fault in ledger.errors] == [ERROR], line
        told = [text for text in ledger.status.values() if "pytest -m slow" not in text]
        if kind != "run" or code in (124, 137):
            assert told == [], (line, code, told)
        elif code == 0:
            assert len(told) == 1 and " passed (" in told[0], (line, code, told)
        else:
            assert all(" failed (" in text for text in told), (line, code, told)
    assert min(seen.values()) > LINES // 5


def test_the_lines_that_must_not_count_as_runs():
    for line in ("grep -n ruff pyproject.toml", "cat Makefile", "echo make", "git log --grep pytest"):
        ledger = failing_first(line, "ruff = 1\n[exit code 0]")
        assert list(ledger.status.values()) == ["tests failed (t1): pytest tests/test_cart.py"], line
        assert [fault.text for fault in ledger.errors] == [f"t1 {ERROR} [pytest tests/test_cart.py]"], line


@pytest.mark.parametrize(
    ("line", "output", "settled"),
    [
        ("pytest tests/test_cart.py", "1 passed\n[exit code 0]", True),
        ("pytest -q tests/test_cart.py", "1 passed\n[exit code 0]", True),
        ("python3 -m pytest tests", "9 passed\n[exit code 0]", True),
        ("pytest", "9 passed\n[exit code 0]", True),
        ("pytest tests/test_other.py", "1 passed\n[exit code 0]", False),
        ("pytest tests/test_cart.py -k one", "1 passed\n[exit code 0]", False),
        ("pytest tests/test_cart.py | tail -3", "1 passed\n[exit code 0]", False),
        ("pytest tests/test_cart.py", "1 passed", False),
        ("cd other && pytest", "1 passed\n[exit code 0]", False),
        ("pytest --collect-only", "1 test\n[exit code 0]", False),
        ("pytest tests/test_cart.py", "no tests ran in 0.01s\n[exit code 0]", False),
        ("make", "built\n[exit code 0]", False),
        ("mypy .", "Success\n[exit code 0]", False),
        ("pytest", "[exit code 0]\n[timed out after 60 s; it and all its processes were ended]", False),
    ],
)
def test_an_error_is_settled_by_the_same_command_or_one_that_covers_it(line: str, output: str, settled: bool):
    assert bool(failing_first(line, output).errors) != settled


def test_an_error_that_nobody_can_tell_the_end_of_is_said_to_have_run_again_and_is_read_back():
    ledger = failing_first("pytest tests/test_cart.py | tail", "1 passed\n[exit code 0]")
    [fault] = ledger.errors
    assert fault.text == f"t1 {ERROR} [pytest tests/test_cart.py; ran again, how it ended is not known]"
    assert list(ledger.status.values()) == [], "and how it stands is not known either"
    later = Ledger()
    later.carry_on(ledger.lines(2_000))
    assert [(again.line, again.origins, again.again) for again in later.errors] == [(fault.line, fault.origins, True)]
    readings = parse_messages([calling(("x", "bash", {"command": "pytest"})), result("x", "1 passed\n[exit code 0]")])
    later.take_in(list(enumerate(readings)), History(readings), [])
    assert later.errors == []


@pytest.mark.parametrize(
    ("between", "told"),
    [
        ([], True),
        ([calling(("x", "bash", {"command": "mypy ."})), result("x", "[exit code 0]")], True),
        ([calling(("x", "bash", {"command": "./reset.sh"})), result("x", "[exit code 0]")], False),
        ([calling(("x", "edit", {"path": "a.py", "old": "1", "new": "2"})), result("x", "edited a.py")], False),
        ([says("I leave it."), user("I restarted the server, try again")], False),
    ],
)
def test_an_error_that_came_and_went_with_nothing_changed_says_so(between: list[Message], told: bool):
    failed = [user("go"), calling(("a", "bash", {"command": "pytest"})), result("a", f"{ERROR}\n[exit code 1]")]
    passed = [calling(("b", "bash", {"command": "pytest"})), result("b", "9 passed\n[exit code 0]")]
    readings = parse_messages(with_kinds([*failed, *between, *passed]))
    ledger = Ledger()
    ledger.take_in(list(enumerate(readings)), History(readings), [])
    turn = 2 if len(between) == 2 and between[1]["role"] == "user" else 1
    more = ", with nothing changed in between" if told else ""
    assert ledger.settled == [f"t1 {ERROR}; settled by pytest (t{turn}){more}"]


def test_a_status_tells_that_files_changed_since():
    edit = (calling(("e", "edit", {"path": "a.py", "old": "1", "new": "2"})), result("e", "edited a.py: 1 replacement"))
    messages = [
        user("go"),
        calling(("c", "bash", {"command": "pytest"})),
        result("c", "1 passed\n[exit code 0]"),
        *edit,
    ]
    readings = parse_messages(messages)
    ledger = Ledger()
    ledger.take_in(list(enumerate(readings)), History(readings), [])
    assert list(ledger.status.values()) == ["tests passed (t1, files changed since): pytest"]


def test_exit_codes_are_read_where_tools_put_them_and_nowhere_else():
    assert exit_code("ok\n[exit code 0]\n[it ran in a sandbox: no network]") == 0
    assert exit_code("Exit code 1\nboom") == 1
    assert exit_code("Command: make\nDirectory: .\nOutput: x\nError: (none)\nExit Code: 2\nSignal: (none)") == 2
    assert exit_code("Chunk ID: x\nProcess exited with code 0\nOutput:\nExit code 3\nmore\nand\nmore") == 0
    assert exit_code("log\n\nCommand exited with code 2") == 2
    for text in ("worker: exit code 0 was seen\nall good", "the last line", "Exit code 1\nx\n[exit code 0]"):
        assert exit_code(text) is None, text


def test_lines_that_are_not_understood_give_no_commands():
    for line in (
        "(a)",
        "a $(b 'c')",
        "if a; then b; fi",
        "echo 'open",
        'echo "open',
        "cat <<EOF\nnever closed",
        "f() { a; }",
    ):
        assert commands(line) is None, line


def test_a_result_in_json_is_read_as_its_output_and_exit_status():
    def read(text: str) -> str:
        return parse_messages([calling(("c", "shell", {"command": ["pytest"]})), result("c", text)])[1].text

    both = {"output": f"{ERROR}\n1 failed", "metadata": {"exit_code": 1, "duration_seconds": 0.2}}
    assert read(json.dumps(both)) == f"{ERROR}\n1 failed\n[exit code 1]"
    assert read('{"output": "ok", "exit_code": 0}') == "ok\n[exit code 0]"
    for other in (
        '{"output": 1, "exit_code": 0}',
        '{"output": "x", "exit_code": null}',
        '{"exit_code": 0}',
        '{"exit_code"',
    ):
        assert read(other) == other
    of_a_file = [calling(("c", "read", {"path": "run.json"})), result("c", json.dumps(both))]
    assert parse_messages(of_a_file)[1].text == json.dumps(both)


def read_as(text: str) -> str:
    return parse_messages([calling(("c", "shell", {"command": "pytest"})), result("c", text)])[1].text


def test_a_result_in_json_is_read_whatever_its_fields_are_called():
    apart = {"stdout": "1 failed\n", "stderr": ERROR, "exitCode": 1, "timedOut": False}
    assert read_as(json.dumps(apart)) == f"1 failed\n{ERROR}\n[exit code 1]"
    assert read_as('{"stdout": "ok", "stderr": "", "returncode": 0}') == "ok\n[exit code 0]"
    assert read_as('{"stdout": "ok", "stderr": ""}') == "ok", "how it ended is not told"
    assert read_as('{"stdout": "ok", "exit_code": 0, "interrupted": true}') == "ok"
    other = '{"stdout": "the output of a program that prints JSON"}'
    assert read_as(other) == other


@pytest.mark.parametrize(
    ("framed", "bare"),
    [
        ("{}Error: (none)\nExit Code: 1\nSignal: (none)\nProcess Group PGID: 7", "{}[exit code 1]"),
        ("{}Error: no shell\nExit Code: 127\nSignal: (none)", "{}no shell\n[exit code 127]"),
        ("{}Error: (none)\nExit Code: (none)\nSignal: 15\nProcess Group PGID: 7", "{}"),
        ("{}Process Group PGID: 7", "{}"),
    ],
)
def test_the_lines_that_a_tool_puts_around_an_output_are_not_part_of_it(framed: str, bare: str):
    ended = framed.format(f"Output: {ERROR}\n1 failed\n")
    for whole in (ended, f"Command: pytest\nDirectory: (root)\n{ended}"):
        assert read_as(whole) == bare.format(f"{ERROR}\n1 failed\n").rstrip("\n")
    printed = "Output: 3\nError: none of these lines is a frame"
    assert read_as(printed) == printed


def test_a_field_for_errors_that_says_none_is_no_error():
    assert not is_error_line("Error: (none)") and is_error_line("Error: (no) such file")


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("1 tests failed\nThe following tests FAILED:\n\t21 - ring\nErrors while running\nERROR: ring overflowed", 1),
        ("[ERROR] COMPILATION ERROR :\n[ERROR] User.java:[5,25] error: no such package", 1),
        ("  RoutingError:\n\n    No route matches [POST]\n  Failure/Error: post path", 2),
        ("The following tests FAILED:", 1),
        ('Traceback (most recent call last):\n  File "a.py", line 3\n    run()\n\nTimedOut: 30 s', 1),
    ],
)
def test_a_line_that_only_opens_what_follows_is_no_error_by_itself(output: str, told: int):
    faults = [fault.line for fault in statuses(("ctest", f"{output}\n[exit code 8]")).errors]
    assert len(faults) == told
    if output != "The following tests FAILED:":
        assert not any(line.endswith(":") for line in faults)
    if "TimedOut" in output:
        assert faults == ["Traceback (most recent call last): TimedOut: 30 s"]
    if "Routing" in output:
        assert "RoutingError: No route matches [POST]" in faults


def test_searching_for_errors_is_no_error():
    for line in ("grep -rn Error src", "git log -p | cat", "cat log.txt", "sed -n 1,5p a.py"):
        assert statuses((line, "src/a.py:3: raise ValueError: boom\nError: x\n[exit code 0]")).errors == [], line


def files(*runs: tuple[str, str], before: tuple[Message, ...]) -> tuple[set[str], set[str], set[str]]:
    ledger = statuses(*runs, before=before)
    return set(ledger.changed), set(ledger.deleted), set(ledger.read)


def test_a_deleted_file_is_listed_as_deleted_and_one_that_came_back_as_there():
    made = (calling(("w", "write", {"path": "src/a.py", "content": "x = 1"})), result("w", "created src/a.py: 1 lines"))
    assert files(("rm src/a.py", "[exit code 0]"), before=made) == (set(), {"src/a.py"}, set())
    assert files(("cd src && rm -f a.py", "[exit code 0]"), before=made) == (set(), {"src/a.py"}, set())
    assert files(("git rm -q src/*.py", "[exit code 0]"), before=made) == (set(), {"src/a.py"}, set())
    assert files(("rm -rf src", "[exit code 0]"), before=made) == (set(), {"src/a.py"}, set())
    assert files(("git mv src/a.py src/b.py", "[exit code 0]"), before=made) == ({"src/b.py"}, {"src/a.py"}, set())
    assert files(("rm src/a.py", "rm: cannot remove\n[exit code 1]"), before=made) == ({"src/a.py"}, set(), set())
    assert files(("echo rm src/a.py", "[exit code 0]"), before=made) == ({"src/a.py"}, set(), set())
    assert files(("false && rm src/a.py", "[exit code 1]"), before=made) == ({"src/a.py"}, set(), set())
    assert files(("rm src/a.py", "[exit code 0]"), ("touch src/a.py", "[exit code 0]"), before=made)[:2] == (
        {"src/a.py"},
        set(),
    )
    patch = {"input": "*** Begin Patch\n*** Delete File: src/a.py\n*** End Patch"}
    gone = (*made, calling(("p", "apply_patch", patch)), result("p", "Done"))
    assert files(before=gone) == (set(), {"src/a.py"}, set())
    failed = (
        calling(("w", "edit", {"path": "a.py", "old": "1", "new": "2"})),
        result("w", "the old text does not occur"),
    )
    assert files(before=failed) == (set(), set(), set())
    assert files(("git checkout -- src/a.py", "[exit code 0]"), before=made) == (set(), set(), set())


def test_the_ledger_of_a_summary_lists_deleted_files_and_anchors_name_no_debugger():
    ran = [
        calling(("c", "bash", {"command": "npm test"})),
        result("c", "4 passed\nWaiting for the debugger to disconnect...\n[exit code 0]"),
    ]
    wrote = [
        calling(("w", "write", {"path": "src/gone.ts", "content": "x"})),
        result("w", "created src/gone.ts: 1 lines"),
    ]
    gone = [calling(("r", "bash", {"command": "rm src/gone.ts"})), result("r", "[exit code 0]")]
    made = compact([user("go"), *wrote, *ran, *gone, says("ok"), *coding_session(20)[1:]], 9_000)
    [segment] = segments_of(made.messages)
    ledger = dict(segment.ledger)
    assert ledger["deleted"].startswith("src/gone.ts (t1)") and "gone.ts" not in ledger.get("changed", "")
    assert "debugger" not in str(made.report.anchors)
    assert any(anchor.text == "npm test: 4 passed" for anchor in made.report.anchors)


def test_a_search_after_a_failing_run_leaves_its_error_in_the_summary_and_adds_no_build():
    """The whole way, from messages to the text of the summary."""
    failing = [calling(("p", "bash", {"command": "pytest -q"})), result("p", f"{ERROR}\n1 failed\n[exit code 1]")]
    search = [calling(("g", "bash", {"command": "grep -n ruff pyproject.toml"})), result("g", "9: ruff\n[exit code 0]")]
    later = [m for m in coding_session(20)[1:] if "pytest" not in str(m) and "passed" not in str(m)]
    made = compact([user("Mend it."), *failing, user("Look on."), *search, says("ok"), *later], 9_000)
    text = "\n".join(str(m["content"]) for m in with_kinds(made.messages) if kind_of(m) == "segment")
    assert f"open error: t1 {ERROR}" in text
    assert "build passed" not in text
