"""The page: a session as one HTML file that needs nothing else, runs nothing and can be printed.

It has no script at all. A strict policy in its head keeps even a browser's own mistakes from loading anything. Whatever
the template prints is cleaned and escaped; only what it makes itself is markup.
"""

from __future__ import annotations

import base64
import hashlib
import time
from functools import cache
from importlib.resources import files

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from codelet.context.compaction.segments import parse_segment
from codelet.export.decode import from_json
from codelet.export.document import Document
from codelet.export.encode import to_json
from codelet.export.page.transcript import prompts_of, transcript
from codelet.export.redaction import Mask
from codelet.messages import kind_of
from codelet.system.text import clean, one_line


def page(snapshot: Document, *, mask: Mask | None) -> str:
    """Return the whole document, masked like the JSON export."""
    shown = from_json(to_json(snapshot, mask=mask))
    texts = dict.fromkeys((shown.summary, shown.long_term_summary))
    conversation = transcript(shown.messages, shown.archive or ())
    style = "\n" + _file("page.css")
    assert "</" not in style, "it would end the element that holds it"
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return _template().render(
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
        style=Markup(style),
        title=_title(shown),
        facts=_facts(shown),
        summaries=[{"text": text, "folded": bool(shown.segments)} for text in texts if text],
        session=shown,
        conversation=conversation,
        prompts=[(entry.number, one_line(entry.text, 100)) for entry in prompts_of(conversation)],
    )


@cache
def _template() -> Template:
    """The template without its line breaks and spaces at the ends of lines."""
    environment = Environment(
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else clean(str(value)),
        undefined=StrictUndefined,
    )
    return environment.from_string("".join(map(str.strip, _file("page.html").splitlines())))


def _file(name: str) -> str:
    return files("codelet.export.page").joinpath(name).read_text(encoding="utf-8")


def _title(snapshot: Document) -> str:
    """Return the user's first words, from the list or from the first summary."""
    for message in snapshot.messages:
        kind, words = kind_of(message), message["content"] or ""
        if kind == "segment":
            said = (entry.lines for entry in parse_segment(words).entries if entry.label == "user")
            words = next((line for lines in said for line in lines if line.strip()), "")
        if kind in ("prompt", "segment") and words.strip():
            return one_line(words, 120)
    return "A session without messages" if not snapshot.messages else "A session"


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
