"""The page: a session as one HTML file that needs nothing else, runs nothing and can be printed.

It has no script at all. A strict policy in its head keeps even a browser's own mistakes from loading anything.
"""

from __future__ import annotations

import base64
import hashlib
import time
from functools import cache

from codelet.compaction.segments import OPENING, is_segment, parse
from codelet.export.decode import from_json
from codelet.export.encode import to_json
from codelet.export.markup import Markup, join, raw_text, tag
from codelet.export.masking import Mask
from codelet.export.page_messages import conversation, folded
from codelet.export.page_timeline import timeline
from codelet.export.snapshot import Snapshot
from codelet.reminders.zones import kind_of
from codelet.text import one_line


def page(snapshot: Snapshot, *, mask: Mask | None) -> str:
    """The whole document; secrets are masked as they are in the JSON export."""
    shown = from_json(to_json(snapshot, mask=mask))
    title = _title(shown)
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy()),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        raw_text("style", _style()),
    )
    sections = (_known(shown), _course(shown), tag("section", tag("h2", "Conversation"), conversation(shown.messages)))
    body = tag("body", tag("header", tag("h1", title), _facts(shown)), tag("main", *sections))
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


@cache
def _style() -> str:
    from importlib.resources import files

    return "\n" + files("codelet.export").joinpath("page.css").read_text(encoding="utf-8")


def _policy() -> str:
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _title(snapshot: Snapshot) -> str:
    """The user's first words: those that stand first in the list, or those that a summary begins with."""
    for message in snapshot.messages:
        if message["role"] == "user" and kind_of(message) is None and message["content"]:
            words = _first_words(message["content"]) if is_segment(message) else message["content"]
            if words.strip():
                return one_line(words, 120)
    return "A session without messages" if not snapshot.messages else "A session"


def _first_words(segment: str) -> str:
    """What the user said first of the turns that a segment stands for."""
    said = (entry.lines for entry in parse(segment).entries if entry.is_words)
    return next((line for lines in said for line in lines if line.strip()), "")


def _facts(snapshot: Snapshot) -> Markup:
    """When, with what, how much."""
    usage, stats = snapshot.token_usage, snapshot.tool_stats
    rows = {
        "Saved": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(min(snapshot.timestamp, 2.5e11))),
        "Model": one_line(snapshot.model or "", 120),
        "Turns": f"{usage['turns']:,}" if usage["turns"] else "",
        "Read": f"{usage['total_input']:,} tokens, {usage['cache_read']:,} cached" if usage["total_input"] else "",
        "Written": f"{usage['output']:,} tokens" if usage["output"] else "",
        "Cost": f"${usage['cost']:.2f}" if usage["cost"] else "",
        "Tool calls": f"{stats['total_calls']:,}, {stats['failures']:,} failed" if stats["total_calls"] else "",
    }
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", row)) for name, row in rows.items() if row), class_="meta")


def _known(snapshot: Snapshot) -> Markup:
    """Summary, plan, facts and tasks, where there are any."""
    parts: list[Markup] = []
    for words in dict.fromkeys((snapshot.summary, snapshot.long_term_summary)):
        if words and words.startswith(OPENING):
            parts.append(folded("summary of earlier turns", "", tag("div", words, class_="said")))
        elif words:
            parts += [tag("h2", "Summary"), tag("div", words, class_="said")]
    if (plan := snapshot.plan) is not None:
        steps = [tag("li", f"{step['description']} ({step['status']})") for step in plan["steps"]]
        parts += [tag("h2", f"Plan: {plan['goal']}"), tag("ol", *steps)]
    if snapshot.facts:
        parts += [tag("h2", "Facts"), tag("ul", *(tag("li", fact) for fact in snapshot.facts))]
    if snapshot.active_tasks:
        tasks = [
            tag("li", f"{task['description']} ({task['status']}, {task['progress']:.0%})")
            for task in snapshot.active_tasks
        ]
        parts += [tag("h2", "Tasks"), tag("ul", *tasks)]
    return join(*parts)


def _course(snapshot: Snapshot) -> Markup:
    figure = timeline(snapshot.timeline)
    return tag("section", tag("h2", "Timeline"), figure) if figure else Markup()
