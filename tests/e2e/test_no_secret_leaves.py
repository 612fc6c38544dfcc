"""Keys that are hard to find, in everything that a run writes: with blanks, with signs that JSON escapes, as names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Codelet
from tests.support.script import Call, HttpError, Reply
from tests.support.server import ModelServer

SECRETS = {
    "OPENAI_API_KEY": "sk-proj-A1b2C3d4E5f6G7h8J9k0LmNoPq",
    "MY_PASSPHRASE": "correct horse battery staple onion",
    "ODD_TOKEN": '4"a\\s<q>&7wörd\'x1"z\\p"k9',
    "LINES_SECRET": "L1ne one of it\nl1ne two of it\nq9 z8x7",
}
ALL = " | ".join(SECRETS.values())
PIECE = 12
HIDDEN = "hunter2Secret99pw"


def spelled(secret: str) -> Iterator[str]:
    """How a text or a document that is JSON would hold it."""
    yield secret
    for plain in (False, True):
        once = json.dumps(secret, ensure_ascii=plain)[1:-1]
        yield from (once, json.dumps(once, ensure_ascii=plain)[1:-1])


def leaks(text: str) -> list[str]:
    """The pieces of secrets that a text holds."""
    forms = {form for secret in SECRETS.values() for form in spelled(secret)}
    pieces = {form[at : at + PIECE] for form in forms for at in range(len(form) - PIECE + 1)}
    return sorted(piece for piece in pieces if piece in text)


def in_pieces(text: str) -> list[str]:
    return [text[at : at + 3] for at in range(0, len(text), 3)]


def deltas(out: str) -> str:
    """The text of a stream of JSON lines, put together as whoever reads it does."""
    return "".join(str(event.get("delta", "")) for event in map(json.loads, out.splitlines()))


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_no_secret_leaves_a_run(codelet: Codelet, model_server: ModelServer, repo: Path, tmp_path: Path, form: str):
    (repo / "note.txt").write_text("\n".join(SECRETS.values()))
    (repo / "keys.json").write_text(json.dumps(SECRETS))
    model_server.script = [
        Reply(
            in_pieces(f"see {ALL} there"),
            reasoning=in_pieces(f"hm {ALL} yes"),
            calls=[
                Call("a", "read", {"path": "note.txt"}),
                Call("b", "read", {"path": "keys.json"}),
                Call("c", "bash", {"command": "cat note.txt keys.json"}),
                Call("d", f"no_{SECRETS['OPENAI_API_KEY']}", {SECRETS["MY_PASSPHRASE"]: ALL}),
                Call("e", "write", {"path": "new.json", "content": json.dumps(SECRETS)}),
            ],
        ),
        Reply(in_pieces(f"it is {ALL}, in JSON {json.dumps(SECRETS)} as you see")),
    ]
    files = {name: tmp_path / name for name in ("export", "record", "audit", "log")}
    options = [word for name, path in files.items() for word in (f"--{name}", f"{path}")]
    more = ("--log-level", "debug", "--debug-requests", "--yes", "--output-format", form)
    run = codelet("-p", f"go {ALL}", *options, *more, env=SECRETS)
    assert run.exit == 0, run.err
    assert leaks(ALL) and leaks(json.dumps(json.dumps(SECRETS)))
    assert leaks(run.out) == leaks(run.err) == []
    if form == "stream-json":
        assert leaks(deltas(run.out)) == []
    for name, path in files.items():
        assert leaks(path.read_text()) == [], name
    results = [each for each in model_server.requests[1].messages if each["role"] == "tool"]
    assert len(results) == 5 and leaks(json.dumps(results, ensure_ascii=False)) == []


@pytest.mark.parametrize("place", ["login", "query"])
def test_what_the_servers_address_holds_is_not_told(
    codelet: Codelet, model_server: ModelServer, tmp_path: Path, place: str
):
    base = model_server.openai
    base = f"{base}?key={HIDDEN}" if place == "query" else base.replace("://", f"://me:{HIDDEN}@")
    model_server.script = [
        Reply("x", reasoning="hm", calls=[Call("a", "read", {"path": "app.py"})]),
        HttpError(400, "no"),
        HttpError(400, "no"),
    ]
    told = []
    for words in (("-p", "go", "--export", f"{tmp_path / 'e.json'}", "--output-format", "json"), ("-p", "go")):
        run = codelet("--api-base", base, *words)
        assert run.exit == 3 and "status 400" in run.out + run.err
        told += [run.out, run.err]
    doctor = codelet("--api-base", base, "doctor", "--json")
    assert "answered by" in doctor.out
    told += [doctor.out, doctor.err, (tmp_path / "e.json").read_text()]
    assert [text for text in told if HIDDEN in text] == []
    if place == "query":
        assert model_server.requests[0].path.endswith(f"?key={HIDDEN}")


def test_a_key_at_a_wrong_place_of_the_command_line_is_not_told(codelet: Codelet):
    key = SECRETS["OPENAI_API_KEY"]
    for words in (
        ("--model", f"openai/{key}", "--api-base", "http://127.0.0.1:1/v1", "-p", "go", "--output-format", "json"),
        ("--model", f"nobody/{key}", "-p", "go", "--output-format", "json"),
        ("sessions", f"redis://me:{HIDDEN}@127.0.0.1:1/0"),
    ):
        run = codelet(*words, env=SECRETS)
        assert run.exit in (2, 3), run.err
        assert leaks(run.out + run.err) == [] and HIDDEN not in run.out + run.err, words
