"""Everything a user can do to a session, in any order: what must hold then."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import aclosing, suppress
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from codelet import events
from codelet.conversation import Zones
from codelet.errors import CodeletError, UsageError
from codelet.messages import reminder_type, unpaired
from tests.context.scripted import Answer, ScriptedProvider, session_of, text
from tests.support.amount import amount

CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("look"), st.fixed_dictionaries({"lines": st.sampled_from([1, 30, 200, 900])})),
        st.tuples(st.just("broken"), st.fixed_dictionaries({"why": st.sampled_from(["a.py", "b"])})),
        st.tuples(st.just("defect"), st.just({})),
        st.tuples(st.just("nothing"), st.just({})),
        st.tuples(st.just("look"), st.just({"lines": "many"})),
    ),
    min_size=1,
    max_size=3,
)
STEPS = st.lists(CALLS, max_size=3)
CANCEL = st.one_of(st.none(), st.integers(1, 14))
MODELS = {
    "anyscale/codellama/CodeLlama-34b-Instruct-hf": 4_096,
    "anyscale/google/gemma-7b-it": 8_192,
    "perplexity/sonar-small-online": 12_000,
    "deepinfra/Qwen/Qwen3-14B": 40_960,
    "cloudflare/@cf/meta/llama-3.2-1b-instruct": 60_000,
}
"""Models by name, and what litellm's map says of their windows."""
KINDS = st.sampled_from([*Zones().head, *Zones().tail])
REWRITES = ("done", "undone", "reduced")


class Machine(RuleBasedStateMachine):
    """One session in an empty folder with an instruction file."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        workspace = Path(self.folder.name)
        (workspace / "CLAUDE.md").write_text("Be brief.\n")
        self.loop = asyncio.new_event_loop()
        self.provider = ScriptedProvider()
        self.session = session_of(self.provider, workspace, window=None, bare=False)
        self.reported = True
        self.stopped = False
        self.checked = 0

    def teardown(self) -> None:
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        self.folder.cleanup()

    def consume(self, stream, cancel_at: int | None) -> None:
        async def main() -> None:
            count = 0
            task = asyncio.current_task()
            assert task is not None
            async with aclosing(stream) as found:
                async for event in found:
                    self.see(event)
                    assert unpaired(self.session.messages) == [], event
                    count += 1
                    if count == cancel_at:
                        task.cancel()

        async def outer() -> None:
            with suppress(asyncio.CancelledError, CodeletError):
                await asyncio.create_task(main())

        self.loop.run_until_complete(outer())

    def see(self, event: events.Event) -> None:
        self.look_at_requests()  # those that left before this event
        if isinstance(event, events.Compaction):
            self.reported |= event.phase in REWRITES
            self.stopped |= event.phase == "stopped"
        if isinstance(event, events.Reminder):
            self.reported |= event.name in Zones().head

    def look_at_requests(self) -> None:
        """Each request continues the one before, unless a rewrite was reported; and it fits, or that was said."""
        for number in range(max(1, self.checked), len(self.provider.sent)):
            before, now = self.provider.sent[number - 1], self.provider.sent[number]
            if not self.reported:
                assert now.stable[: len(before.stable)] == before.stable
                assert now.tools == before.tools
            self.reported = False
            if self.session.compactor.options.automatic and not self.stopped:
                assert now.size <= self.session.window.budget.hard
        self.checked = len(self.provider.sent)

    @initialize(model=st.sampled_from(list(MODELS)))
    def begin(self, model: str) -> None:
        self.switch(model)

    @rule(words=st.integers(1, 400), steps=STEPS, cancel_at=CANCEL)
    def prompt(self, words: int, steps, cancel_at: int | None) -> None:
        self.provider.answers.clear()
        self.provider.answers.extend(Answer("step", calls) for calls in steps)
        self.stopped = False
        self.consume(self.session.send(text(1 + words // 10, "asked")), cancel_at)
        self.look_at_requests()

    @rule(cancel_at=CANCEL)
    def resume(self, cancel_at: int | None) -> None:
        self.reported = True  # text that was cut off is removed
        self.consume(self.session.resume(), cancel_at)
        self.look_at_requests()

    @rule(wish=st.sampled_from(["", "keep the ports", text(50, "wish")]), cancel_at=st.sampled_from([None, None, 1]))
    def compact(self, wish: str, cancel_at: int | None) -> None:
        before = list(self.session.messages)
        self.consume(self.session.compact(wish), cancel_at)
        if cancel_at:
            assert self.session.messages == before

    @rule(steps=STEPS)
    def overflow(self, steps) -> None:
        self.provider.window = max(2_500, self.session.size * 9 // 10)
        self.prompt(20, steps, None)
        self.provider.window = 10**9

    @rule()
    def look_at_much(self) -> None:
        """Turns with several results each, enough of them to be worth a reduction some turns later."""
        for _ in range(4):
            self.prompt(1, [[("look", {"lines": 60})] * 5], None)

    @rule()
    def uncompact(self) -> None:
        with suppress(UsageError):  # a summary was pinned since
            self.reported |= self.session.compactor.undo() is not None

    @rule()
    def rewind(self) -> None:
        self.reported |= self.session.rewind(unpin=True) is not None

    @rule(model=st.sampled_from(list(MODELS)))
    def switch(self, model: str) -> None:
        other = ScriptedProvider(model=model, answers=self.provider.answers, sent=self.provider.sent)
        self.session.models.switch(other)
        self.provider = other
        assert self.session.window.budget.window == MODELS[model]

    @precondition(lambda self: self.session.conversation.sent())
    @rule(place=st.integers(0, 1_000), what=st.sampled_from(["pin", "pin", "unpin", "drop"]))
    def hold(self, place: int, what: str) -> None:
        number = place % len(self.session.conversation.sent())
        with suppress(UsageError):
            getattr(self.session.compactor, what)(number)
            self.reported |= what == "drop"
            if what == "pin":
                assert self.session.compactor.is_pinned(self.session.messages[number])

    @rule(kind=KINDS)
    def remind(self, kind: str) -> None:
        self.session.reminders.off ^= {kind}

    @invariant()
    def the_list_is_valid(self) -> None:
        assert unpaired(self.session.messages) == []

    @invariant()
    def each_reminder_stands_once_and_in_its_zone(self) -> None:
        kinds = [reminder_type(message) for message in self.session.conversation.sent()]
        named = [kind for kind in kinds if kind is not None]
        head = [kind for kind in named if kind in Zones().head]
        tail = [kind for kind in named if kind in Zones().tail]
        assert head == [kind for kind in Zones().head if kind in head]
        assert tail == [kind for kind in Zones().tail if kind in tail]
        assert kinds[: len(head)] == head
        assert kinds[len(kinds) - len(tail) :] == tail

    @invariant()
    def the_archive_is_within_its_cap(self) -> None:
        archive = self.session.compactor.archive
        assert archive.bytes <= archive.cap

    @invariant()
    def no_task_is_left(self) -> None:
        assert asyncio.all_tasks(self.loop) == set()

    @invariant()
    def the_window_counts_what_it_would_count_anew(self) -> None:
        window = self.session.window
        if window.measurement()[1] is None:
            sent = self.session.conversation.sent()
            sizes = sum(map(window.estimate, sent))
            assert abs(self.session.size - window.fixed_size - sizes) <= 2 + len(sent)


Machine.TestCase.settings = settings(
    max_examples=amount(12, 500), stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestMachine = Machine.TestCase
