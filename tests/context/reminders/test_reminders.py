"""Reminders within a turn: what they say holds when they are sent, and each type is there once."""

from __future__ import annotations

import asyncio
import os
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from codelet import events
from codelet.context.reminders import TOKEN_STATUS, GitStatus, ReminderRow, Reminders
from codelet.context.tokens import estimate_message
from codelet.conversation import Conversation, Placement, ReminderChange, Zones, renewed
from codelet.events import Notices
from codelet.messages import Message, reminder_type, user, with_kinds
from codelet.messages import reminder as reminder_message
from codelet.prompt import AS_OF, AS_OF_CHANGED, TURN_START, as_reminder
from codelet.safety import Policy
from tests.support import repo as repositories
from tests.support.bodies import messages_of, stable_prefix
from tests.support.program import processes_with
from tests.support.script import Call, Reply, Tokens
from tests.support.server import ModelServer, Recorded
from tests.support.sessions import MakeSession, of_type, turn
from tests.support.waiting import Neighbour

pytestmark = pytest.mark.needs("git")
TOUCH = Call("t", "bash", {"command": "touch new.txt"})
READ = Call("r", "read", {"path": "app.py"})
IN_FRONT = ["claudeMd", "environment", "gitStatus", "tokenStatus"]


def kinds(request: Recorded) -> list[str]:
    """The messages of a request: the type of each reminder, else the role; the system prompt left out."""
    listed = messages_of(request)
    said = [message for message in listed if message["role"] != "system"]
    return [reminder_type(message) or message["role"] for message in with_kinds(said)]


def reminder(request: Recorded, kind: str) -> str:
    """Return the text of the only reminder of this type; "" without one."""
    mark = f"<!-- type:{kind} -->\n"
    texts = [str(message["content"]) for message in messages_of(request)]
    found = [text for text in texts if text.startswith("<system-reminder>") and mark in text]
    assert len(found) <= 1
    return found[0].partition(mark)[2].removesuffix("\n</system-reminder>") if found else ""


class Git:
    """A program before git that notes each call of `git status`, and waits while `hold` is set."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._log, self._held = folder / "calls", folder / "held"
        real = shutil.which("git")
        script = folder / "git"
        script.write_text(
            "#!/bin/sh\n"
            'case " $* " in *" status "*)\n'
            f'echo "$*" >> "{self._log}"; while [ -e "{self._held}" ]; do sleep 0.02; done;; esac\n'
            f'exec "{real}" "$@"\n'
        )
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    @property
    def calls(self) -> int:
        return len(self._log.read_text().splitlines()) if self._log.exists() else 0

    def hold(self) -> None:
        self._held.touch()

    def release(self) -> None:
        self._held.unlink(missing_ok=True)


@pytest.fixture
def watched_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    folder = tmp_path / "watched"
    folder.mkdir()
    return Git(folder, monkeypatch)


@pytest.mark.parametrize("wire", ["openai", "openai/responses", "anthropic"])
async def test_git_is_asked_again_after_a_change_and_the_prefix_stays(
    wire: str, make_session: MakeSession, model_server: ModelServer, repo: Path
):
    edit = Call("e", "edit", {"path": "app.py", "edits": [{"old": "hello", "new": "goodbye"}]})
    write = Call("w", "write", {"path": "made.txt", "content": "x\n"})
    commit = Call("c", "bash", {"command": "git add -A && git -c user.name=T -c user.email=t@x commit -qm all"})
    steps = [[READ], [edit], [write], [TOUCH], [commit], []]
    model_server.script = [Reply("ok", calls=calls) for calls in steps]
    await turn(make_session(wire))
    if wire == "openai":
        told = [reminder(request, "gitStatus") for request in model_server.requests]
        assert told[:2] == ["Branch: main\nWorking tree: clean"] * 2
        assert told[2].endswith(":\n M app.py")
        assert told[3].endswith(":\n M app.py\n?? made.txt")
        assert told[4].endswith(":\n M app.py\n?? made.txt\n?? new.txt")
        assert told[5] == "Branch: main\nWorking tree: clean"
    assert b"?? made.txt" in model_server.requests[3].body
    for before, after in pairwise(model_server.requests):
        assert stable_prefix(after).startswith(stable_prefix(before))


async def test_one_git_a_change_and_none_where_calls_only_read(
    make_session: MakeSession, model_server: ModelServer, watched_git: Git
):
    only_read = [READ, Call("g", "bash", {"command": "ls && cat app.py"}), Call("f", "find", {"pattern": "*"})]
    model_server.script = [Reply(calls=only_read), Reply(calls=[TOUCH, Call("u", "bash", {"command": "rm new.txt"})])]
    model_server.script = [*model_server.script, Reply("done")]
    await turn(make_session())
    assert watched_git.calls == 2, "at the start of the turn, and once after the step that ran commands"


async def test_a_git_that_hangs_is_waited_for_in_one_turn_and_asked_on_until_it_answers(repo: Path, watched_git: Git):
    watched_git.hold()
    status = GitStatus(repo)
    with Neighbour() as clock:
        await status.begin()
    assert clock.passed < 3, "it waits two seconds"
    slow = await status.text()
    assert slow is not None and slow.startswith("not known: git took too long")
    waited_for = watched_git.calls
    await status.begin()
    assert await status.text() == slow
    assert watched_git.calls <= waited_for + 1, "one question a turn"
    watched_git.release()
    while await status.text() == slow:
        await status.begin()
        await asyncio.sleep(0.02)  # clock: between two turns that ask whether git has answered
    assert await status.text() == "Branch: main\nWorking tree: clean"
    await status.stop()


async def test_a_git_that_is_slow_is_not_waited_for_and_nothing_stale_is_stated_as_current(
    make_session: MakeSession, model_server: ModelServer, watched_git: Git
):
    def script(request: Recorded) -> Reply:
        if request.number == 0:
            watched_git.hold()
            return Reply(calls=[TOUCH])
        if request.number == 1:
            watched_git.release()
        fresh = reminder(request, "gitStatus").startswith("Branch")
        return Reply("done") if fresh or request.number > 50 else Reply(calls=[READ])

    model_server.script = script
    await turn(make_session())
    first, second, *_, last = [reminder(request, "gitStatus") for request in model_server.requests]
    assert first == "Branch: main\nWorking tree: clean"
    assert second == AS_OF_CHANGED.format(when=TURN_START, text="Branch: main\nWorking tree: clean")
    assert last.endswith("?? new.txt"), "the late answer serves a later request"
    assert watched_git.calls == 2


async def test_what_git_is_still_busy_with_ends_with_the_turn(
    make_session: MakeSession, model_server: ModelServer, watched_git: Git
):
    def script(request: Recorded) -> Reply:
        watched_git.hold()
        if request.number == 1:
            assert processes_with(str(watched_git.folder / "git"))
        return Reply(calls=[TOUCH]) if request.number == 0 else Reply("done")

    model_server.script = script
    session = make_session()
    await turn(session)
    assert len(model_server.requests) == 2
    assert processes_with(str(watched_git.folder / "git")) == []
    watched_git.release()
    model_server.script = lambda request: Reply("done")
    await turn(session)
    assert reminder(model_server.requests[-1], "gitStatus").endswith("?? new.txt")


async def test_git_is_not_asked_while_its_reminder_is_off(
    make_session: MakeSession, model_server: ModelServer, watched_git: Git
):
    model_server.script = [Reply(calls=[TOUCH]), Reply("done")]
    session = make_session()
    session.reminders.off.add("gitStatus")
    await turn(session)
    assert watched_git.calls == 0
    assert not any(reminder(request, "gitStatus") for request in model_server.requests)


WORK_IN_SUB = [
    Call("read", "read", {"path": "sub/deep/x.py"}),
    Call("list", "read", {"path": "sub"}),
    Call("find", "find", {"pattern": "*.py", "path": "sub"}),
    Call("grep", "grep", {"pattern": "x", "path": "sub/deep"}),
    Call("write", "write", {"path": "sub/new.py", "content": "x\n"}),
    Call("cd", "bash", {"command": "cd sub/deep && pwd"}),
    Call("file", "bash", {"command": "wc -l 'sub/deep/x.py'"}),
    Call("C", "bash", {"command": "make -C sub"}),
    Call("glob", "bash", {"command": "wc -l sub/*.py"}),
    Call("option", "bash", {"command": "sh -c true --prefix=sub"}),
]


@pytest.mark.parametrize("call", WORK_IN_SUB, ids=lambda call: call.id)
async def test_a_folders_instructions_come_with_the_next_request_and_then_stand_in_the_head(
    call: Call, make_session: MakeSession, model_server: ModelServer, repo: Path
):
    repositories.commit(repo, {"CLAUDE.md": "ROOT", "sub/AGENTS.md": "SUB", "other/CLAUDE.md": "OTHER"})
    repositories.commit(repo, {"sub/deep/x.py": "x = 1\n"})
    model_server.script = [Reply(calls=[READ]), Reply(calls=[call]), Reply(calls=[READ]), Reply("done"), Reply("done")]
    session = make_session()
    await turn(session)
    before, untouched, *after = model_server.requests
    assert "SUB" not in before.body.decode() + untouched.body.decode()
    for request in after:
        told = reminder(request, "nestedClaudeMd")
        assert told.startswith("Instructions for folders") and told.endswith("SUB") and "ROOT" not in told
        assert "SUB" not in reminder(request, "claudeMd")
        assert kinds(request)[-3:] == ["nestedClaudeMd", "gitStatus", "tokenStatus"]
        assert "OTHER" not in request.body.decode()
    for one, next_one in pairwise(model_server.requests):
        assert stable_prefix(next_one).startswith(stable_prefix(one))
    await turn(session)
    last = model_server.requests[-1]
    head = reminder(last, "claudeMd")
    assert "ROOT" in head and head.endswith("SUB")
    assert last.body.decode().count("SUB") == 1


async def test_a_refused_call_brings_no_instructions_and_a_switch_keeps_them_out(
    make_session: MakeSession, model_server: ModelServer, repo: Path
):
    repositories.commit(repo, {"sub/CLAUDE.md": "SUB", "sub/x.py": ""})
    run = Call("t", "bash", {"command": "touch sub/y.py"})
    model_server.script = [Reply(calls=[run]), Reply("done"), Reply(calls=[run]), Reply("done")]
    await turn(make_session(policy=Policy(repo)))
    session = make_session()
    session.reminders.off.add("claudeMd")
    await turn(session)
    assert not any("SUB" in request.body.decode() for request in model_server.requests)


async def test_prepended_all_four_stand_in_front_once_renewed_each_turn_and_hold_within_it(
    make_session: MakeSession, model_server: ModelServer, repo: Path
):
    repositories.commit(repo, {"CLAUDE.md": "ROOT"})
    model_server.script = lambda request: Reply("ok", calls=() if request.number % 3 == 2 else [TOUCH])
    session = make_session(placement="prepend")
    for number in range(3):
        repositories.write(repo, {f"turn{number}.txt": ""})
        await turn(session, f"prompt {number}")
    for number, request in enumerate(model_server.requests):
        assert kinds(request)[:5] == [*IN_FRONT, "user"]
        assert not set(kinds(request)[5:]) & set(Zones().types)
        git = reminder(request, "gitStatus")
        assert git.startswith(AS_OF.format(when=TURN_START, text="Branch: main"))
        assert f"?? turn{number // 3}.txt" in git
        assert ("?? new.txt" in git) == (number >= 3), "not renewed within the turn: it says of when it is"
        assert reminder(request, "tokenStatus").startswith(AS_OF.format(when=TURN_START, text="Context: about "))
    for before, after in pairwise(model_server.requests):
        if after.number % 3:
            assert stable_prefix(after).startswith(stable_prefix(before)), "within a turn the cache keeps working"


@pytest.mark.parametrize("before, after", [("tail", "prepend"), ("prepend", "tail")])
async def test_a_list_of_the_other_placement_is_brought_into_order(
    before: Placement, after: Placement, make_session: MakeSession, model_server: ModelServer, repo: Path
):
    repositories.commit(repo, {"CLAUDE.md": "ROOT"})
    model_server.script = lambda request: Reply("ok")
    first = make_session(placement=before)
    await turn(first)
    second = make_session(placement=after)
    second.adopt(first.conversation.sent())
    await turn(second)
    expected = {
        "prepend": [*IN_FRONT, "user", "assistant", "user"],
        "tail": ["environment", "claudeMd", "user", "assistant", "gitStatus", "tokenStatus", "user"],
    }  # a server on this machine reads the prompt last
    assert kinds(model_server.requests[-1]) == expected[after]


async def test_the_meter_measures_against_the_budget(make_session: MakeSession, model_server: ModelServer):
    model_server.script = lambda request: Reply("ok", usage=Tokens(11_990, output=10))
    for options, budget, percent in (({"budget": 24_000}, 24_000, 51), ({}, 96_000, 13)):
        session = make_session(window=128_000, **options)
        seen = await turn(session)
        await turn(session)
        assert session.window.budget.limit == budget == session.window.budget.limit
        reports = of_type(seen, events.UsageReport)
        assert [(report.context, report.budget, report.window) for report in reports] == [(12_000, budget, 128_000)]
        told = reminder(model_server.requests[-1], "tokenStatus")
        left = budget * (100 - percent) // 100
        assert told == TOKEN_STATUS.format(percent=percent, budget=budget, left=left, model=session.provider.model)


def standing(kind: str, text: str) -> Message:
    return reminder_message(kind, as_reminder(kind, text))


def test_what_stands_elsewhere_is_moved_as_a_change_and_what_never_was_is_none():
    zone = ("environment", "claudeMd")
    here, there, other = standing("environment", "E"), standing("claudeMd", "C"), standing("tokenStatus", "T")
    same = {"environment": "E", "claudeMd": "C"}
    assert renewed(zone, same, [here, there], [other]) == ((here, there), (other,), [])
    assert renewed(zone, {}, [here], []) == ((here,), (), []), "no notice about what was never there"
    moved = renewed(zone, same, [here], [there, other])
    assert moved == ((here, there), (other,), [ReminderChange("claudeMd", "replaced", str(there["content"]))])
    assert moved[0][1] is there


def test_a_row_shows_the_text_as_it_stands_what_was_sent_and_the_switch():
    conversation = Conversation()
    reminders = Reminders(conversation, (), Notices(), mask=str)
    told = standing("environment", "Working directory: /w")
    conversation.adopt([told, user("hello")])
    size = estimate_message(told)
    assert reminders.rows() == [ReminderRow("environment", told["content"] or "", size, 0, True)]
    reminders.count()
    reminders.count()
    reminders.off.add("gitStatus")
    conversation.clear()
    sent, off = reminders.rows()
    assert sent == ReminderRow("environment", "", 0, 2 * size, True)
    assert off == ReminderRow("gitStatus", "", 0, 0, False)
