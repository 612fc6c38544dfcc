"""Comments on a merge request of GitLab."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from codelet.review.findings import Finding
from codelet.review.posting.comments import Thread, finding_comment, finding_of, is_summary
from codelet.review.posting.post import CommentPlace, PostedRequest
from codelet.review.posting.service_api import ServiceApi, ServiceRefusal

_REFUSED_PLACE = (400, 422, 500)
"""What GitLab answers for a line that is not in the change: 400, in some versions 500."""


class GitLabRequest(PostedRequest):
    """One merge request. `project` is an id or a path, `old_paths` the former names of renamed files."""

    def __init__(self, api: ServiceApi, project: str, number: int, old_paths: Mapping[str, str]) -> None:
        super().__init__(api, f"/projects/{quote(project, safe='')}/merge_requests/{number}")
        self._old_paths = old_paths
        self._commits: dict[str, str] = {}

    def read(self) -> None:
        """Read the commits of the change, our threads and our summary."""
        self.threads, self.summary, self.summary_text = [], None, ""
        self._commits = self.api.call("GET", self.address).body["diff_refs"]
        self.head = self._commits["head_sha"]
        own = self.api.call("GET", "/user").body["id"]
        for discussion in self._discussions():
            first = (discussion.get("notes") or [{}])[0]
            if (first.get("author") or {}).get("id") != own or first.get("system"):
                continue
            text = first.get("body") or ""
            if is_summary(text):
                self.summary, self.summary_text = str(first["id"]), text
            elif (found := finding_of(text)) is not None:
                by = (first.get("resolved_by") or {}).get("id")
                self.threads.append(
                    Thread(
                        id=discussion["id"],
                        key=found[0],
                        rule=found[1],
                        path=(first.get("position") or {}).get("new_path") or "",
                        resolved=bool(first.get("resolved")),
                        resolved_by_us=bool(first.get("resolved")) and by == own,
                    )
                )

    def comment(self, findings: Mapping[str, Finding], *, exact: bool) -> dict[str, CommentPlace]:
        """Comment on each finding: on its last line, on its file, or without a place."""
        return {key: self._comment(key, finding, exact=exact) for key, finding in findings.items()}

    def _comment(self, key: str, finding: Finding, *, exact: bool) -> CommentPlace:
        file = {"new_path": finding.path, "old_path": self._old_paths.get(finding.path, finding.path)}
        above = finding.end_line - finding.line
        on_lines = finding_comment(key, finding, on_lines=True, suggestion=f"suggestion:-{above}+0")
        elsewhere = finding_comment(key, finding, on_lines=False)
        attempts: list[tuple[CommentPlace, str, dict[str, Any]]] = [
            ("lines", on_lines, {"position_type": "text", **file, "new_line": finding.end_line}),
            ("file", elsewhere, {"position_type": "file", **file}),
        ]
        for place, text, position in attempts if exact else attempts[1:]:
            try:
                self.post("/discussions", {"body": text, "position": {**self._commits, **position}})
            except ServiceRefusal as refusal:
                if refusal.status not in _REFUSED_PLACE:
                    raise
            else:
                return place
        self.post("/discussions", {"body": elsewhere})
        return "thread"

    def resolve(self, thread: Thread, *, resolved: bool) -> None:
        """Mark a thread as resolved, or as not resolved."""
        self.api.call("PUT", f"{self.address}/discussions/{thread.id}?resolved={str(resolved).lower()}")

    def summarise(self, text: str) -> None:
        """Write the summary, over the one that is there."""
        if self.summary is None:
            self.post("/notes", {"body": text})
        else:
            self.api.call("PUT", f"{self.address}/notes/{self.summary}", {"body": text})

    def _discussions(self) -> Iterator[dict[str, Any]]:
        page = "1"
        while page:
            answer = self.api.call("GET", f"{self.address}/discussions?per_page=100&page={page}")
            yield from answer.body
            page = answer.headers.get("x-next-page", "").strip()
