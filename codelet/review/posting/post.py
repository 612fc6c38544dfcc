"""Bring the comments on a request to the state of a report; a second run with the same report changes nothing."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Literal

from codelet.errors import ProviderError
from codelet.record import Record
from codelet.review.findings import Finding, Report
from codelet.review.posting.comments import Thread, changes, finding_of, findings_by_key, is_summary, summary_comment
from codelet.review.posting.service_api import MaybeDone, ServiceApi, ServiceRefusal

CommentPlace = Literal["lines", "file", "thread", "nowhere"]
"""The place of a comment on a finding: on its lines, on its file, in a thread without a place, or not anywhere."""

_MOST_COMMENTS = 50
"""Comments on single findings in one run; the others are in the summary."""
_AT_ONCE = 20
_ATTEMPTS = 5


class OwnComment(Record):
    """A comment that we wrote. `id` is that of its thread if it has one, `note` its own id if that is another."""

    id: str
    text: str
    path: str = ""
    is_resolved: bool = False
    resolved_by_us: bool = False
    note: str = ""


class PostedRequest(ABC):
    """A pull or merge request. `read` fills in `head` (a commit id), `threads` (ours) and `summary` (its id and text).

    `summaries` are the address to post a summary to, the method to change one, and the address before its id.
    Every method raises ServiceRefusal, MaybeDone or ProviderError; after MaybeDone `read` shows what was done.
    """

    head: str = ""
    threads: list[Thread]
    summary: str | None = None
    summary_text: str = ""
    summaries: tuple[str, str, str]
    refused_place: tuple[int, ...]
    """The statuses with which the service refuses a line that it does not show as part of the change."""

    def __init__(self, api: ServiceApi, address: str) -> None:
        self.api = api
        self.address = address

    @abstractmethod
    def own_comments(self) -> Iterator[OwnComment]:
        """Yield all comments that we wrote, and read the head commit."""

    @abstractmethod
    def comment(self, findings: Mapping[str, Finding], *, exact: bool) -> dict[str, CommentPlace]:
        """Comment on findings by key. `exact` says that their lines are those of the head commit."""

    @abstractmethod
    def resolve(self, thread: str, *, resolved: bool) -> None:
        """Mark a thread as resolved, or as not resolved."""

    def read(self) -> None:
        """Read the head commit, our threads and our summary."""
        self.threads, self.summary, self.summary_text = [], None, ""
        for each in self.own_comments():
            if is_summary(each.text):
                self.summary, self.summary_text = each.note or each.id, each.text
            elif (found := finding_of(each.text)) is not None:
                key, rule = found
                by_us = each.is_resolved and each.resolved_by_us
                thread = Thread(
                    id=each.id, key=key, rule=rule, path=each.path, resolved=each.is_resolved, resolved_by_us=by_us
                )
                self.threads.append(thread)

    def summarise(self, text: str) -> None:
        """Post the comment on the whole review, or replace the earlier one."""
        new, method, old = self.summaries
        if self.summary is None:
            self.api.call("POST", new, {"body": text}, repeatable=False)
        else:
            self.api.call(method, f"{old}/{self.summary}", {"body": text})

    def post(self, path: str, body: object) -> None:
        """Make a request that must not be made twice."""
        self.api.call("POST", self.address + path, body, repeatable=False)

    def is_taken(self, path: str, comment: object) -> bool:
        """Post a comment; False for a line that the service does not show as part of the change."""
        try:
            self.post(path, comment)
        except ServiceRefusal as refusal:
            if refusal.status not in self.refused_place:
                raise
            return False
        return True


class Posting:
    """One run over a request. After `run` its attributes say what it did.

    `places` are those of its comments, by key; `present` counts the findings that had one before,
    `resolved` and `reopened` are ids of threads, and `refused` is why not all of these could be changed. `newest` is
    true if the report is of the newest commit of the request.
    """

    def __init__(self, request: PostedRequest, report: Report) -> None:
        self._request = request
        self._report = report
        self._wanted = findings_by_key(report.findings)
        self._before: set[str] | None = None
        self.places: dict[str, CommentPlace] = {}
        self.resolved: set[str] = set()
        self.reopened: set[str] = set()
        self.refused = ""
        self.newest = True

    @property
    def present(self) -> int:
        """The number of findings that had a comment before this run."""
        return len(self._wanted.keys() & (self._before or set()))

    @property
    def in_summary(self) -> int:
        """The number of findings without a comment, which the summary has in full."""
        known = {thread.key for thread in self._request.threads}
        return sum(self.places.get(key, "nowhere") == "nowhere" and key not in known for key in self._wanted)

    def run(self) -> None:
        """Post the report. After a lost connection the comments are read again before continuing.

        Raises:
            ServiceRefusal: the service refused something that cannot be left out.
            ProviderError: the service cannot be reached.
        """
        for attempt in range(_ATTEMPTS):
            try:
                return self._once()
            except MaybeDone as error:
                problem = str(error)
                time.sleep(min(2.0**attempt, 8.0))
        raise ProviderError(f"{problem}; run the same command again later: nothing is posted twice")

    def _once(self) -> None:
        request, report = self._request, self._report
        request.read()
        if self._before is None:
            self._before = {thread.key for thread in request.threads}
        self.newest = report.head is None or report.head == request.head
        todo = changes(report, request.threads, newest=self.newest)
        new = [(key, finding) for key, finding in todo.new.items() if key not in self.places][:_MOST_COMMENTS]
        for start in range(0, len(new), _AT_ONCE):
            self.places |= request.comment(dict(new[start : start + _AT_ONCE]), exact=self.newest)
        try:
            for threads, done, resolved in ((todo.gone, self.resolved, True), (todo.back, self.reopened, False)):
                for thread in threads:
                    request.resolve(thread.id, resolved=resolved)
                    done.add(thread.id)
        except ServiceRefusal as refusal:  # a token may be allowed to comment and not to resolve
            self.refused = str(refusal)
        unplaced = {key for key in todo.new if self.places.get(key, "nowhere") == "nowhere"}
        text = summary_comment(report, unplaced, request.summary_text, newest=self.newest)
        if text.split() != request.summary_text.split():
            request.summarise(text)
