"""Comments on a pull request of GitHub. They are read through GraphQL, which alone knows threads and whose they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from codelet.errors import ProviderError
from codelet.review.findings import Finding
from codelet.review.posting.comments import Thread, finding_comment, finding_of, is_summary
from codelet.review.posting.post import CommentPlace, PostedRequest
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

    def __init__(self, api: ServiceApi, graphql: ServiceApi, repository: str, number: int) -> None:
        super().__init__(api, f"/repos/{repository}")
        self._graphql = graphql
        self._number = number
        owner, _, name = repository.partition("/")
        self._names = {"owner": owner, "name": name, "number": number}

    def read(self) -> None:
        """Read the head commit, our threads and our summary."""
        self.threads, self.summary, self.summary_text = [], None, ""
        for node, login in self._pages(_THREADS):
            first = (node["comments"]["nodes"] or [{}])[0]
            found = finding_of(first.get("body") or "") if first.get("viewerDidAuthor") else None
            if found is not None:
                by = (node.get("resolvedBy") or {}).get("login")
                self.threads.append(
                    Thread(
                        id=node["id"],
                        key=found[0],
                        rule=found[1],
                        path=node.get("path") or "",
                        resolved=bool(node["isResolved"]),
                        resolved_by_us=bool(node["isResolved"]) and by is not None and by == login,
                    )
                )
        for node, _ in self._pages(_COMMENTS):
            if node.get("viewerDidAuthor") and is_summary(node.get("body") or ""):
                self.summary, self.summary_text = str(node["databaseId"]), node["body"]

    def comment(self, findings: Mapping[str, Finding], *, exact: bool) -> dict[str, CommentPlace]:
        """Comment on the findings: in one review on their lines if GitHub takes all of them, else one by one."""
        if exact:
            comments = [self._on_lines(key, finding) for key, finding in findings.items()]
            review = {"commit_id": self.head, "event": "COMMENT", "comments": comments}
            if self._is_taken(f"/pulls/{self._number}/reviews", review):
                return dict.fromkeys(findings, "lines")
        places: dict[str, CommentPlace] = {}
        for key, finding in findings.items():
            body = finding_comment(key, finding, on_lines=False)
            attempts: dict[CommentPlace, dict[str, Any]] = {"lines": self._on_lines(key, finding)} if exact else {}
            attempts["file"] = {"path": finding.path, "subject_type": "file", "body": body}
            address = f"/pulls/{self._number}/comments"
            taken = (p for p, each in attempts.items() if self._is_taken(address, {**each, "commit_id": self.head}))
            places[key] = next(taken, "nowhere")
        return places

    def _is_taken(self, address: str, comment: dict[str, Any]) -> bool:
        """Post a comment; False for a line that GitHub does not show as part of the change."""
        try:
            self.post(address, comment)
        except ServiceRefusal as refusal:
            if refusal.status != 422:
                raise
            return False
        return True

    def _on_lines(self, key: str, finding: Finding) -> dict[str, Any]:
        lines: dict[str, Any] = {"path": finding.path, "line": finding.end_line, "side": "RIGHT"}
        if finding.end_line > finding.line:
            lines |= {"start_line": finding.line, "start_side": "RIGHT"}
        return {**lines, "body": finding_comment(key, finding, on_lines=True)}

    def resolve(self, thread: Thread, *, resolved: bool) -> None:
        """Mark a thread as resolved, or as not resolved."""
        self._query(_RESOLVE % ("resolveReviewThread" if resolved else "unresolveReviewThread"), {"id": thread.id})

    def summarise(self, text: str) -> None:
        """Write the summary, over the one that is there."""
        if self.summary is None:
            self.post(f"/issues/{self._number}/comments", {"body": text})
        else:
            self.api.call("PATCH", f"{self.address}/issues/comments/{self.summary}", {"body": text})

    def _pages(self, query: str) -> Iterator[tuple[dict[str, Any], str | None]]:
        """Each node of a connection named `page`, and our own login."""
        after, more = None, True
        while more:
            data = self._query(query, {**self._names, "after": after})
            request = (data.get("repository") or {}).get("pullRequest")
            if request is None:
                raise ServiceRefusal(404, f"there is no pull request {self._number} in {self.address[7:]}")
            self.head = str(request.get("headRefOid") or self.head)
            for node in request["page"]["nodes"]:
                yield node, (data.get("viewer") or {}).get("login")
            more, after = request["page"]["pageInfo"]["hasNextPage"], request["page"]["pageInfo"]["endCursor"]

    def _query(self, query: str, variables: Mapping[str, object]) -> dict[str, Any]:
        answer = self._graphql.call("POST", "", {"query": query, "variables": variables}).body
        if not isinstance(answer, dict):
            raise ProviderError("GitHub's answer to a query is not an object")
        if errors := answer.get("errors"):
            raise ServiceRefusal(403, one_line("; ".join(str(each.get("message")) for each in errors), 300))
        data: dict[str, Any] = answer.get("data") or {}
        return data
