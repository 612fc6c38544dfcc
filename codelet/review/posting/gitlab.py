"""Comments on a merge request of GitLab."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from codelet.review.findings import Finding
from codelet.review.posting.comments import finding_comment
from codelet.review.posting.post import CommentPlace, OwnComment, PostedRequest
from codelet.review.posting.service_api import ServiceApi


class GitLabRequest(PostedRequest):
    """One merge request. `project` is an id or a path, `old_paths` the former names of renamed files."""

    refused_place = (400, 422, 500)
    """GitLab's answers for a line that is not in the change: 400, in some versions 500."""

    def __init__(self, api: ServiceApi, project: str, number: int, old_paths: Mapping[str, str]) -> None:
        super().__init__(api, f"/projects/{quote(project, safe='')}/merge_requests/{number}")
        self.summaries = (f"{self.address}/notes", "PUT", f"{self.address}/notes")
        self._old_paths = old_paths
        self._commits: dict[str, str] = {}

    def own_comments(self) -> Iterator[OwnComment]:
        """Yield our first notes of discussions; the commits of the change are read before."""
        self._commits = self.api.call("GET", self.address)[0]["diff_refs"]
        self.head = self._commits["head_sha"]
        own = self.api.call("GET", "/user")[0]["id"]
        page = "1"
        while page:
            discussions, headers = self.api.call("GET", f"{self.address}/discussions?per_page=100&page={page}")
            for discussion in discussions:
                first = (discussion.get("notes") or [{}])[0]
                if (first.get("author") or {}).get("id") == own and not first.get("system"):
                    path = (first.get("position") or {}).get("new_path") or ""
                    by_us = (first.get("resolved_by") or {}).get("id") == own
                    text, is_resolved = first.get("body") or "", bool(first.get("resolved"))
                    yield OwnComment(discussion["id"], text, path, is_resolved, by_us, note=str(first["id"]))
            page = headers.get("x-next-page", "")

    def comment(self, findings: Mapping[str, Finding], *, exact: bool) -> dict[str, CommentPlace]:
        """Comment on each finding: on its last line, on its file, or without a place."""
        places: dict[str, CommentPlace] = {}
        for key, finding in findings.items():
            file = {"new_path": finding.path, "old_path": self._old_paths.get(finding.path, finding.path)}
            suggestion = f"suggestion:-{finding.end_line - finding.line}+0"
            lines = {"position_type": "text", **file, "new_line": finding.end_line}
            elsewhere = finding_comment(key, finding, on_lines=False)
            attempts: dict[CommentPlace, tuple[str, dict[str, Any]]] = {
                "lines": (finding_comment(key, finding, on_lines=True, suggestion=suggestion), lines),
                "file": (elsewhere, {"position_type": "file", **file}),
            }
            if not exact:
                del attempts["lines"]
            for place, (text, position) in attempts.items():
                if self.is_taken("/discussions", {"body": text, "position": {**self._commits, **position}}):
                    places[key] = place
                    break
            else:
                self.post("/discussions", {"body": elsewhere})
                places[key] = "thread"
        return places

    def resolve(self, thread: str, *, resolved: bool) -> None:
        """Mark a thread as resolved, or as not resolved."""
        self.api.call("PUT", f"{self.address}/discussions/{thread}?resolved={str(resolved).lower()}")
