"""The toolbox: what is offered to the model, what a call is run with, and what is said of the sandbox around it."""

from __future__ import annotations

from pathlib import Path

import pytest

from codelet import prompt
from codelet.errors import ToolError
from codelet.safety import Policy
from codelet.safety.sandbox import Confinement, Sandbox, Use
from codelet.safety.verdict import Answer, Mode, Question, SandboxKind, Touch, Verdict
from codelet.tools.tool import Progress, Tool, ToolContext, ToolOutput, tool
from tests.safety.conftest import toolbox

RUN = Touch("run", "ls")


async def yes(question: Question) -> Answer:
    return Answer(True)


async def remembered(context: ToolContext, progress: Progress, *, path: str = "") -> ToolOutput:
    """Answer from memory."""
    return ToolOutput(path)


def named_tool(name: str, *touches: Touch) -> Tool:
    return tool(remembered, touches=lambda arguments: touches).replace(name=name)


def sandbox_of(folder: Path, use: Use = "auto", *, works: bool = True, network: bool = False) -> Sandbox:
    """A sandbox that has been looked for."""
    sandbox = Sandbox(folder, use, network=network)
    sandbox.found = Confinement("bubblewrap", "it works", "/usr/bin/bwrap") if works else Confinement(None, "nothing")
    return sandbox


@pytest.mark.parametrize(
    ("mode", "use", "form"),
    [
        ("ask", None, prompt.PERMISSIONS_BARE),
        ("auto", None, prompt.PERMISSIONS_BARE),
        ("auto", "off", prompt.PERMISSIONS_BARE),
        ("ask", "auto", prompt.PERMISSIONS_READING),
        ("ask", "on", prompt.PERMISSIONS_CONFINED),
        ("auto", "auto", prompt.PERMISSIONS_AUTO),
        ("auto", "on", prompt.PERMISSIONS_AUTO),
    ],
)
def test_the_line_on_permissions_says_what_becomes_of_commands(
    tmp_path: Path, mode: Mode, use: Use | None, form: str
) -> None:
    for network in (False, True):
        sandbox = None if use is None else sandbox_of(tmp_path, use, network=network)
        closed = prompt.NO_NETWORK if sandbox is not None and not network else ""
        for ask, allowed, others in (
            (None, False, prompt.OTHERS_REFUSED),
            (yes, False, prompt.OTHERS_ASK),
            (None, True, prompt.OTHERS_RUN),
        ):
            box = toolbox(tmp_path, Policy(tmp_path, mode, yes=allowed), ask, sandbox=sandbox)
            assert box.permissions() == form.format(mode=mode, network=closed, others=others)
    broken = toolbox(tmp_path, Policy(tmp_path, mode), sandbox=sandbox_of(tmp_path, use or "auto", works=False))
    assert "without a sandbox" in broken.permissions()


async def test_where_every_command_is_to_be_confined_none_runs_outside(tmp_path: Path) -> None:
    outside = [Touch("read", "a"), Touch("run", "ls", unconfined=True)]
    box = toolbox(tmp_path, Policy(tmp_path), sandbox=sandbox_of(tmp_path, "on"))
    with pytest.raises(ToolError, match="cannot run unconfined"):
        await box.confines(outside)
    assert await box.confines([RUN])
    assert await toolbox(tmp_path, Policy(tmp_path), sandbox=sandbox_of(tmp_path)).confines(outside)
    with pytest.raises(ToolError, match=r"no sandbox .*\(nothing\)"):
        await toolbox(tmp_path, Policy(tmp_path), sandbox=sandbox_of(tmp_path, "on", works=False)).confines([RUN])


async def test_commands_are_confined_by_a_sandbox_that_works_and_by_no_other(tmp_path: Path) -> None:
    for sandbox, counts in (
        (None, False),
        (sandbox_of(tmp_path), True),
        (sandbox_of(tmp_path, "on"), True),
        (sandbox_of(tmp_path, "off"), False),
        (sandbox_of(tmp_path, works=False), False),
    ):
        box = toolbox(tmp_path, Policy(tmp_path), sandbox=sandbox)
        assert await box.confines([Touch("read", "a"), RUN]) is counts
    looked = Sandbox(tmp_path)
    assert not await toolbox(tmp_path, Policy(tmp_path), sandbox=looked).confines([Touch("read", "a")])
    assert looked.found is None, "a call that runs no command waits for no sandbox"


@pytest.mark.parametrize(("use", "wanted", "kind"), [
    ("auto", None, None), ("auto", "workspace", "workspace"), ("auto", "read-only", "read-only"),
    ("on", None, "workspace"), ("on", "read-only", "read-only"),
])  # fmt: skip
def test_a_call_runs_in_the_sandbox_of_its_verdict(
    tmp_path: Path, use: Use, wanted: SandboxKind | None, kind: SandboxKind | None
) -> None:
    sandbox = sandbox_of(tmp_path, use)
    box = toolbox(tmp_path, Policy(tmp_path), sandbox=sandbox)
    verdict = Verdict("allow", "read", "").replace(sandbox=wanted)
    assert box.admitted(box.context, verdict, confines=False).wrap_command is None
    context = box.admitted(box.context, verdict, confines=True)
    if kind is None:
        assert context is box.context
        return
    assert context.wrap_command is not None and context.wrap_lasting is not None
    assert context.wrap_command("ls", {}) == sandbox.wrap("ls", {}, kind)
    assert context.wrap_lasting("ls", {}) == sandbox.wrap("ls", {}, kind, lasting=True)
    said = prompt.SANDBOXED_READ_ONLY if kind == "read-only" else prompt.SANDBOXED
    assert context.sandbox_note == said.format(network=prompt.NO_NETWORK)


async def test_a_sandbox_that_does_not_work_is_told_of_once(tmp_path: Path) -> None:
    runs = [Touch("run", "true")]
    box = toolbox(tmp_path, Policy(tmp_path), sandbox=sandbox_of(tmp_path, works=False))
    assert not await box.confines([Touch("read", "a")])
    assert box.notices.take() == []
    for notices in (1, 0):
        assert not await box.confines(runs)
        assert sum("(nothing)" in text for text in box.notices.take()) == notices
    for sandbox in (None, sandbox_of(tmp_path)):
        box = toolbox(tmp_path, Policy(tmp_path), sandbox=sandbox)
        assert await box.confines(runs) == (sandbox is not None)
        assert box.notices.take() == []


def test_a_tool_is_found_by_the_names_that_models_know(tmp_path: Path) -> None:
    box = toolbox(tmp_path, Policy(tmp_path))
    for asked, name in (("read", "read"), ("READ", "read"), ("Bash", "bash"), ("str_replace", "edit")):
        found = box.tool_named(asked)
        assert found is not None and found.name == name
    assert box.tool_named("telepathy") is None
    box.offer_only(["read"])
    assert box.tool_named("Bash") is None


def test_a_tool_that_comes_later_is_offered_where_all_are_or_its_name_is(tmp_path: Path) -> None:
    box = toolbox(tmp_path, Policy(tmp_path))

    def offered() -> list[str]:
        return [schema["function"]["name"] for schema in box.schemas]

    before = offered()
    assert box.schemas is box.schemas
    box.add(named_tool("later"))
    assert offered() == [*before, "later"] == list(box.tools)
    box.offer_only(["read", "newest"])
    assert offered() == ["read"]
    box.add(named_tool("newest"))
    box.add(named_tool("other"))
    assert offered() == ["read", "newest"] == list(box.tools)
    box.offer_only(None)
    assert offered() == [*before, "later", "newest", "other"]


def test_what_can_only_fail_is_not_offered(tmp_path: Path) -> None:
    """Tools that do nothing but write, in the mode read-only, where nobody can change it."""
    write, both = Touch("write", "a"), (Touch("read", "a"), Touch("write", "a"))
    more = (named_tool("writes", write), named_tool("both", *both), named_tool("memory"), tool(remembered))

    def offered(mode: Mode, *, asked: bool) -> set[str]:
        box = toolbox(tmp_path, Policy(tmp_path, mode), yes if asked else None)
        for each in more:
            box.add(each)
        return {schema["function"]["name"] for schema in box.schemas}

    everything = offered("ask", asked=False)
    assert {"edit", "write", "writes", "both", "memory", "remembered"} <= everything
    assert offered("read-only", asked=True) == everything
    assert everything - offered("read-only", asked=False) == {"edit", "write", "writes"}
