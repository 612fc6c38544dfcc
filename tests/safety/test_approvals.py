"""Questions to the user, remembered answers, and the decision without an answer."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path

import pytest

from codelet.extensions.base import Guard, GuardedCall, Noted
from codelet.frontends.terminal.question import body_rows
from codelet.frontends.terminal.show.console import OutputConsole
from codelet.frontends.terminal.show.renderer import Renderer
from codelet.safety import Policy
from codelet.safety.secrets import Masker
from codelet.safety.verdict import Answer, Question, Touch, Verdict, VerdictAction
from codelet.tools.tool import Preview, Progress, Tool, ToolContext, ToolOutput, tool
from tests.e2e.conftest import Codelet
from tests.safety.conftest import call, toolbox
from tests.support.recorded import Start, step
from tests.support.script import Call, Reply
from tests.support.server import ModelServer


class Person:
    """Answers the questions in turn, and keeps them."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        return self.answers.pop(0)


YES, ALWAYS = Answer(True), Answer(True, always=True)


async def test_the_real_change_is_shown(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    person = Person(YES, YES, YES)
    box = toolbox(tmp_path, Policy(tmp_path), person.ask)
    await call(box, "read", path="a.txt")
    await call(box, "edit", path="a.txt", edits=[{"old": "two", "new": "2"}])
    await call(box, "write", path="new.txt", content="fresh\n")
    await call(box, "edit", path="a.txt", edits=[{"old": "nowhere", "new": "2"}])
    await call(box, "bash", command="make \\\n  all # " + "x" * 9_000)
    edit, write, bash = (question.shown for question in person.asked)
    touches = [(touch.kind, touch.what) for question in person.asked for touch in question.touches]
    assert touches[:2] == [("write", "a.txt"), ("write", "new.txt")]
    assert [kind for kind, _ in touches[2:]] == ["run"]
    assert edit == "--- a.txt\n+++ a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    assert write.endswith("+fresh\n")
    assert bash == "make \\\n  all # " + "x" * 9_000


async def test_replacing_what_the_model_did_not_see_is_asked_whatever_the_mode(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    part = "it replaces the whole of a.txt, of which the model has seen only lines 1 of its 2"
    for mode, reason in (("auto", part), ("ask", f"write changes a.txt: {part}")):
        person = Person(Answer(False))
        policy = Policy(tmp_path, mode, allow=["write(a.txt)"] if mode == "auto" else [])
        box = toolbox(tmp_path, policy, person.ask)
        await call(box, "read", path="a.txt", limit=1)
        assert (await call(box, "write", path="a.txt", content="other\n"))[0] == "refused"
        verdict = person.asked[0].verdict
        assert (verdict.reason, verdict.suggestion, verdict.lifted_by) == (reason, None, None)
    box = toolbox(tmp_path, Policy(tmp_path, "auto"))
    await call(box, "read", path="a.txt", limit=1)
    assert (await call(box, "write", path="a.txt", content="other\n"))[0] == "failed"
    assert (tmp_path / "a.txt").read_text() == "one\ntwo\n", "without a user to ask nothing is written"


async def test_one_question_at_a_time_and_what_needs_none_waits_for_none(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    open_now, most, asked, answered = 0, 0, asyncio.Event(), asyncio.Event()

    async def ask(question: Question) -> Answer:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        asked.set()
        await answered.wait()
        open_now -= 1
        return Answer(False)

    box = toolbox(tmp_path, Policy(tmp_path), ask)
    waiting = [asyncio.create_task(call(box, "write", path=f"{n}.txt", content="x")) for n in range(3)]
    await asked.wait()
    assert (await call(box, "read", path="a.txt"))[0] == "done", "it does not ask"
    answered.set()
    assert [status for status, _ in await asyncio.gather(*waiting)] == ["refused"] * 3
    assert most == 1


async def test_what_was_decided_is_remembered(tmp_path: Path) -> None:
    person = Person(YES, Answer(False, "not now"), ALWAYS)
    box = toolbox(tmp_path, Policy(tmp_path, deny=["bash(git push *)"]), person.ask)
    for command in ("touch a", "touch b", "make x", "make x", "git push origin", "ls"):
        await call(box, "bash", command=command)
    history = [(one.about, one.outcome, one.reason) for one in box.approvals.history]
    assert [line[:2] for line in history] == [
        ("bash touch a", "yes"),
        ("bash touch b", "no"),
        ("bash make x", "always"),
        ("bash git push origin", "denied"),
    ]
    assert history[1][2] == "not now"
    assert history[2][2] == "bash(make x *)"
    assert len(person.asked) == 3


class Noting(Guard):
    """Records the verdicts and answers that guards receive."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, dict[str, object]]] = []

    def record(self, kind: Noted, call: GuardedCall, **facts: object) -> None:
        if kind in ("verdict", "approval"):
            self.noted.append((kind, facts))

    def take(self) -> list[tuple[str, dict[str, object]]]:
        noted, self.noted = self.noted, []
        return noted


async def test_guards_are_told_of_each_verdict_and_of_each_answer(tmp_path: Path) -> None:
    guard, person = Noting(), Person(YES, Answer(False, "no"), Answer(False))
    policy = Policy(tmp_path, deny=["bash(rm *)"])
    box = toolbox(tmp_path, policy, person.ask, guards=[guard])

    async def noted(command: str) -> list[tuple[str, dict[str, object]]]:
        await call(box, "bash", command=command)
        return guard.take()

    reads = {"action": "allow", "tier": "read", "reason": "reads in the workspace", "rule": None}
    assert await noted("ls") == [("verdict", reads)]
    denied = {
        "action": "deny", "tier": "execute", "reason": "the rule bash(rm *) denies it", "rule": "bash(rm *)"
    }  # fmt: skip
    assert await noted("rm x") == [("verdict", denied)]
    for outcome, reason in (("yes", ""), ("no", "no"), ("no", "")):
        (kind, verdict), (last, answer) = await noted("touch x")
        assert (kind, verdict["action"], last) == ("verdict", "ask", "approval")
        assert answer == {"outcome": outcome, "reason": reason}
    box = toolbox(tmp_path, policy, None, guards=[guard])
    _, (_, answer) = await noted("touch x")
    assert answer["outcome"] == "nobody to ask"
    assert answer["reason"]
    assert (box.approvals.refused, box.approvals.denied) == (["bash touch x"], {})
    await noted("rm x")
    assert box.approvals.refused == ["bash touch x", "bash rm x"]
    assert list(box.approvals.denied) == ["bash rm x"] and "bash(rm *)" in box.approvals.denied["bash rm x"]


async def test_what_a_no_says_to_the_model(tmp_path: Path) -> None:
    box = toolbox(tmp_path, Policy(tmp_path), Person(Answer(False), Answer(False, "later")).ask)
    plain = await call(box, "bash", command="touch x")
    assert plain[0] == "refused" and "by the user." in plain[1]
    _, reasoned = await call(box, "bash", command="touch x")
    assert "user: later." in reasoned


async def test_what_a_yes_covers_from_then_on(tmp_path: Path) -> None:
    """A rule if one fits, else this very command, or the mode if that was the answer."""
    compound = "touch a; make b"
    for name, arguments, answer, outcome, reason in (
        ("bash", {"command": "make x"}, ALWAYS, "always", "bash(make x *)"),
        ("bash", {"command": compound}, ALWAYS, "always", f"exactly: {compound}"),
        ("write", {"path": "sub/n.txt", "content": "x"}, ALWAYS, "always", "write(sub/**)"),
        ("write", {"path": "n.txt", "content": "x"}, Answer(True, mode=True), "always", "mode auto-edit"),
        ("bash", {"command": "make x"}, Answer(True, mode=True), "yes", ""),
        ("bash", {"command": "make x"}, YES, "yes", ""),
    ):
        person = Person(answer)
        box = toolbox(tmp_path, Policy(tmp_path), person.ask)
        await call(box, name, **arguments)
        (history,) = box.approvals.history
        assert (history.outcome, history.reason) == (outcome, reason)
        assert len(person.asked) == 1
        person.answers.append(YES)
        await call(box, name, **arguments)
        assert len(person.asked) == (1 if outcome == "always" else 2), "and is not asked again"
        assert box.policy.mode == ("auto-edit" if answer.mode and name == "write" else "ask")


async def test_a_person_sees_no_secret_and_the_call_keeps_it(tmp_path: Path) -> None:
    secret = "Zk4x9QweR7tY2uIoP5aS8dF1"
    person = Person(YES)
    box = toolbox(tmp_path, Policy(tmp_path), person.ask, masker=Masker({"SOME_KEY": secret}))
    await call(box, "write", path="k.txt", content=f"key = {secret}\n")
    (question,) = person.asked
    assert secret not in repr(question)
    assert "[masked SOME_KEY]" in question.shown
    assert question.arguments["content"] == "key = [masked SOME_KEY]\n"
    assert (tmp_path / "k.txt").read_text() == f"key = {secret}\n"


async def test_what_is_offered_to_allow_holds_no_secret_and_is_allowed_as_it_is(tmp_path: Path) -> None:
    secret = "Zk4x9QweR7tY2uIoP5aS8dF1"
    masker = Masker({"SOME_KEY": secret})
    for command in (f"make {secret}", f"touch {secret}; make b"):
        person = Person(ALWAYS)
        box = toolbox(tmp_path, Policy(tmp_path), person.ask, masker=masker)
        for _ in range(2):
            await call(box, "bash", command=command)
        (question,) = person.asked
        assert secret not in repr(question)
        offered = question.verdict.suggestion or question.verdict.exactly
        assert offered is not None and "[masked SOME_KEY]" in offered
        assert secret not in repr(list(box.approvals.history))


async def test_a_preview_is_made_only_for_a_person_and_before_what_writes(tmp_path: Path) -> None:
    shown: list[str] = []

    def tool_that(touch: Touch) -> Tool:
        def preview(context: ToolContext, arguments: dict[str, object]) -> Preview:
            shown.append(touch.kind)
            return Preview(text="what it would do", asks="do it")

        async def act(context: ToolContext, progress: Progress) -> ToolOutput:
            """Act."""
            return ToolOutput("done")

        return tool(act, touches=lambda arguments: [touch], preview=preview)

    for touch, mode, previews in (
        (Touch("read", "a.txt"), "ask", 0),
        (Touch("read", "/etc/passwd"), "ask", 1),
        (Touch("write", "a.txt"), "ask", 1),
        (Touch("write", "a.txt"), "auto-edit", 1),
    ):
        shown.clear()
        person = Person(YES)
        box = toolbox(tmp_path, Policy(tmp_path, mode), person.ask)
        box.add(tool_that(touch))
        assert (await call(box, "act"))[0] == "done"
        assert len(shown) == previews
        assert [(question.shown, question.asks) for question in person.asked] == (
            [] if touch.what == "a.txt" and (mode, touch.kind) != ("ask", "write") else [("what it would do", "do it")]
        )


async def test_what_a_tool_does_that_says_nothing_of_it_is_asked_with_all_its_arguments(tmp_path: Path) -> None:
    async def act(context: ToolContext, progress: Progress, *, how: str, content: str = "") -> ToolOutput:
        """Act."""
        return ToolOutput("done")

    arguments = {"how": "gently\x1b[8m", "content": "delete\neverything"}
    for title in (None, lambda arguments: "create an issue"):
        person = Person(Answer(False))
        box = toolbox(tmp_path, Policy(tmp_path), person.ask)
        box.add(tool(act, touches=None) if title is None else tool(act, touches=None, title=title))
        await call(box, "act", **arguments)
        (question,) = person.asked
        head, _, rest = question.shown.partition("\n")
        assert (question.touches, question.asks) == ((), "")
        assert head == ("act" if title is None else "act create an issue")
        assert json.loads(rest) == arguments and rest.count("\n") == 3 and "\x1b" not in rest
        rows = [row.plain for row in body_rows(question, Renderer(OutputConsole(file=io.StringIO(), width=60)))]
        assert all(
            any(value in row for row in rows) for value in ('"how": "gently', "everything", '"content": "delete')
        )


async def test_a_person_may_be_asked_about_what_is_no_call(tmp_path: Path) -> None:
    secret = "Zk4x9QweR7tY2uIoP5aS8dF1"
    person = Person(YES, Answer(False, f"not {secret}"))
    masker = Masker({"SOME_KEY": secret})
    approvals = toolbox(tmp_path, Policy(tmp_path), person.ask, masker=masker).approvals
    assert await approvals.put("facts", f"keep {secret}", f"- {secret}", "it was said")
    assert not await approvals.put("facts", "keep it", "- all", "it was said")
    first, _ = person.asked
    assert (first.tool, first.asks, first.shown) == ("facts", "keep [masked SOME_KEY]", "- [masked SOME_KEY]")
    assert (first.verdict.action, first.verdict.reason, first.timeout) == ("ask", "it was said", None)
    assert [(one.about, one.outcome, one.reason) for one in approvals.history] == [
        ("facts: keep [masked SOME_KEY]", "yes", ""), ("facts: keep it", "no", "not [masked SOME_KEY]")
    ]  # fmt: skip

    async def never(question: Question) -> Answer:
        await asyncio.Event().wait()
        return YES

    late = toolbox(tmp_path, Policy(tmp_path), never, ask_timeout=0.1).approvals
    assert not await late.put("facts", "keep it", "- all", "it was said")
    assert late.history[-1].outcome == "no answer"
    alone = toolbox(tmp_path, Policy(tmp_path)).approvals
    assert not await alone.put("facts", "keep it", "- all", "it was said")
    assert list(alone.history) == []


async def test_approval_flow_takes_no_answer_in_time_for_a_no(tmp_path: Path) -> None:
    async def never(question: Question) -> Answer:
        assert question.timeout == 0.2
        await asyncio.Event().wait()
        return YES

    box = toolbox(tmp_path, Policy(tmp_path), never, ask_timeout=0.2)
    status, text = await call(box, "bash", command="touch made.txt")
    assert status == "refused"
    assert "0.2 s" in text
    assert box.approvals.history[-1].outcome == "no answer"
    assert not (tmp_path / "made.txt").exists()


def test_a_question_in_the_repl_answers_itself(start: Start, repo: Path) -> None:
    terminal = start(
        step("Now.", ("bash", {"command": "touch made.txt"})), step("Done."), arguments=("--ask-timeout", "2")
    )
    terminal.wait_for("% of ")
    terminal.line("go")
    terminal.wait_for("2 s without an answer: no")
    terminal.wait_for("Done.")
    terminal.wait_for("% of ")
    assert "Run this command?" not in terminal.settle()
    terminal.line("/permissions")
    terminal.wait_for("no answer")
    terminal.wait_for("bash touch made.txt")
    assert not (repo / "made.txt").exists()


def test_look_alikes_are_warned_of(start: Start) -> None:
    terminal = start(step("Now.", ("bash", {"command": "m\N{CYRILLIC SMALL LETTER A}ke all"})), step("Done."), rows=40)
    terminal.wait_for("% of ")
    terminal.line("go")
    terminal.wait_for("only looks like 'make'")
    terminal.wait_for("enter confirm")
    terminal.type("n\r")
    terminal.wait_for("Done.")


def test_shift_tab_goes_through_the_modes(start: Start) -> None:
    terminal = start(step("Hello."), columns=120)
    terminal.wait_for("  ask ·")
    for mode in ("auto-edit", "auto", "read-only", "ask"):
        terminal.type("\x1b[Z")
        terminal.wait_for(f"  {mode} ·")
    terminal.line("/mode read-only")
    terminal.wait_for("  read-only ·")


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        ("touch made.txt", True),
        ("touch made.txt; git push origin", False),
        ("touch made.txt; mkfs /no/such/device", False),
    ],
)
def test_yes_never_lifts_a_deny(codelet: Codelet, model_server: ModelServer, command: str, runs: bool) -> None:
    model_server.script = [Reply(calls=[Call("c", "bash", {"command": command})]), Reply(text="done")]
    done = codelet("-p", "go", "--yes", "--deny", "bash(git push *)")
    assert done.exit == (0 if runs else 6)
    assert (codelet.cwd / "made.txt").exists() is runs


def test_nobody_to_ask_is_a_no(codelet: Codelet, model_server: ModelServer) -> None:
    model_server.script = [Reply(calls=[Call("c", "bash", {"command": "touch made.txt"})]), Reply(text="done")]
    done = codelet("-p", "go", "--output-format", "json")
    assert done.exit == 6
    assert json.loads(done.out)["refused"] == ["bash touch made.txt"]
    assert not (codelet.cwd / "made.txt").exists()


FORCED = [
    "git push -f",
    "git push origin +main",
    "git push --mirror x",
    "bash -c 'git push --force'",
    "env git push -f",
]


@pytest.mark.parametrize("command", FORCED)
@pytest.mark.parametrize("yes", [False, True])
async def test_only_a_person_permits_a_forced_push_and_each_time_anew(tmp_path: Path, command: str, yes: bool) -> None:
    """No rule, mode or --yes permits it; without a user to ask it is denied."""
    rules = ["bash", "bash(git push *)", f"bash({command.replace(chr(39), '')})"]
    policy = Policy(tmp_path, "auto", allow=rules, yes=yes)
    alone = toolbox(tmp_path, policy)
    status, told = await call(alone, "bash", command=command)
    assert status == "refused" and told
    person = Person(Answer(False), Answer(True, always=True, rule="bash(git push *)"), Answer(False))
    box = toolbox(tmp_path, policy, person.ask)
    assert (await call(box, "bash", command=command))[0] == "refused"
    assert (await call(box, "bash", command=command))[0] == "failed", "it ran: there is no repository"
    assert (await call(box, "bash", command=command))[0] == "refused"
    (verdict,) = {(each.verdict.tier, each.verdict.suggestion, each.verdict.exactly) for each in person.asked}
    assert verdict == ("critical", None, None)
    assert len(person.asked) == 3


@pytest.mark.parametrize(
    "command",
    [
        "git push -f; mkfs /no/such/device",
        "bash -c 'git push -f; mkfs.ext4 /no/such/device'",
        "git push -f; sh -c 'git push -f'; mkfs /no/such/device",
    ],
)
async def test_what_destroys_the_machine_is_not_asked_about_beside_a_forced_push(tmp_path: Path, command: str) -> None:
    person = Person(YES)
    assert (await call(toolbox(tmp_path, Policy(tmp_path), person.ask), "bash", command=command))[0] == "refused"
    assert person.asked == []


async def test_a_rule_or_a_guard_that_denies_it_leaves_nothing_to_ask(tmp_path: Path) -> None:
    class Denies(Guard):
        async def before(self, call: GuardedCall) -> Verdict | None:
            return None if call.verdict is None else Verdict("deny", "execute", "a guard says no")

    person = Person(YES, YES)
    by_rule = toolbox(tmp_path, Policy(tmp_path, deny=["bash(git push *)"]), person.ask)
    assert "bash(git push *)" in (await call(by_rule, "bash", command="git push -f"))[1]
    by_guard = toolbox(tmp_path, Policy(tmp_path), person.ask, guards=[Denies()])
    assert "a guard says no" in (await call(by_guard, "bash", command="git push -f"))[1]
    assert person.asked == []


@pytest.mark.parametrize(
    ("action", "yes", "status", "asked"),
    [("ask", False, "done", 1), ("ask", True, "done", 0), ("deny", False, "refused", 0), ("deny", True, "refused", 0)],
)
async def test_yes_answers_what_a_guard_asks_and_not_what_it_denies(
    tmp_path: Path, action: VerdictAction, yes: bool, status: str, asked: int
) -> None:
    class Careful(Guard):
        async def before(self, call: GuardedCall) -> Verdict | None:
            return None if call.verdict is None else Verdict(action, "execute", "by a guard")

    person = Person(YES)
    box = toolbox(tmp_path, Policy(tmp_path, yes=yes), person.ask, guards=[Careful()])
    assert (await call(box, "bash", command="ls"))[0] == status
    assert [question.verdict.reason for question in person.asked] == ["by a guard"] * asked


async def test_a_changed_rule_takes_the_place_of_the_one_that_was_offered(tmp_path: Path) -> None:
    policy = Policy(tmp_path)
    person = Person(Answer(True, always=True, rule="bash(touch a)"), Answer(True, always=True, rule="no rule("), YES)
    box = toolbox(tmp_path, policy, person.ask)
    for name in ("a", "a", "b", "c"):
        await call(box, "bash", command=f"touch {name}")
    assert policy.rules["allow"] == ["bash(touch a)"] and len(person.asked) == 3
    assert [decision.outcome for decision in box.approvals.history] == ["always", "yes", "yes"]
