"""`--json-schema` in the program: just the JSON on stdout, its value in the machine format, and what it is not for."""

from __future__ import annotations

import json

from tests.e2e.conftest import Codelet
from tests.support.script import Reply


def test_the_answer_is_just_the_json(codelet: Codelet):
    (codelet.cwd / "s.json").write_text('{"type": "object", "required": ["a"]}')
    anew = [Reply("Sure:\n```json\n{}\n```"), Reply('```json\n{"a": [1]}\n```')]
    codelet.server.script = [*anew, Reply('{"b": 1}'), Reply('{"b": 2}'), Reply('{"a": null}')]
    text = codelet("-p", "go", "--json-schema", "s.json")
    assert (text.exit, text.out) == (0, '{"a": [1]}\n')
    assert "$: 'a'" in text.err
    failed = codelet("-p", "go", "--json-schema", "s.json", "--output-format", "json")
    told = json.loads(failed.out)
    assert (failed.exit, told["exit"], told["structured_output"], told["partial"]) == (5, 5, None, True)
    done = codelet("-p", "go", "--json-schema", "s.json", "--output-format", "stream-json").lines()[-1]
    assert (done["type"], done["structured_output"]) == ("turn_end", {"a": None})


def test_it_is_for_one_answer_of_the_model(codelet: Codelet):
    (codelet.cwd / "s.json").write_text("{}")
    (codelet.cwd / "bad.json").write_text('{"type": 3}')
    given = ["--json-schema", "s.json"]
    for arguments, words in (
        (["-p", "/usage", *given], "for the model's answer: a /command has none"),
        (["-p", "go", "--plan", *given], "--plan ends with the plan"),
        ([*given, "review"], "--json-schema is for a session"),
        (["-p", "go", "--json-schema", "bad.json"], "bad.json: $.type: 3 is not"),
    ):
        wrong = codelet(*arguments)
        assert (wrong.exit, len(wrong.complaints)) == (2, 1), wrong.err
        assert words in wrong.err
    assert not codelet.server.requests
