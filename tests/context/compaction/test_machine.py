"""A state machine over a plain list: input, tools, cancel, compact, rewind in any order keep it valid."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from codelet.context.compaction.engine import compact
from codelet.context.compaction.plan import IrreducibleContext
from codelet.messages import NO_RESULT, normalise, unpaired
from tests.context.compaction.lists import TEXT, calling, reminder, reminders, result, size, user
from tests.support.amount import amount


class Conversation(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list[dict] = [reminder("claudeMd", "rules")]
        self.number = 0
        self.compacted_to: int | None = None

    @rule(text=TEXT)
    def prompt(self, text: str) -> None:
        self.messages.append(user(text))
        self.compacted_to = None

    @rule(text=TEXT, count=st.integers(1, 3), output=TEXT)
    def step(self, text: str, count: int, output: str) -> None:
        ids = [f"c{self.number + i}" for i in range(count)]
        self.number += count
        self.messages.append(calling(*((i, "bash", {"command": output[:80]}) for i in ids), text=text))
        self.messages += [result(i, output) for i in ids]
        self.compacted_to = None

    @rule(count=st.integers(1, 3), answered=st.integers(0, 2))
    def cancel(self, count: int, answered: int) -> None:
        """The user stops a step: some calls have no result yet, and the list is repaired before anything else."""
        ids = [f"c{self.number + i}" for i in range(count)]
        self.number += count
        self.messages.append(calling(*((i, "read", {"path": "a/b.py"}) for i in ids)))
        self.messages += [result(i, "partial") for i in ids[:answered]]
        self.messages = normalise(self.messages).messages
        missing = max(0, count - answered)
        assert [m["content"] for m in self.messages[len(self.messages) - missing :]] == [NO_RESULT] * missing
        self.compacted_to = None

    @rule(kind=st.sampled_from(["gitStatus", "tokenStatus", "claudeMd"]), text=TEXT)
    def remind(self, kind: str, text: str) -> None:
        self.messages.append(reminder(kind, text[:200]))
        self.messages = normalise(self.messages).messages
        self.compacted_to = None

    @rule(tokens=st.integers(120, 4_000))
    def compact(self, tokens: int) -> None:
        try:
            made = compact(self.messages, tokens)
        except IrreducibleContext as error:
            assert sum(error.floor.values()) > tokens
            return
        assert made.report.after <= made.report.target == tokens
        assert unpaired(made.messages) == []
        self.messages = made.messages
        self.compacted_to = tokens

    @precondition(lambda self: any(m["role"] == "user" for m in self.messages[1:]))
    @rule()
    def rewind(self) -> None:
        last = max(i for i, m in enumerate(self.messages) if m["role"] == "user" and i > 0)
        if not self.messages[last]["content"].startswith(("<compacted", "<system-reminder")):
            del self.messages[last:]
            self.compacted_to = None

    @invariant()
    def valid(self) -> None:
        assert unpaired(self.messages) == []
        assert all(len(texts) == 1 for texts in reminders(self.messages).values())
        assert self.compacted_to is None or size(self.messages) <= self.compacted_to


TestConversation = Conversation.TestCase
TestConversation.settings = settings(
    max_examples=amount(20, 400), stateful_step_count=18, deadline=None, suppress_health_check=list(HealthCheck)
)
