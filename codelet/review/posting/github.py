"""Comments on a pull request of GitHub. They are read through GraphQL, which alone knows threads and whose they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from codelet.errors import ProviderError
from codelet.review.findings import Finding
from codelet.review.posting.comments import finding_comment
from codelet.review.posting.post import CommentPlace, OwnComment, PostedRequest
from codelet.review.posting.service_api import ServiceApi, ServiceRefusal
from codelet.system.text import one_line

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


class GitHubRequest(PostedRequest):
    """One pull request. `repository` is OWNER/NAME; `graphql` is the API that answers queries."""

    refused_place = (422,)

    def __init__(self, api: ServiceApi, graphql: ServiceApi, repository: str, number: int) -> None:
        address = f"/repos/{repository}"
        super().__init__(api, f"{address}/pulls/{number}")
        self.summaries = (f"{address}/issues/{number}/comments", "PATCH", f"{address}/issues/comments")
        self._graphql = graphql
        owner, _, name = repository.partition("/")
        self._names = {"owner": owner, "name": name, "number": number}

    def own_comments(self) -> Iterator[OwnComment]:
        """Yield our first comments of threads, and our other ones."""
        for node, login in self._pages(_THREADS):
            first = (node["comments"]["nodes"] or [{}])[0]
            by = (node.get("resolvedBy") or {}).get("login")
            if first.get("viewerDidAuthor"):
                is_resolved = bool(node["isResolved"])
                by_us = by is not None and by == login
                yield OwnComment(node["id"], first.get("body") or "", node.get("path") or "", is_resolved, by_us)
        for node, _ in self._pages(_COMMENTS):
            if node.get("viewerDidAuthor"):
                yield OwnComment(str(node["databaseId"]), node.get("body") or "")

    def comment(self, findings: Mapping[str, Finding], *, exact: bool) -> dict[str, CommentPlace]:
        """Comment on the findings: in one review on their lines if GitHub takes all of them, else one by one."""
        lines = {key: self._on_lines(key, finding) for key, finding in findings.items()}
        review = {"commit_id": self.head, "event": "COMMENT", "comments": [*lines.values()]}
        if exact and self.is_taken("/reviews", review):
            return dict.fromkeys(findings, "lines")
        places: dict[str, CommentPlace] = {}
        for key, finding in findings.items():
            body = finding_comment(key, finding, on_lines=False)
            file = {"path": finding.path, "subject_type": "file", "body": body, "commit_id": self.head}
            attempts: dict[CommentPlace, object] = {"lines": {**lines[key], "commit_id": self.head}} if exact else {}
            attempts["file"] = file
            places[key] = next(
                (place for place, each in attempts.items() if self.is_taken("/comments", each)), "nowhere"
            )
        return places

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
