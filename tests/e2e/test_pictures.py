"""Files and pictures that a prompt names, in the program: attached, refused in one line, kept by an export."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from pathlib import Path

from tests.e2e.conftest import PROMPT, Codelet
from tests.support.pictures import png
from tests.support.script import HttpError, Reply
from tests.support.server import Recorded


def test_a_prompt_in_a_pipe_takes_pictures_and_an_export_keeps_them(codelet_on_each_wire: Codelet):
    codelet = codelet_on_each_wire
    codelet.server.script = lambda _: Reply("A grey square.")
    (codelet.cwd / "shot.png").write_bytes(png())
    (codelet.cwd / "notes.txt").write_text("a needle\n")
    first = codelet("-p", "what is @shot.png? see @notes.txt.", "--export", "a.json")
    assert (first.exit, first.out) == (0, "A grey square.\n")
    data = b64encode(png())
    assert (codelet.server.requests[0].body.count(data), b"a needle" in codelet.server.requests[0].body) == (1, True)
    kept = json.loads((codelet.cwd / "a.json").read_text())["messages"]
    (picture,) = next(message["images"] for message in kept if "images" in message)
    assert (picture["data"], picture["name"], picture["width"]) == (data.decode(), "shot.png", 3)
    again = codelet("-p", "and now?", "--resume", "a.json", "--export", "b.json")
    assert (again.exit, codelet.server.requests[1].body.count(data)) == (0, 1)
    later = json.loads((codelet.cwd / "b.json").read_text())["messages"]
    assert [each for each in later if "images" in each] == [each for each in kept if "images" in each]


def test_what_cannot_be_attached_is_said_in_one_line(codelet: Codelet):
    codelet.server.script = lambda _: Reply("done")
    (codelet.cwd / "shot.png").write_bytes(png())
    blind = codelet("-p", "what is @shot.png?", "--model", "openai/gpt-4")
    assert (blind.exit, len(blind.complaints)) == (2, 1)
    assert all(word in blind.complaints[0] for word in ("openai/gpt-4", "shot.png", "--model"))
    (codelet.cwd.parent / "out.txt").write_text("elsewhere")
    outside = codelet("-p", "see @../out.txt")
    assert outside.exit == 6
    assert "@../out.txt" in outside.err
    assert b"elsewhere" not in codelet.server.requests[0].body
    allowed = codelet("-p", "see @../out.txt", "--yes")
    assert (allowed.exit, b"elsewhere" in codelet.server.requests[1].body) == (0, True)


def test_in_the_terminal_a_picture_goes_with_the_line_or_the_line_comes_back(codelet: Codelet):
    codelet.server.script = lambda _: Reply("A grey square.")
    (codelet.cwd / "half.png").write_bytes(png()[:-9])
    (codelet.cwd / "shot.png").write_bytes(png())
    with codelet.terminal() as terminal:
        terminal.line("what is @half.png ?")
        terminal.wait_for("not whole")
        terminal.wait_for(f"{PROMPT} what is @half.png ?")
        assert not codelet.server.requests
        terminal.type("\x15")
        terminal.line("what is @shot.png ?")
        terminal.wait_for("attached: shot.png (3 × 2)")
        terminal.wait_for("A grey square.")
    assert b64encode(png()) in codelet.server.requests[0].body


def test_a_picture_comes_from_the_clipboard_and_from_a_dropped_file(codelet: Codelet, tmp_path: Path):
    codelet.server.script = lambda _: Reply("A grey square.")
    tools = tmp_path / "tools of mine"
    tools.mkdir()
    (tools / "picture").write_bytes(png(9, 4))
    (tools / "wl-paste").write_text(f"#!/bin/sh\nexec cat '{tools}/picture'\n", encoding="utf-8")
    (tools / "wl-paste").chmod(0o755)
    dropped = tools / "a shot.png"
    dropped.write_bytes(png(5, 7))
    here = {"PATH": f"{tools}:{os.environ['PATH']}", "WAYLAND_DISPLAY": "here"}
    with codelet.terminal(env=here) as terminal:
        terminal.type("what is ")
        terminal.type("\x16")
        terminal.wait_for("what is @clipboard:1")
        terminal.type(f"and \x1b[200~{tools}/a\\ shot.png\x1b[201~?")
        terminal.wait_for("a shot.png")
        terminal.line("")
        terminal.wait_for("outside")
        terminal.settle(0.4)  # Enter does not count right after the question came
        terminal.key("down")
        terminal.key("enter")
        terminal.wait_for("attached: clipboard:1 (9 × 4),")
        terminal.wait_for("A grey square.")
        terminal.wait_for("main · 100 in 10 out")  # the prompt is open again
        terminal.settle()
        (tools / "wl-paste").unlink()
        terminal.type("\x16")
        terminal.wait_for("no clipboard")
    sent = codelet.server.requests[0].body
    assert b64encode(png(9, 4)) in sent
    assert b64encode(png(5, 7)) in sent


def test_a_refused_picture_blocks_no_saved_session(codelet: Codelet):
    data = b64encode(png()).decode()

    def script(request: Recorded) -> Reply | HttpError:
        refuses = data in request.body.decode()
        return HttpError(400, "Could not process image", "invalid_request_error") if refuses else Reply("fine")

    codelet.server.script = script
    (codelet.cwd / "shot.png").write_bytes(png())
    first = codelet("-p", "look at @shot.png", "--continue", "s.json")
    assert (first.exit, "/drop" in first.err) == (3, True)
    for option in ("--continue", "--resume"):
        later = codelet("-p", "never mind, say hi", option, "s.json")
        assert (later.exit, later.out, "/drop" in later.err) == (0, "fine\n", True)
    assert codelet("-p", "/drop 1", "--continue", "s.json").exit == 0
    before = len(codelet.server.requests)
    last = codelet("-p", "and now?", "--continue", "s.json")
    assert (last.exit, last.err.count("/drop"), len(codelet.server.requests) - before) == (0, 0, 1)
