"""The page: valid, whole, readable at 400 and at 1400 pixels; hostile content in it stays text."""

from __future__ import annotations

import http.server
import json
import re
import shutil
import struct
import subprocess
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import html5lib
import pytest

from codelet.context.compaction.segments import ParsedSegment, SegmentEntry, render
from codelet.export.document import Document
from codelet.export.page import page
from codelet.export.redaction import Mask
from codelet.messages import assistant, segment, tool_call, tool_result, user
from tests.export.page_material import attacks, hostile, work

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs the program chromium")
ALLOWED = set(
    "html head meta title style body header main section h1 h2 h3 p dl dt dd div ul ol li span details summary b code"
    " pre article nav a".split()
)


def parsed(html: str) -> Any:
    """The document as a validating HTML parser reads it; any fault in it is an error."""
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(html)


def name_of(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]


def test_the_page_is_valid_and_tells_everything() -> None:
    html = page(work(), mask=None)
    text = "".join(parsed(html).itertext())
    for words in (
        "The tests fail with an IndexError since this morning.",
        "anthropic/claude-sonnet-5-5",
        "5,210,344 tokens, 4,700,120 cached",
        "find the IndexError (Completed)",
        "The project's tests run with pytest -q.",
        "11 passed in 0.21s",
        "-range(len(text) + 1)",
        "+range(len(text))",
        "+def test_empty():",
        "reminder environment",
    ):
        assert words in text, words
    assert "```" not in text
    assert html.index("</style>") < html.index("<body>")


@pytest.mark.parametrize(
    "snapshot",
    [
        Document(timestamp=0.0, token_count=0, messages=()),
        Document(timestamp=1e12, token_count=0, messages=(assistant(None), user(""))),
    ],
)
def test_a_session_without_anything_is_a_page_too(snapshot: Document) -> None:
    parsed(page(snapshot, mask=None))


def test_a_compacted_session_is_named_by_the_users_first_words() -> None:
    lines = ParsedSegment(
        1,
        2,
        [],
        ["t1 wrote src/a.py"],
        [SegmentEntry(1, "user", ["Fix the tokenizer, please."]), SegmentEntry(1, "", ["I looked."])],
    )
    text = render(lines, note=True)
    listed = ({"first": 1, "last": 2, "text": text},)
    messages = (segment(text), user("And the docs."))
    html = page(Document(timestamp=0.0, token_count=0, messages=messages, summary=text, segments=listed), mask=None)
    document = parsed(html)
    assert document.find(".//title").text == document.find(".//h1").text == "Fix the tokenizer, please."
    folded = "".join("".join(part.itertext()) for part in document.iter("details"))
    assert "".join(document.itertext()).count("<compacted") == folded.count("<compacted") == 2
    without = render(ParsedSegment(1, 1, state=["t1 ran `pytest`: exit 0"]), note=False)
    listed = ({"first": 1, "last": 1, "text": without},)
    messages = (segment(without), user("And the docs."))
    assert "<h1>And the docs.</h1>" in page(
        Document(timestamp=0.0, token_count=0, messages=messages, segments=listed), mask=None
    )


def test_old_turns_stand_folded_with_their_summary_where_the_archive_is_exported() -> None:
    entries = [SegmentEntry(1, "user", ["Fix the tokenizer, please."])]
    text = render(ParsedSegment(1, 2, state=["t1 wrote src/a.py"], entries=entries), note=True)
    long, short = tool_result("c1", "all of the file"), tool_result("c1", "[shortened]")
    old = [
        user("Fix the tokenizer, please."),
        assistant("I read it.", [tool_call("c1", "read", '{"path": "src/a.py"}')]),
        long,
        short,
        assistant("It is fixed."),
    ]
    archive = tuple({"id": f"r{n}", "turn": 1 + n // 4, "message": message} for n, message in enumerate(old, 1))
    archive = (*archive, {"id": "r9", "turn": 3, "message": assistant("of a later turn")})
    messages = (segment(text), user("And the docs."))
    listed = ({"first": 1, "last": 2, "text": text},)
    document = parsed(
        page(Document(timestamp=0.0, token_count=0, messages=messages, segments=listed, archive=archive), mask=None)
    )
    past = next(part for part in document.iter("details") if part.get("class") == "past")
    told = "".join(past.itertext())
    assert [told.index(words) for words in ("Fix the", "I read it.", "all of the file", "It is fixed.")] == sorted(
        told.index(words) for words in ("Fix the", "I read it.", "all of the file", "It is fixed.")
    )
    assert "[shortened]" not in told and "of a later turn" not in told
    assert "open" not in past.attrib and "And the docs." not in told
    without = parsed(page(Document(timestamp=0.0, token_count=0, messages=messages, segments=listed), mask=None))
    assert not [part for part in without.iter("details") if part.get("class") == "past"]


def conversation(prompts: int) -> Document:
    """One of so many prompts, each after a call whose result holds a word that nothing else does."""
    messages: list[Any] = []
    for n in range(1, prompts + 1):
        called = assistant(None, [tool_call(f"c{n}", "bash", '{"command": "ls"}')])
        messages += [user(f"question {n}"), called, tool_result(f"c{n}", f"needle{n}"), assistant("So.")]
    return Document(timestamp=1.0, token_count=1, messages=tuple(messages))


def test_the_prompts_lead_to_their_places() -> None:
    document = parsed(page(conversation(4), mask=None))
    links = {link.get("href"): "".join(link.itertext()) for link in document.iter("a")}
    assert links == {f"#prompt-{n}": f"question {n}" for n in range(1, 5)}
    places = [part for part in document.iter("article") if part.get("id")]
    assert [f"#{part.get('id')}" for part in places] == list(links)
    assert not list(parsed(page(conversation(2), mask=None)).iter("a")), "of two prompts nobody needs a list"


def test_the_lines_of_a_difference_have_their_kind() -> None:
    edit = {"path": "a.py", "edits": [{"old": "one\ntwo\nthree", "new": "one\n2\nthree\nfour"}]}
    messages = (user("go"), assistant(None, [tool_call("1", "edit", json.dumps(edit))]), tool_result("1", "edited"))
    document = parsed(page(Document(timestamp=1.0, token_count=1, messages=messages), mask=None))
    (difference,) = [part for part in document.iter("pre") if part.get("class") == "diff"]
    assert [(line.get("class"), line.text) for line in difference] == [
        (None, " one"), ("del", "-two"), ("add", "+2"), (None, " three"), ("add", "+four")]  # fmt: skip


def test_code_is_set_apart() -> None:
    text = "Use `a` or ``b``:\n~~~sh\nls `x`\n~~~\nthen\n```\nopen"
    document = parsed(page(Document(timestamp=1.0, token_count=1, messages=(assistant(text),)), mask=None))
    (said,) = [part for part in document.iter("div") if part.get("class") == "said"]
    assert [(name_of(part), part.text) for part in said] == [
        ("code", "a"), ("code", "b"), ("pre", "ls `x`\n"), ("pre", "open")]  # fmt: skip


def test_hostile_content_is_nothing_but_text() -> None:
    html = page(hostile("http://127.0.0.1:9"), mask=None)
    document = parsed(html)
    for element in document.iter():
        assert name_of(element) in ALLOWED
        for attribute, value in element.attrib.items():
            assert not attribute.lower().startswith("on")
            if attribute == "href" and re.fullmatch(r"#prompt-[0-9]+", value):
                continue  # it leads to a place on the page itself
            assert attribute not in ("href", "src", "style", "srcdoc", "action", "xlink:href")
            assert "javascript:" not in value or name_of(element) == "meta"
    text = "".join(document.itertext())
    for evil in attacks("http://127.0.0.1:9"):
        if "\x1b" not in evil and "```" not in evil:
            assert evil in text, evil
    for character in "\x1b\x00\u202e\u2066\x0b":
        assert character not in html


def test_nothing_but_its_own_style_may_load() -> None:
    html = page(work(), mask=None)
    policy = html.partition('Content-Security-Policy" content="')[2].partition('"')[0]
    assert "default-src &#39;none&#39;; style-src &#39;sha256-" in policy
    assert "unsafe" not in policy
    assert "<script" not in html
    assert "http:" not in html.replace("http-equiv", "")
    assert "https:" not in html


def test_secrets_are_masked_on_the_page() -> None:
    mask = Mask(lambda text: text.replace("hunter2", "[masked]"))
    html = page(Document(timestamp=1.0, token_count=1, messages=(user("my key is hunter2"),)), mask=mask)
    assert "hunter2" not in html
    assert "my key is [masked]" in html


def test_long_results_are_cut_and_say_so() -> None:
    long = "x" * 200_000
    messages = (user("go"), assistant(None, [tool_call("1", "bash", "{}")]), tool_result("1", long))
    html = page(Document(timestamp=1.0, token_count=1, messages=messages), mask=None)
    assert len(html) < 100_000
    assert "140,000 characters" in html


def test_every_place_that_the_page_prints_is_cleaned_and_escaped() -> None:
    """Each part of a session in turn is an attack; what the template prints elsewhere stays as it was."""
    evil = "\x1b[31m</pre></title></style>\u202e\"'&<script>alert(1)</script>"
    plan = {"goal": evil, "current_step": 0, "status": "x", "steps": [
        {"id": 0, "description": evil, "status": "Failed", "result": evil}]}  # fmt: skip
    called = assistant(evil, [tool_call("1", evil, evil), tool_call("2", "edit", json.dumps({"path": evil}))])
    called["reasoning"] = evil
    tampered = work().replace(
        plan=plan, facts=(evil,), model=evil, summary=evil, long_term_summary=evil + evil,
        active_tasks=(dict.fromkeys(("id", "description", "status"), evil)
                      | dict.fromkeys(("progress", "created_at", "updated_at"), 1)
                      | {"output": evil, "exit_code": None},),
        messages=(user(evil), called, tool_result("1", evil), tool_result("2", f"@@ -1,1 +1,1 @@\n+{evil}"),
                  assistant(f"`{evil}`\n```\n{evil}\n```")),
    )  # fmt: skip
    html = page(tampered, mask=None)
    names = {name_of(element) for element in parsed(html).iter()}
    assert names <= ALLOWED
    assert "\x1b" not in html and "\u202e" not in html
    assert html.count("</style>") == html.count("</title></head>".replace("</head>", "<style>")) == 1
    assert html.count("alert(1)") >= 16 and "<script" not in html


class Beacon(http.server.ThreadingHTTPServer):
    """Counts who asks it for anything."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.asked: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Beacon)
        self.server.asked.append(self.path)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def beacon() -> Iterator[Beacon]:
    with Beacon() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def browse(path: Path, *words: str, place: str = "") -> str:
    assert CHROMIUM is not None
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        *words,
        path.as_uri() + place,
    ]
    command.insert(1, f"--user-data-dir={path.parent / 'profile'}")
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=True).stdout


@needs_chromium
def test_a_browser_runs_nothing_of_hostile_content_and_loads_nothing(tmp_path: Path, beacon: Beacon) -> None:
    path = tmp_path / "evil.html"
    path.write_text(page(hostile(beacon.address), mask=None), encoding="utf-8")
    dom = browse(path, "--virtual-time-budget=3000", "--dump-dom")
    assert beacon.asked == []
    assert "<title>&lt;script&gt;" in dom
    assert "<script" not in dom.lower()
    assert "<iframe" not in dom.lower()


@needs_chromium
@pytest.mark.parametrize(("place", "opened"), [("", 0), ("#:~:text=needle3", 1), ("#prompt-2", 0)])
def test_a_browser_that_looks_for_words_opens_what_is_folded(tmp_path: Path, place: str, opened: int) -> None:
    path = tmp_path / "work.html"
    path.write_text(page(conversation(4), mask=None), encoding="utf-8")
    found = -1
    for _ in range(5):  # the browser's search runs beside what its clock counts, and may come too late for it
        if found != opened:
            found = browse(path, "--virtual-time-budget=3000", "--dump-dom", place=place).count("<details open")
    assert found == opened


@needs_chromium
@pytest.mark.parametrize(("width", "height"), [(400, 2400), (1400, 2000)])
def test_the_page_as_a_picture(tmp_path: Path, width: int, height: int) -> None:
    """Nothing reaches over the edges, and the parts that colour tells apart are there in their colours."""
    long = user("averylongwordwithoutanyblank" * 40)
    snapshot = work().replace(messages=(*work().messages, long, assistant("`" + "code" * 200 + "`")))
    path = tmp_path / "work.html"
    path.write_text(page(snapshot, mask=None), encoding="utf-8")
    browse(path, f"--window-size={width},{height}", f"--screenshot={tmp_path / 'page.png'}")
    picture = pixels((tmp_path / "page.png").read_bytes())
    assert len(picture[0]) == width
    assert len(picture) == height
    paper = (255, 255, 255)
    for row in picture:
        assert {*row[:10], *row[-10:]} == {paper}, "something reaches over the edge"
    seen = {pixel for row in picture[::2] for pixel in row}
    for name, colour in {"added": 0xE3F5E7, "removed": 0xFDE8E7}.items():
        assert (colour >> 16, colour >> 8 & 255, colour & 255) in seen, name
    bare = sum(set(row) == {paper} for row in picture)
    assert bare < len(picture) * 0.8


def pixels(png: bytes) -> list[list[tuple[int, int, int]]]:
    """The rows of an 8-bit RGB or RGBA picture, as triples."""
    width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
    assert depth == 8
    assert kind in (2, 6)
    size = 3 if kind == 2 else 4
    data = b""
    place = 8
    while place < len(png):
        length, name = struct.unpack(">I4s", png[place : place + 8])
        data += png[place + 8 : place + 8 + length] if name == b"IDAT" else b""
        place += length + 12
    raw = zlib.decompress(data)
    rows: list[list[tuple[int, int, int]]] = []
    before = bytes(width * size)
    for number in range(height):
        start = number * (width * size + 1)
        line = _unfiltered(raw[start], bytearray(raw[start + 1 : start + 1 + width * size]), before, size)
        rows.append(list(zip(line[0::size], line[1::size], line[2::size], strict=True)))
        before = line
    return rows


def _unfiltered(kind: int, line: bytearray, before: bytes, size: int) -> bytes:
    if kind == 2:
        return bytes((a + b) & 255 for a, b in zip(line, before, strict=True))
    for at in range(len(line)) if kind else ():
        left = line[at - size] if at >= size else 0
        up = before[at]
        corner = before[at - size] if at >= size else 0
        if kind == 1:
            line[at] = (line[at] + left) & 255
        elif kind == 3:
            line[at] = (line[at] + (left + up) // 2) & 255
        else:
            guess = left + up - corner
            line[at] = (line[at] + min((left, up, corner), key=lambda one: abs(guess - one))) & 255
    return bytes(line)
