"""What a review would ask, without asking: files, hunks, chunks, and estimates of tokens and cost."""

from __future__ import annotations

from collections.abc import Sequence

from codelet.context.tokens import estimate_text
from codelet.providers.facts import model_facts
from codelet.review.findings import HunkCoverage
from codelet.review.packing import ReviewPlan
from codelet.review.report_text import counted
from codelet.review.review_prompt import ASK
from codelet.review.reviewed_change import ReviewedChange
from codelet.system.text import one_line, visible
from codelet.tools.tool import Tool
from codelet.usage import Usage

_ANSWER = 600
"""Tokens that an answer is taken to have, for the estimate of the cost."""


def dry_run_text(
    change: ReviewedChange, plan: ReviewPlan, system: str, tools: Sequence[Tool], model: str | None, *, local: bool
) -> str:
    """The plan as text: each file with its hunks, then the sums. Tokens and cost are estimates.

    `local` says that the model answers on this machine, where nothing is paid.
    """
    lines = [f"Would review {one_line(change.subject, 200)}"]
    if not plan.hunks:
        return f"{lines[0]}\nnothing to review\n"
    chunks: dict[int, list[int]] = {}
    for chunk in plan.chunks:
        for piece in chunk.pieces:
            chunks.setdefault(piece.number, []).append(chunk.number)
    path = None
    for number, hunk in enumerate(plan.hunks):
        if hunk.path != path:
            path = hunk.path
            was = "" if hunk.old_path is None else f" (was {visible(hunk.old_path)})"
            lines.append(f"{visible(path)}{was}".replace("\n", "\\n"))
        lines.append(f"  {_hunk(hunk)}: {_fate(hunk, chunks.get(number, []))}")
    lines += [
        f"chunk {chunk.number}: {counted(len(chunk.pieces), 'hunk')}, about {chunk.tokens:,} tokens"
        for chunk in plan.chunks
    ]
    beside = estimate_text(system) + sum(estimate_text(str(tool.schema())) for tool in tools) + estimate_text(ASK)
    tokens = plan.tokens + beside * len(plan.chunks)
    sums = f"{counted(len(plan.chunks), 'request')}, about {tokens:,} tokens in, {beside:,} of each beside the diff"
    return "\n".join([*lines, sums, _cost(plan, tokens, model, local=local)]) + "\n"


def _cost(plan: ReviewPlan, tokens: int, model: str | None, *, local: bool) -> str:
    if model is None:
        return "cost unknown: no model is named"
    if local:
        return f"cost with {one_line(model, 80)}: none, it answers on this machine"
    usage = Usage(total_input=tokens, output=_ANSWER * len(plan.chunks))
    prices = model_facts(model).priced_at(tokens // max(1, len(plan.chunks)))  # each chunk is a request of its own
    cost = None if prices is None else prices.cost(usage)
    known = (
        "unknown: its prices are not known" if cost is None else f"about ${cost:.4f} without confirmations and caching"
    )
    return f"cost with {one_line(model, 80)}: {known}"


def _hunk(hunk: HunkCoverage) -> str:
    if not hunk.new_start and not hunk.old_start:
        return "no hunk"
    last = hunk.new_start + max(hunk.new_lines, 1) - 1
    return f"lines {hunk.new_start} to {last}, {hunk.added} added, {hunk.removed} removed"


def _fate(hunk: HunkCoverage, chunks: Sequence[int]) -> str:
    if not chunks:
        return f"{hunk.state}: {one_line(hunk.why, 200)}"
    return f"chunk {chunks[0]}" + (f" to {chunks[-1]}" if len(chunks) > 1 else "")
