"""A vendor of the user's own: a table in the user's settings file, from there to the wire, and to no other file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from codelet.providers import catalog
from codelet.providers.catalog import Quirks, Vendor, table, vendor_of, vendors
from codelet.providers.custom_vendors import checked_quirks, vendors_from
from codelet.providers.endpoint import endpoint_for, quirks_of
from tests.support import repo as repositories
from tests.support.program import Finished, run
from tests.support.script import Call, Reply
from tests.support.server import ModelServer

FILE = tomllib.loads(Path(catalog.__file__).with_name("vendors.toml").read_text(encoding="utf-8"))
WITHOUT_A_VENDOR = {
    "named",
    "bare",
    "also",
    "codestral",
    "azure",
    "bedrock",
    "bedrock_mantle",
    "sagemaker",
    "vertex_ai",
}
BELOW = {"quirks", "short", "efforts", "newer"}
HOUSE = {"base": "https://models.inhouse.example/v1/", "key": "INHOUSE_API_KEY"}


def _tables(tree: Mapping[str, Any], place: str = "") -> dict[str, dict[str, Any]]:
    """Every table below a place, by the name in its brackets."""
    found: dict[str, dict[str, Any]] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            name = key if re.fullmatch(r"[A-Za-z0-9_-]+", key) and not place.endswith(".newer") else f'"{key}"'
            whole = f"{place}.{name}" if place else name
            found |= {whole: {key: each for key, each in value.items() if not isinstance(each, dict)}}
            found |= _tables(value, whole)
    return found


def test_the_file_of_vendors_is_read_as_a_toml_parser_reads_it():
    tables = {name: fields for name, fields in _tables(FILE).items() if fields}
    assert len(tables) > 60
    assert {name: dict(table(name)) for name in tables} == tables
    assert [vendor.prefix for vendor in vendors()] == [name for name in FILE if name not in WITHOUT_A_VENDOR]


def test_the_file_of_refusals_is_read_as_a_toml_parser_reads_it():
    text = Path(catalog.__file__).with_name("refusals.toml").read_text(encoding="utf-8")
    tables = {name: fields for name, fields in _tables(tomllib.loads(text)).items() if fields}
    assert {name: dict(table(name, "refusals.toml")) for name in tables} == tables


@pytest.mark.parametrize("prefix", [name for name in FILE if name not in WITHOUT_A_VENDOR])
def test_a_known_vendors_table_stands_up_to_the_checks_of_a_users(prefix: str):
    fields = FILE[prefix]
    kinds = {name: type(getattr(Vendor, name)) for name in Vendor.fields if hasattr(Vendor, name)}
    for name in fields.keys() - BELOW - {"name", "base", "model", "pictures", "called"}:
        value = fields[name]
        assert type(tuple(value) if isinstance(value, list) else value) is kinds[name], name
    assert checked_quirks(fields.get("quirks", {}), prefix) == fields.get("quirks", {})
    given = {"key": key} if (key := next(iter(fields.get("key_names", ())), None)) else {}
    model = {"model": fields["model"]} if "model" in fields else {}
    (made,) = vendors_from({"x": {"base": fields["base"], "name": fields["name"], **given, **model}})
    known = vendor_of(f"{prefix}/m")
    assert known is not None and (made.name, made.local) == (known.name, known.local)
    for pattern, words in fields.get("efforts", {}).items():
        assert re.compile(pattern) and (words == "unknown" or isinstance(words, list))


def test_a_table_becomes_a_row_of_the_catalogue():
    table = {
        "inhouse": HOUSE
        | {"name": "In-house", "model": "inhouse/large", "quirks": {"alternating": True, "longest_call_id": 12}},
        "here": {"base": "http://localhost:9000/v1", "wire": "anthropic"},
    }
    inhouse, here = vendors_from(table)
    assert inhouse == Vendor(
        prefix="inhouse",
        name="In-house",
        base="https://models.inhouse.example/v1",
        key_names=("INHOUSE_API_KEY",),
        default_model="inhouse/large",
        quirks=Quirks(alternating=True, longest_call_id=12),
    )
    assert here == Vendor(prefix="here", name="here", base="http://localhost:9000/v1", wire="anthropic", local=True)
    assert vendor_of("inhouse/small", (inhouse, here)) is inhouse and vendor_of("inhouse/small") is None
    endpoint = endpoint_for("inhouse/small", None, None, {"INHOUSE_API_KEY": "secret"}, own=(inhouse, here))
    assert endpoint is not None
    assert (endpoint.key, endpoint.model_name("inhouse/small"), endpoint.name) == ("secret", "small", "In-house")


def test_a_hosted_vendor_takes_turns_only_where_its_table_says_so():
    plain, strict = vendors_from({"plain": HOUSE, "templated": HOUSE | {"quirks": {"alternating": True}}})
    assert not quirks_of("plain/x", plain.base, (plain,)).alternating
    assert quirks_of("templated/x", strict.base, (strict,)).alternating
    assert quirks_of("plain/x", "http://elsewhere/v1", (plain,)).alternating, "there it is a server that nobody knows"


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (["inhouse"], "vendors must be a table"),
        ({"inhouse": "https://x"}, "vendors.inhouse: Expected `object`"),
        ({"In-house Inc": HOUSE}, "vendors.In-house Inc: "),
        ({"openai": HOUSE}, "belongs to OpenAI"),
        ({"vllm": HOUSE}, "belongs to vLLM"),
        ({"inhouse": HOUSE | {"modle": "x"}}, "vendors.inhouse: Object contains unknown field `modle`"),
        ({"inhouse": HOUSE | {"retries": 1}}, "unknown field `retries`"),
        ({"inhouse": {"key": "INHOUSE_API_KEY"}}, "vendors.inhouse: Object missing required field `base`"),
        ({"inhouse": HOUSE | {"base": "ftp://x"}}, "vendors.inhouse.base must be an http"),
        ({"inhouse": {"base": "https://x"}}, "vendors.inhouse.key must name the variable"),
        (
            {"inhouse": HOUSE | {"key": "sk-12345678"}},
            "such as INHOUSE_API_KEY",
        ),
        ({"inhouse": HOUSE | {"key": "HOUSE"}}, "name the variable"),
        ({"inhouse": HOUSE | {"wire": "openapi"}}, "vendors.inhouse.wire: Invalid enum value"),
        (
            {"inhouse": HOUSE | {"quirks": {"alternatin": True}}},
            "quirks: Object contains unknown field `alternatin`",
        ),
        (
            {"inhouse": HOUSE | {"quirks": {"alternating": 1}}},
            "vendors.inhouse.quirks.alternating: Expected `bool`",
        ),
        (
            {"inhouse": HOUSE | {"quirks": {"call_id_length": 0}}},
            "quirks.call_id_length: Expected `int` >= 1",
        ),
        ({"inhouse": HOUSE | {"quirks": {"effort": "low"}}}, "quirks.effort: Invalid enum value"),
        (
            {"inhouse": HOUSE | {"quirks": {"max_output_option": ""}}},
            "quirks.max_output_option: Expected `str`",
        ),
    ],
)
def test_a_wrong_table_is_named_with_its_place(table: object, told: str):
    with pytest.raises(ValueError) as refused:
        vendors_from(table)
    assert told in str(refused.value) and "\n" not in str(refused.value)
    assert "sk-12345678" not in str(refused.value), "a key that was pasted is not repeated"


def _settings(home: Path, server: ModelServer, more: str = "") -> None:
    text = f'[vendors.inhouse]\nbase = "{server.openai}"\nkey = "INHOUSE_API_KEY"\nname = "In-house"\n{more}'
    repositories.write(home, {".config/codelet/config.toml": text})


def _run(*arguments: str, home: Path, repo: Path, key: str | None = "inhouse-key-1") -> Finished:
    return run("-p", "go", *arguments, cwd=repo, home=home, env={"INHOUSE_API_KEY": key})


@pytest.mark.needs("git")
def test_it_is_spoken_to_as_its_table_says(model_server: ModelServer, home: Path, repo: Path):
    quirks = 'model = "large"\nquirks = {max_output_option = "most", usage_option = false, call_id_length = 9}\n'
    _settings(home, model_server, quirks)
    model_server.script = [Reply(calls=[Call("call_1234", "read", {"path": "README.md"})]), Reply("done")]
    done = _run(home=home, repo=repo)
    assert done.exit == 0, done.err
    second = model_server.requests[1]
    assert dict(second.headers)["authorization"] == "Bearer inhouse-key-1"
    assert second.json["model"] == "large" and "stream_options" not in second.json
    calls = [message["tool_calls"][0]["id"] for message in second.json["messages"] if "tool_calls" in message]
    assert len(calls[0]) == 9 and calls[0].isalnum()


@pytest.mark.needs("git")
def test_what_is_missing_is_told_in_a_line(model_server: ModelServer, home: Path, repo: Path):
    _settings(home, model_server)
    unnamed = _run(home=home, repo=repo)
    assert (unnamed.exit, model_server.requests) == (2, [])
    assert "--model inhouse/NAME" in unnamed.err
    bridged = _run("--model", "inhouse/x", "--transport", "litellm", home=home, repo=repo)
    assert bridged.exit == 2 and "--transport auto" in bridged.err
    _settings(home, model_server, "modell = 'x'\n")
    assert "config.toml: vendors.inhouse: Object contains unknown field `modell`" in _run(home=home, repo=repo).err


@pytest.mark.needs("git")
def test_a_project_adds_no_vendor(model_server: ModelServer, home: Path, repo: Path):
    text = f'[vendors.inhouse]\nbase = "{model_server.openai}"\nkey = "OPENAI_API_KEY"\n'
    repositories.write(repo, {".codelet/config.toml": text})
    done = _run("--trust", "--model", "inhouse/x", home=home, repo=repo)
    assert done.exit == 2 and "'vendors' may not" in done.err and ".codelet/config.toml" in done.err
    assert model_server.requests == []
