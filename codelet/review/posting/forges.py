"""The comments on a pull request of GitHub or a merge request of GitLab, brought to the state of a report.

A second run with the same report changes nothing. Every method of a request raises ServiceRefusal, PassingFailure or
ProviderError; after PassingFailure `read` shows what was done.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from codelet.errors import ProviderError
from codelet.record import Record
from codelet.review.findings import AsideKind, Finding, Report
from codelet.review.formats import markdown_report as markdown
from codelet.review.formats import sentences
from codelet.review.posting.service_api import ServiceApi, ServiceRefusal
from codelet.system.text import one_line

_Attempts = list[tuple[str, dict[str, Any]]]
"""The requests that would place a comment, the one on the finding's lines first, each with its path and body."""

_REFUSED_PLACE = (400, 422)  # from GitLab and GitHub for a line that they do not show as part of the change
_PAGE = """query($owner: String!, $name: String!, $number: Int!, $after: String) {
  viewer { login }
  repository(owner: $owner, name: $name) { pullRequest(number: $number) {
    headRefOid
    page: %s(first: 100, after: $after) { pageInfo { hasNextPage endCursor } nodes { %s } } } } }"""
_THREADS = _PAGE % (
    "reviewThreads",
    "id isResolved path resolvedBy { login } comments(first: 1) { nodes { body viewerDidAuthor } }",
)
_COMMENTS = _PAGE % ("comments", "databaseId body viewerDidAuthor")
_RESOLVE = "mutation($id: ID!) { %s(input: {threadId: $id}) { thread { id } } }"

_MOST_COMMENTS = 50  # on single findings in one run; the others are in the summary
_AT_ONCE = 20
_STILL_THERE: frozenset[AsideKind] = frozenset(("misplaced", "unconfirmed", "below", "surplus", "duplicate"))
"""Findings that are not reported on their lines, although nothing says that they are gone."""


class Thread(Record):
    """A comment of ours; `id` is that of its thread if it has one. `by_us`: an earlier run resolved it, and no user."""

    id: str
    text: str
    path: str = ""
    resolved: bool = False
    by_us: bool = False

    @property
    def key(self) -> str:
        """The key of the finding that it is on; "" if it is on none."""
        return markdown.finding_of(self.text)[0]


class PostedRequest(ABC):
    """A pull or merge request. `read` fills in `head` (a commit id), `threads` (ours) and `summary`.

    `summaries` are the address to post a summary to, the method to change one, and the address before its id.
    """

    def __init__(self, api: ServiceApi, address: str, summaries: tuple[str, str, str]) -> None:
        self.api = api
        self.address = address
        self.head = ""
        self.threads: list[Thread] = []
        self.summary: Thread | None = None
        self._summaries = summaries

    @abstractmethod
    def own_comments(self) -> Iterator[Thread]:
        """Yield all comments that we wrote, and read the head commit."""

    @abstractmethod
    def attempts(self, key: str, finding: Finding) -> _Attempts:
        """The requests that comment on a finding, one of which is to be made."""

    @abstractmethod
    def resolve(self, thread: str, *, resolved: bool) -> None:
        """Mark a thread as resolved, or as not resolved."""

    def read(self) -> None:
        own = list(self.own_comments())
        self.threads = [each for each in own if each.key]
        self.summary = next((each for each in own if markdown.reviewed_range(each.text) is not None), None)

    def comment(self, findings: Mapping[str, Finding], placed: dict[str, bool], *, exact: bool) -> None:
        """Comment on findings by key; add whether they have a place. `exact`: their lines are those of the head."""
        for key, finding in findings.items():
            placed[key] = any(self.is_taken(*each) for each in self.attempts(key, finding)[not exact :])

    def summarise(self, text: str) -> None:
        """Post the comment on the whole review, or replace the earlier one."""
        new, method, old = self._summaries
        if self.summary is None:
            self.api.call("POST", new, {"body": text})
        else:
            self.api.call(method, f"{old}/{self.summary.id}", {"body": text})

    def is_taken(self, path: str, comment: object) -> bool:
        """Post a comment; False for a line that the service does not show as part of the change."""
        try:
            self.api.call("POST", self.address + path, comment)
        except ServiceRefusal as refusal:
            if refusal.status not in _REFUSED_PLACE:
                raise
            return False
        return True


class GitHubRequest(PostedRequest):
    """A pull request. `repository` is OWNER/NAME; `graphql` is the API that alone knows threads and whose they are."""

    def __init__(self, api: ServiceApi, graphql: ServiceApi, repository: str, number: int) -> None:
        comments = f"/repos/{repository}/issues"
        summaries = (f"{comments}/{number}/comments", "PATCH", f"{comments}/comments")
        super().__init__(api, f"/repos/{repository}/pulls/{number}", summaries)
        self._graphql = graphql
        owner, _, name = repository.partition("/")
        self._names = {"owner": owner, "name": name, "number": number}
        self._login: str | None = None

    def own_comments(self) -> Iterator[Thread]:
        for node in self._pages(_THREADS):
            first = (node["comments"]["nodes"] or [{}])[0]
            if first.get("viewerDidAuthor"):
                is_resolved, by = bool(node["isResolved"]), (node.get("resolvedBy") or {}).get("login")
                by_us = is_resolved and by is not None and by == self._login
                yield Thread(node["id"], first.get("body") or "", node.get("path") or "", is_resolved, by_us)
        for node in self._pages(_COMMENTS):
            if node.get("viewerDidAuthor"):
                yield Thread(str(node["databaseId"]), node.get("body") or "")

    def comment(self, findings: Mapping[str, Finding], placed: dict[str, bool], *, exact: bool) -> None:
        """Comment on the findings: in one review on their lines if GitHub takes all of them, else one by one."""
        lines = [self._on_lines(key, finding) for key, finding in findings.items()]
        if exact and self.is_taken("/reviews", {"commit_id": self.head, "event": "COMMENT", "comments": lines}):
            placed |= dict.fromkeys(findings, True)
        else:
            super().comment(findings, placed, exact=exact)

    def attempts(self, key: str, finding: Finding) -> _Attempts:
        body = markdown.finding_comment(key, finding, on_lines=False)
        file = {"path": finding.path, "subject_type": "file", "body": body, "commit_id": self.head}
        lines = {**self._on_lines(key, finding), "commit_id": self.head}
        return [("/comments", lines), ("/comments", file)]

    def _on_lines(self, key: str, finding: Finding) -> dict[str, Any]:
        lines: dict[str, Any] = {"path": finding.path, "line": finding.end_line, "side": "RIGHT"}
        if finding.end_line > finding.line:
            lines |= {"start_line": finding.line, "start_side": "RIGHT"}
        return {**lines, "body": markdown.finding_comment(key, finding, on_lines=True)}

    def resolve(self, thread: str, *, resolved: bool) -> None:
        self._query(_RESOLVE % ("resolveReviewThread" if resolved else "unresolveReviewThread"), {"id": thread})

    def _pages(self, query: str) -> Iterator[dict[str, Any]]:
        """Yield each node of a connection named `page`; read the head commit and our own login."""
        after, more = None, True
        while more:
            data = self._query(query, {**self._names, "after": after})
            request = (data.get("repository") or {}).get("pullRequest")
            if request is None:
                raise ServiceRefusal(404, f"there is no pull request {self._names['number']} in that repository")
            self.head = str(request.get("headRefOid") or self.head)
            self._login = (data.get("viewer") or {}).get("login")
            yield from request["page"]["nodes"]
            more, after = request["page"]["pageInfo"]["hasNextPage"], request["page"]["pageInfo"]["endCursor"]

    def _query(self, query: str, variables: Mapping[str, object]) -> dict[str, Any]:
        answer, _ = self._graphql.call("POST", "", {"query": query, "variables": variables})
        if not isinstance(answer, dict):
            raise ProviderError("GitHub's answer to a query is not an object")
        if errors := answer.get("errors"):
            raise ServiceRefusal(403, one_line("; ".join(str(each.get("message")) for each in errors), 300))
        data: dict[str, Any] = answer.get("data") or {}
        return data


class GitLabRequest(PostedRequest):
    """A merge request. `project` is an id or a path, `old_paths` the former names of renamed files."""

    def __init__(self, api: ServiceApi, project: str, number: int, old_paths: Mapping[str, str]) -> None:
        address = f"/projects/{quote(project, safe='')}/merge_requests/{number}"
        super().__init__(api, address, (f"{address}/notes", "PUT", f"{address}/notes"))
        self._old_paths = old_paths
        self._commits: dict[str, str] = {}

    def own_comments(self) -> Iterator[Thread]:
        """Yield our first notes of discussions; the commits of the change are read before."""
        self._commits = self.api.call("GET", self.address)[0]["diff_refs"]
        self.head = self._commits["head_sha"]
        own = self.api.call("GET", "/user")[0]["id"]
        page = "1"
        while page:
            discussions, headers = self.api.call("GET", f"{self.address}/discussions?per_page=100&page={page}")
            for discussion in discussions:
                first = (discussion.get("notes") or [{}])[0]
                if (first.get("author") or {}).get("id") != own or first.get("system"):
                    continue
                text, is_resolved = first.get("body") or "", bool(first.get("resolved"))
                by_us = is_resolved and (first.get("resolved_by") or {}).get("id") == own
                number = str(first["id"]) if markdown.reviewed_range(text) is not None else discussion["id"]
                yield Thread(number, text, (first.get("position") or {}).get("new_path") or "", is_resolved, by_us)
            page = headers.get("x-next-page", "")

    def attempts(self, key: str, finding: Finding) -> _Attempts:
        """The requests that comment on a finding: on its last line, on its file, or without a place."""
        file = {**self._commits, "new_path": finding.path}
        file["old_path"] = self._old_paths.get(finding.path, finding.path)
        suggestion = f"suggestion:-{finding.end_line - finding.line}+0"
        on_lines = markdown.finding_comment(key, finding, on_lines=True, suggestion=suggestion)
        lines = {"body": on_lines, "position": {**file, "position_type": "text", "new_line": finding.end_line}}
        elsewhere = {"body": markdown.finding_comment(key, finding, on_lines=False)}
        on_file = {**elsewhere, "position": {**file, "position_type": "file"}}
        return [("/discussions", each) for each in (lines, on_file, elsewhere)]

    def resolve(self, thread: str, *, resolved: bool) -> None:
        self.api.call("PUT", f"{self.address}/discussions/{thread}?resolved={str(resolved).lower()}")


class Posting:
    """One run over a request. After `run` its attributes say what it did.

    `placed` says of each finding, by key, whether it got a comment; `present` are those that had one before;
    `in_summary` counts those without one, which the summary has in full. `resolved` and `reopened` are ids of threads,
    and `refused` is why not all of these could be changed. `newest`: the report is of the newest commit of the request.
    """

    def __init__(self, request: PostedRequest, report: Report) -> None:
        self._request = request
        self._report = report
        self._wanted = markdown.findings_by_key(report.findings)
        self.placed: dict[str, bool] = {}
        self.present: set[str] | None = None
        self.in_summary = 0
        self.resolved: set[str] = set()
        self.reopened: set[str] = set()
        self.refused = ""
        self.newest = True

    def run(self) -> None:
        """Post the report. After PassingFailure call it again: it continues. Raises ServiceRefusal, ProviderError."""
        request, report = self._request, self._report
        request.read()
        known = {thread.key for thread in request.threads}
        if self.present is None:
            self.present = self._wanted.keys() & known
        self.newest = report.head is None or report.head == request.head
        missing = {key: finding for key, finding in self._wanted.items() if key not in known}
        new = [(key, finding) for key, finding in missing.items() if key not in self.placed][:_MOST_COMMENTS]
        for start in range(0, len(new), _AT_ONCE):
            request.comment(dict(new[start : start + _AT_ONCE]), self.placed, exact=self.newest)
        try:
            for thread in self._gone():
                request.resolve(thread.id, resolved=True)
                self.resolved.add(thread.id)
            for thread in request.threads:
                if thread.key in self._wanted and thread.by_us:
                    request.resolve(thread.id, resolved=False)
                    self.reopened.add(thread.id)
        except ServiceRefusal as refusal:  # a token may be allowed to comment and not to resolve
            self.refused = str(refusal)
        unplaced = {key for key in missing if not self.placed.get(key)}
        self.in_summary = len(unplaced)
        before = "" if request.summary is None else request.summary.text
        text = markdown.summary_comment(report, unplaced, before, newest=self.newest)
        if text.split() != before.split():
            request.summarise(text)

    def _gone(self) -> list[Thread]:
        """The threads to resolve: none unless the review of the newest commit was whole and of the whole change."""
        report = self._report  # nor one whose finding may have been set aside without being refuted
        open_ones = [each for each in report.aside if each.kind in _STILL_THERE]
        is_vague = any(sentences.file_of(each, report) is None for each in open_ones)
        if not self.newest or is_vague or not report.is_whole or report.whole_base is not None:
            return []
        doubtful = {(each.path, each.rule) for each in open_ones}
        threads = [each for each in self._request.threads if not each.resolved and each.key not in self._wanted]
        return [each for each in threads if (each.path, markdown.finding_of(each.text)[1]) not in doubtful]
