"""Files that a prompt names: texts by their size, images, what the policy keeps out, compaction."""

from __future__ import annotations

import json
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from codelet import events, prompt
from codelet.context.attachments import LARGEST_TEXT, Person, dropped_picture
from codelet.context.compaction.engine import compact
from codelet.context.tokens import estimate_message
from codelet.errors import UsageError
from codelet.export.decode import from_json
from codelet.export.document import Document
from codelet.export.encode import to_json
from codelet.messages import Message, assistant, tool_call, tool_result, user
from codelet.opening import mentioned
from codelet.safety import Policy
from tests.support.pictures import png
from tests.support.script import Call, Reply
from tests.support.server import ModelServer
from tests.support.sessions import TYPED, MakeSession, make_session

__all__ = ["make_session"]


@pytest.fixture
def files(repo: Path) -> Path:
    (repo / "small.txt").write_text("a needle\n")
    (repo / "large.txt").write_text("hay\n" * LARGEST_TEXT)
    (repo / "my shot.png").write_bytes(png())
    (repo / "prog.bin").write_bytes(bytes(range(256)))
    (repo / ".env").write_text("PASSWORD=hunter2\n")
    return repo


async def test_what_is_named_is_attached_by_its_kind_and_size(files: Path, make_session: MakeSession):
    session = make_session()
    words = 'See @small.txt, (@large.txt) @"my shot.png" and @prog.bin; @nothing, me@small.txt and @small.txt again.'
    found = await mentioned(session, words, person=None)
    assert found is not None
    assert found.text.count("a needle") == 1
    assert '<file name="small.txt">\na needle\n' in found.text
    assert prompt.ATTACHED_LARGE.format(name="large.txt", size=131_072) in found.text
    assert "[image 1: my shot.png, 3 × 2 pixels]" in found.text
    assert [each["name"] for each in found.images] == ["my shot.png"]
    small, large, image = found.names
    assert (small, image) == ("small.txt", "my shot.png (3 × 2)") and "131,072" in large
    [note] = found.notes
    assert note.startswith("@prog.bin ")
    assert await mentioned(session, "write to me@small.txt about @decorators", person=TYPED) is None


OUTSIDE = "@../outside.txt"
WORDS = f"{OUTSIDE} @.env @small.txt @large.txt"


class Asked:
    """A person who typed the words from a place on, and answers each question in the same way."""

    def __init__(self, answer: bool, typed_from: int = 0) -> None:
        self.paths: list[str] = []
        self.person = Person(typed=lambda at: at >= typed_from, confirm=self._confirm)
        self._answer = answer

    async def _confirm(self, path: str, reason: str) -> bool:
        self.paths.append(path)
        return self._answer


@pytest.mark.parametrize(
    ("words", "asked", "attached", "left_out"),
    [
        (WORDS, None, "needle", [OUTSIDE, "@.env", "@large.txt"]),
        (WORDS, Asked(True), "elsewhere hunter2 needle large.txt", []),
        (WORDS, Asked(False), "needle large.txt", [OUTSIDE, "@.env"]),
        (WORDS, Asked(True, typed_from=999), "needle", [OUTSIDE, "@.env", "@large.txt"]),
        (f"{WORDS} @.env", Asked(True, typed_from=len(WORDS)), "hunter2 needle", [OUTSIDE, "@large.txt"]),
    ],
    ids=["no one", "yes", "no", "pasted", "typed later"],
)
async def test_what_was_typed_is_confirmed_and_the_rest_is_judged_as_a_call_of_the_model(
    files: Path, make_session: MakeSession, words: str, asked: Asked | None, attached: str, left_out: list[str]
):
    (files.parent / "outside.txt").write_text("elsewhere")
    session = make_session(policy=Policy(files, ask=["read(large.txt)"]))
    found = await mentioned(session, words, person=asked.person if asked else None)
    assert found is not None
    there = [word for word in ("elsewhere", "hunter2", "needle") if word in found.text]
    assert there + ["large.txt"] * ("large.txt has" in found.text) == attached.split()
    assert [note.split()[0] for note in found.notes] == left_out
    if asked is None:
        assert session.toolbox.approvals.refused == ["read ../outside.txt", "read .env", "read large.txt"]
    elif len(words) == len(WORDS) and len(left_out) < 3:
        assert asked.paths == ["../outside.txt", ".env"], "typing answers a rule that asks"


async def test_a_file_that_a_rule_denies_is_left_out(files: Path, make_session: MakeSession):
    found = await mentioned(make_session(policy=Policy(files, deny=["read(small.txt)"])), "@small.txt", person=TYPED)
    assert found is not None and found.text == "" and "denies it" in found.notes[0]


async def test_a_pasted_picture_goes_along_by_its_name(files: Path, make_session: MakeSession):
    session, pasted = make_session(), {"clipboard:1": png(), "clipboard:2": b"no picture"}
    found = await mentioned(session, "what is (@clipboard:1)? not @clipboard:3", person=TYPED, pasted=pasted)
    assert found is not None
    assert found.names == ("clipboard:1 (3 × 2)",)
    assert "[image 1: clipboard:1, 3 × 2 pixels]" in found.text
    with pytest.raises(UsageError, match="clipboard:2 "):
        await mentioned(session, "@clipboard:2", person=TYPED, pasted=pasted)
    assert await mentioned(session, "@clipboard:1", person=TYPED) is None, "without it the word is a word"


@pytest.mark.parametrize(
    ("pasted", "mention"),
    [
        ("{}/shot.png", "@{}/shot.png "),
        ("'{}/my shot.png'", '@"{}/my shot.png" '),
        ("{}/my\\ shot.png ", '@"{}/my shot.png" '),
        ("file://{}/my%20shot.png\n", '@"{}/my shot.png" '),
        ("{}/missing.png", None),
        ("{}/notes.txt", None),
        ("see {}/shot.png", None),
        ("shot.png", None),
        ("", None),
    ],
)
def test_the_path_of_a_dropped_picture_becomes_a_mention(pasted: str, mention: str | None, tmp_path: Path):
    for name in ("shot.png", "my shot.png", "notes.txt"):
        (tmp_path / name).write_bytes(png())
    found = dropped_picture(pasted.format(tmp_path))
    assert found == (None if mention is None else mention.format(tmp_path))


async def test_a_picture_that_cannot_be_sent_is_one_line(files: Path, make_session: MakeSession):
    session = make_session()
    (files / "half.png").write_bytes(png()[:-9])
    with pytest.raises(UsageError, match=r"half\.png begins as a PNG .*broken"):
        await mentioned(session, "@half.png", person=TYPED)
    session.meter.facts = session.models.facts.replace(images=False)
    with pytest.raises(UsageError, match=r"scripted .*my shot\.png.*--model"):
        await mentioned(session, 'what is @"my shot.png"?', person=TYPED)


async def test_a_prompt_and_a_read_show_them_to_the_model(
    files: Path, make_session: MakeSession, model_server: ModelServer
):
    model_server.script = [Reply(calls=[Call("c1", "read", {"path": "my shot.png"})]), Reply("Two pictures.")]
    session = make_session()
    words = 'what is @"my shot.png"?'
    async with aclosing(session.send(words, None, await mentioned(session, words, person=TYPED))) as stream:
        seen = [event async for event in stream]
    (result,) = [event for event in seen if isinstance(event, events.ToolResult)]
    assert result.status == "done" and "3 × 2" in result.text
    assert [sent.body.count(b"data:image/png;base64,") for sent in model_server.requests] == [1, 2]
    assert session.rewind() == words
    assert session.messages == []


PICTURE: Any = {"name": "a.png", "media_type": "image/png", "width": 1500, "height": 1000, "data": "QUJD" * 1_000}


def conversation(turns: int) -> list[Message]:
    listed: list[Message] = []
    for number in range(turns):
        call = tool_call(f"c{number}", "read", json.dumps({"path": f"p{number}.png"}))
        picture = {**PICTURE, "name": f"p{number}.png"}
        listed += [
            user(f"look at picture {number} of the parser " + "and say what it shows " * 40, [picture]),
            assistant(None, [call]),
            tool_result(call["id"], f"p{number}.png is a PNG image", images=[picture]),
            assistant(f"It shows the window of test {number}. " + "Then more of it. " * 40),
        ]
    return listed


def test_a_compaction_drops_old_ones_and_says_so():
    listed = conversation(8)
    made = compact(listed, sum(map(estimate_message, listed)) // 2)
    left = [each["name"] for message in made.messages for each in message.get("images", ())]
    gone = [f"p{number}.png" for number in range(8) if f"p{number}.png" not in left]
    assert "p7.png" in left, "the newest turn stays whole"
    told = made.messages[0]["content"]
    assert gone
    assert [name for name in gone if name not in told] == []
    tight = compact(listed, 2_500)
    assert any(prompt.PICTURES_DROPPED in str(message["content"]) for message in (*made.messages, *tight.messages))
    assert sum(map(estimate_message, tight.messages)) <= 2_500


def test_an_export_holds_them_as_data_and_refuses_what_is_none():
    shown = {**PICTURE, "data": "QUJD"}
    snapshot = Document(timestamp=1.0, token_count=1, messages=(user("look", [shown]), assistant("I see.")))
    data = to_json(snapshot, mask=None)
    assert b'"data":"QUJD"' in data and from_json(data).messages == snapshot.messages
    for wrong in (b'"data":"Q<>"', b'"data":7'):
        with pytest.raises(UsageError, match="data"):
            from_json(data.replace(b'"data":"QUJD"', wrong))
