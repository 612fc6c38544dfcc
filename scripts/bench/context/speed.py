"""Time of a compaction against one `json.dumps` of the same list, by size; processor time, median of several.

Two kinds of list at every size: a real transcript, cut or repeated with fresh ids and names, and a made-up one in which
no line comes twice and new words never end. Then shapes that no session has, each at half its size as well:
their time must double, not more.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any

from codelet.context.compaction import compact
from context.baselines import Message, size

SIZES = (10_000, 20_000, 50_000, 100_000, 150_000, 350_000, 1_000_000, 2_000_000)
# What is promised, and for lists of what size: the time of so many `json.dumps` of the list.
PROMISED, PROMISED_FROM, PROMISED_TO = 60, 130_000, 250_000
# Distinct words of a made-up list, per thousand tokens: 18,000 in a list of 158,000.
_WORDS_PER_THOUSAND = 114
_STEMS = (
    "parse token read index cache route hash commit buf engine page ledger sock vector row branch sig work draw "
    "filter key option packet cursor map bundle sum link native pub remote set step tunnel new volume wrap item zone "
    "query frame graph layer node probe queue scope"
).split()
_ENDINGS = ("py", "ts", "rs", "toml", "md", "json")


def of_size(host: Sequence[Message], tokens: int) -> list[Message]:
    """That many tokens of the host, whole turns of it; a longer list repeats it with fresh ids and fresh names."""
    sizes = [size([message]) for message in host]
    total, lap = sum(sizes), 0
    if tokens < total:
        return _part(host, sizes, tokens)
    found = list(host)
    while total < tokens:
        lap += 1
        for message, own in zip(host, sizes, strict=True):
            found.append(renamed(message, lap))
            total += own
            if total >= tokens and ends_turn(message):
                break
    return found


def _part(host: Sequence[Message], sizes: Sequence[int], tokens: int) -> list[Message]:
    """The whole turns in a row that come closest to that many tokens; of equally close ones the earliest."""
    starts = [i for i, message in enumerate(host) if message["role"] == "user"]
    best, part = tokens, list(host)
    for start in starts:
        total = 0
        for stop in range(start, len(host)):
            total += sizes[stop]
            if ends_turn(host[stop]) and abs(total - tokens) < best:
                best, part = abs(total - tokens), list(host[start : stop + 1])
            if total >= tokens + best:
                break
    return part


def ends_turn(message: Message) -> bool:
    """Whether it is an assistant's message that calls nothing."""
    return message["role"] == "assistant" and not message.get("tool_calls")


def renamed(message: Message, lap: int) -> Message:
    """The message as it might be in another part of a session: other ids, and other names at the end of each word."""
    text = str(message.get("content") or "").replace("tion", f"tion{lap}").replace("er(", f"er{lap}(")
    copy = {**message, "content": text}
    if "tool_call_id" in message:
        copy["tool_call_id"] = f"{message['tool_call_id']}_{lap}"
    if message.get("tool_calls"):
        copy["tool_calls"] = [{**call, "id": f"{call['id']}_{lap}"} for call in message["tool_calls"]]
    return copy


def vocabulary(count: int, chance: random.Random) -> list[str]:
    """Distinct words as a code base has them: snake_case, CamelCase, paths, hexadecimal, numbers and plain ones."""
    found: dict[str, None] = {}
    while len(found) < count:
        first, second, third = chance.choices(_STEMS, k=3)
        number = chance.randrange(10_000)
        shape = chance.randrange(100)
        if shape < 20:
            word = f"{first}_{number}"
        elif shape < 35:
            word = f"{first}_{second}_{third}"
        elif shape < 50:
            word = f"{first.title()}{second.title()}{number % 100}"
        elif shape < 60:
            word = f"{first}{second.title()}{third.title()}"
        elif shape < 68:
            word = f"{first}/{second}/{third}_{number}.{chance.choice(_ENDINGS)}"
        elif shape < 76:
            word = f"{chance.getrandbits(32):08x}" if shape < 72 else f"0x{chance.getrandbits(32):x}"
        elif shape < 88:
            word = str(chance.randrange(1_000, 1_000_000))
        else:
            word = "".join(chance.choices("aeioulnrst", k=chance.randint(4, 8)))
        found[word] = None
    return list(found)


def made_up(tokens: int, seed: int = 7) -> list[Message]:
    """A session of that many tokens over a code base that grows as it is read; the same list for the same seed."""
    chance = random.Random(seed)
    words = vocabulary(tokens * _WORDS_PER_THOUSAND // 1_000, chance)
    found: list[Message] = [{"role": "system", "content": "You are a coding agent."}]
    total = size(found)
    for turn in _turns(words, chance):
        found.extend(turn)
        total += size(turn)
        if total >= tokens:
            break
    return found


def _turns(words: Sequence[str], chance: random.Random) -> Iterator[list[Message]]:
    """Turns without end: a prompt, four steps of a call and its result, a closing word."""
    number = 0

    def some(count: int) -> list[str]:
        return [words[int(len(words) * chance.random())] for _ in range(count)]

    def code(count: int) -> str:
        lines = []
        for _ in range(count):
            a, b, c, d, e = some(5)
            form = chance.randrange(6)
            line = (f"    {a} = {b}({c}, {d})", f"def {a}({b}, {c}) -> {d}:", f"{a}: {b} {c} {d} {e}")
            short = (f"  {a}.{b}", f"    return {a}", f"import {a} as {b}")
            lines.append((line + short)[form])
        return "\n".join(lines)

    while True:
        turn: list[Message] = [{"role": "user", "content": f"Now look at {' and '.join(some(3))}, then change it."}]
        for _ in range(4):
            number += 1
            path = f"src/{some(1)[0].replace('/', '_')}.py"
            name, arguments = chance.choice(
                [
                    ("read", {"path": path}),
                    ("bash", {"command": f"grep -rn {some(1)[0]} src"}),
                    ("edit", {"path": path, "old": code(4), "new": code(6)}),
                ]
            )
            call = {"name": name, "arguments": json.dumps(arguments)}
            said = f"Next is {some(1)[0]}, because {some(1)[0]} calls {some(1)[0]}."
            calls = [{"id": f"made_{number}", "type": "function", "function": call}]
            turn.append({"role": "assistant", "content": said, "tool_calls": calls})
            result = "ok" if name == "edit" else code(chance.randint(20, 90))
            turn.append({"role": "tool", "tool_call_id": f"made_{number}", "content": result})
        turn.append({"role": "assistant", "content": f"{some(1)[0]} is done; {some(1)[0]} took {len(turn)} ms."})
        yield turn


def hostile(whole: int = 1) -> dict[str, list[Message]]:
    """Lists of shapes that no session has. `whole` is 1, or 2 for the same at half the size."""
    digits = "8414709848078965066525023216302989996225"
    texts = {
        "one line of 5 MB": "ab3_Xy7Q" * (625_000 // whole),
        "5 MB of digits": digits * (125_000 // whole),
        "1M lines of one character": "\n".join("abcdefgh"[i % 8] for i in range(1_000_000 // whole)),
        "200k lines of one name": "\n".join(f"name_{i:x}_of" for i in range(200_000 // whole)),
        "100k copies of a line": "the_same(line, over_and_over)\n" * (100_000 // whole),
        "1M words in a line": " ".join(f"w{i % 50_000:x}_z" for i in range(1_000_000 // whole)),
        "50k paths of 20 parts": "\n".join("/".join(f"d{i}x{k}" for k in range(20)) for i in range(50_000 // whole)),
    }
    call = {"name": "bash", "arguments": '{"command": "make"}'}
    found: dict[str, list[Message]] = {}
    for name, text in texts.items():
        calls = [{"id": "only", "type": "function", "function": call}]
        found[name] = [
            {"role": "user", "content": "Build it."},
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": "only", "content": text},
            {"role": "assistant", "content": "It is built."},
            {"role": "user", "content": "Go on."},
        ]
    found["20k messages"] = [
        {"role": ("user", "assistant")[i % 2], "content": f"message_{i} of many"} for i in range(20_000 // whole)
    ]
    return found


def beside(actions: Sequence[Callable[[], Any]], times: int) -> list[float]:
    """The median processor time of each action in seconds; they run in turn, so that all see the same machine."""
    found: list[list[float]] = [[] for _ in actions]
    for _ in range(times):
        for own, action in zip(found, actions, strict=True):
            begun = time.process_time()
            action()
            own.append(time.process_time() - begun)
    return [median(own) for own in found]


def row(kind: str, messages: list[Message], times: int) -> dict[str, Any]:
    """One row: tokens, messages, milliseconds of both, and their ratio, at a target of a quarter."""
    total = size(messages)
    dumped, compacted = beside([lambda: json.dumps(messages), lambda: compact(messages, total // 4)], times)
    return {
        "list": kind,
        "tokens": total,
        "messages": len(messages),
        "dumps ms": round(1000 * dumped, 2),
        "compact ms": round(1000 * compacted, 1),
        "ratio": round(compacted / dumped, 1),
        "half": "",
    }


def measure(host: Sequence[Message], sizes: Sequence[int] = SIZES) -> list[dict[str, Any]]:
    """One row per kind and size; hostile shapes also with how many times as long as half of them they take."""
    rows = [
        row(kind, make(tokens), 9 if tokens <= 50_000 else 5 if tokens <= 350_000 else 3)
        for kind, make in (("real", lambda tokens: of_size(host, tokens)), ("made up", made_up))
        for tokens in sizes
    ]
    halves = hostile(2)
    for kind, messages in hostile().items():
        whole, half = row(kind, messages, 3), row(kind, halves[kind], 3)
        rows.append({**whole, "half": f"x {whole['compact ms'] / max(0.1, half['compact ms']):.1f}"})
    return rows


def too_slow(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of about 150,000 tokens that take longer than is promised."""
    promised = [r for r in rows if r["list"] in ("real", "made up") and PROMISED_FROM <= r["tokens"] < PROMISED_TO]
    return [r for r in promised if r["ratio"] > PROMISED]
