"""A tool that codelet has never seen, brought from outside: all texts about it come from the tool alone."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.extensions.audit_guard import Audit
from codelet.frontends.printing import describe_call
from codelet.frontends.terminal.question import body_rows, head_rows
from codelet.frontends.terminal.show.console import OutputConsole
from codelet.frontends.terminal.show.event_rows import call_title
from codelet.frontends.terminal.show.renderer import Renderer
from codelet.loop.toolbox import Safeguards, Toolbox
from codelet.safety import Policy
from codelet.safety.audit import AuditLog
from codelet.safety.verdict import Answer, Question, Touch
from codelet.tools import all_tools
from codelet.tools.change import Change
from codelet.tools.planning import make_change, plan_write
from codelet.tools.tool import Arguments, Preview, Progress, Tool, ToolContext, ToolOutput, tool
from tests.safety.conftest import call, calls, toolbox
from tests.safety.test_approvals import YES, Person

Touches = Callable[[Arguments], Sequence[Touch]]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for name in ("src", "docs"):
        (tmp_path / name).mkdir()
    for name in ("a.md", "a.txt", ".env", "src/a.md"):
        (tmp_path / name).write_text("text\n")
    return tmp_path


async def translate(context: ToolContext, progress: Progress, *, source: str, language: str = "fr") -> ToolOutput:
    """Translate a file."""
    return ToolOutput(f"{source} in {language}")


def spoken(arguments: Arguments) -> str:
    return f"{arguments['source']} into {arguments.get('language', 'fr')}"


def unseen() -> Tool:
    return tool(translate, touches=None, title=spoken)


def by_path(kind: Any) -> Touches:
    return lambda arguments: [Touch(kind, arguments["source"])]


def both(arguments: Arguments) -> list[Touch]:
    return [Touch("read", arguments["source"]), Touch("write", f"{arguments['source']}.fr")]


MODES = ("read-only", "ask", "auto-edit", "auto")


@pytest.mark.parametrize(
    ("touches", "source", "verdicts"),
    [
        (None, "a.md", "ask ask ask ask"),
        (lambda _: (), "a.md", "allow allow allow allow"),
        (lambda arguments: [Touch("read", arguments["nothing"])], "a.md", "ask ask ask ask"),
        (by_path("read"), "a.md", "allow allow allow allow"),
        (by_path("list"), ".env", "allow allow allow allow"),
        (by_path("read"), ".env", "ask ask ask ask"),
        (by_path("write"), "a.md", "deny ask allow allow"),
        (by_path("write"), ".git/config", "deny deny deny deny"),
        (both, "a.md", "deny ask allow allow"),
        (both, ".env", "deny ask ask ask"),
        (by_path("run"), "ls", "allow allow allow allow"),
        (by_path("run"), "make all", "ask ask ask allow"),
        (by_path("run"), "rm -rf /", "deny deny deny deny"),
    ],
)
def test_its_verdict_comes_from_what_it_touches(
    workspace: Path, touches: Touches | None, source: str, verdicts: str
) -> None:
    made = tool(translate, touches=touches)
    touched = made.touched({"source": source})
    assert [Policy(workspace, mode).judge("translate", touched).action for mode in MODES] == verdicts.split()


def test_rules_name_it_and_edit_covers_whatever_writes(workspace: Path) -> None:
    write, command, memory = [Touch("write", "src/a.md")], [Touch("run", "make all")], ()
    for rule in ("translate(src/**)", "translate", "edit(src/**)", "edit"):
        assert Policy(workspace, allow=[rule]).judge("translate", write).rule == rule
        assert Policy(workspace, "auto", deny=[rule]).judge("translate", write).action == "deny"
    for rule in ("write(src/**)", "write", "edit(docs/**)", "bash"):
        assert Policy(workspace, allow=[rule]).judge("translate", write).action == "ask"
    assert Policy(workspace, allow=["edit(src/**)"]).judge("write", write).action == "allow"
    assert Policy(workspace, allow=["write(src/**)"]).judge("edit", write).action == "ask"
    for rule in ("translate", "bash(make *)", "bash"):
        assert Policy(workspace, allow=[rule]).judge("translate", command).action == "allow"
        assert Policy(workspace, deny=[rule]).judge("translate", command).action == "deny"
    assert Policy(workspace, allow=["translate"]).judge("translate", [Touch("run", "rm -rf /")]).action == "deny"
    assert Policy(workspace, deny=["translate"]).judge("translate", memory).action == "deny"
    assert Policy(workspace, ask=["translate"]).judge("translate", memory).action == "ask"


def test_of_several_things_that_it_touches_each_must_be_allowed(workspace: Path) -> None:
    several = [Touch("write", "src/a.md"), Touch("read", ".env"), Touch("read", "a.txt")]
    verdict = Policy(workspace).judge("translate", several)
    assert (verdict.action, verdict.tier, verdict.suggestion, verdict.lifted_by) == ("ask", "write", None, None)
    assert verdict.reason.endswith("(and 1 more)")
    named = zip(("src/a.md", ".env"), verdict.parts, strict=True)
    assert all(name in reason for name, (_, reason) in named)
    runs = Policy(workspace).judge(
        "translate", [Touch("run", "rm a.txt"), Touch("run", "make"), Touch("write", "b.md")]
    )
    assert [part for part, _ in runs.parts] == ["rm a.txt", "make", ""]
    one = Policy(workspace, allow=["edit(src/**)"]).judge("translate", several)
    assert (one.action, one.suggestion) == ("ask", "translate(.env)")
    assert Policy(workspace, deny=["translate(a.txt)"]).judge("translate", several).action == "deny"


def box_with(each: Tool, workspace: Path, *answers: Answer, audit: AuditLog | None = None) -> tuple[Toolbox, Person]:
    person = Person(*answers)
    guards = [] if audit is None else [Audit(audit)]
    return Toolbox((each,), ToolContext(workspace), Policy(workspace), person.ask, Safeguards(), guards), person


async def test_interface_abstraction_one_title_is_what_every_front_end_prints(tmp_path: Path) -> None:
    box, person = box_with(unseen(), tmp_path, YES, Answer(False, "no"))
    seen = await calls(box, "translate", source="a.md", language="de")
    made = next(event for event in seen if isinstance(event, events.ToolCallStarted))
    assert describe_call(made) == call_title(made.name, made.arguments, made.title) == "translate a.md into de"
    await call(box, "translate", source="b.md")
    assert [one.about for one in box.approvals.history] == ["translate a.md into de", "translate b.md into fr"]
    shown = [question.shown.split("\n")[0] for question in person.asked]  # all arguments follow
    assert shown == ["translate a.md into de", "translate b.md into fr"]


async def test_a_title_that_trips_over_arguments_says_them_all(tmp_path: Path) -> None:
    box, _ = box_with(unseen(), tmp_path)
    seen = await calls(box, "translate", language="de")
    made = next(event for event in seen if isinstance(event, events.ToolCallStarted))
    assert describe_call(made) == "translate language=de"


async def test_the_audit_names_it(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    audit = AuditLog(file)
    box, _ = box_with(unseen(), tmp_path, YES, audit=audit)
    await call(box, "translate", source="a.md")
    audit.close()
    records = [json.loads(line) for line in file.read_text().splitlines()]
    verdict = next(record for record in records if record["kind"] == "verdict")
    assert (verdict["tool"], verdict["title"], verdict["action"]) == ("translate", "a.md into fr", "ask")


def asked(question: Question) -> str:
    renderer = Renderer(OutputConsole(file=io.StringIO(), width=80))
    return "\n".join(row.plain for row in (*head_rows(question, renderer), *body_rows(question, renderer)))


@pytest.mark.parametrize(
    ("touches", "preview", "source", "seen"),
    [
        (None, None, "a.md", '? Let translate run?\n    a.md into fr\n    {\n      "source": "a.md"\n    }'),
        (by_path("read"), None, ".env", "? Let translate read .env?\n    .env into fr"),
        (by_path("write"), None, "a.md", "? Let translate change a.md?\n    a.md into fr"),
        (both, None, ".env", "? Let translate read .env and change .env.fr?\n    .env into fr"),
        (by_path("run"), None, "make all", "? Let translate run this command?\n    make all"),
        (
            None,
            Preview("whole\ntext", asks="send it"),
            "a.md",
            "? Let translate send it?\n    whole\n    text",
        ),
    ],
)
async def test_what_a_person_approves_comes_from_the_tool(
    workspace: Path, touches: Touches | None, preview: Preview | None, source: str, seen: str
) -> None:
    shows = None if preview is None else lambda context, arguments: preview
    box, person = box_with(tool(translate, touches=touches, title=spoken, preview=shows), workspace, YES)
    assert (await call(box, "translate", source=source))[0] == "done"
    assert asked(person.asked[0]) == seen


async def test_its_change_is_planned_once_and_what_was_approved_is_made(workspace: Path) -> None:
    planned: list[Change] = []

    def plan(context: ToolContext, arguments: Arguments) -> Preview:
        planned.append(plan_write(context, f"{arguments['source']}.fr", f"translation {len(planned)}\n"))
        return Preview(change=planned[-1])

    async def translator(context: ToolContext, progress: Progress, *, source: str) -> ToolOutput:
        assert context.change is planned[0]
        make_change(context.change, context)
        return ToolOutput("done")

    def touches(arguments: Arguments) -> list[Touch]:
        return [Touch("write", f"{arguments['source']}.fr")]

    box, person = box_with(tool(translator, touches=touches, preview=plan), workspace, YES)
    assert (await call(box, "translator", source="a.md"))[0] == "done"
    assert [question.shown for question in person.asked] == [
        "--- a.md.fr\n+++ a.md.fr\n@@ -0,0 +1 @@\n+translation 0\n"
    ]
    assert (workspace / "a.md.fr").read_text() == "translation 0\n"
    assert len(planned) == 1
    box.policy.mode = "auto-edit"
    planned.clear()
    assert (await call(box, "translator", source="b.md"))[0] == "done"
    assert len(planned) == len(person.asked) == 1


def test_tools_that_could_only_be_refused_are_not_offered(tmp_path: Path) -> None:
    async def ask(question: Question) -> Answer:
        return Answer(allow=True)

    def offered(box: Toolbox) -> list[str]:
        return [each["function"]["name"] for each in box.schemas]

    everything = [tool.name for tool in all_tools()]
    reading = Policy(tmp_path, "read-only", yes=True)
    box = toolbox(tmp_path, reading)
    assert offered(box) == [name for name in everything if name not in ("write", "edit")]
    assert list(box.tools) == everything, "a call of one is refused as ever"
    reading.mode = "auto"
    assert offered(box) == [name for name in everything if name not in ("write", "edit")], "the cached prefix stays"
    assert offered(toolbox(tmp_path, Policy(tmp_path, "read-only"), ask)) == everything, "the user may change the mode"
    assert offered(toolbox(tmp_path, Policy(tmp_path, "ask"))) == everything
