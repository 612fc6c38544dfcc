"""Azure OpenAI, Amazon Bedrock and Vertex AI: where an account's models are reached, as variables and names tell it.

What is here needs a key that fits into a header. Without one Bedrock and Vertex AI are reached through litellm, which
knows the other credentials of their accounts; what it lacks for that is told by `missing`.

Sources: Microsoft's reference for the v1 API (Chat Completions and Responses at `/openai/v1`, the deployment's name as
model), AWS's for `bedrock-mantle` (three protocols under one host), Google's for Chat Completions on Vertex AI.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from codelet.errors import UsageError

_AZURE = ("AZURE_OPENAI_ENDPOINT", "AZURE_API_BASE", "AZURE_OPENAI_BASE_URL")
_REGIONS = ("BEDROCK_MANTLE_REGION", "AWS_REGION", "AWS_REGION_NAME", "AWS_DEFAULT_REGION")
_PROJECTS = ("VERTEXAI_PROJECT", "GOOGLE_CLOUD_PROJECT")
_LOCATIONS = ("VERTEXAI_LOCATION", "GOOGLE_CLOUD_LOCATION")
_OPENAI_PATH = re.compile(r"openai\.gpt-(?!oss)|google\.gemma-4|xai\.")
_PART = re.compile(r"[a-z0-9][a-z0-9:._-]{0,99}")

_AWS = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; and AWS_REGION"
_CREDENTIALS = {
    "bedrock": f"AWS_BEARER_TOKEN_BEDROCK, or {_AWS}",
    "bedrock_mantle": f"AWS_BEARER_TOKEN_BEDROCK, or {_AWS}",
    "vertex_ai": "GOOGLE_APPLICATION_CREDENTIALS (or gcloud auth application-default login) and VERTEXAI_PROJECT",
    "sagemaker": _AWS,
}


def place_of(cloud: str, model: str, environment: Mapping[str, str], *, key: bool) -> str | None:
    """The address at which a wire of codelet's own reaches the model; None where none does, or not without a `key`.

    Raises UsageError where a variable that says it is missing or is none.
    """
    if cloud == "azure":
        return _azure(next((environment[name].strip() for name in _AZURE if environment.get(name)), None))
    if not key:
        return None
    if cloud == "bedrock_mantle":
        return _mantle(model, environment)
    return _vertex(model, environment)


def speaks_converse(model: str, base: str | None) -> bool:
    """Whether a model of Bedrock is to be asked over Converse at `base`: at AWS's own runtime, but for the path where
    that speaks OpenAI's. Elsewhere such a name may be a gateway's.
    """
    try:
        url = urlsplit(base or "")
        runtime = "bedrock-runtime" in (url.hostname or "")
    except ValueError:
        return False  # the wire says what is wrong with it
    return model.startswith("bedrock/") and runtime and not url.path.startswith("/openai")


def credentials(prefix: str) -> str | None:
    """The variables with the credentials that litellm wants for a provider; None where nothing is known."""
    return _CREDENTIALS.get(prefix)


def missing(prefix: str, said: str) -> str | None:
    """What to install where litellm lacks a package for a provider, and says it in its way."""
    if prefix == "vertex_ai" and any(
        words in said for words in ("No module named 'google", "Google Cloud SDK not found")
    ):
        token = "or set GOOGLE_OAUTH_ACCESS_TOKEN and VERTEXAI_PROJECT (Gemini only)"
        return f"litellm needs google-auth for Vertex AI: pip install google-auth, {token}"
    if prefix in ("bedrock", "sagemaker", "bedrock_mantle") and "boto" in said and "No module" in said:
        return "litellm needs boto3 for Amazon Bedrock: pip install boto3"
    return None


def _azure(given: str | None) -> str:
    """The address of the v1 API, whichever of the resource's addresses is given."""
    if given is None:
        raise UsageError("no address for Azure OpenAI: set AZURE_OPENAI_ENDPOINT to https://RESOURCE.openai.azure.com")
    base = given.rstrip("/")
    try:
        url = urlsplit(base)
    except ValueError:
        return base  # the wire says what is wrong with it
    path = re.sub(r"/openai(?:/deployments(?:/.*)?|/v1)?$", "", url.path)
    if path and path == url.path:
        return base  # a gateway's own path
    return f"{url.scheme}://{url.netloc}{path}/openai/v1"


def _mantle(model: str, environment: Mapping[str, str]) -> str:
    root = (environment.get("BEDROCK_MANTLE_API_BASE") or "").rstrip("/")
    root = re.sub(r"(?:/anthropic|/openai)?/v1$", "", root)
    root = root or f"https://bedrock-mantle.{_part(_REGIONS, environment) or 'us-east-1'}.api.aws"
    if "claude" in model:
        return f"{root}/anthropic"
    return f"{root}/openai/v1" if _OPENAI_PATH.match(model) else f"{root}/v1"


def _vertex(model: str, environment: Mapping[str, str]) -> str | None:
    project = _part(_PROJECTS, environment)
    if project is None:
        raise UsageError(f"no project for Vertex AI: set {' or '.join(_PROJECTS)}")
    if not model.removeprefix("google/").startswith("gemini"):
        return None
    location = _part(_LOCATIONS, environment) or "global"
    host = "aiplatform.googleapis.com" if location == "global" else f"{location}-aiplatform.googleapis.com"
    return f"https://{host}/v1/projects/{project}/locations/{location}/endpoints/openapi"


def _part(names: tuple[str, ...], environment: Mapping[str, str]) -> str | None:
    """What the first of these variables holds, as an address may: it decides to whom a key is sent."""
    name = next((each for each in names if environment.get(each)), None)
    if name is None:
        return None
    value = environment[name].strip()
    if not _PART.fullmatch(value):
        raise UsageError(f"{name} is no name that an address may have: {value!r}")
    return value
