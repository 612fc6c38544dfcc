"""Facts of a file found by meaning: added behind those found by words, and only where the extra is installed."""

from __future__ import annotations

import json
import sqlite3
import struct
import sys
from importlib.util import find_spec
from pathlib import Path
from subprocess import run

import pytest

from codelet.errors import UsageError
from codelet.export.document import Document
from codelet.export.encode import to_json
from codelet.export.search import SessionSearch
from codelet.extensions.memory.fact import Fact
from codelet.extensions.memory.fact_file import FactFile
from codelet.messages import assistant, tool_result, user
from codelet.semantic.meaning import MOST_BY_MEANING, Nearest, model_files
from codelet.settings import load_settings
from tests.context.scripted import turn
from tests.extensions.memory.conftest import Remembering, reminded
from tests.support.program import ROOT

with_model = pytest.mark.skipif(find_spec("wordllama") is None, reason="wordllama is not installed")
with_numpy = pytest.mark.skipif(
    find_spec("numpy") is None or find_spec("safetensors") is None, reason="numpy or safetensors is not installed"
)

FACTS = (
    "deploys go out on Fridays",
    "Anna owns the billing module",
    "customers are in Europe, prices in euros",
    "a database password rotates monthly",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "team.facts"
    file = FactFile(path)
    file.add([Fact(text=text, by="model") for text in FACTS])
    file.close()
    return path


def nearest(file: FactFile, own: Path | None = None) -> Nearest:
    files = model_files(own)
    assert files is not None
    return Nearest(file, files)


def own_model(folder: Path, tables: int = 1, tokens: tuple[str, ...] = ("fridays", "ship", "billing")) -> Path:
    """A model of the user's in which the first two words mean the same, and the third something else."""
    vocabulary = {"?": 0} | {token: number for number, token in enumerate(tokens, 1)}
    tokenizer = {
        "version": "1.0",
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "?"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    rows = [(0.0, 0.0), (1.0, 0.0), (1.0, 0.1), (0.0, 1.0)]
    raw = struct.pack("<8f", *(number for row in rows for number in row))
    head = {f"t{n}": {"dtype": "F32", "shape": [4, 2], "data_offsets": [32 * n, 32 * n + 32]} for n in range(tables)}
    header = json.dumps(head).encode()
    path = folder / "own.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + raw * tables)
    return path


@with_model
async def test_a_fact_without_a_word_of_the_prompt_is_told(path: Path, remembering: Remembering):
    session, provider = remembering(facts=str(path))
    await turn(session, "which currency do we use?")
    told = reminded(provider.sent[0])
    assert '- "customers are in Europe, prices in euros"' in told
    assert "Anna" not in told and "password" not in told
    shown = (
        await session.run_command("facts", "find Fridays: shipping costs, currency, European countries?")
    ).splitlines()
    assert ["Fridays" in shown[0], shown[1], "Europe" in shown[2], len(shown)] == [True, "by meaning:", True, 3]
    await session.close()
    assert [each.name for each in path.parent.iterdir()] == [path.name], "nothing more is written"


@with_numpy
def test_those_found_by_words_stay_as_they_are_and_few_are_added(path: Path, tmp_path: Path):
    file = FactFile(path)
    file.add([Fact(text=f"ship number {number}", by="model") for number in range(20)])
    words = file.find("fridays?", 12)
    near = nearest(file, own_model(tmp_path))
    added = file.used(near.find("fridays?", {stored.number for stored in words}))
    assert [stored.fact.text for stored in words] == [FACTS[0]]
    assert [stored.fact.text.split()[0] for stored in added] == ["ship"] * MOST_BY_MEANING
    file.close()


@with_numpy
def test_the_users_own_model_and_what_others_change_meanwhile(path: Path, tmp_path: Path):
    own = own_model(tmp_path)
    file, other = FactFile(path), FactFile(path)
    near = nearest(file, own)

    def found(text: str) -> list[str]:
        return [stored.fact.text for stored in file.used(near.find(text, ()))]

    assert found("ship") == [FACTS[0]], near.broken
    assert found("billing") == [FACTS[1]]
    assert found("nothing that it knows") == []
    assert found("ship \ud800") == [FACTS[0]]
    other.forget(1)
    assert found("ship") == []
    other.forget(4)
    other.add([Fact(text="ship it", by="model")])  # which gets the number 4 again
    other.add([Fact(text="billing", by="model")])
    assert (found("fridays"), set(found("billing"))) == (["ship it"], {FACTS[1], "billing"})
    base = sqlite3.connect(path)
    base.execute("UPDATE fact SET text = CAST(x'ff62696c6c696e67' AS TEXT) WHERE text = 'billing'")
    base.commit()
    base.close()
    assert found("billing") == [FACTS[1]], "what is no text is not looked at"
    file.close()
    other.close()


async def test_without_the_extra_the_search_goes_by_words(
    path: Path, remembering: Remembering, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "wordllama", None)  # as where it is not installed
    session, provider = remembering(facts=str(path))
    await turn(session, "which currency, Anna?")
    told = reminded(provider.sent[0])
    assert "Anna" in told and "Europe" not in told
    assert "by meaning" not in await session.run_command("facts", "find currency, Anna")
    await session.close()


async def test_a_broken_model_is_told_and_the_search_goes_by_words(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    own = own_model(tmp_path)
    monkeypatch.setitem(sys.modules, "safetensors", None)
    file = FactFile(path)
    near = nearest(file, own)
    assert near.find("ship", ()) == []
    assert near.broken.startswith(f"{own}: ")
    assert "\n" not in near.broken
    file.close()


@with_numpy
@pytest.mark.parametrize("how", ["garbage", "two tables", "no tokenizer"])
def test_a_file_that_is_no_model_is_one_line(how: str, path: Path, tmp_path: Path):
    own = own_model(tmp_path, tables=2 if how == "two tables" else 1)
    if how == "garbage":
        own.write_bytes(b"\xff" * 4096)
    elif how == "no tokenizer":
        (tmp_path / "tokenizer.json").write_text("{}")
    file = FactFile(path)
    near = nearest(file, own)
    assert near.find("ship", ()) == []
    assert near.broken.startswith(f"{own}: ") and "\n" not in near.broken
    file.close()


def test_a_model_that_is_not_there_ends_in_one_line(path: Path, tmp_path: Path, remembering: Remembering):
    for value, why in (("models/x", "absolute path"), (str(tmp_path / "x"), "x: is no file")):
        with pytest.raises(UsageError, match=why):
            remembering(facts=str(path), facts_model=value)
    own = own_model(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(UsageError, match=r"tokenizer\.json: is no file"):
        remembering(facts=str(path), facts_model=str(own))


def test_a_project_cannot_name_the_model(tmp_path: Path):
    (tmp_path / ".codelet").mkdir()
    (tmp_path / ".codelet" / "config.toml").write_text('facts_model = "/x"')
    with pytest.raises(UsageError, match="facts_model"):
        load_settings({}, workspace=tmp_path, trust=True, environment={})


def test_no_module_imports_the_search_by_name(path: Path) -> None:
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "import codelet.extensions.services, codelet.extensions.memory.remembering as memory\n"
        "import codelet.frontends.commands.doctor\n"
        "loaded = lambda: any(name.startswith('codelet.semantic') for name in sys.modules)\n"
        "before = loaded(), memory.Facts().nearest\n"
        "facts = memory.Facts(Path(sys.argv[1]))\n"
        "print(*before, loaded())\n"
        "facts.close()\n"
    )
    done = run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "False None True\n"


@with_model
async def test_a_new_fact_is_marked_beside_one_of_the_file_that_means_the_same(path: Path, remembering: Remembering):
    session, _ = remembering(facts=str(path))
    for text in ("the deploys go out each Friday", "the office is in Vienna"):
        await session.run_command("facts", f"add {text}")
        await turn(session)
    listed = (await session.run_command("facts")).splitlines()
    assert [FACTS[0] in row for row in listed[:2]] == [True, False]
    await session.close()


@with_model
def test_passages_of_sessions_are_found_by_meaning_but_no_phrase_is(tmp_path: Path):
    said = "customers are in Europe, so we bill them in euros"
    messages = (user("hello"), assistant(said), tool_result("c1", "currencies of the world"), user("thanks a lot"))
    (tmp_path / "a.json").write_bytes(to_json(Document(timestamp=1.0, token_count=1, messages=messages), mask=None))
    search = SessionSearch(str(tmp_path))
    found = search.passages("currency for invoices", 8)
    assert [(each.excerpt, each.place, each.by_meaning) for each in found] == [
        (said, "turn 1, message 1, assistant", True)
    ]
    assert search.passages('"currency" invoices', 8) == []
    [(place, text)] = search.find("currency for invoices", 8)[-1:]
    assert place.startswith("a.json, ") and place.endswith(", by meaning") and text == said
    (tmp_path / "a.json").unlink()
    assert search.passages("currency for invoices", 8) == []
