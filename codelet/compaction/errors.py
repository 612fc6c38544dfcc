"""What compaction can refuse."""

from __future__ import annotations

from codelet.errors import EXIT_LIMIT, CodeletError


class IrreducibleContext(CodeletError):
    """The target cannot be met: what must stay is larger. `floor` itemises it, in tokens, largest first."""

    exit_status = EXIT_LIMIT

    def __init__(self, target: int, floor: dict[str, int]) -> None:
        self.target = target
        self.floor = dict(sorted(floor.items(), key=lambda item: -item[1]))
        parts = ", ".join(f"{name} {tokens:,}" for name, tokens in self.floor.items())
        least = sum(floor.values())
        super().__init__(
            f"the context cannot be made smaller than {least:,} tokens ({parts}); the target is {target:,}"
        )
