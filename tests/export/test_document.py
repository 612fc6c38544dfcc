"""The document: what is written can be read, what is read is whole, and everything else is one line."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings

from codelet.call_record import CallRecord
from codelet.errors import EXIT_USAGE, ExportError
from codelet.export.decode import from_json
from codelet.export.document import FILE_NAMES, MOST_DEPTH, Document, schema
from codelet.export.encode import Encoder, to_json
from codelet.export.recorder import call_entry, record_of
from codelet.export.redaction import Mask
from codelet.messages import Message, assistant, system, tool_call, tool_result, unpaired, user
from codelet.prompt import IMPORTED_SYSTEM
from scripts.schema import PLACE, text
from tests.export import material
from tests.support.amount import amount

WHOLE = json.loads(to_json(material.whole(), mask=None))


def refused(data: bytes | dict[str, Any]) -> str:
    """The one line with which something is refused."""
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    with pytest.raises(ExportError) as caught:
        from_json(raw, "work.json")
    line = str(caught.value)
    assert line.startswith("work.json: ")
    assert "\n" not in line
    assert len(line) < 400
    assert caught.value.exit_status == EXIT_USAGE
    return line


def with_(place: str, value: Any) -> dict[str, Any]:
    """The whole document with one place changed; `place` is a path such as messages.2.role."""
    document = json.loads(json.dumps(WHOLE))
    *path, last = [int(part) if part.isdigit() else part for part in place.split(".")]
    target = document
    for part in path:
        target = target[part]
    target[last] = value
    return document


def test_every_part_comes_back_as_it_went() -> None:
    snapshot = material.whole()
    assert set(WHOLE) == set(FILE_NAMES.values())
    again = from_json(to_json(snapshot, mask=None))
    for name in Document.__struct_fields__:
        assert getattr(again, name) == getattr(snapshot, name), name


@given(material.snapshots())
@settings(max_examples=amount(15, 60), deadline=None)
def test_export_then_import_then_export_is_the_same_document(snapshot: Document) -> None:
    data = to_json(snapshot, mask=None)
    again = from_json(data)
    assert again == snapshot
    assert to_json(again, mask=None) == data


@given(material.call_records())
def test_a_record_of_a_call_comes_back_as_it_was(record: CallRecord) -> None:
    assert record_of(json.loads(json.dumps(call_entry(record)))) == record


@given(material.snapshots())
@settings(max_examples=amount(15, 40), deadline=None)
def test_what_is_written_follows_the_published_schema(snapshot: Document) -> None:
    document = json.loads(to_json(snapshot, mask=None))
    jsonschema.Draft202012Validator(schema()).validate(document)


def test_the_schema_is_a_valid_schema_and_covers_every_field() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    assert set(schema()["properties"]) == set(FILE_NAMES.values())


def test_the_published_schema_is_made_from_the_types() -> None:
    """`python -m scripts.schema` writes it."""
    assert PLACE.read_text(encoding="utf-8") == text()


NEWER: dict[str, Any] = {
    "title": "a name",
    "reviews": [{"by": "x", "lines": [1, 2.5, None, True], "deep": {"data": "A", "extra": {"id": 7}}}],
    "empty": {},
}


def newer(version: str = "1.1") -> dict[str, Any]:
    """The whole document as a newer version may have written it: names that we do not know, at each level."""
    document = with_("version", version) | NEWER
    document["messages"][1]["sounds"] = [{"path": "a.png"}]
    document["messages"][2]["tool_calls"][0]["function"]["strict"] = True
    document["messages"][2]["tool_calls"][0]["caller"] = {"type": "direct"}
    document["messages"][2]["thinking_blocks"][0]["new"] = 1
    document["timeline"][0]["provider"] = "x"
    document["timeline"][1]["tier"] = 2
    document["recent_history"][0]["title"] = "x"
    document["plan"]["steps"][0]["owner"] = "x"
    document["plan"]["title"] = "x"
    document["active_tasks"][0]["parent"] = None
    document["archive"][0]["reason"] = "old"
    document["calls"][0]["cost"] = document["calls"][0]["files"][0]["mode"] = document["calls"][1]["ended"]["by"] = 1
    document["archive"][0]["message"]["sounds"] = []
    document["interruption"]["why"] = "ESC"
    for part in ("token_usage", "tool_stats", "last_known_environment"):
        document[part]["more"] = 1
    document["segments"][0]["more"] = document["anchors"][0]["more"] = "x"
    return document


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.12"])
def test_what_a_newer_version_wrote_beside_is_kept_at_every_level(version: str) -> None:
    document = newer(version)
    snapshot = from_json(json.dumps(document).encode())
    assert snapshot.unknown == NEWER
    data = to_json(snapshot, mask=None)
    assert json.loads(data) == document
    assert list(json.loads(data))[-1] == "messages"
    assert from_json(data) == snapshot
    assert to_json(from_json(data), mask=None) == data
    jsonschema.Draft202012Validator(schema()).validate(document)


def test_what_is_not_known_is_masked_too_whatever_its_name_is() -> None:
    document = with_("data", "hunter2") | {"extra": {"deep": ["hunter2"]}, "signature": "hunter2", "n": 1}
    document["messages"][1]["more"] = "hunter2"
    data = to_json(from_json(json.dumps(document).encode()), mask=Mask(hide))
    assert b"hunter2" not in data
    again = json.loads(data)
    assert (again["data"], again["extra"], again["n"]) == ("[masked]", {"deep": ["[masked]"]}, 1)


def test_what_a_newer_version_wrote_otherwise_is_refused_and_told_why() -> None:
    document = with_("version", "1.4")
    document["messages"][1]["content"] = [{"type": "text", "text": "hi"}]
    line = refused(document)
    assert "messages[1].content: " in line
    assert "version 1.4, newer" in line


def test_snapshot_1_0_of_the_four_required_fields_is_read() -> None:
    document = {"version": "1.0", "timestamp": 1, "tokenCount": 3, "messages": [{"role": "user", "content": "hi"}]}
    assert from_json(json.dumps(document).encode()).messages == (user("hi"),)


@pytest.mark.parametrize(("value", "says"), [("2.0", "update codelet"), ("0.9", "unknown version"), (1, "no version")])
def test_a_version_that_cannot_be_read_is_refused(value: Any, says: str) -> None:
    assert says in refused(with_("version", value))


ROLE = "not a field"
"""Of a message of that role."""


@pytest.mark.parametrize(
    ("place", "value", "named", "says"),
    [
        ("timestamp", -1, "timestamp", ">= 0"),
        ("timestamp", "now", "timestamp", "float"),
        ("timestamp", True, "timestamp", "float"),
        ("tokenCount", 1.5, "tokenCount", "int"),
        ("messages", {}, "messages", "array"),
        ("messages.1.role", "developer", "messages[1].role", "'developer'"),
        ("messages.1.role", ["user"], "messages[1].role", "str"),
        ("messages.1.role", "x\ny" * 200, "messages[1].role", "Invalid"),
        ("messages.1.content", None, "messages[1].content", "str"),
        ("messages.1.content", [{"type": "text"}], "messages[1].content", "str"),
        ("messages.1.tool_calls", [], "messages[1].tool_calls", ROLE),
        ("messages.3.thinking_blocks", [], "messages[3].thinking_blocks", ROLE),
        ("messages.4.tool_call_id", "1", "messages[4].tool_call_id", ROLE),
        ("messages.4", {"content": "x"}, "messages[4]", "role"),
        ("messages.4", "x", "messages[4]", "object"),
        ("timeline.0.kind", "pause", "timeline[0].kind", "'pause'"),
        ("messages.2.tool_calls.0.type", "custom", "messages[2].tool_calls[0].type", "'custom'"),
        ("messages.2.tool_calls.0.function.arguments", {}, "messages[2].tool_calls[0].function.arguments", "str"),
        ("messages.2.thinking_blocks", [1], "messages[2].thinking_blocks[0]", "object"),
        ("messages.3", {"role": "tool", "content": "x"}, "messages[3]", "tool_call_id"),
        ("facts", [1], "facts[0]", "str"),
        ("active_tasks.0.progress", 1.5, "active_tasks[0].progress", "<= 1"),
        ("plan.steps.0.status", "Maybe", "plan.steps[0].status", "'Maybe'"),
        ("tool_stats.by_tool.bash", -1, "tool_stats.by_tool[...]", ">= 0"),
        ("session_id", "x" * 513, "session_id", "<= 512"),
        ("system_state.big", 10**30, "system_state.big", "out of range"),
        ("more", {"big": 10**30}, "more.big", "out of range"),
        ("messages.1.more", 10**30, "messages[1].more", "out of range"),
        ("interruption.messages.0.role", "x", "interruption.messages[0].role", "'x'"),
        ("calls.0.status", "maybe", "calls[0].status", "'maybe'"),
        ("calls.1.ended.code", "0", "calls[1].ended.code", "str"),
        ("archive.0.message.content", 1, "archive[0].message.content", "str"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(place: str, value: Any, named: str, says: str) -> None:
    where, _, reason = refused(with_(place, value)).removeprefix("work.json: ").partition(": ")
    assert where == named
    assert says in reason


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"null", "an object"),
        (b"5", "an object"),
        (b'"words"', "an object"),
        (b"[]", "an object"),
        (b"[1]", "an object"),
        (b'[{"role": "user", "content": "x"}, {}]', "an object"),
        (b'[{"a": 1}]', "an object"),
        (b"\xff\xfe{}", "is not JSON: invalid character (byte 0)"),
        (b'{"version": "\xff"}', "is not JSON: 'utf-8'"),
        (b'{"version": NaN}', "is not JSON: invalid character (byte 12)"),
        (b'{"version": "1.0", "timestamp": 1e999, "tokenCount": 1, "messages": []}', "out of range"),
        (b'{"version": ' + b"9" * 5000 + b"}", "out of range"),
        (b'{"version": "1.0", "x": {"y": ["\\ud800"]}}', "is not JSON"),
        (b'{"version": "1.0", "\\uDfff": 1}', "is not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_what_is_not_an_export_at_all_is_refused(raw: bytes, says: str) -> None:
    assert says in refused(raw)


def test_free_parts_are_bounded_in_depth() -> None:
    deep: Any = 1
    for _ in range(40):
        deep = [deep]
    for place in ("system_state.deep", "deep", "messages.1.deep", "messages.2.tool_calls.0.extra.deep"):
        assert f"deeper than {MOST_DEPTH}" in refused(with_(place, deep)), place


def test_control_characters_of_a_bad_file_do_not_reach_the_line() -> None:
    from codelet.system.text import one_line

    line = refused(with_("\x1b]0;title\x07", 10**30))
    assert "\x1b" not in one_line(line, 2000)


def mutated(chance: random.Random, data: bytes) -> bytes:
    """One fuzzed document: bytes changed, parts moved, values of other kinds in place."""
    if chance.random() < 0.4:
        raw = bytearray(data)
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(len(raw))
            match chance.randrange(4):
                case 0:
                    raw[at] = chance.randrange(256)
                case 1:
                    del raw[at : at + chance.randint(1, 40)]
                case 2:
                    raw[at:at] = chance.choice([b"\\ud800", b"NaN", b'"a":1,', b"{", b"]", b"1e999", b"\x00"])
                case _:
                    end = at + chance.randint(1, 60)
                    raw[at:at] = raw[at:end]
        return bytes(raw)
    document = json.loads(data)
    for _ in range(chance.randint(1, 3)):
        _break_somewhere(chance, document)
    return json.dumps(document).encode()


def _break_somewhere(chance: random.Random, document: Any) -> None:
    target = document
    while True:
        keys = list(target) if isinstance(target, dict) else list(range(len(target)))
        if not keys:
            return
        key = chance.choice(keys)
        if isinstance(target[key], dict | list) and target[key] and chance.random() < 0.7:
            target = target[key]
            continue
        strange = [None, True, -1, 10**400, 0.5, "", "x" * 600, [], {}, [[]], {"a": {}}, "tool", "\ud800", "1.0"]
        match chance.randrange(3):
            case 0:
                del target[key]
            case 1:
                target[key] = chance.choice(strange)
            case _ if isinstance(target, list):
                target.insert(chance.randrange(len(target) + 1), chance.choice([target[key], *strange]))
            case _:
                target[chance.choice(["role", "content", "tool_calls", "id", "kind"])] = chance.choice(strange)
        return


def fuzz(count: int, seed: int) -> tuple[int, int]:
    """Read `count` fuzzed documents; how many were taken and refused. Anything but ExportError comes out."""
    chance = random.Random(seed)
    data = to_json(material.whole(), mask=None)
    judge = jsonschema.Draft202012Validator(schema())
    taken = 0
    for number in range(count):
        raw = mutated(chance, data)
        try:
            snapshot = from_json(raw)
        except ExportError as error:
            assert "\n" not in str(error)
            continue
        taken += 1
        assert unpaired(snapshot.messages) == []
        written = to_json(snapshot, mask=None)
        assert from_json(written) == snapshot
        if number % 10 == 0 and "version" in json.loads(raw):
            assert judge.is_valid(json.loads(raw)), "the published schema refuses what is taken"
    return taken, count - taken


def test_fuzzed_documents_raise_nothing_but_the_one_error() -> None:
    count = amount(1_500, 200_000)
    taken, gone = fuzz(count, 7)
    assert taken > count / 30
    assert gone > count / 3


def test_p2_a_corrupted_compressed_state_does_not_crash_the_load() -> None:
    """Prediction P2: malformed stored state (null parts, missing lists, wrong items) must not panic on load."""
    for name in FILE_NAMES.values():
        for value in (None, 0, "x", [None], [{}], [[]], {}, {"Segments": None}):
            try:
                snapshot = from_json(json.dumps(with_(name, value)).encode())
            except ExportError:
                continue
            to_json(snapshot, mask=None)
    for segment in (None, {}, {"first": None}, {"first": 0, "last": 0, "text": None}, "text", 7):
        assert "segments[0]" in refused(with_("segments", [segment]))
    for fact in (None, {"predicate": "p", "args": None}, [], 1):
        assert "facts[0]" in refused(with_("facts", [fact]))


BROKEN: list[list[Message]] = [
    [user("a"), tool_result("x", "orphan")],
    [assistant(None, [tool_call("1", "read", "{}")])],
    [assistant(None, [tool_call("1", "read", "{}")]), user("between"), tool_result("1", "late")],
    [assistant(None, [tool_call("1", "a", ""), tool_call("2", "b", "")]), tool_result("2", "two"),
     tool_result("1", "one")],
    [assistant(None, [tool_call("1", "a", ""), tool_call("1", "b", "")]), tool_result("1", "one")],
    [assistant(None, [tool_call("1", "a", "")]), tool_result("1", "first"), tool_result("1", "last")],
    [tool_result("1", "x"), system("s"), assistant("t"), tool_result("1", "y")],
]  # fmt: skip


@pytest.mark.parametrize("messages", BROKEN)
def test_broken_pairs_are_mended(messages: list[Message]) -> None:
    mended = from_json(to_json(Document(timestamp=1.0, token_count=1, messages=tuple(messages)), mask=None)).messages
    assert unpaired(mended) == []
    for message in mended:
        ids = [call["id"] for call in message.get("tool_calls", ())]
        assert len(ids) == len(set(ids))
    kept = [m["content"] for m in messages if m["role"] in ("user", "system")]
    said = [m["content"] for m in mended if m["role"] == "user"]
    assert [text.removeprefix(IMPORTED_SYSTEM.format(text="")) for text in said] == kept


def test_late_and_repeated_results_are_kept_with_their_call() -> None:
    late = from_json(to_json(Document(timestamp=1.0, token_count=1, messages=tuple(BROKEN[2])), mask=None)).messages
    assert [m["content"] for m in late] == [None, "late", "between"]
    twice = from_json(to_json(Document(timestamp=1.0, token_count=1, messages=tuple(BROKEN[5])), mask=None)).messages
    assert [m["content"] for m in twice] == [None, "last"]


def test_ids_that_a_server_counts_anew_are_told_apart() -> None:
    """Nothing is lost, also where something else in the list is broken."""
    turns: list[Message] = []
    for number in range(3):
        turns += [user(f"{number}"), assistant(None, [tool_call("0", "read", "{}"), tool_call("1", "read", "{}")]),
                  tool_result("0", f"a{number}"), tool_result("1", f"b{number}")]  # fmt: skip
    for broken in ([], [tool_result("x", "orphan")]):
        mended = from_json(
            to_json(Document(timestamp=1.0, token_count=1, messages=(*turns, *broken)), mask=None)
        ).messages
        assert unpaired(mended) == []
        assert [m["content"] for m in mended] == [m["content"] for m in turns]
        ids = [call["id"] for message in mended for call in message.get("tool_calls", ())]
        assert ids == ["0", "1", "0~2", "1~2", "0~3", "1~3"]
    many = [m for n in range(20_000) for m in (assistant(None, [tool_call("c", "f", "")]), tool_result("c", str(n)))]
    assert len(
        from_json(to_json(Document(timestamp=1.0, token_count=1, messages=tuple(many)), mask=None)).messages
    ) == len(many)


def test_pins_follow_their_messages_where_broken_pairs_are_mended() -> None:
    many = [user("a"), tool_result("lost", "of no call"), user("b"), user("c")]
    raw = json.loads(to_json(Document(timestamp=1.0, token_count=1, messages=tuple(many)), mask=None))
    again = from_json(json.dumps(raw | {"pins": [0, 1, 3, 4, 99]}).encode())
    assert [message["content"] for message in again.messages] == ["a", "b", "c"]
    assert again.pins == (0, 2)
    whole = from_json(json.dumps(raw | {"messages": [raw["messages"][0]], "pins": [0, 1]}).encode())
    assert whole.pins == (0,)


def test_the_context_of_an_older_persistent_agent_is_migrated() -> None:
    old = {
        "session_id": "agent_1",
        "system_state": {"mode": "x"},
        "facts": ["User prefers verbose output"],
        "recent_history": [
            {"timestamp": 10, "role": "user", "content": "Create test.txt", "token_count": 4},
            {"timestamp": 11, "role": "tool", "content": "created", "token_count": None},
            {"timestamp": 12, "role": "assistant", "content": "Done."},
        ],
        "long_term_summary": "Earlier: nothing.",
        "active_tasks": [],
        "tool_stats": {"total_calls": 1, "by_tool": {"file.create": 1}, "failures": 0},
        "last_known_environment": {"workspace": "/w", "processes": [], "memory_used_mb": 1, "memory_total_mb": 2,
                                   "disk_usage_percent": 45.0, "battery_percent": 78, "uptime_seconds": 9},
        "token_usage": {"total_input": 40, "prompt": 3},
        "oauth_tokens": {"access_token": "secret"},
    }  # fmt: skip
    snapshot = from_json(json.dumps(old).encode())
    told = '<compacted turns="0-0">\n[t0] Earlier: nothing.'
    assert [m["content"] for m in snapshot.messages] == [told, "Create test.txt", "[tool result]\ncreated", "Done."]
    assert [m["role"] for m in snapshot.messages] == ["user", "user", "user", "assistant"]
    assert (snapshot.timestamp, snapshot.token_count, snapshot.summary) == (12, 4, told)
    assert snapshot.segments == ({"first": 0, "last": 0, "text": told},)
    assert snapshot.long_term_summary == "Earlier: nothing."
    assert from_json(to_json(snapshot, mask=None)) == snapshot
    assert snapshot.token_usage["total_input"] == 40
    assert b"secret" not in to_json(snapshot, mask=None)
    assert "recent_history must be a list" in refused({"session_id": "a", "recent_history": 3})
    assert "messages[0].role: " in refused({"session_id": "a", "recent_history": [{"role": "root", "content": ""}]})


def hide(text: str) -> str:
    """A masker that is easy to follow."""
    return re.sub(r"hunter2|sk-\w+\"?", "[masked]", text)


def test_secrets_are_masked_everywhere_and_structure_stays() -> None:
    call = tool_call("sk-id", "bash", '{"command": "echo sk-abc", "n": 1}')
    thinking: Message = {"role": "assistant", "content": "hunter2", "tool_calls": [call]}
    thinking["thinking_blocks"] = [{"type": "thinking", "thinking": "use hunter2", "signature": "sk-sig"}]
    snapshot = Document(
        timestamp=1.0, token_count=1, messages=(user("my key is hunter2"), thinking, tool_result("sk-id", "hunter2")),
        facts=("hunter2",), summary="hunter2", system_state={"a": ["hunter2"]},
    )  # fmt: skip
    data = to_json(snapshot, mask=Mask(hide))
    assert b"hunter2" not in data
    assert b"sk-abc" not in data
    again = from_json(data)
    assert unpaired(again.messages) == []
    assert again.messages[1]["tool_calls"][0]["id"] == "sk-id"
    arguments = json.loads(again.messages[1]["tool_calls"][0]["function"]["arguments"])
    assert arguments == {"command": "echo [masked]", "n": 1}
    assert "thinking_blocks" not in again.messages[1]
    assert to_json(again, mask=Mask(hide)) == data
    assert b"hunter2" in to_json(snapshot, mask=None)


def test_each_message_is_masked_once_however_often_it_is_saved() -> None:
    seen: list[str] = []

    def watch(text: str) -> str:
        seen.append(text)
        return text

    encoder = Encoder(Mask(watch))
    messages = [user("hello " * 10_000), user("first prompt")]
    one = encoder.parts(Document(timestamp=1.0, token_count=1, messages=tuple(messages)))
    messages.append(assistant("first answer"))
    two = encoder.parts(Document(timestamp=1.0, token_count=1, messages=tuple(messages)))
    encoder.parts(Document(timestamp=1.0, token_count=1, messages=tuple(messages[1:])))
    assert seen.count("first prompt") == 1
    assert seen.count("first answer") == 1
    assert next(p for p in one if b"first prompt" in p) is next(p for p in two if b"first prompt" in p)


def test_a_lone_surrogate_in_the_session_does_not_stop_the_save() -> None:
    again = from_json(to_json(Document(timestamp=1.0, token_count=1, messages=(user("a\ud800b"),)), mask=None))
    assert again.messages[0]["content"] == "a\ufffdb"
