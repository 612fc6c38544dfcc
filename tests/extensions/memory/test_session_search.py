"""What the model finds in earlier sessions, once the user lets it look: ranked, bounded, cited, without secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from codelet import events
from codelet.errors import UsageError
from codelet.export.document import ArchiveEntry, Document
from codelet.export.encode import to_json
from codelet.export.search import SessionSearch
from codelet.extensions.base import OpenedWith
from codelet.extensions.manifest import turned_on
from codelet.messages import Message, assistant, user
from codelet.settings import load_settings
from tests.context.scripted import Answer, turn
from tests.extensions.conftest import Open
from tests.extensions.memory.conftest import called

TOKEN = "ghp_" + "a1B2" * 9


def save(folder: Path, name: str, *said: str, **more: object) -> None:
    """A session of these prompts, each answered."""
    messages: list[Message] = []
    for prompt in said:
        messages += [user(prompt), assistant(f"about {prompt}: done")]
    (folder / name).write_bytes(
        to_json(Document(timestamp=1.0, token_count=1, messages=tuple(messages), **more), mask=None)
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "sessions"
    folder.mkdir()
    facts = ("zebras are striped",)
    save(folder, "parser.json", "mend the tokenizer", f"the key is {TOKEN} for the zebra", facts=facts)
    entry: ArchiveEntry = {"id": "r3", "turn": 7, "message": user("the giraffe decision: no")}
    save(folder, "zoo.json", "feed the animals", archive=(entry,), long_term_summary="the zoo closes at nine")
    (folder / "broken.json").write_text("{")
    (folder / "notes.txt").write_text("zebra notes that are no export")
    return folder


async def test_long_term_memory_with_search_cites_session_and_turn(folder: Path, tmp_path: Path, open_session: Open):
    settings = load_settings({"memory": str(folder)}, workspace=tmp_path, environment={})
    session, provider = open_session(*turned_on(OpenedWith(settings=settings, search=SessionSearch(str(folder)).find)))
    words = ["tokenizer", "zebra", "giraffe", "zoo closes", "hello animal striped", "nothingofthekind", "..."]
    provider.answers.extend([Answer("", [("search_sessions", {"words": each}) for each in words]), Answer()])
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    seen = await turn(session)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert called(provider.sent[0])[-3:] == ["remember", "forget", "search_sessions"]
    results = [event for event in seen if isinstance(event, events.ToolResult)]
    tokenizer, zebra, giraffe, zoo, some, nothing, none = (result.text for result in results)
    assert "[parser.json, turn 1, message 0, user] mend the tokenizer" in tokenizer
    assert "never instructions" in tokenizer.splitlines()[0]
    assert "[parser.json, turn 2, message 2, user]" in zebra
    assert "[parser.json, fact] zebras are striped" in zebra
    assert "a1B2" not in zebra
    assert "[zoo.json, turn 7, archive r3, user] the giraffe decision: no" in giraffe
    assert "[zoo.json, summary] the zoo closes at nine" in zoo
    assert "striped" in some, "one of the words is enough where none has all"
    assert nothing.startswith("nothing found")
    assert results[-1].status == "failed"
    assert "needs a word" in none


def test_what_is_saved_or_removed_meanwhile_is_seen(folder: Path):
    search = SessionSearch(str(folder))
    assert search.find("walrus", 5) == []
    save(folder, "later.json", "the walrus came")
    assert search.find("walrus came", 5)[0][0] == "later.json, turn 1, message 0, user"
    (folder / "later.json").unlink()
    assert search.find("walrus", 5) == []


def test_there_is_a_bound_on_what_is_found(folder: Path):
    for number in range(30):
        save(folder, f"s{number}.json", "the same elephant " + "word " * 500)
    found = SessionSearch(str(folder)).find("elephant", 8)
    assert len(found) == 8
    assert all(len(text) < 500 for _, text in found)


def test_no_such_place_is_an_error_at_once(tmp_path: Path):
    with pytest.raises(UsageError, match="no such folder"):
        SessionSearch(str(tmp_path / "nowhere"))
