"""The page: a session as one HTML file that needs nothing else, runs nothing and can be printed."""

from __future__ import annotations

import time

from codelet.context.compaction.segments import parse_segment
from codelet.export.decode import from_json
from codelet.export.document import Document
from codelet.export.encode import to_json
from codelet.export.page.rendering import COMMON_STYLE, rendered
from codelet.export.page.timeline import timeline
from codelet.export.page.transcript import said_by_the_user, transcript
from codelet.export.redaction import Mask
from codelet.messages import kind_of
from codelet.system.text import one_line

_PACKAGE = "codelet.export.page"


def page(snapshot: Document, *, mask: Mask | None) -> str:
    """Return the whole document, masked like the JSON export."""
    shown = from_json(to_json(snapshot, mask=mask))
    texts = dict.fromkeys((shown.summary, shown.long_term_summary))
    conversation = transcript(shown.messages, shown.archive or ())
    return rendered(
        (_PACKAGE, "page.html"),
        (COMMON_STYLE,),
        title=_title(shown),
        facts=_facts(shown),
        summaries=[{"text": text, "folded": bool(shown.segments)} for text in texts if text],
        session=shown,
        timeline=timeline(shown.timeline),
        conversation=conversation,
        prompts=[(entry.number, one_line(entry.text, 100)) for entry in said_by_the_user(conversation)],
    )


def _title(snapshot: Document) -> str:
    """Return the user's first words, from the list or from the first summary."""
    for message in snapshot.messages:
        kind = kind_of(message)
        if kind in ("prompt", "segment") and message["content"]:
            words = _first_words(message["content"]) if kind == "segment" else message["content"]
            if words.strip():
                return one_line(words, 120)
    return "A session without messages" if not snapshot.messages else "A session"


def _first_words(segment: str) -> str:
    """Return the user's first words in a segment's turns."""
    said = (entry.lines for entry in parse_segment(segment).entries if entry.is_words)
    return next((line for lines in said for line in lines if line.strip()), "")


def _facts(snapshot: Document) -> list[tuple[str, str]]:
    """When, with what, how much."""
    usage, stats = snapshot.token_usage, snapshot.tool_stats
    rows = {
        "Saved": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(min(snapshot.timestamp, 2.5e11))),
        "Model": one_line(snapshot.model or "", 120),
        "Turns": f"{usage['turns']:,}" if usage["turns"] else "",
        "Read": f"{usage['total_input']:,} tokens, {usage['cache_read'] or 0:,} cached" if usage["total_input"] else "",
        "Written": f"{usage['output']:,} tokens" if usage["output"] else "",
        "Cost": f"${usage['cost']:.2f}" if usage["cost"] else "",
        "Tool calls": f"{stats['total_calls']:,}, {stats['failures']:,} failed" if stats["total_calls"] else "",
    }
    return [(name, row) for name, row in rows.items() if row]
