"""Bring the comments on a request to the state of a report; a second run with the same report changes nothing."""

from __future__ import annotations

import time

from codelet.errors import ProviderError
from codelet.review.findings import AsideKind, Report
from codelet.review.formats import sentences
from codelet.review.posting.comments import findings_by_key, summary_comment
from codelet.review.posting.forges import CommentPlace, PostedRequest, Thread
from codelet.review.posting.service_api import MaybeDone, ServiceRefusal

_MOST_COMMENTS = 50
"""Comments on single findings in one run; the others are in the summary."""
_AT_ONCE = 20
_ATTEMPTS = 5
_STILL_THERE: frozenset[AsideKind] = frozenset(("misplaced", "unconfirmed", "below", "surplus", "duplicate"))
"""Findings that are not reported on their lines, although nothing says that they are gone."""


class Posting:
    """One run over a request. After `run` its attributes say what it did.

    `places` are those of its comments, by key; `present` counts the findings that had one before, `in_summary` those
    without one, which the summary has in full. `resolved` and `reopened` are ids of threads, and `refused` is why not
    all of these could be changed. `newest` is true if the report is of the newest commit of the request.
    """

    def __init__(self, request: PostedRequest, report: Report) -> None:
        self._request = request
        self._report = report
        self._wanted = findings_by_key(report.findings)
        self._before: set[str] | None = None
        self.places: dict[str, CommentPlace] = {}
        self.present = self.in_summary = 0
        self.resolved: set[str] = set()
        self.reopened: set[str] = set()
        self.refused = ""
        self.newest = True

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
        known = {thread.key for thread in request.threads}
        if self._before is None:
            self._before = known
            self.present = len(self._wanted.keys() & known)
        self.newest = report.head is None or report.head == request.head
        missing = {key: finding for key, finding in self._wanted.items() if key not in known}
        new = [(key, finding) for key, finding in missing.items() if key not in self.places][:_MOST_COMMENTS]
        for start in range(0, len(new), _AT_ONCE):
            self.places |= request.comment(dict(new[start : start + _AT_ONCE]), exact=self.newest)
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
        unplaced = {key for key in missing if self.places.get(key, "nowhere") == "nowhere"}
        self.in_summary = len(unplaced)
        before = "" if request.summary is None else request.summary.text
        text = summary_comment(report, unplaced, before, newest=self.newest)
        if text.split() != before.split():
            request.summarise(text)

    def _gone(self) -> list[Thread]:
        """The threads to resolve: none unless the review of the newest commit was whole and of the whole change.

        Nor is one whose finding may have been set aside without being refuted.
        """
        report = self._report
        open_ones = [each for each in report.aside if each.kind in _STILL_THERE]
        is_vague = any(sentences.file_of(each, report) is None for each in open_ones)
        if not self.newest or is_vague or not sentences.is_whole(report) or report.whole_base is not None:
            return []
        doubtful = {(each.path, each.rule) for each in open_ones}
        threads = [thread for thread in self._request.threads if not thread.resolved]
        return [each for each in threads if each.key not in self._wanted and (each.path, each.rule) not in doubtful]
