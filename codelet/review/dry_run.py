"""The requests that a review would make: files, hunks, chunks, and estimates of tokens and cost."""

from __future__ import annotations

from collections.abc import Sequence

from codelet.context.tokens import estimate_text
from codelet.providers.facts import model_facts
from codelet.review.formats.sentences import counted, hunk_place
from codelet.review.packing import ReviewPlan
from codelet.review.review_prompt import ASK
from codelet.review.reviewed_change import ReviewedChange
from codelet.system.text import one_line
from codelet.tools.tool import Tool
from codelet.usage import Usage

_ANSWER = 600
"""Tokens of an answer, for the estimate of the cost."""


def dry_run_text(
    change: ReviewedChange, plan: ReviewPlan, system: str, tools: Sequence[Tool], model: str | None, *, local: bool
) -> str:
    """The plan as text: each hunk with its chunk, then the sums. Tokens and cost are estimates.

    `local` says that the model answers on this machine, where nothing is paid.
    """
    lines = [f"Would review {one_line(change.subject, 200)}"]
    if not plan.hunks:
        return f"{lines[0]}\nThere is nothing to review.\n"
    chunks: dict[int, list[int]] = {}
    for chunk in plan.chunks:
        for piece in chunk.pieces:
            chunks.setdefault(piece.number, []).append(chunk.number)
    for number, hunk in enumerate(plan.hunks):
        own = chunks.get(number)
        fate = (
            f"chunk {' to '.join(map(str, dict.fromkeys((own[0], own[-1]))))}" if own else f"{hunk.state}: {hunk.why}"
        )
        lines.append(f"{hunk_place(hunk)} (+{hunk.added} -{hunk.removed}): {one_line(fate, 200)}")
    lines += [
        f"chunk {chunk.number}: {counted(len(chunk.pieces), 'hunk')}, about {chunk.tokens:,} tokens"
        for chunk in plan.chunks
    ]
    fixed = estimate_text(system) + sum(estimate_text(str(tool.schema())) for tool in tools) + estimate_text(ASK)
    requests = len(plan.chunks)
    tokens = plan.tokens + fixed * requests
    lines.append(f"{counted(requests, 'request')}, about {tokens:,} tokens in; {fixed:,} of each are instructions")
    if model is None:
        cost = "unknown without --model"
    elif local:
        cost = f"none, {one_line(model, 80)} answers on this machine"
    else:
        prices = model_facts(model).priced_at(tokens // max(1, requests))
        price = None if prices is None else prices.cost(Usage(total_input=tokens, output=_ANSWER * requests))
        about = "unknown" if price is None else f"about ${price:.4f} without confirmations and caching"
        cost = f"{about} with {one_line(model, 80)}"
    return "\n".join([*lines, f"cost: {cost}"]) + "\n"
