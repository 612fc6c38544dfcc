"""The order of files after @: equal matches by their weight in the session."""

from __future__ import annotations

from pathlib import Path

from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from codelet.frontends.terminal.completion import ReplCompleter
from codelet.loop.session import Session
from codelet.safety import Policy
from codelet.tools import all_tools
from tests.context.scripted import Answer, ScriptedProvider, turn

NAMES = ("api.py", "cache.py", "core.py", "src/deep/conf.py", "src/deep/colour.py", "src/deep/count.py")


async def offered(session: Session, line: str) -> list[str]:
    """The files offered for a line, in order."""
    completer = ReplCompleter(session.workspace, list, lambda: session.conversation.calls)
    return [each.text async for each in completer.get_completions_async(Document(line), CompleteEvent())]


async def test_what_the_session_works_on_comes_first(tmp_path: Path):
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("from deep import colour\n" if "count" in name else "x = 1\n")
    provider = ScriptedProvider()
    session = Session(provider, workspace=tmp_path, tools=all_tools(), policy=Policy(tmp_path, yes=True), bare=True)
    assert await offered(session, "look at @co") == [
        "core.py",
        "src/deep/conf.py",
        "src/deep/count.py",
        "src/deep/colour.py",
    ]
    provider.answers.extend([Answer("", [("read", {"path": str(tmp_path / "src/deep/count.py")})]), Answer()])
    await turn(session)
    assert await offered(session, "look at @co") == [
        "src/deep/count.py",
        "src/deep/colour.py",
        "core.py",
        "src/deep/conf.py",
    ]
    assert (await offered(session, "mend conf in @co"))[:2] == ["src/deep/count.py", "src/deep/conf.py"]
    assert await offered(session, "@api") == ["api.py"], "how well a name fits stands before all"
    session.clear()
    assert (await offered(session, "look at @co"))[0] == "core.py"
    await session.close()
