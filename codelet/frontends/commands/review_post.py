"""`codelet review post FILE`: the findings of a JSON report as comments on a pull or merge request."""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

from codelet.errors import EXIT_DONE, UsageError
from codelet.frontends.streams import say
from codelet.review.findings import Report, read_report
from codelet.review.formats.markdown_report import reviewed_range
from codelet.review.posting.forges import GitHubRequest, GitLabRequest, PostedRequest, Posting
from codelet.review.posting.service_api import ServiceApi, ServiceRefusal, patiently

_SECONDS = 600.0


def run_post(options: argparse.Namespace, timeout: float | None) -> int:
    """Post the report that the options name; the exit status. Raises UsageError and ProviderError."""
    deadline = time.monotonic() + (timeout or _SECONDS)
    service = _service(options, os.environ)
    try:
        if options.last_reviewed:
            if options.what[1:]:
                raise UsageError("--last-reviewed takes no report: codelet review post --last-reviewed")
            request = _request(service, options.request, (), os.environ)
            patiently(request.read, deadline)
            print(reviewed_range(request.summary.text if request.summary is not None else "") or "")
            return EXIT_DONE
        if len(options.what) != 2:
            raise UsageError("post takes one JSON report: codelet review post FILE")
        report = read_report(Path(options.what[1]))
        posting = Posting(_request(service, options.request, report, os.environ), report)
        patiently(posting.run, deadline)
    except ServiceRefusal as refusal:
        hint = {401: "check the token", 403: "the token may not do this", 404: "check number, project and token"}
        raise UsageError(f"{service}: {refusal}; {hint.get(refusal.status, 'nothing more is posted')}") from None
    _say_done(posting, service)
    return EXIT_DONE


def _say_done(posting: Posting, service: str) -> None:
    comments = f"{sum(posting.placed.values())} new, {len(posting.present or ())} there before"
    print(f"{service}: {comments}, {len(posting.resolved)} resolved, {len(posting.reopened)} reopened")
    if posting.in_summary:
        say(f"codelet: {posting.in_summary} of the findings are in the summary only, without a comment")
    if posting.refused:
        say(f"codelet: cannot resolve or reopen threads: {posting.refused}; resolve them on the page")
    if not posting.newest:
        say("codelet: the request has newer commits than the report: comments are on files, and nothing is resolved")


def _service(options: argparse.Namespace, environment: Mapping[str, str]) -> str:
    if options.github or (not options.gitlab and environment.get("GITHUB_ACTIONS")):
        return "GitHub"
    if options.gitlab or environment.get("GITLAB_CI"):
        return "GitLab"
    raise UsageError("which service? Add --github or --gitlab.")


def _request(
    service: str, number: int | None, report: Report | tuple[()], environment: Mapping[str, str]
) -> PostedRequest:
    """The request to post to. Raises UsageError if the environment does not name it."""
    if service == "GitHub":
        token = _needed(environment, "GITHUB_TOKEN", "GH_TOKEN")
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        base = environment.get("GITHUB_API_URL") or "https://api.github.com"
        graphql = environment.get("GITHUB_GRAPHQL_URL") or base.removesuffix("/v3") + "/graphql"
        repository = _needed(environment, "GITHUB_REPOSITORY", "GH_REPO")
        if re.fullmatch(r"[\w.-]+/[\w.-]+", repository) is None:
            raise UsageError(f"GITHUB_REPOSITORY is {repository!r}: it must be OWNER/NAME")
        found = number or _pull_request(environment)
        apis = [ServiceApi(address, headers) for address in (base, graphql)]
        return GitHubRequest(apis[0], apis[1], repository, found)
    token = _needed(environment, "GITLAB_TOKEN")
    base = environment.get("CI_API_V4_URL") or "https://gitlab.com/api/v4"
    iid = environment.get("CI_MERGE_REQUEST_IID", "")
    if number is None and not (iid.isascii() and iid.isdigit()):
        raise UsageError("which merge request? Add --request N, or set CI_MERGE_REQUEST_IID.")
    hunks = report.hunks if isinstance(report, Report) else ()
    old_paths = {hunk.path: hunk.old_path for hunk in hunks if hunk.old_path is not None}
    api = ServiceApi(base, {"PRIVATE-TOKEN": token})
    return GitLabRequest(api, _needed(environment, "CI_PROJECT_ID"), number or int(iid), old_paths)


def _pull_request(environment: Mapping[str, str]) -> int:
    """The number of the pull request that a job of GitHub Actions runs for."""
    try:
        event = json.loads(Path(environment["GITHUB_EVENT_PATH"]).read_bytes())
        return int(event["pull_request"]["number"])
    except (KeyError, OSError, ValueError, TypeError):
        raise UsageError("which pull request? Add --request N, or run it in a job for one.") from None


def _needed(environment: Mapping[str, str], *names: str) -> str:
    for name in names:
        if value := environment.get(name, "").strip():
            return value
    raise UsageError(f"{' or '.join(names)} is not set")
