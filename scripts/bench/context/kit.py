"""compaction-conformance-kit against our entry point: what survives five rounds at a fixed budget in characters."""

from __future__ import annotations

import json
from typing import Any

from codelet.context.compaction import IrreducibleContext, compact

BUDGETS = (0.10, 0.20, 0.30)
SEEDS = (1, 2, 3, 4)


class CodeletCompactor:
    """The kit's protocol over `compact`: turns in, one text out, at most `budget_chars` characters of it."""

    name = "codelet"

    def compact(self, turns: list[Any], round_num: int = 1, budget_chars: int | None = None) -> Any:
        """One round. From the second on the kit hands back our text as one system turn."""
        from compaction_kit.compacted import CompactedContext

        messages = [{"role": turn.role, "content": turn.text} for turn in turns]
        text = "\n".join(message["content"] for message in messages)
        if budget_chars is not None and len(text) > budget_chars:
            text = self._within(messages, budget_chars)
        return CompactedContext(text=text, compactor_name=self.name, round_num=round_num)

    def _within(self, messages: list[dict[str, str]], budget_chars: int) -> str:
        """The joined result; a message is measured by its characters and its line end, the kit's own unit."""
        try:
            made = compact(messages, budget_chars, estimate=lambda m: len(str(m["content"])) + 1).messages
        except IrreducibleContext:
            made = messages
        return "\n".join(str(message["content"]) for message in made)


class TokenCompactor(CodeletCompactor):
    """The same with the default estimate: a quarter of the budget as tokens."""

    name = "codelet (tokens)"

    def _within(self, messages: list[dict[str, str]], budget_chars: int) -> str:
        made = compact(messages, budget_chars // 4).messages
        return "\n".join(str(message["content"]) for message in made)


def survival(budgets: tuple[float, ...] = BUDGETS, seeds: tuple[int, ...] = SEEDS) -> list[dict[str, Any]]:
    """The kit's own benchmark with its built-in compactors and ours. Raises ImportError where the kit is absent."""
    from compaction_kit import benchmark
    from compaction_kit.cli import COMPACTORS

    factories = {**COMPACTORS, CodeletCompactor.name: CodeletCompactor, TokenCompactor.name: TokenCompactor}
    payload = benchmark.run_budget_benchmark(factories, budgets=budgets, seeds=seeds)
    return json.loads(json.dumps(payload))["entries"]
