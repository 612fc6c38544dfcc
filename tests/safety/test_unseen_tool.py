"""A tool that codelet has never seen, brought from outside: what is said of it comes from the tool alone."""

from __future__ import annotations

import json
from pathlib import Path

from codelet import events
from codelet.calls import Safeguards, Toolbox, equip
from codelet.frontends.render.calls import title
from codelet.frontends.text import describe_call
from codelet.policy import Policy
from codelet.policy.audit import AuditLog
from codelet.policy.verdict import Answer
from codelet.tools.tool import Arguments, Progress, Tool, ToolContext, ToolOutput, tool
from tests.safety.conftest import call, calls
from tests.safety.test_approvals import YES, Person


async def translate(context: ToolContext, progress: Progress, *, source: str, language: str = "fr") -> ToolOutput:
    """Translate a file."""
    return ToolOutput(f"{source} in {language}")


def spoken(arguments: Arguments) -> str:
    return f"{arguments['source']} into {arguments.get('language', 'fr')}"


def unseen() -> Tool:
    return tool(translate, "execute", title=spoken)


def box_with(each: Tool, workspace: Path, *answers: Answer, audit: AuditLog | None = None) -> tuple[Toolbox, Person]:
    person = Person(*answers)
    safeguards = Safeguards(audit=audit)
    return equip((each,), ToolContext(workspace), Policy(workspace), person.ask, safeguards), person


async def test_its_title_is_what_every_front_end_prints(tmp_path: Path) -> None:
    box, person = box_with(unseen(), tmp_path, YES, Answer(False, "no"))
    seen = await calls(box, "translate", source="a.md", language="de")
    made = next(event for event in seen if isinstance(event, events.ToolCall))
    assert describe_call(made) == title(made.name, made.arguments, made.title) == "translate a.md into de"
    await call(box, "translate", source="b.md")
    assert [one.about for one in box.approvals.history] == ["translate a.md into de", "translate b.md into fr"]
    assert [question.shown for question in person.asked] == ["translate a.md into de", "translate b.md into fr"]


async def test_a_title_that_trips_over_arguments_says_them_all(tmp_path: Path) -> None:
    box, _ = box_with(unseen(), tmp_path)
    seen = await calls(box, "translate", language="de")
    made = next(event for event in seen if isinstance(event, events.ToolCall))
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
