"""What an extension brings takes part like what codelet has itself, without a line changed anywhere else."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from codelet import events
from codelet.context.reminders import Source
from codelet.errors import CodeletError, ExportError, UsageError
from codelet.export.decode import from_json
from codelet.export.document import Document, schema
from codelet.export.encode import to_json
from codelet.export.recorder import Recorder, restore
from codelet.extensions.base import Command, ExportPart, Extension, Guard, GuardedCall
from codelet.loop.session import Session
from codelet.loop.toolbox import Safeguards
from codelet.messages import reminder_type
from codelet.prompt import AS_OF, TURN_START
from codelet.safety.secrets import Masker
from codelet.tools.tool import Progress, ToolContext, ToolOutput, tool
from tests.context.scripted import Answer, ScriptedProvider, Sent, turn
from tests.extensions.conftest import Open
from tests.support.exporting import open_export

FORM = {"type": "array", "items": {"type": "string"}}


class Notes(Extension, Source, Guard):
    """Notes of the model's: all that an extension can bring, in one class."""

    name = "notes"

    def __init__(self, *, off: bool = False, zone: Any = "tail") -> None:
        self.notes: list[str] = []
        self.off, self.zone = off, zone
        self.tools = (tool(self.note),)
        self.reminders = (self,)
        self.guards = (self,)
        self.commands = (Command("notes", "Show the notes", self.shown, "[WORD]"),)
        self.parts = (ExportPart("notes", self.save, self.restore, lambda: FORM),)
        self.seen: list[str] = []
        self.asked = self.closed = 0

    async def note(self, context: ToolContext, progress: Progress, *, text: str) -> ToolOutput:
        """Keep a note."""
        self.notes = [*self.notes, text]
        return ToolOutput("noted")

    async def text(self) -> str | None:
        self.asked += 1
        return "\n".join(self.notes)

    async def after(self, call: GuardedCall, output: ToolOutput) -> ToolOutput:
        self.seen.append(call.name)
        return output.replace(text=f"{output.text} (seen)")

    async def shown(self, session: Session, argument: str) -> str:
        return "\n".join(note for note in self.notes if argument in note) + f"\nof {len(session.messages)} messages"

    def save(self) -> list[str]:
        return self.notes

    def restore(self, value: list[str]) -> None:
        self.notes = value

    async def close(self) -> None:
        self.closed += 1


def take(*notes: str) -> list[Answer]:
    return [Answer("ok", [("note", {"text": note}) for note in notes]), Answer()]


def snapshot_of(session: Session, recorder: Recorder | None = None) -> Document:
    return (recorder or Recorder()).snapshot(session)


def read_back(snapshot: Document) -> Document:
    return from_json(to_json(snapshot, mask=None))


def kinds(sent: Sent) -> list[str]:
    return [reminder_type(message) or message["role"] for message in (*sent.stable, *sent.tail)]


async def test_its_tool_reminder_guard_and_command_take_part(open_session: Open) -> None:
    notes = Notes()
    session, provider = open_session(notes)
    provider.answers.extend(take("buy milk", "call home"))
    seen = await turn(session)
    assert [json.loads(provider.sent[0].tools)[-1]["function"]["name"]] == ["note"]
    assert [kinds(sent) for sent in provider.sent] == [
        ["user"],
        ["user", "assistant", "tool", "tool", "notes"],
    ]
    assert "buy milk\ncall home" in provider.sent[1].tail[0]["content"]
    assert [event.text for event in seen if isinstance(event, events.ToolResult)] == ["noted (seen)"] * 2
    assert notes.seen == ["note", "note"]
    one = session.commands["notes"]
    assert (one.name, one.help, one.arguments) == ("notes", "Show the notes", "[WORD]")
    assert await session.run_command("notes", " milk ") == "buy milk\nof 5 messages"


async def test_its_key_is_kept_by_the_export(open_session: Open) -> None:
    notes = Notes()
    session, provider = open_session(notes)
    provider.answers.extend(take("buy milk"))
    await turn(session)
    snapshot = read_back(snapshot_of(session))
    assert snapshot.unknown == {"notes": ["buy milk"]}
    other = Notes()
    again, _ = open_session(other)
    restore(again, snapshot)
    assert other.notes == ["buy milk"]
    assert snapshot_of(again, Recorder(snapshot)).unknown == {"notes": ["buy milk"]}
    without, _ = open_session()
    restore(without, snapshot)
    assert snapshot_of(without, Recorder(snapshot)).unknown == {"notes": ["buy milk"]}, "kept by who does not know it"


def test_the_published_schema_has_the_keys_of_codelets_own_extensions() -> None:
    published = schema({"notes": FORM})
    assert published["properties"].pop("notes") == FORM
    assert published == schema()


async def test_a_value_that_does_not_fit_is_refused_in_a_line(open_session: Open) -> None:
    session, _ = open_session(Notes())
    snapshot = snapshot_of(session)
    with pytest.raises(ExportError, match=r"^'notes' in the export.*: 1 is not of type 'string'$"):
        restore(session, snapshot.replace(unknown={"notes": ["a", 1]}))


@pytest.mark.parametrize("gives", [RuntimeError("the key is k-5b1e7c0d94a8f2b63e"), object()])
async def test_a_value_that_cannot_be_saved_stays_as_it_was_and_is_told_once(
    gives: object, open_session: Open, tmp_path: Path
) -> None:
    class Failing(Notes):
        fails = False

        def save(self) -> Any:
            if self.fails and isinstance(gives, Exception):
                raise gives
            return gives if self.fails else list(self.notes)

    notes = Failing()
    masker = Masker({"MY_KEY": "k-5b1e7c0d94a8f2b63e"})
    session, provider = open_session(notes, safeguards=Safeguards(masker=masker))
    export = await open_export(str(tmp_path / "kept.json"), session)
    told: list[str] = []

    async def saved(text: str) -> Document:
        provider.answers.extend(take(text))
        async for event in session.send("note it"):
            export.see(event)
        told.extend(export.notices.take())
        assert export.saver is not None
        await export.saver.settle()
        return from_json((tmp_path / "kept.json").read_bytes(), "kept.json")

    assert (await saved("buy milk")).unknown == {"notes": ["buy milk"]}
    notes.fails = True
    snapshot = await saved("call home")
    assert snapshot.unknown == {"notes": ["buy milk"]}
    assert len(snapshot.messages) == len(session.conversation.sent()), "the rest is saved"
    assert len(told) == 1 and told[0].startswith("the export's key 'notes', which an extension keeps, is unchanged: ")
    assert "k-5b1e7c0d94a8f2b63e" not in told[0]
    notes.fails = False
    assert (await saved("write")).unknown == {"notes": ["buy milk", "call home", "write"]}
    await export.close()
    assert len(told) == 1

    notes = Failing()
    notes.fails = True
    recorder = Recorder()
    assert snapshot_of(open_session(notes)[0], recorder).unknown == {}
    (line,) = recorder.notices.take()
    assert "key 'notes'" in line and "left out" in line


@pytest.mark.parametrize("key", ["messages", "tokenCount", "notes"])
async def test_a_key_that_is_taken_is_refused(open_session: Open, key: str) -> None:
    class Taken(Extension):
        def __init__(self) -> None:
            self.parts = (ExportPart(key, list, list),)

    session, _ = open_session(Notes(), Taken())
    with pytest.raises(ExportError, match=f"'{key}'.* taken"):
        snapshot_of(session)
    with pytest.raises(ExportError, match="it is taken"):
        await open_export(None, session)


async def test_two_of_a_name_are_refused(open_session: Open) -> None:
    with pytest.raises(UsageError, match=r"two tools .*'note'"):
        open_session(Notes(), Notes())

    class Again(Extension):
        def __init__(self, **brings: Any) -> None:
            self.__dict__.update(brings)

    mine = Notes()
    for what, brings in (("reminder", {"reminders": [mine]}), ("command", {"commands": mine.commands})):
        with pytest.raises(UsageError, match=f"two {what}s .*'notes'"):
            open_session(mine, Again(**brings))

    class Git(Source):
        name = "gitStatus"

    with pytest.raises(UsageError, match=r"two reminders .*'gitStatus'"):
        open_session(Again(reminders=[Git()]), bare=False)


async def test_its_reminder_has_its_place_and_its_switch(open_session: Open) -> None:
    notes = Notes()
    session, provider = open_session(notes, bare=False)
    notes.notes = ["buy milk"]
    await turn(session)
    assert kinds(provider.sent[-1]) == ["environment", "user", "notes", "tokenStatus"]
    row = next(row for row in session.reminders.rows() if row.kind == "notes")
    assert (row.on, row.tokens > 0, row.sent) == (True, True, row.tokens)
    session.reminders.off.add("notes")
    asked = notes.asked
    await turn(session)
    assert "notes" not in kinds(provider.sent[-1])
    assert notes.asked == asked, "what is off is not asked"
    other = Notes()
    again, provider = open_session(other, bare=False)
    restore(again, read_back(snapshot_of(session)))
    await turn(again)
    assert "notes" not in kinds(provider.sent[-1]), "its switch is kept"


async def test_a_reminder_that_is_off_at_first_and_switched_on_stays_on(open_session: Open) -> None:
    session, provider = open_session(Notes(off=True))
    assert session.reminders.off == {"notes"}
    first = read_back(snapshot_of(session))
    assert (first.reminders_off, first.reminders_on) == ((), UNSET)
    session.reminders.off.discard("notes")
    snapshot = read_back(snapshot_of(session))
    assert snapshot.reminders_on == ("notes",)
    again, provider = open_session(Notes(off=True))
    restore(again, snapshot.replace(unknown={"notes": ["buy milk"]}))
    await turn(again)
    assert kinds(provider.sent[-1]) == ["user", "notes"]
    left, _ = open_session(Notes(off=True))
    restore(left, first)
    assert left.reminders.off == {"notes"}


@pytest.mark.parametrize("placement, zone, places", [
    ("tail", "head", ["environment", "notes", "user", "tokenStatus"]),
    ("prepend", "tail", ["environment", "notes", "tokenStatus", "user"]),
    ("prepend", "head", ["environment", "notes", "tokenStatus", "user"]),
])  # fmt: skip
async def test_its_reminder_stands_where_its_zone_is(
    open_session: Open, placement: str, zone: str, places: list[str]
) -> None:
    notes = Notes(zone=zone)
    notes.notes = ["buy milk"]
    session, provider = open_session(notes, bare=False, placement=placement)
    await turn(session)
    assert kinds(provider.sent[-1]) == places
    said = next(message for message in session.conversation.sent() if reminder_type(message) == "notes")["content"]
    assert (AS_OF.format(when=TURN_START, text="buy milk") in said) == ((placement, zone) == ("prepend", "tail"))
    resumed, provider = open_session(Notes(zone=zone), bare=False, placement=placement)
    resumed.adopt(session.conversation.sent())
    assert [message["role"] for message in resumed.conversation.body] == ["user", "assistant"]


@pytest.mark.parametrize("where", ["begin", "text", "stop"])
async def test_a_reminder_that_fails_is_left_out_and_told(open_session: Open, where: str) -> None:
    async def failing() -> None:
        raise OSError("no disk")

    notes = Notes()
    vars(notes)[where] = failing
    session, provider = open_session(notes)
    seen = [*await turn(session), *await turn(session)]
    assert kinds(provider.sent[-1]) == ["user", "assistant", "user"]
    told = [event.text for event in seen if isinstance(event, events.Note)]
    assert len(set(told)) == 1 and "notes" in told[0] and "OSError: no disk" in told[0]


async def test_a_tool_that_comes_later_joins_the_others(open_session: Open) -> None:
    class Later(Notes):
        def offered(self) -> Any:
            return self.tools if self.seen else ()

    session, provider = open_session(Later(), tools=[tool(echo)])
    provider.answers.append(Answer("ok", [("echo", {"text": "a"})]))
    await turn(session)
    names = [[one["function"]["name"] for one in json.loads(sent.tools)] for sent in provider.sent]
    assert names == [["echo"], ["echo", "note"]]


async def echo(context: ToolContext, progress: Progress, *, text: str) -> ToolOutput:
    """Say it again."""
    return ToolOutput(text)


async def test_close_ends_everything_once_whatever_fails(open_session: Open) -> None:
    ended: list[str] = []

    class Ending(Extension):
        def __init__(self, name: str, error: Exception | None = None) -> None:
            self.name, self.error = name, error

        def attach(self, session: Session) -> None:
            ended.append(f"begin {self.name} with {len(session.toolbox.tools)} tools")

        async def close(self) -> None:
            ended.append(f"end {self.name}")
            if self.error is not None:
                raise self.error

    class Closing(ScriptedProvider):
        async def close(self) -> None:
            ended.append("end provider")

    session, _ = open_session(Ending("a"), Ending("b", RuntimeError("no")), Ending("c"), tools=(), provider=Closing())
    with pytest.raises(CodeletError, match=r"^Ending .*: RuntimeError: no$"):
        await session.close()
    await session.close()
    assert ended == [*(f"begin {name} with 0 tools" for name in "abc"), "end c", "end b", "end a", "end provider"]


async def test_an_extension_that_does_not_end_is_left_and_told(open_session: Open):
    class Hanging(Extension):
        async def close(self) -> None:
            await asyncio.Event().wait()

    session, _ = open_session(Hanging())
    with pytest.raises(CodeletError, match=r"^Hanging .* 5 s$"):
        await session.close()
