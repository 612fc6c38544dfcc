"""A pull or merge request as `post` uses it, whatever the service."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Literal

from codelet.review.findings import Finding
from codelet.review.posting.comments import Thread

CommentPlace = Literal["lines", "file", "thread", "nowhere"]
"""Where a comment on a finding is: on its lines, on its file, in a thread without a place, or not anywhere."""


class PostedRequest(ABC):
    """One request. `read` fills in `head` (a commit id), `threads` (ours) and `summary` (its id, with its text).

    Every method raises ServiceRefusal, MaybeDone or ProviderError; MaybeDone means that `read` shows what was done.
    """

    head: str = ""
    threads: list[Thread]
    summary: str | None = None
    summary_text: str = ""

    @abstractmethod
    def read(self) -> None:
        """Read what is there."""

    @abstractmethod
    def comment(self, findings: Mapping[str, Finding], *, exact: bool) -> dict[str, CommentPlace]:
        """Comment on findings by key. `exact` says that their lines are those of the head commit."""

    @abstractmethod
    def resolve(self, thread: Thread) -> None:
        """Mark a thread as resolved."""

    @abstractmethod
    def reopen(self, thread: Thread) -> None:
        """Mark a thread as not resolved."""

    @abstractmethod
    def summarise(self, text: str) -> None:
        """Write the comment on the whole review, over the one that is there."""
