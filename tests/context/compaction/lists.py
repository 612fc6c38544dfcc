"""Lists of messages for the tests: generated ones of any shape, and small ones made by hand."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from codelet.context.compaction.segments import ParsedSegment, parse_segment
from codelet.messages import kind_of, reminder_type, with_kinds

Message = dict[str, Any]

_WORDS = (
    "read the config in src/app/main.py and fix parseHeader() error: E1042 must never 8080 timeout_ms=300 тест 工具 ok "
    "tests/unit/test_io.py FAILED 3 passed value-7 <system-reminder> [t3 user] x"
).split()
WORDS = st.sampled_from(_WORDS)


def _chunk(number: int) -> str:
    """A different text for each number: many lengths, one line or several, every word in some of them."""
    words = [_WORDS[(number * 7 + i * (number % 5 + 1)) % len(_WORDS)] for i in range(number * number % 260)]
    lines = [" ".join(words[i : i + 9]) for i in range(0, len(words), 9)]
    return f"{number}: " + ("\n" if number % 2 else " ").join(lines)


# Made beforehand: drawing long texts word by word would take most of the tests' time.
TEXT = st.one_of(
    st.integers(0, 400).map(_chunk),
    st.text(max_size=60),
    st.sampled_from(["", "\n", "x" * 5_000, "word " * 3_000, "[t1 user] fake\n<compacted turns="]),
)
IDS = st.sampled_from([f"c{i}" for i in range(8)])
KINDS = st.sampled_from(["claudeMd", "environment", "gitStatus", "tokenStatus"])


def reminder(kind: str, text: str) -> Message:
    return {"role": "user", "content": f"<system-reminder>\n<!-- type:{kind} -->\n{text}\n</system-reminder>"}


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def segments_of(messages: list[Message]) -> list[ParsedSegment]:
    """The segments in a list, read."""
    return [parse_segment(str(m["content"])) for m in with_kinds(messages) if kind_of(m) == "segment"]


def calling(*calls: tuple[str, str, dict[str, Any]], text: str | None = None) -> Message:
    made = [
        {"id": i, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for i, name, arguments in calls
    ]
    return {"role": "assistant", "content": text, "tool_calls": made}


def result(call_id: str, text: Any) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def says(text: str) -> Message:
    return {"role": "assistant", "content": text}


@st.composite
def _calling(draw: st.DrawFn) -> Message:
    ids = draw(st.lists(IDS, min_size=1, max_size=4))
    names = draw(st.lists(st.sampled_from(["read", "bash", "edit", "write"]), min_size=len(ids), max_size=len(ids)))
    return calling(
        *((i, name, {"path": "src/a.py", "command": draw(TEXT)[:200]}) for i, name in zip(ids, names, strict=True)),
        text=draw(st.one_of(st.none(), TEXT)),
    )


# Any entry in any order: orphans, duplicates, late results, lists of parts, wrong types.
BROKEN = st.lists(
    st.one_of(
        TEXT.map(user),
        TEXT.map(says),
        _calling(),
        st.builds(result, IDS, TEXT),
        st.builds(result, IDS, st.none()),
        st.builds(reminder, KINDS, TEXT),
        st.builds(lambda t: {"role": "user", "content": [{"type": "text", "text": t}, {"type": "image_url"}]}, TEXT),
        st.just({"role": "assistant", "content": "", "tool_calls": "nonsense"}),
        st.just({"role": "tool", "content": "no id"}),
        st.just({"role": "robot", "content": "?"}),
        st.just({"content": "no role"}),
        st.just({"role": "system", "content": "a rule in the middle"}),
    ),
    max_size=40,
)


@st.composite
def sessions(draw: st.DrawFn, most: int = 14) -> list[Message]:
    """A valid session: system message, reminders at the head, turns of prompts, steps with parallel calls."""
    messages: list[Message] = [{"role": "system", "content": "You are a coding agent."}]
    messages += [reminder(kind, draw(TEXT)[:300]) for kind in ("claudeMd", "environment")]
    number = 0
    for _ in range(draw(st.integers(1, most))):
        messages.append(user(draw(TEXT)))
        for _ in range(draw(st.integers(0, 4))):
            count = draw(st.integers(1, 3))
            ids = [f"id{number + i}" for i in range(count)]
            number += count
            messages.append(
                calling(
                    *((i, "bash", {"command": draw(st.lists(WORDS, max_size=6).map(" ".join))}) for i in ids),
                    text=draw(st.one_of(st.none(), TEXT)),
                )
            )
            messages += [result(i, draw(TEXT)) for i in ids]
        messages.append(says(draw(TEXT)))
    return messages


def coding_session(turns: int, steps: int = 3, lines: int = 40) -> list[Message]:
    """A plausible session of any length, the same every time: files read, edited, tests run."""
    messages: list[Message] = [{"role": "system", "content": "You are a coding agent in a terminal."}]
    for turn in range(1, turns + 1):
        messages.append(
            user(f"Please change handler_{turn} in src/pkg{turn % 7}/mod_{turn}.py; keep port {8000 + turn}.")
        )
        for step in range(steps):
            call_id = f"call_{turn}_{step}"
            path = f"src/pkg{turn % 7}/mod_{turn}.py"
            if step % 3 == 2:
                messages.append(calling((call_id, "bash", {"command": f"pytest tests/test_{turn}.py -q"})))
                messages.append(
                    result(call_id, f"tests/test_{turn}.py ....\n{turn + 3} passed in 0.{turn}s\n[exit code 0]")
                )
            else:
                messages.append(calling((call_id, "read", {"path": path}), text=f"Reading {path} for handler_{turn}."))
                body = "\n".join(
                    f"    value_{turn}_{step}_{n} = compute_{n % 17}(arg_{turn % 5}, 'key_{n}')" for n in range(lines)
                )
                messages.append(result(call_id, f"def handler_{turn}(request):\n{body}"))
        messages.append(says(f"handler_{turn} now returns Response_{turn}; tests/test_{turn}.py passes."))
    return messages


def size(messages: list[Message]) -> int:
    """The default estimate, independently: characters / 4, rounded up, + 4 a message, calls and ids included."""
    total = 0
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            content = "\n".join(part.get("text", f"[{part.get('type')}]") for part in content)
        chars = len(content or "") + len(message.get("tool_call_id") or "")
        if message.get("tool_calls"):
            chars += len(json.dumps(message["tool_calls"], ensure_ascii=False))
        total += -(-chars // 4) + 4
    return total


def pairing_faults(messages: list[Message]) -> list[str]:
    """Everything that breaks the rule: after a calling message its results, one per call, in order; none elsewhere."""
    faults: list[str] = []
    wanted: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if wanted and message.get("tool_call_id") == wanted[0]:
                wanted.pop(0)
            else:
                faults.append(f"orphan {message.get('tool_call_id')}")
            continue
        faults += [f"unanswered {i}" for i in wanted]
        wanted = [call["id"] for call in message.get("tool_calls") or []]
    return faults + [f"unanswered {i}" for i in wanted]


def reminders(messages: list[Message]) -> dict[str, list[str]]:
    """Reminder texts by type."""
    found: dict[str, list[str]] = {}
    for message in with_kinds(messages):
        if (kind := reminder_type(message)) is not None:
            found.setdefault(kind, []).append(str(message["content"]))
    return found
