"""A model's name is never an address, and a file may name only a model that the user could have picked."""

from __future__ import annotations

import json

import pytest

from codelet.providers.catalog import vendors
from tests.e2e.conftest import Codelet
from tests.support.program import Finished, run
from tests.support.script import Reply

MINE = "ollama/scripted"
REFUSED = 2


@pytest.fixture
def unnamed(codelet: Codelet) -> Codelet:
    """The program with a default model at the server, and no flag for it; it has saved a session as `work.json`."""
    codelet.server.script = lambda request: Reply("ok")
    done = started(codelet, "-p", "one", "--export", "work.json", model=MINE)
    assert done.exit == 0, done.err
    codelet.server.requests.clear()
    return codelet


def started(codelet: Codelet, *arguments: str, model: str | None) -> Finished:
    """The program without its flags: its server is the one that a variable names."""
    own = {"OLLAMA_API_BASE": codelet.server.openai} | {name: None for each in vendors() for name in each.key_names}
    return run(*arguments, cwd=codelet.cwd, home=codelet.home, env=own | {"CODELET_MODEL": model})


def named_by_the_file(codelet: Codelet, model: str) -> None:
    path = codelet.cwd / "work.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model": model}))


def addresses(codelet: Codelet) -> list[str]:
    """Names that lead to `/stranger` at the server if an address is taken from them, in many spellings."""
    base = codelet.server.openai.removesuffix("/v1") + "/stranger"
    host = base.removeprefix("http://")
    return [
        f"oobabooga/{base}",
        f"oobabooga/{base.replace('http', 'HTTP', 1)}",
        f" oobabooga/{base}",
        f"oobabooga/\t{base}",
        f"oobabooga/{base.replace('/', '%2f')}",
        f"oobabooga/{base.replace('/', chr(92))}",
        f"oobabooga//{host}",
        f"oobabooga/{host}",
        f"huggingface/{base}",
        f"text-completion-openai/{base}",
        f"custom/{base}",
        f"azure/{base}",
        f"sagemaker/{base}",
        f"openai/{base}",
        f"hosted_vllm/{base}",
        base,
        "bedrock/agentcore/arn:aws:bedrock-agentcore:evil.example/x:1:runtime/r",
        "no_provider_of_ours/x",
    ]


def test_an_export_brings_no_address_and_the_users_model_goes_on(unnamed: Codelet):
    for name in addresses(unnamed)[:4]:
        named_by_the_file(unnamed, name)
        unnamed.server.requests.clear()
        done = started(unnamed, "-p", "two", "--resume", "work.json", model=MINE)
        assert done.exit == 0, (name, done.err)
        assert {request.path for request in unnamed.server.requests} == {"/v1/chat/completions"}, name
        assert sum(MINE in line for line in done.complaints) == 1, done.err


def test_without_a_model_of_the_users_such_an_export_is_refused(unnamed: Codelet):
    unnamed.server.models = ()
    named_by_the_file(unnamed, addresses(unnamed)[0])
    done = started(unnamed, "-p", "two", "--resume", "work.json", model=None)
    assert (done.exit, done.out, len(done.complaints)) == (REFUSED, "", 1), done.err
    assert not [request for request in unnamed.server.requests if request.json]


def test_an_export_plays_no_recording(unnamed: Codelet):
    tape = {"version": 1, "model": "demo", "steps": [{"text": "Recorded."}]}
    (unnamed.cwd / "tape.json").write_text(json.dumps(tape))
    named_by_the_file(unnamed, "replay:tape.json")
    done = started(unnamed, "-p", "two", "--resume", "work.json", model=MINE)
    assert (done.exit, done.out) == (0, "ok\n"), done.err
    assert "replay:tape.json" in done.err


def test_a_projects_settings_and_profiles_bring_no_address(unnamed: Codelet):
    folder = unnamed.cwd / ".codelet" / "profiles"
    folder.mkdir(parents=True)
    for name in (*addresses(unnamed), "replay:tape.json"):
        (folder.parent / "config.toml").write_text(f"model = {json.dumps(name)}\n")
        done = started(unnamed, "-p", "go", "--trust", model=None)
        assert (done.exit, len(done.complaints)) == (REFUSED, 1), (name, done.err)
        assert started(unnamed, "-p", "go", "--trust", model=MINE).exit == 0, "what the user names comes first"
        (folder.parent / "config.toml").unlink()
        (folder / "theirs.yaml").write_text(f"id: theirs\nmodel: {json.dumps(name.strip())}\n")
        done = started(unnamed, "-p", "go", "--trust", "--profile", "theirs", model=MINE)
        assert (done.exit, len(done.complaints)) == (REFUSED, 1), (name, done.err)
    assert {request.path for request in unnamed.server.requests if request.json} == {"/v1/chat/completions"}


def test_a_file_may_name_what_the_user_could_pick(unnamed: Codelet):
    (unnamed.cwd / ".codelet").mkdir()
    for name in (MINE, "ollama/hf.co/someone/Some-GGUF:Q4_K_M", "hosted_vllm//models/llama"):
        (unnamed.cwd / ".codelet" / "config.toml").write_text(f"model = {json.dumps(name)}\n")
        named_by_the_file(unnamed, name)
        for flags in (["--trust"], ["--resume", "work.json"]):
            env = {"OLLAMA_API_BASE": unnamed.server.openai, "HOSTED_VLLM_API_BASE": unnamed.server.openai}
            done = run("-p", "go", *flags, cwd=unnamed.cwd, home=unnamed.home, env=env)
            assert done.exit == 0, (name, flags, done.err)
            assert unnamed.server.requests[-1].json["model"] == name.partition("/")[2]


def test_the_user_cannot_name_an_address_either(unnamed: Codelet):
    for name in addresses(unnamed):
        done = started(unnamed, "-p", "go", "--model", name, model=None)
        assert (done.exit, len(done.complaints)) == (REFUSED, 1), (name, done.err)
    for name in addresses(unnamed)[:3]:
        for done in (
            started(unnamed, "-p", "go", model=name),
            started(unnamed, "-p", "go", "--fallback-model", name.strip(), model=MINE),
        ):
            assert (done.exit, len(done.complaints)) == (REFUSED, 1), (name, done.err)
    assert not [request for request in unnamed.server.requests if request.json]
