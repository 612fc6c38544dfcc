"""GitHub and GitLab on loopback, as far as posting a review needs them: state in memory, documented rules, faults."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self
from urllib.parse import parse_qs, urlsplit

Fault = Literal["429", "403 limit", "500", "lost before", "lost after", "redirect"]
HEAD = "a" * 40
OURS, THEIRS = "github-actions[bot]", "mallory"


class Refuse(Exception):
    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers


class Forge:
    """A server. `changed` are the lines of each file that the change shows; `faults` are what happens to requests whose
    method and path match, each once. `writes` counts what was written, by kind; `requests` are method and path.
    """

    token = "t0ken-of-the-job"

    def __init__(self, changed: Mapping[str, range]) -> None:
        self.changed = dict(changed)
        self.head = HEAD
        self.threads: list[dict[str, Any]] = []
        self.comments: list[dict[str, Any]] = []
        self.faults: list[tuple[str, Fault]] = []
        self.writes: list[str] = []
        self.requests: list[str] = []
        self.may_resolve = True
        self._next = 1
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        forge = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *given: object) -> None: ...

            def handle_any(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size)) if size else None
                with forge._lock:
                    forge._serve(self, body)

            do_GET = do_POST = do_PUT = do_PATCH = handle_any  # noqa: N815

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *given: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def fail(self, pattern: str, *faults: Fault) -> None:
        """Have requests whose `METHOD PATH` matches fail, one after the other."""
        self.faults += [(pattern, fault) for fault in faults]

    def number(self) -> int:
        self._next += 1
        return self._next

    def _serve(self, handler: BaseHTTPRequestHandler, body: Any) -> None:
        name = f"{handler.command} {handler.path}"
        self.requests.append(name)
        hit = next((each for each in self.faults if re.search(each[0], name)), None)
        fault = None
        if hit is not None:
            self.faults.remove(hit)
            fault = hit[1]
        if fault == "lost before":
            handler.close_connection = True
            return
        status, headers, answer = 200, dict[str, str](), None
        try:
            if fault == "429":
                raise Refuse(429, "too many requests", **{"Retry-After": "1"})
            if fault == "403 limit":
                raise Refuse(403, "You have exceeded a secondary rate limit", **{"Retry-After": "1"})
            if fault == "500":
                raise Refuse(500, "server error")
            if fault == "redirect":
                raise Refuse(302, "moved", Location=f"{self.base}/elsewhere")
            self.check_token(handler)
            answer, headers = self.answer(handler.command, handler.path, body)
        except Refuse as refusal:
            status, headers, answer = refusal.status, refusal.headers, {"message": str(refusal)}
        if fault == "lost after":
            handler.close_connection = True
            return
        data = json.dumps(answer).encode()
        handler.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(data))}.items():
            handler.send_header(key, value)
        handler.end_headers()
        handler.wfile.write(data)

    def check_token(self, handler: BaseHTTPRequestHandler) -> None:
        raise NotImplementedError

    def answer(self, method: str, path: str, body: Any) -> tuple[Any, dict[str, str]]:
        raise NotImplementedError

    def bodies(self, *, open_only: bool = False) -> list[str]:
        """The texts of our threads."""
        return [
            each["body"] for each in self.threads if each["author"] == OURS and not (open_only and each["resolved"])
        ]


class GitHub(Forge):
    def check_token(self, handler: BaseHTTPRequestHandler) -> None:
        if handler.headers.get("Authorization") != f"Bearer {self.token}":
            raise Refuse(401, "Bad credentials")

    def answer(self, method: str, path: str, body: Any) -> tuple[Any, dict[str, str]]:
        if path == "/graphql":
            return self._query(body["query"], body["variables"]), {}
        if (method, path) == ("POST", "/repos/o/r/pulls/7/reviews"):
            for comment in body["comments"]:
                self._check(comment, body["commit_id"])
            for comment in body["comments"]:
                self._add(comment)
            return {"id": self.number()}, {}
        if (method, path) == ("POST", "/repos/o/r/pulls/7/comments"):
            self._check(body, body["commit_id"])
            self._add(body)
            return {"id": self.number()}, {}
        if (method, path) == ("POST", "/repos/o/r/issues/7/comments"):
            self.comments.append({"id": self.number(), "author": OURS, "body": body["body"]})
            self.writes.append("comment")
            return self.comments[-1], {}
        if method == "PATCH" and (found := re.fullmatch("/repos/o/r/issues/comments/([0-9]+)", path)):
            next(each for each in self.comments if each["id"] == int(found[1]))["body"] = body["body"]
            self.writes.append("comment again")
            return {}, {}
        raise Refuse(404, "Not Found")

    def _check(self, comment: dict[str, Any], commit: str) -> None:
        if commit != self.head:
            raise Refuse(422, "commit_id is not part of the pull request")
        lines = self.changed.get(comment["path"])
        if lines is None:
            raise Refuse(422, "path is not part of the diff")
        if comment.get("subject_type") == "file":
            return
        start = comment.get("start_line", comment["line"])
        if "start_line" in comment and start >= comment["line"]:
            raise Refuse(422, "Pull request review thread start line must precede the end line.")
        if start not in lines or comment["line"] not in lines:
            raise Refuse(422, "Pull request review thread line must be part of the diff")

    def _add(self, comment: dict[str, Any]) -> None:
        self.threads.append({**comment, "id": f"T{self.number()}", "author": OURS, "resolved": False, "by": None})
        self.writes.append("thread")

    def _query(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        if "esolveReviewThread" in query:
            if not self.may_resolve:
                return {"data": None, "errors": [{"message": "Resource not accessible by integration"}]}
            thread = next(each for each in self.threads if each["id"] == variables["id"])
            thread["resolved"] = "unresolve" not in query
            thread["by"] = OURS if thread["resolved"] else None
            self.writes.append("resolve" if thread["resolved"] else "reopen")
            return {"data": {}}
        if (variables["owner"], variables["name"], variables["number"]) != ("o", "r", 7):
            return {"data": {"viewer": {"login": OURS}, "repository": None}}
        start = int(variables["after"] or 0)
        if "reviewThreads" in query:
            nodes = [
                {
                    "id": each["id"],
                    "isResolved": each["resolved"],
                    "path": each["path"],
                    "resolvedBy": {"login": each["by"]} if each["by"] else None,
                    "comments": {"nodes": [{"body": each["body"], "viewerDidAuthor": each["author"] == OURS}]},
                }
                for each in self.threads
            ]
        else:
            nodes = [
                {"databaseId": each["id"], "body": each["body"], "viewerDidAuthor": each["author"] == OURS}
                for each in self.comments
            ]
        page = {
            "pageInfo": {"hasNextPage": start + 100 < len(nodes), "endCursor": str(start + 100)},
            "nodes": nodes[start : start + 100],
        }
        return {
            "data": {
                "viewer": {"login": OURS},
                "repository": {"pullRequest": {"headRefOid": self.head, "page": page}},
            }
        }


class GitLab(Forge):
    def check_token(self, handler: BaseHTTPRequestHandler) -> None:
        if handler.headers.get("PRIVATE-TOKEN") != self.token:
            raise Refuse(401, "401 Unauthorized")

    def answer(self, method: str, path: str, body: Any) -> tuple[Any, dict[str, str]]:
        parts = urlsplit(path)
        request = "/projects/group%2Fproject/merge_requests/7"
        if (method, path) == ("GET", "/user"):
            return {"id": 5}, {}
        if not path.startswith(request):
            raise Refuse(404, "404 Project Not Found")
        rest = parts.path.removeprefix(request)
        if (method, rest) == ("GET", ""):
            return {"diff_refs": {"base_sha": "b" * 40, "start_sha": "c" * 40, "head_sha": self.head}}, {}
        if (method, rest) == ("GET", "/discussions"):
            return self._discussions(int(parse_qs(parts.query)["page"][0]))
        if (method, rest) == ("POST", "/discussions"):
            self._check(body.get("position"))
            place = body.get("position") or {}
            self.threads.append(
                {**place, "path": place.get("new_path"), "body": body["body"], "id": f"d{self.number()}",
                 "author": OURS, "resolved": False, "by": None}
            )  # fmt: skip
            self.writes.append("thread")
            return {}, {}
        if (method, rest) == ("POST", "/notes"):
            self.comments.append({"id": self.number(), "author": OURS, "body": body["body"]})
            self.writes.append("comment")
            return {}, {}
        if method == "PUT" and (found := re.fullmatch("/notes/([0-9]+)", rest)):
            next(each for each in self.comments if each["id"] == int(found[1]))["body"] = body["body"]
            self.writes.append("comment again")
            return {}, {}
        if method == "PUT" and (found := re.fullmatch("/discussions/(d[0-9]+)", rest)):
            if not self.may_resolve:
                raise Refuse(403, "403 Forbidden")
            thread = next(each for each in self.threads if each["id"] == found[1])
            thread["resolved"] = parse_qs(parts.query)["resolved"] == ["true"]
            thread["by"] = OURS if thread["resolved"] else None
            self.writes.append("resolve" if thread["resolved"] else "reopen")
            return {}, {}
        raise Refuse(404, "404 Not Found")

    def _check(self, position: dict[str, Any] | None) -> None:
        if position is None:
            return
        if position["head_sha"] != self.head or not {"base_sha", "start_sha", "old_path"} <= position.keys():
            raise Refuse(400, "position is incomplete")
        lines = self.changed.get(position["new_path"])
        if lines is None:
            raise Refuse(400, "position is not in the change")
        if position["position_type"] == "text" and position["new_line"] not in lines:
            raise Refuse(400, 'Note {:line_code=>["can\'t be blank"]}')

    def _discussions(self, page: int) -> tuple[list[dict[str, Any]], dict[str, str]]:
        def note(each: dict[str, Any]) -> dict[str, Any]:
            return {"id": each["id"], "body": each["body"], "system": False,
                    "author": {"id": 5 if each["author"] == OURS else 6}}  # fmt: skip

        found = [
            {"id": each["id"], "notes": [note(each) | {"resolvable": True, "resolved": each["resolved"],
             "resolved_by": None if each["by"] is None else {"id": 5 if each["by"] == OURS else 6},
             "position": {"new_path": each["path"]} if each["path"] else None}]}
            for each in self.threads
        ]  # fmt: skip
        found += [{"id": f"c{each['id']}", "notes": [note(each)]} for each in self.comments]
        more = page * 100 < len(found)
        return found[(page - 1) * 100 : page * 100], {"X-Next-Page": str(page + 1) if more else ""}


FORGES: dict[str, Callable[[Mapping[str, range]], Forge]] = {"github": GitHub, "gitlab": GitLab}
