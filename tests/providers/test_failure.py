"""Error answers: one line for the user, whether to try again and when, and whether the prompt was too long."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from codelet.errors import ProviderError
from codelet.providers import open_provider
from codelet.providers.failure import error_detail, http_failure, retry_after
from codelet.providers.protocol import ProviderOptions, Retries
from tests.providers.chunks import collect
from tests.support.script import HttpError, Reply, StreamError
from tests.support.server import ModelServer


def made(status: int, body: str = "", headers: dict[str, str] | None = None, key: str | None = "k") -> ProviderError:
    return http_failure(status, headers or {}, body, place="Somewhere", key_name="SOME_API_KEY", key=key)


@pytest.mark.parametrize(
    ("status", "says", "retryable"),
    [
        (400, "Somewhere answered with status 400", False),
        (401, "rejected the key (401); check SOME_API_KEY", False),
        (402, "payment (402)", False),
        (403, "rejected the key (403); check SOME_API_KEY", False),
        (404, "--model and --api-base", False),
        (307, "redirects elsewhere (307), which is not followed", False),
        (408, "status 408", True),
        (409, "status 409", True),
        (425, "status 425", True),
        (429, "reports a rate limit", True),
        (500, "status 500", True),
        (502, "status 502", True),
        (503, "status 503", True),
        (504, "status 504", True),
        (529, "status 529", True),
        (501, "status 501", True),
        (520, "status 520", True),
        (522, "status 522", True),
        (524, "status 524", True),
        (418, "status 418", False),
    ],
)
def test_each_status_has_its_line(status: int, says: str, retryable: bool):
    error = made(status, '{"error": {"message": "the details"}}')
    assert says in str(error)
    assert str(error).endswith(": the details")
    assert (error.status, error.retryable, error.exit_status) == (status, retryable, 3)


@pytest.mark.parametrize("status", [401, 403])
def test_without_a_key_it_says_that_one_is_wanted(status: int):
    assert "SOME_API_KEY" in str(made(status, key=None)) != str(made(status, key="a key that is wrong"))


@pytest.mark.parametrize(
    ("status", "says", "retryable"),
    [(400, "true", True), (503, "false", False), (429, " False ", False), (503, "maybe", True), (400, "", False)],
)
def test_a_server_may_say_itself_whether_to_try_again(status: int, says: str, retryable: bool):
    assert made(status, "{}", {"x-should-retry": says}).retryable == retryable


NO_TOOLS = {
    "Ollama": (400, '{"error": {"message": "registry.example/library/small does not support tools", "code": null}}'),
    "OpenRouter": (404, '{"error": {"message": "No endpoints found that support tool use.", "code": 404}}'),
    "vLLM": (400, '{"message": "auto tool choice requires --enable-auto-tool-choice and --tool-call-parser"}'),
}


@pytest.mark.parametrize("vendor", NO_TOOLS)
def test_a_model_without_tools_is_told_what_to_do(vendor: str):
    error = made(*NO_TOOLS[vendor])
    assert "takes no tools" in str(error)
    assert "--tools ''" in str(error)
    assert not error.retryable


@pytest.mark.parametrize(
    "message", ["You exceeded your current quota, please check your plan", "Your credit balance is too low"]
)
def test_a_used_up_quota_is_not_waited_for(message: str):
    assert not made(429, json.dumps({"error": {"message": message}})).retryable


def test_the_key_is_taken_out_wherever_it_stands():
    key = "sk-proj-0123456789"
    for body in (f'{{"error": {{"message": "Incorrect API key provided: {key}."}}}}', f"<p>{key}</p>" * 20):
        error = made(401, body, key=key)
        assert key not in str(error)
        assert "[key]" in str(error)


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ("", ""),
        ("plain\n  words", "plain words"),
        ('{"error": "text"}', "text"),
        ('{"error": {"message": "m", "code": 1}}', "m"),
        ('{"detail": "not found"}', "not found"),
        ('{"message": "m"}', "m"),
        ('[{"error": {"message": "in a list"}}]', "in a list"),
        ('{"error": null, "message": "beside"}', "beside"),
        ("[]", "[]"),
        ('{"error": {"code": 7}}', '{"code": 7}'),
        ("[" * 60_000, "[" * 300),
    ],
)
def test_the_detail_is_found_in_every_shape(body: str, detail: str):
    assert error_detail(body) == detail


def test_the_detail_is_one_bounded_line():
    assert len(error_detail("x\n" * 100_000)) <= 300
    assert "\n" not in error_detail('{"error": {"message": "a\\n\\nb"}}')


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Thu, 01 Jan 2015 00:00:00 GMT"}, 0.0),
        ({"retry-after": "Thu, 01 Jan 99999 00:00:00 GMT"}, None),
    ],
)
def test_retry_after_in_seconds_milliseconds_and_as_nonsense(headers: dict[str, str], seconds: float | None):
    assert retry_after(headers) == seconds


@pytest.mark.parametrize("form", ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y"])
def test_retry_after_as_a_date(form: str):
    seconds = retry_after({"retry-after": (datetime.now(UTC) + timedelta(seconds=30)).strftime(form)})
    assert seconds is not None
    assert 27 < seconds <= 30


@pytest.mark.parametrize("transport", ["native", "litellm"])
async def test_an_error_keeps_long_keys_and_masks_no_word_for_a_short_one(model_server: ModelServer, transport: Any):
    for key, shown in (("sk-live-0123456789", "[key]"), ("a", "a")):
        told = f"a bad key: {key}"
        model_server.script = [HttpError(400, told), Reply("so far", fault=StreamError(told, after=2))]
        model_server.requests.clear()
        provider = open_provider(
            "openai/scripted", ProviderOptions(model_server.openai, key, retries=Retries(attempts=1)), transport
        )
        for _ in range(2):
            with pytest.raises(ProviderError) as caught:
                await collect(provider)
            assert f"a bad key: {shown}" in str(caught.value)
        await provider.close()


def of_google(quota: str, delay: str) -> str:
    """A 429 as Gemini's compatible endpoint sends it: one wording for every limit, in a list."""
    said = "You exceeded your current quota, please check your plan and billing details."
    details = [
        {"@type": "type.googleapis.com/google.rpc.Help", "links": ["x" * 3_000]},
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota}]},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay},
    ]
    error = {"code": 429, "message": said, "status": "RESOURCE_EXHAUSTED", "details": details}
    return json.dumps([{"error": error}], indent=2)


def test_a_quota_of_the_minute_is_waited_for_and_one_of_the_day_is_not():
    minute = made(429, of_google("GenerateContentInputTokensPerModelPerMinute-FreeTier", "34.07s"))
    assert (minute.retryable, minute.retry_after) == (True, 34.07)
    day = made(429, of_google("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "34s"))
    assert (day.retryable, day.retry_after) == (False, None)
    assert not made(429, '{"error": {"message": "You exceeded your current quota"}}').retryable


def test_googles_400_for_a_wrong_key_names_the_key():
    said = "API key not valid. Please pass a valid API key."
    error = made(400, json.dumps([{"error": {"code": 400, "message": said, "status": "INVALID_ARGUMENT"}}]))
    assert "SOME_API_KEY" in str(error)
    assert not error.retryable
