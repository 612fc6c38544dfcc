"""A plan is read from whatever form a model gives it, and is the same plan when it is written down again."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codelet.events import PlannedStep
from codelet.extensions.plans import (
    LONGEST,
    MOST_STEPS,
    Checklist,
    as_exported,
    checklist_in,
    imported,
)

WRITTEN = """\
## Goal: ship the parser
soon

1. [x] read the tests: 12 of them
- [>] write: the parser
  it compiles
* [ ] run `[x]` tests: all
[!] publish: no rights
5. tell people
"""


def test_a_plan_is_read_from_the_forms_that_models_use() -> None:
    plan = checklist_in(WRITTEN, None)
    assert plan is not None
    assert plan.goal == "ship the parser soon"
    assert [(step.status, step.description, step.result) for step in plan.steps] == [
        ("completed", "read the tests", "12 of them"),
        ("in progress", "write: the parser", "it compiles"),
        ("pending", "run `[x]` tests: all", ""),
        ("failed", "publish", "no rights"),
        ("pending", "tell people", ""),
    ]
    assert (plan.done, plan.failed, plan.current) == (1, 4, 1)


def test_a_result_is_cut_off_where_the_step_of_the_plan_before_ends() -> None:
    before = checklist_in("[ ] fix: the crash\n[ ] deploy", None)
    after = checklist_in("[x] fix: the crash: in parser.py\n[!] deploy", before)
    assert after is not None
    assert after.steps[0] == PlannedStep("fix: the crash", "completed", "in parser.py")
    assert after.goal == ""
    assert before is not None
    kept = checklist_in("[x] a", before.replace(goal="the goal"))
    assert kept is not None and kept.goal == "the goal"


@pytest.mark.parametrize("text", ["", "just words", "Goal: x\n", "[ ]", "# a\n\nb"])
def test_a_text_without_steps_is_no_plan(text: str) -> None:
    assert checklist_in(text, None) is None


# Both bounds are of the clock, and a busy machine passes them.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
words = st.text(alphabet="ab :`[]x→é", min_size=1, max_size=20).map(lambda text: " ".join(text.split())).filter(bool)
steps = st.builds(
    PlannedStep,
    words,
    st.sampled_from(["pending", "in progress", "completed", "failed"]),
    words | st.just(""),
)
plans = st.builds(Checklist, words | st.just(""), st.lists(steps, min_size=1, max_size=30).map(tuple))


@patient
@given(plans)
def test_the_export_gives_back_the_same_plan(plan: Checklist) -> None:
    exported = as_exported(plan)
    assert imported(exported) == plan
    assert as_exported(imported(exported)) == exported
    assert [step["id"] for step in exported["steps"]] == list(range(1, len(plan.steps) + 1))


@patient
@given(plans)
def test_what_the_model_reads_it_can_give_back(plan: Checklist) -> None:
    plan = plan.replace(goal=" ".join(re.sub(r"[][]", "", plan.goal).split()).strip(" :") or "the goal")
    again = checklist_in(plan.text(), plan)
    assert again is not None
    assert again.text() == plan.text()


@patient
@given(st.text(max_size=2000))
def test_no_text_breaks_it_and_every_plan_is_bounded(text: str) -> None:
    plan = checklist_in(text, None)
    for step in plan.steps if plan is not None else ():
        assert step.description and len(step.description) <= LONGEST and len(step.result) <= LONGEST


def test_a_long_plan_is_shown_around_the_step_in_hand() -> None:
    plan = Checklist("goal", tuple(PlannedStep(f"step {n}", "completed" if n < 20 else "pending") for n in range(40)))
    rows = plan.brief().split("\n")
    assert rows[:2] == ["goal", "… 14 above"] and rows[-1] == "… 14 more"
    assert any("step 20" in row for row in rows) and len(rows) == 15
    assert plan.replace(steps=plan.steps[:12]).brief() == plan.replace(steps=plan.steps[:12]).text()


def test_too_many_steps_of_an_export_are_left_out_and_that_is_said() -> None:
    step = {"id": 1, "description": "a", "status": "Pending", "result": None}
    plan = imported({"goal": "g", "steps": [step] * (MOST_STEPS + 7), "current_step": 0, "status": "Pending"})
    assert len(plan.steps) == MOST_STEPS
    assert "7 more" in plan.steps[-1].description
