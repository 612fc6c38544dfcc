"""The schema of the final answer: what is wrong with one, what meets it, what is asked anew, what wires are told."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from codelet import UsageError, run
from codelet.loop.required_answer import RequiredAnswer, required_answer
from codelet.messages import user
from codelet.providers import open_provider
from codelet.providers.by_litellm.provider import LiteLLMProvider
from codelet.providers.native import NativeProvider
from codelet.providers.protocol import ProviderOptions, Request
from tests.api.conftest import options as options
from tests.support.official import complaints
from tests.support.script import Call, HttpError, Reply
from tests.support.server import ModelServer

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"age": {"type": "integer"}},
    "required": ["age"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "t", "description": "d", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"type": "objekt"}', "$.type"),
        ('{"properties": {"a": {"minimum": "x"}}}', "$.properties.a.minimum"),
        ('{"properties": {"a": {"pattern": "("}}}', "$.properties.a.pattern"),
        ('{\n "type": 1 "x"}', ":2:12:"),
        ("[1]", "not list"),
        ('{"items": {"$ref": "#/$defs/x"}}', "$.items.$ref: '#/$defs/x' leads to nothing"),
        ('{"$ref": "https://schemas.example/x"}', "nothing is fetched"),
        ('{"const": NaN}', "NaN is not JSON"),
        ('{"$schema": "http://json-schema.org/draft-07/schema#", "exclusiveMinimum": true}', "$.exclusiveMinimum"),
    ],
)
def test_a_bad_schema_file_is_told_with_the_place(text: str, place: str, tmp_path: Path):
    file = tmp_path / "schema.json"
    file.write_text(text)
    with pytest.raises(UsageError) as wrong:
        required_answer(str(file))
    assert place in str(wrong.value)
    assert str(file) in str(wrong.value)
    with pytest.raises(UsageError, match="No such file"):
        required_answer(str(tmp_path / "none.json"))


def test_a_schema_may_have_a_million_bytes(tmp_path: Path):
    file = tmp_path / "schema.json"
    file.write_text("{}".ljust(1_000_000))
    assert required_answer(str(file)).objection("1") is None
    file.write_text("{}".ljust(1_000_001))
    with pytest.raises(UsageError, match="at most 1,000,000 bytes"):
        required_answer(str(file))


def test_a_schema_that_is_too_deep_and_one_that_is_no_text_are_told(tmp_path: Path):
    file = tmp_path / "schema.json"
    for data in (b"[" * 100_000, b'{"a": "\xff"}'):
        file.write_bytes(data)
        with pytest.raises(UsageError, match="no JSON: "):
            required_answer(str(file))


def test_what_a_schema_refers_to_stands_in_it_by_any_spelling():
    """Steps may be escaped, and places of a list; parts that no judge looks at may say anything."""
    parts = {name: {"type": "integer"} for name in ("a/b", "c~d", "e f", "0")}
    for reference in ("#/$defs/a~1b", "#/$defs/0", "#/$defs/c~0d", "#/$defs/e%20f", "#/anyOf/1", "#"):
        schema = {"$defs": parts, "anyOf": [{}, {}], "properties": {"x": {"$ref": reference}}}
        RequiredAnswer(schema, "here")
    for reference in ("#/$defs/a/b", "#/anyOf/2", "#/anyOf/x", "#/$defs/gone"):
        with pytest.raises(UsageError, match=r"here: \$\.prefixItems\[1\]\.\$ref: .* leads to nothing"):
            RequiredAnswer({"$defs": parts, "anyOf": [{}, {}], "prefixItems": [{}, {"$ref": reference}]}, "here")
    elsewhere = {"$ref": "https://schemas.example/x"}
    RequiredAnswer({"default": elsewhere, "const": elsewhere, "enum": [elsewhere], "examples": [elsewhere]}, "here")


def test_a_schema_that_goes_in_a_circle_cannot_be_applied():
    with pytest.raises(UsageError, match=r"here: .*cannot be applied: "):
        RequiredAnswer({"$ref": "#"}, "here").objection("1")


def test_of_many_problems_the_first_five_are_told_and_each_in_short():
    required = RequiredAnswer({"items": {"type": "integer"}}, "here")
    told = (required.objection(json.dumps(["x" * 1_000] * 9)) or "").split("; ")
    assert [one.partition(":")[0] for one in told] == [f"$[{number}]" for number in range(5)]
    assert all(one.endswith("…") and len(one) == len("$[0]: ") + 301 for one in told)
    assert required.objection("[1]") is None and required.value == [1]
    assert required.objection("[x") is not None and required.text is None, "what was met before counts no more"


@pytest.mark.parametrize(
    ("answer", "met"),
    [
        (' {"age": 3}\n', '{"age": 3}'),
        ('Here it is:\n\n```json\n{"age": 3}\n```\nThat is all.', '{"age": 3}'),
        ('```\n{"age": 3}\n```', '{"age": 3}'),
        ('{"age": 3} and more', '{"age": 3}'),
        ('\ufeff{"age": 3}', '{"age": 3}'),
        ('See [this] and {that}: {"age": 3}', '{"age": 3}'),
        ('Not {"age": "x"} but {"age": 3}.', '{"age": 3}'),
        ('{"age": 3} or {"age": 4}', None),
        ('{"a": {"age": 3}', None),
        ('[{"age": 3}', None),
        ('{"a": {"age": 3}}', None),
        ('Here: {"age": NaN}', None),
        (" ".join(['{"age": 3}'] * 99), None),
        ('```json\n{"age": 3}\n```\nor\n```json\n{"age": 4}\n```', None),
        ('{"age": "3"}', None),
        ('{"age": 3, "b": 1}', None),
        ('{"age": NaN}', None),
        ("[" * 100_000, None),
        ("", None),
    ],
)
def test_an_answer_is_the_json_that_meets_it_and_nothing_else(answer: str, met: str | None):
    required = RequiredAnswer(SCHEMA, "here")
    problem = required.objection(answer)
    assert (problem is None, required.text) == (met is not None, met)
    assert len(problem or "") < 2_000


def test_an_answer_on_which_a_pattern_goes_on_for_years_ends():
    required = required_answer({"type": "string", "pattern": "^(a+)+$"})
    with pytest.raises(UsageError, match="5 s of processor time"):
        required.objection(json.dumps("a" * 60 + "!"))
    assert signal.getitimer(signal.ITIMER_VIRTUAL)[0] == 0
    assert required.objection('"aaa"') is None


def test_a_part_that_is_referred_to_counts():
    tree = {"$ref": "#/$defs/node", "$defs": {"node": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}
    required = RequiredAnswer(tree, "here")
    assert required.objection("[[], [[]]]") is None
    assert (required.objection("[[1]]") or "").startswith("$[0][0]: ")


async def test_tools_work_on_the_way_and_the_answer_is_a_value(options: dict[str, Any], model_server: ModelServer):
    call = Call("c1", "read", {"path": "README.md"})
    model_server.script = [Reply("Looking.", calls=[call]), Reply('```json\n{"age": 41}\n```')]
    answer = await run("how old?", json_schema=SCHEMA, **options)
    assert (answer.exit, answer.text, answer.structured_output) == (0, '{"age": 41}', {"age": 41})
    first = model_server.requests[0]
    assert json.dumps(SCHEMA) in first.messages[0]["content"], "the system prompt says it"
    assert "response_format" not in first.json, "beside tools an unknown server would make no call"
    assert "tool" in [message["role"] for message in model_server.requests[1].messages]


async def test_an_answer_that_does_not_meet_it_is_asked_for_once_more(
    options: dict[str, Any], model_server: ModelServer, tmp_path: Path
):
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(SCHEMA))
    unmet = [Reply("no"), Reply("still no")]
    model_server.script = [Reply('{"age": "old"}'), Reply('{"age": 5}'), *unmet, *unmet]
    answer = await run("how old?", json_schema=str(file), **options)
    assert (answer.exit, answer.structured_output) == (0, {"age": 5})
    asked = [message for message in model_server.requests[1].messages if message["role"] == "user"]
    assert any("$.age: 'old'" in str(message["content"]) for message in asked)
    failed = await run("how old?", json_schema=SCHEMA, **options)
    assert (failed.exit, failed.partial, failed.text, failed.structured_output) == (5, True, "still no", None)
    assert "JSON" in (failed.error or "")
    limited = await run("how old?", json_schema=SCHEMA, max_turns=1, **options)
    assert (limited.exit, limited.structured_output) == (4, None), "asking again is a step like any other"


def body_of(model: str, *, tools: bool, effort: Any = None) -> dict[str, Any]:
    provider = open_provider(model, ProviderOptions(api_key="k", effort=effort))
    assert isinstance(provider, NativeProvider)
    body: dict[str, Any] = json.loads(
        provider.body(Request("s", [user("hi")], tools=[TOOL] if tools else (), schema=SCHEMA))
    )
    return body


def test_each_vendor_is_told_it_in_its_own_field():
    strict = {"name": "answer", "schema": SCHEMA, "strict": True}
    responses = body_of("openai/gpt-5.6", tools=True)
    assert responses["text"] == {"format": {"type": "json_schema", **strict}}
    assert complaints(responses) == []
    chat = body_of("openai/chat/gpt-4.1", tools=True)
    assert chat["response_format"] == {"type": "json_schema", "json_schema": strict}
    told = {"type": "json_schema", "schema": SCHEMA}
    assert body_of("anthropic/claude-sonnet-5-5", tools=True)["output_config"] == {"format": told}
    beside = body_of("anthropic/claude-sonnet-5-5", tools=True, effort="high")["output_config"]
    assert beside == {"effort": "high", "format": told}
    assert "response_format" not in body_of("groq/openai/gpt-oss-120b", tools=True), "it refuses the two together"
    assert "response_format" in body_of("groq/openai/gpt-oss-120b", tools=False)
    through = LiteLLMProvider("gemini/gemini-3.8-flash", ProviderOptions())
    alone = Request("s", [user("hi")], schema=SCHEMA)
    assert json.loads(through.body(alone))["arguments"]["response_format"]["json_schema"] == strict
    assert "response_format" not in json.loads(through.body(alone.replace(tools=[TOOL])))["arguments"]


def test_strict_mode_is_asked_for_only_where_it_takes_the_schema():
    provider = open_provider("openai/gpt-5.6", ProviderOptions(api_key="k"))
    assert isinstance(provider, NativeProvider)
    for schema in (
        {**SCHEMA, "required": []},
        {key: value for key, value in SCHEMA.items() if key != "additionalProperties"},
        {**SCHEMA, "properties": {"age": {"type": "object", "properties": {}}}},
    ):
        body = json.loads(provider.body(Request("s", [user("hi")], schema=schema)))
        assert body["text"]["format"]["strict"] is False


async def test_a_server_that_refuses_it_is_told_in_words_only(options: dict[str, Any], model_server: ModelServer):
    refusal = HttpError(400, "This response_format type is unavailable now", "invalid_request_error")
    model_server.script = [refusal, Reply('{"age": "x"}'), Reply('{"age": 1}')]
    answer = await run("how old?", json_schema=SCHEMA, tools=[], **options)
    assert (answer.exit, answer.structured_output) == (0, {"age": 1})
    assert ["response_format" in sent.json for sent in model_server.requests] == [True, False, False]
