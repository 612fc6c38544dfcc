"""The arguments of `codelet review`, and their checks before anything is read."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from codelet.errors import UsageError
from codelet.frontends.commands.number_arguments import coverage, positive, share
from codelet.review.findings import SEVERITIES, Gate

_ABOUT_WHAT = (
    "BASE..HEAD, BASE...HEAD or a commit (default: the commits that HEAD adds to its upstream or the default branch);"
    " or post and a JSON report, to comment on a pull or merge request"
)


def add_review_arguments(review: argparse.ArgumentParser) -> None:
    """Add the arguments of `codelet review` to its parser."""
    what = review.add_argument_group("change")
    what.add_argument("what", nargs="*", metavar="COMMITS|PATH", help=f"{_ABOUT_WHAT}; files and folders narrow it")
    one = what.add_mutually_exclusive_group()
    one.add_argument("--staged", action="store_true", help="staged changes")
    one.add_argument("--uncommitted", action="store_true", help="uncommitted changes, with new files")
    one.add_argument("--diff", metavar="FILE", help="a unified diff; - is stdin")
    what.add_argument("--base", metavar="BRANCH",
                      help="HEAD since its merge base with it; with --diff the commit whose rules apply")  # fmt: skip
    what.add_argument("--since", metavar="COMMIT", help="only changes since that commit, which was reviewed before")
    what.add_argument("--generated", action="store_true", help="include generated, vendored and lock files")
    how = review.add_argument_group("review")
    how.add_argument("--rules", metavar="FILE", help="your rules, next to REVIEW.md and CLAUDE.md of the base commit")
    how.add_argument("--description", metavar="FILE",
                     help="the author's words on the change (in CI: of the pull or merge request)")  # fmt: skip
    how.add_argument("--jobs", type=positive, default=8, metavar="N", help="requests in parallel (8)")
    how.add_argument(
        "--chunk-tokens",
        type=positive,
        metavar="N",
        help="tokens of the diff in one request (64000 for a whole change, else 24000; less for a small window)",
    )
    how.add_argument("--no-verify", action="store_true", help="skip the second request, which checks the findings")
    how.add_argument("--dry-run", action="store_true", help="only list the hunks and the requests, with tokens")
    _add_result_arguments(review)


def _add_result_arguments(review: argparse.ArgumentParser) -> None:
    """Add the arguments about findings, the exit status and the reports."""
    gate = review.add_argument_group("findings and exit status")
    gate.add_argument(
        "--fail-on",
        choices=(*SEVERITIES, "never"),
        default="high",
        help="exit 1 for findings of this severity or higher (high)",
    )
    gate.add_argument(
        "--min-severity", choices=SEVERITIES, default="low", help="report findings of this severity or higher (low)"
    )
    gate.add_argument(
        "--min-confidence",
        type=share,
        default=0.0,
        metavar="0..1",
        help="report findings of this confidence or higher (0)",
    )
    gate.add_argument("--max-findings", type=positive, metavar="N", help="report at most N, the gravest first")
    gate.add_argument("--min-coverage", type=coverage, default=100.0, metavar="PERCENT",
                      help="exit 5 if fewer hunks were reviewed, skipped ones not counted (100)")  # fmt: skip
    known = review.add_argument_group("known findings")
    known.add_argument("--baseline", metavar="FILE", help="report only findings that are not in this file")
    known.add_argument("--update-baseline", action="store_true", help="write the findings of this run to it")
    post = review.add_argument_group("comments on a pull or merge request: codelet review post FILE")
    service = post.add_mutually_exclusive_group()
    service.add_argument("--github", action="store_true", help="on GitHub (GITHUB_TOKEN, GITHUB_REPOSITORY)")
    service.add_argument("--gitlab", action="store_true", help="on GitLab (GITLAB_TOKEN, CI_PROJECT_ID)")
    post.add_argument("--request", type=positive, metavar="N", help="its number (default: that of the CI job)")
    post.add_argument(
        "--last-reviewed", action="store_true", help="only print BASE..HEAD of the last review that passed"
    )
    out = review.add_argument_group("output")
    out.add_argument("--output", action="append", default=[], metavar="FORMAT[=FILE]",
                     help="write the report in a format; repeatable (default: text on stdout)")  # fmt: skip


def gate_of(options: argparse.Namespace) -> Gate:
    """The gate that the options describe."""
    return Gate(
        fail_on=None if options.fail_on == "never" else options.fail_on,
        min_severity=options.min_severity,
        min_confidence=options.min_confidence,
        max_findings=options.max_findings,
        min_coverage=options.min_coverage,
    )


def text_of_option(options: argparse.Namespace, name: str) -> str | None:
    """The text of the file that an option names; None without the option. Raises UsageError."""
    path = getattr(options, name)
    if path is None:
        return None
    try:
        return Path(path).read_text(encoding="utf-8", errors="strict" if name == "rules" else "replace")
    except OSError as error:
        raise UsageError(f"--{name} {path}: {error.strerror}") from None
    except ValueError:
        raise UsageError(f"--{name} {path}: is not UTF-8 text") from None


def description_of(options: argparse.Namespace) -> str:
    """The author's words about the change: from the named file, else from the event of the CI. Raises UsageError."""
    if (described := text_of_option(options, "description")) is not None:
        return described
    parts = [os.environ.get("CI_MERGE_REQUEST_TITLE"), os.environ.get("CI_MERGE_REQUEST_DESCRIPTION")]
    if (event := os.environ.get("GITHUB_EVENT_PATH")) and os.environ.get("GITHUB_ACTIONS"):
        try:
            request = json.loads(Path(event).read_bytes()).get("pull_request") or {}
            parts = [request.get("title"), request.get("body")]
        except (OSError, ValueError, AttributeError):
            return ""  # the event is of another kind
    return "\n\n".join(part for part in parts if isinstance(part, str) and part.strip())
