"""The comments on a pull request of GitHub or a merge request of GitLab: read, posted, resolved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Literal
from urllib.parse import quote

from codelet.errors import ProviderError
from codelet.record import Record
from codelet.review.findings import Finding
from codelet.review.posting.comments import finding_comment, finding_of, is_summary
from codelet.review.posting.service_api import ServiceApi, ServiceRefusal
from codelet.system.text import one_line

CommentPlace = Literal["lines", "file", "thread", "nowhere"]
"""The place of a comment on a finding: on its lines, on its file, in a thread without a place, or not anywhere."""
_Attempts = dict[CommentPlace, tuple[str, dict[str, Any]]]
"""The places to try for a comment, the best first, each with the path and the body of its request."""

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


class Thread(Record):
    """A comment of ours, with the replies to it. `id` is that of its thread, or its own if it has none.

    `by_us` says that an earlier run resolved it, and not a user.
    """

    id: str
    text: str
    path: str = ""
    resolved: bool = False
    by_us: bool = False

    @property
    def key(self) -> str:
        """The key of the finding that it is on; "" if it is on none."""
        return finding_of(self.text)[0]

    @property
    def rule(self) -> str:
        return finding_of(self.text)[1]


class PostedRequest(ABC):
    """A pull or merge request. `read` fills in `head` (a commit id), `threads` (ours) and `summary` (its id and text).

    `summaries` are the address to post a summary to, the method to change one, and the address before its id.
    Every method raises ServiceRefusal, MaybeDone or ProviderError; after MaybeDone `read` shows what was done.
    """

    head: str = ""
    threads: list[Thread]
    summary: Thread | None = None
    summaries: tuple[str, str, str]
    refused_place: tuple[int, ...]
    """The statuses with which the service refuses a line that it does not show as part of the change."""

    def __init__(self, api: ServiceApi, address: str) -> None:
        self.api = api
        self.address = address

    @abstractmethod
    def own_comments(self) -> Iterator[Thread]:
        """Yield all comments that we wrote, and read the head commit."""

    @abstractmethod
    def attempts(self, key: str, finding: Finding) -> _Attempts:
        """The requests that comment on a finding, the one on its lines first."""

    @abstractmethod
    def resolve(self, thread: str, *, resolved: bool) -> None:
        """Mark a thread as resolved, or as not resolved."""

    def read(self) -> None:
        """Read the head commit, our threads and our summary."""
        own = list(self.own_comments())
        self.threads = [each for each in own if each.key]
        self.summary = next((each for each in own if is_summary(each.text)), None)

    def comment(self, findings: Mapping[str, Finding], *, exact: bool) -> dict[str, CommentPlace]:
        """Comment on findings by key. `exact` says that their lines are those of the head commit."""
        places: dict[str, CommentPlace] = {}
        for key, finding in findings.items():
            attempts = self.attempts(key, finding)
            if not exact:
                del attempts["lines"]
            places[key] = next((place for place, each in attempts.items() if self.is_taken(*each)), "nowhere")
        return places

    def summarise(self, text: str) -> None:
        """Post the comment on the whole review, or replace the earlier one."""
        new, method, old = self.summaries
        if self.summary is None:
            self.api.call("POST", new, {"body": text}, repeatable=False)
        else:
            self.api.call(method, f"{old}/{self.summary.id}", {"body": text})

    def is_taken(self, path: str, comment: object) -> bool:
        """Post a comment; False for a line that the service does not show as part of the change."""
        try:
            self.api.call("POST", self.address + path, comment, repeatable=False)
        except ServiceRefusal as refusal:
            if refusal.status not in self.refused_place:
                raise
            return False
        return True


class GitHubRequest(PostedRequest):
    """A pull request. `repository` is OWNER/NAME; `graphql` is the API that answers queries.

    Comments are read through GraphQL, which alone knows threads and whose they are.
    """

    refused_place = (422,)

    def __init__(self, api: ServiceApi, graphql: ServiceApi, repository: str, number: int) -> None:
        address = f"/repos/{repository}"
        super().__init__(api, f"{address}/pulls/{number}")
        self.summaries = (f"{address}/issues/{number}/comments", "PATCH", f"{address}/issues/comments")
        self._graphql = graphql
        owner, _, name = repository.partition("/")
        self._names = {"owner": owner, "name": name, "number": number}

    def own_comments(self) -> Iterator[Thread]:
        """Yield our first comments of threads, and our other ones."""
        for node, login in self._pages(_THREADS):
            first = (node["comments"]["nodes"] or [{}])[0]
            by = (node.get("resolvedBy") or {}).get("login")
            if first.get("viewerDidAuthor"):
                text, path, is_resolved = first.get("body") or "", node.get("path") or "", bool(node["isResolved"])
                yield Thread(node["id"], text, path, is_resolved, is_resolved and by is not None and by == login)
        for node, _ in self._pages(_COMMENTS):
            if node.get("viewerDidAuthor"):
                yield Thread(str(node["databaseId"]), node.get("body") or "")

    def comment(self, findings: Mapping[str, Finding], *, exact: bool) -> dict[str, CommentPlace]:
        """Comment on the findings: in one review on their lines if GitHub takes all of them, else one by one."""
        lines = [self._on_lines(key, finding) for key, finding in findings.items()]
        review = {"commit_id": self.head, "event": "COMMENT", "comments": lines}
        if exact and self.is_taken("/reviews", review):
            return dict.fromkeys(findings, "lines")
        return super().comment(findings, exact=exact)

    def attempts(self, key: str, finding: Finding) -> _Attempts:
        """The requests that comment on a finding: on its lines, or on its file."""
        body = finding_comment(key, finding, on_lines=False)
        file = {"path": finding.path, "subject_type": "file", "body": body, "commit_id": self.head}
        lines = {**self._on_lines(key, finding), "commit_id": self.head}
        return {"lines": ("/comments", lines), "file": ("/comments", file)}

    def _on_lines(self, key: str, finding: Finding) -> dict[str, Any]:
        lines: dict[str, Any] = {"path": finding.path, "line": finding.end_line, "side": "RIGHT"}
        if finding.end_line > finding.line:
            lines |= {"start_line": finding.line, "start_side": "RIGHT"}
        return {**lines, "body": finding_comment(key, finding, on_lines=True)}

    def resolve(self, thread: str, *, resolved: bool) -> None:
        """Mark a thread as resolved, or as not resolved."""
        self._query(_RESOLVE % ("resolveReviewThread" if resolved else "unresolveReviewThread"), {"id": thread})

    def _pages(self, query: str) -> Iterator[tuple[dict[str, Any], str | None]]:
        """Yield each node of a connection named `page`, and our own login."""
        after, more = None, True
        while more:
            data = self._query(query, {**self._names, "after": after})
            request = (data.get("repository") or {}).get("pullRequest")
            if request is None:
                raise ServiceRefusal(404, f"there is no pull request {self._names['number']} in that repository")
            self.head = str(request.get("headRefOid") or self.head)
            for node in request["page"]["nodes"]:
                yield node, (data.get("viewer") or {}).get("login")
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

    refused_place = (400, 422, 500)
    """GitLab's answers for a line that is not in the change: 400, in some versions 500."""

    def __init__(self, api: ServiceApi, project: str, number: int, old_paths: Mapping[str, str]) -> None:
        super().__init__(api, f"/projects/{quote(project, safe='')}/merge_requests/{number}")
        self.summaries = (f"{self.address}/notes", "PUT", f"{self.address}/notes")
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
                number = str(first["id"]) if is_summary(text) else discussion["id"]
                yield Thread(number, text, (first.get("position") or {}).get("new_path") or "", is_resolved, by_us)
            page = headers.get("x-next-page", "")

    def attempts(self, key: str, finding: Finding) -> _Attempts:
        """The requests that comment on a finding: on its last line, on its file, or without a place."""
        file = {**self._commits, "new_path": finding.path}
        file["old_path"] = self._old_paths.get(finding.path, finding.path)
        suggestion = f"suggestion:-{finding.end_line - finding.line}+0"
        on_lines = finding_comment(key, finding, on_lines=True, suggestion=suggestion)
        lines = {"body": on_lines, "position": {**file, "position_type": "text", "new_line": finding.end_line}}
        elsewhere = {"body": finding_comment(key, finding, on_lines=False)}
        return {
            "lines": ("/discussions", lines),
            "file": ("/discussions", {**elsewhere, "position": {**file, "position_type": "file"}}),
            "thread": ("/discussions", elsewhere),
        }

    def resolve(self, thread: str, *, resolved: bool) -> None:
        """Mark a thread as resolved, or as not resolved."""
        self.api.call("PUT", f"{self.address}/discussions/{thread}?resolved={str(resolved).lower()}")
