"""Sessions as material for the tests: a whole one, long ones, and ones that hypothesis makes."""

from __future__ import annotations

import random
from typing import Any, get_args

from hypothesis import strategies as st
from msgspec import UNSET

from codelet.call_record import CallRecord, CallStatus, CommandEnd, FileFact, PathEffect
from codelet.export.document import Document
from codelet.export.recorder import call_entry
from codelet.messages import Message, assistant, tool_call, tool_result, user


def whole() -> Document:
    """A snapshot with something in every part."""
    call = tool_call("call-1", "bash", '{"command": "pytest -q"}')
    call["extra"] = {"extra_content": {"google": {"thought_signature": "c2lnbmVk"}}}
    thinking: Message = {"role": "assistant", "content": None, "tool_calls": [call]}
    thinking["thinking_blocks"] = [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}]
    thinking["blocks"] = [{"type": "thinking", "thinking": "", "signature": "c2ln"}, {"type": "tool_use"}]
    thinking["bound_to"] = "0123456789abcdef0123456789abcdef"
    thinking["reasoning_content"] = "hm"
    thinking["reasoning"] = "hm, under another name"
    thinking["extra"] = {"encrypted_content": "Z2VoZWlt"}
    thinking["origin"] = "anthropic"
    messages: list[Message] = [
        user("[Memory Summary] Before: the parser was fixed."),
        user("Run the tests, please — ünïcode 😀"),
        thinking,
        tool_result("call-1", "2 passed in 0.1s", failed=True),
        assistant("All green."),
    ]
    return Document(
        timestamp=1767225600.25,
        token_count=1234,
        messages=tuple(messages),
        session_id="a1b2c3",
        model="anthropic/claude-sonnet-5-5",
        profile="careful",
        effort="high",
        summary="The parser was fixed.",
        long_term_summary="Older: the project was set up.",
        facts=("the user prefers tabs", "python is 3.11"),
        active_tasks=(
            {"id": "t1", "description": "watch the build", "status": "Running", "progress": 0.5,
             "created_at": 1767225000, "updated_at": 1767225500.5},
        ),
        plan={"goal": "green", "current_step": 1, "status": "InProgress", "steps": [
            {"id": 0, "description": "fix", "status": "Completed", "result": "done"},
            {"id": 1, "description": "test", "status": "InProgress", "result": None}]},
        pins=(0, 2),
        anchors=({"turn": 1, "kind": "error fixed", "text": "IndexError in parse"},),
        segments=({"first": 0, "last": 3, "text": "The parser was rewritten."},),
        interruption={"done": ["call-1"], "half_done": [], "not_done": [], "messages": [user("before")]},
        token_usage={"total_input": 100, "cache_read": 50, "cache_write": 10, "output": 20, "reasoning": 5,
                     "turns": 2, "cost": 0.25},
        tool_stats={"total_calls": 3, "by_tool": {"bash": 2, "read": 1}, "failures": 1},
        last_known_environment={"workspace": "/home/user/project", "memory_used_mb": 8200, "memory_total_mb": 16000,
                                "disk_usage_percent": 45.5, "battery_percent": None, "uptime_seconds": 190000,
                                "processes": [{"pid": 1, "name": "init", "cpu_percent": 0.1, "memory_mb": 12}]},
        system_state={"branch": "main", "nested": {"deep": [1, 2.5, None, True]}},
        timeline=(
            {"kind": "step", "timestamp": 1767225100, "turn": 1, "total_input": 60, "cache_read": 20,
             "cache_write": 10, "output": 12, "context": 72, "window": 200000, "budget": 168000},
            {"kind": "compaction", "timestamp": 1767225150, "turn": 2, "before": 180000, "after": 60000,
             "reason": "window"},
        ),
        recent_history=({"timestamp": 1767225100, "role": "user", "content": "Run the tests", "token_count": 12},),
        archive=({"id": "r1", "turn": 0, "message": user("an old request")},),
        calls=(
            {"id": "call-1", "turn": 1, "tool": "edit", "title": "a.py", "status": "done", "changes": True,
             "seconds": 0.25, "files": [{"effect": "changed", "path": "a.py", "lines": 3, "bytes": 40}]},
            {"id": "call-2", "turn": 2, "tool": "bash", "title": "false | true", "status": "done", "changes": False,
             "seconds": 1.5, "commands": ["false | true"], "confined": "read-only",
             "ended": {"code": 0, "pipeline": [1, 0]}},
        ),
        reminders_off=("environment",),
        reminders_on=("plan",),
        touched_folders=("src", "src/parser"),
        thinking_dropped=True,
    )  # fmt: skip


def long(count: int, characters: int, seed: int = 0) -> Document:
    """A session of `count` messages of about that many characters each: prompts, calls, results, answers."""
    chance = random.Random(seed)
    words = ["parse", "def", "return", "the", "error", "in", "src/app.py", "line", "naïve", "value=1", "\n    "]
    messages: list[Message] = []
    while len(messages) < count:
        text = " ".join(chance.choices(words, k=max(1, characters // 6)))
        number = len(messages)
        messages += [
            user(f"request {number}: {text}"),
            assistant(None, [tool_call(f"call-{number}", "read", f'{{"path": "src/{number}.py"}}')]),
            tool_result(f"call-{number}", text),
            assistant(f"answer {number}: {text}"),
        ]
    return Document(timestamp=1.0, token_count=count, messages=tuple(messages[:count]), session_id=f"long{seed}")


def numbered(number: int, padding: int = 0) -> Document:
    """A snapshot that says which one it is."""
    return Document(
        timestamp=float(number),
        token_count=number,
        messages=(user(f"state {number}"), assistant("." * padding)),
        session_id="numbered",
    )


_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
_COUNT = st.integers(0, 10**12)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=12,
)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Message, ...]:
    """Lists in which each call has its result."""
    messages: list[Message] = []
    for turn in range(draw(st.integers(0, 4))):
        messages.append(user(draw(_TEXT)))
        names = draw(st.lists(st.sampled_from(["read", "bash"]), max_size=3))
        ids = [f"{turn}-{number}" for number in range(len(names))]
        if names:
            calls = [tool_call(i, name, draw(_TEXT)) for i, name in zip(ids, names, strict=True)]
            messages.append(assistant(draw(st.none() | _TEXT), calls))
            messages.extend(tool_result(i, draw(_TEXT)) for i in ids)
        messages.append(assistant(draw(_TEXT)))
    return tuple(messages)


def call_records() -> st.SearchStrategy[CallRecord]:
    """Records of every kind."""
    exits = st.integers(-64, 255)
    ended = st.builds(CommandEnd, code=st.none() | exits, pipeline=st.none() | st.lists(exits).map(tuple))
    known = st.none() | _COUNT
    facts = st.builds(FileFact, st.sampled_from(get_args(PathEffect)), _TEXT, known, known)
    return st.builds(
        CallRecord,
        id=_TEXT,
        tool=_TEXT,
        title=_TEXT,
        status=st.sampled_from(get_args(CallStatus)),
        turn=_COUNT,
        changes=st.booleans(),
        files=st.lists(facts, max_size=2).map(tuple),
        commands=st.lists(_TEXT, max_size=2).map(tuple),
        confined=st.sampled_from([None, "read-only", "workspace"]),
        ended=st.none() | ended,
        seconds=st.integers(0, 10**6).map(lambda number: number / 1000),
    )


def snapshots() -> st.SearchStrategy[Document]:
    """Snapshots of every kind."""
    tasks: st.SearchStrategy[Any] = st.fixed_dictionaries(
        {
            "id": _TEXT,
            "description": _TEXT,
            "status": st.sampled_from(["Running", "Completed", "Failed"]),
            "progress": st.floats(0, 1),
            "created_at": _COUNT,
            "updated_at": _COUNT,
        }
    )
    made = st.builds(
        Document,
        timestamp=st.floats(0, 1e12),
        token_count=_COUNT,
        messages=conversations(),
        session_id=_TEXT,
        model=st.none() | _TEXT,
        summary=st.none() | _TEXT,
        facts=st.lists(_TEXT, max_size=4).map(tuple),
        active_tasks=st.lists(tasks, max_size=3).map(tuple),
        pins=st.lists(_COUNT, max_size=4).map(tuple),
        system_state=st.dictionaries(_TEXT, _JSON, max_size=3),
        calls=st.just(UNSET) | st.lists(call_records().map(call_entry), min_size=1, max_size=3).map(tuple),
        archive=st.none()
        | st.lists(st.fixed_dictionaries({"id": _TEXT, "turn": _COUNT, "message": st.builds(user, _TEXT)})).map(tuple),
    )
    return made.map(lambda one: one.replace(pins=tuple(pin for pin in one.pins if pin < len(one.messages))))
