"""Reports to write in every format: a whole one, an incomplete one, a clean one, one with hostile names and texts."""

from __future__ import annotations

from codelet.review.findings import Finding, Gate, HunkCoverage, Report
from codelet.usage import Usage

EVIL = "::error file=x::%0A <img src=x onerror=alert(1)> `` ]( @everyone #1 http://evil.example \u202e\x1b[2J"
"""Text that a model could be made to write."""

EVIL_PATH = "a ,b:\n::set-output name=x::%.py"


def whole() -> Report:
    """Two findings, three set aside, everything reviewed."""
    return Report(
        subject="the commits main..topic",
        base="1" * 40,
        head="2" * 40,
        findings=(
            Finding(
                rule="code-injection",
                title="Input is run as code",
                explanation="`order` comes from outside.\nA client runs code here.",
                severity="critical",
                category="security",
                confidence=0.9,
                path="shop/orders.py",
                line=22,
                end_line=22,
                quote="    eval(order)",
                before=("def place(order):",),
                after=("    return order",),
                replacement="    json.loads(order)",
                verified=True,
                fingerprint="a" * 32,
            ),
            Finding(
                rule="off-by-one",
                title="A full last page counts twice",
                explanation="",
                severity="low",
                category="correctness",
                confidence=0.5,
                path="shop/pages.py",
                line=1,
                end_line=2,
                quote="def pages(total):\n    return total // 20 + 1",
                fingerprint="b" * 32,
            ),
        ),
        aside=(
            _aside("ignored", "checked by hand", "division-by-zero", 4),
            _aside("known", "it is in the baseline", "dead-code", 5),
            _aside("misplaced", "its quote is not in the change", "dead-code", None),
        ),
        hunks=(_hunk("shop/orders.py", 1, 5), _hunk("shop/orders.py", 21, 3), _hunk("shop/pages.py", 1, 2), _skipped()),
        chunks=1,
        requests=2,
        usage=Usage(total_input=1200, output=80),
        cost=0.0042,
        model="scripted",
        duration=1.25,
        exit=1,
    )


def incomplete() -> Report:
    """Nothing found, a hunk lost, another one cut."""
    lost = _hunk("shop/orders.py", 21, 3).replace(state="failed", why="the server did not answer")
    cut = _hunk("shop/pages.py", 1, 2).replace(state="truncated", why="a line is too long")
    return Report(
        subject="what is staged",
        hunks=(_hunk("shop/orders.py", 1, 5), lost, cut),
        chunks=2,
        lost=1,
        requests=2,
        model="scripted",
        partial=True,
        error="1 of 2 chunks has no answer",
        exit=5,
    )


def ended_early() -> Report:
    """A limit was reached before a hunk was so much as looked at."""
    return Report(subject="what is staged", partial=True, error="the limit of $1 was reached", exit=4)


def unsettled() -> Report:
    """No finding on its lines: one without a place and without a file, one without a confirmation, one of no weight."""
    gone = _aside("misplaced", "the file that it names is not in this part of the change", "lost-wakeup", None)
    asked = _aside("unconfirmed", "the server did not answer", "code-injection", 22)
    small = _aside("misplaced", "it quotes a line that was removed", "dead-code", None)
    return whole().replace(
        findings=(),
        aside=(
            gone.replace(
                title="The waiter is not woken",
                severity="critical",
                path="src/pool.rs",
                explanation="The counter\nis not lowered.",
                quote="    self.idle -= 1;",
            ),
            asked.replace(title="Input is run as code", severity="high", quote="    eval(order)", explanation="It is."),
            small.replace(title="A line that does nothing", severity="low", quote="    pass"),
        ),
        partial=True,
        error="1 finding could not be confirmed or refuted; 1 finding has no place in the change",
        exit=5,
    )


def clean() -> Report:
    """Everything was reviewed and nothing found."""
    return whole().replace(findings=(), aside=(), exit=0)


def hostile() -> Report:
    """Names and texts that try to be something else."""
    finding = (
        whole()
        .findings[0]
        .replace(
            rule="rule",
            title=EVIL,
            explanation=f"{EVIL}\n::warning::x\n</pre><script>alert(1)</script>",
            path=EVIL_PATH,
            quote="    eval(order)  # ```</pre><script>",
            replacement=EVIL,
        )
    )
    aside = _aside("ignored", EVIL, "rule", 1).replace(path=EVIL_PATH, title=EVIL)
    placeless = _aside("misplaced", EVIL, "rule", None).replace(
        path=EVIL_PATH, title=EVIL, explanation=f"{EVIL}\n::warning::x\n</pre><script>alert(1)</script>", quote=EVIL
    )
    failed = _hunk(EVIL_PATH, 1, 2).replace(state="failed", why=EVIL)
    return whole().replace(
        subject=EVIL,
        findings=(finding,),
        aside=(aside, placeless),
        hunks=(failed,),
        gate=Gate(fail_on=None),
        error=EVIL,
        exit=5,
    )


def _hunk(path: str, start: int, lines: int) -> HunkCoverage:
    return HunkCoverage(
        path=path, old_start=max(start - 1, 0), old_lines=1, new_start=start, new_lines=lines, added=2, state="reviewed"
    )


def _skipped() -> HunkCoverage:
    return HunkCoverage(path="logo.png", state="skipped", why="a binary file")


def _aside(kind: str, why: str, rule: str, line: int | None) -> Finding:
    return Finding(
        kind=kind, why=why, rule=rule, title="set aside", severity="medium", path="shop/orders.py", line=line
    )


REPORTS = {
    "whole": whole(),
    "incomplete": incomplete(),
    "ended_early": ended_early(),
    "clean": clean(),
    "unsettled": unsettled(),
}
