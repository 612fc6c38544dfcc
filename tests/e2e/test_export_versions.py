"""What other versions wrote: forty exports by 0.1.0, and one by a newer version. Loaded, gone on with, saved again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codelet.export.decode import from_json
from codelet.export.encode import to_json
from codelet.export.live import read_export
from codelet.export.recorder import restore
from codelet.loop.session import Session
from codelet.providers import ProviderOptions, open_provider
from tests.e2e.conftest import Codelet
from tests.export.test_document import NEWER, newer
from tests.support.exporting import open_export
from tests.support.script import Reply

WRITTEN: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "export" / "data" / "written_by_0_1_0.json").read_text(encoding="utf-8")
)
TWICE = frozenset(list(WRITTEN)[::8])
CARRIED = ("session_id", "facts", "active_tasks", "plan", "system_state", "long_term_summary", "tool_stats",
           "segments", "summary", "archive", "anchors")  # fmt: skip
LATER = {"reminders_off": [], "touched_folders": []}
"""What 0.1.0 did not write, as it is where nothing is to be said."""


def said(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages without reminders, which each turn renews."""
    return [one for one in document["messages"] if not (one["content"] or "").startswith("<system-reminder>")]


def ended(document: dict[str, Any]) -> dict[str, Any]:
    """The document as it is once it was resumed: what ran when it was saved was interrupted then."""
    tasks = [
        task | {"status": "Interrupted"} if task["status"] == "Running" else task
        for task in document.get("active_tasks", ())
    ]
    return document | ({"active_tasks": tasks} if tasks else {})


def pinned(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [document["messages"][place] for place in document["pins"]]


def turned(path: Path, old: dict[str, Any]) -> dict[str, Any]:
    """The document after one more turn, but for what the clock and the machine say."""
    document: dict[str, Any] = json.loads(path.read_bytes())
    steps = len(old["timeline"])
    assert document["timeline"][:steps] == old["timeline"]
    for mark in (*document["timeline"][steps:], *document["recent_history"][-2:], document):
        mark["timestamp"] = 0
    document["metrics"]["request_seconds"] = 0
    del document["last_known_environment"]
    return document


@pytest.mark.parametrize("name", WRITTEN)
def test_an_export_of_0_1_0_goes_on_and_loses_nothing(name: str, codelet: Codelet, tmp_path: Path):
    old = WRITTEN[name]
    source = tmp_path / "old.json"
    source.write_text(json.dumps(old), encoding="utf-8")
    codelet.server.script = lambda request: Reply("It goes on.")
    results = []
    for target in ("one.json", "two.json") if name in TWICE else ("one.json",):
        done = codelet("-p", "and now?", "--resume", str(source), "--export", str(tmp_path / target))
        assert (done.exit, done.out) == (0, "It goes on.\n"), done.err
        results.append(turned(tmp_path / target, old))
    new = results[0]
    assert new == results[-1], "the same turn twice is the same but for the time"
    before, after = said(old), said(new)
    assert after[: len(before)] == before
    assert [(one["role"], one["content"]) for one in after[len(before) :]] == [
        ("user", "and now?"),
        ("assistant", "It goes on."),
    ]
    for key in CARRIED:
        assert new.get(key) == ended(old).get(key), key
    assert "profile" not in new, "the name had no force, and there is none of that name here"
    if "profile" in old:
        assert "'careful'" in done.err
    assert pinned(new) == pinned(old)
    assert new["token_usage"]["turns"] == old["token_usage"]["turns"] + 1
    assert new["recent_history"][-2]["content"] == "and now?"
    assert set(new) >= set(old) - {"interruption", "profile", "last_known_environment"}, "every key is there"


@pytest.mark.parametrize("name", WRITTEN)
async def test_an_export_of_0_1_0_is_exported_again_as_it_was(name: str, tmp_path: Path):
    old = WRITTEN[name]
    written: list[bytes] = []
    source = tmp_path / "0.json"
    source.write_text(json.dumps(old), encoding="utf-8")
    for number in (1, 2):
        resumed = await read_export(str(source))
        provider = open_provider("openai/scripted", ProviderOptions("http://127.0.0.1:9/v1", "test-key"))
        session = Session(provider, workspace=tmp_path, bare=True)
        restore(session, resumed.snapshot)
        source = tmp_path / f"{number}.json"
        export = await open_export(str(source), session, resumed=resumed, archive="archive" in old)
        await export.close()
        written.append(to_json(from_json(source.read_bytes()).replace(timestamp=0.0), mask=None))
    assert written[0] == written[1]
    again = json.loads(written[0])
    same: dict[str, Any] = {"timestamp": 0, "model": "openai/scripted"}
    used = old["token_usage"]
    counts = ("total_input", "cache_read", "cache_write", "output", "reasoning")
    if used["turns"] and not any(used[name] for name in counts):  # 0.1.0 wrote 0 where nothing was reported
        same["token_usage"] = again["token_usage"]
        assert again["token_usage"] == used | dict.fromkeys(counts) | {"cost": again["token_usage"]["cost"]}
    assert {**again, **same} == LATER | {name: part for name, part in ended(old).items() if part is not None} | same


@pytest.mark.parametrize("more", [(), ("--transport", "litellm")])
def test_what_a_newer_version_wrote_goes_on_and_is_written_again(more: tuple[str, ...], codelet: Codelet):
    (codelet.cwd / "newer.json").write_text(json.dumps(newer("1.7")), encoding="utf-8")
    profiles = codelet.home / ".config" / "codelet" / "profiles"
    profiles.mkdir(parents=True)
    (profiles / "careful.yaml").write_text("id: careful\nallowed_tools: [read]\n", encoding="utf-8")
    codelet.server.script = lambda request: Reply("It goes on.")
    done = codelet("-p", "and now?", "--resume", "newer.json", "--export", "again.json", *more)
    assert (done.exit, done.out) == (0, "It goes on.\n"), done.err
    document = json.loads((codelet.cwd / "again.json").read_bytes())
    assert document["version"] == "1.7"
    assert {name: document[name] for name in NEWER} == NEWER
    old = newer("1.7")
    for part in ("plan", "active_tasks"):
        assert document[part] == ended(old)[part], part
    assert document["archive"][0]["message"] == old["archive"][0]["message"]
    assert document["timeline"][:2] == old["timeline"]
    assert [one for one in old["messages"] if one in document["messages"]] == old["messages"]
    (sent,) = codelet.server.requests
    told = str(sent.json["messages"])
    assert "a.png" not in told and "caller" not in told and "strict" not in told, (
        "no server is sent what we do not know"
    )
