"""The five documents that the product was asked for: each system, the tests named after it, and what is otherwise.

`ROWS` is the table of the design's section 10. A test that is renamed or removed has to be so here, too.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from codelet import events
from codelet.loop.session import Session
from codelet.messages import reminder_type
from codelet.record import Record
from codelet.safety import Policy
from tests.context.scripted import Answer, ScriptedProvider, turn
from tests.support.program import ROOT


class SeedRow(Record):
    """A system of a seed: `named` is what its first test is named after, `differs` what is otherwise here, and why."""

    seed: str
    system: str
    named: str
    tests: tuple[str, ...]
    differs: str


ROWS = (
    SeedRow(
        "004 codelet",
        "message list, REPL loop, tool loop in the stream, reminders, context injection, token state, anchors, ESC and "
        "continue",
        "message_list",
        (
            "test_seeds.py::test_message_list_tool_loop_reminders_and_token_state",
            "loop/test_session.py::test_each_reminder_stands_once_over_many_turns",
            "e2e/test_reminders.py::test_prepended_reminders_stand_in_the_seeds_order",
            "context/compaction/test_observed.py::test_anchors_come_from_what_was_seen_in_any_language",
            "context/tokens/test_budget.py::test_the_reserve_the_limits_and_the_triggers_of_a_large_window",
            "e2e/test_cancel.py::test_continue_takes_the_turn_up_again",
        ),
        "Reminders that change stand last and not first, as a cache of the prefix would not outlast a turn otherwise "
        "(--reminders prepend is the seed's order). After ESC the list is kept and told what was done; the seed's copy "
        "of before the turn would lose it (/redo is that).",
    ),
    SeedRow(
        "000 Hypr-Claw",
        "ContextManager: atomic save, load, list, delete; per-session lock",
        "context_manager",
        (
            "export/test_stores.py::test_context_manager_loads_what_is_saved",
            "export/test_stores.py::test_context_manager_lists_and_deletes",
            "export/test_stores.py::test_a_lock_keeps_others_off_and_says_who_holds_it",
            "export/test_files.py::test_a_kill_during_a_save_leaves_a_whole_state",
            "e2e/test_persistent_agent.py::test_the_request_flow_in_nine_steps",
        ),
        "Only with --export: a session leaves nothing behind that nobody asked for.",
    ),
    SeedRow(
        "000",
        "ContextData: facts, recent history, long-term summary, tasks, tool statistics, environment, usage",
        "context_data",
        (
            "extensions/memory/test_facts.py::test_context_data_facts_survive_five_compactions_an_export_and_another_"
            "model",
            "extensions/test_statistics.py::test_tool_statistics_tell_the_model_of_a_tool_that_fails_again_and_again",
            "export/test_document.py::test_the_context_of_an_older_persistent_agent_is_migrated",
            "e2e/test_persistent_agent.py::test_a_migrated_context_is_in_force",
            "e2e/test_what_survives.py::test_facts_survive",
        ),
        "The message list is kept whole beside the history of texts, so that calls and results are still paired. No "
        "credentials are kept.",
    ),
    SeedRow(
        "000",
        "compactor: history and token triggers, deduplicated facts, task pruning after 24 h",
        "compactor",
        (
            "e2e/test_export_loop.py::test_compactor_triggers_on_a_history_over_100_000_tokens",
            "e2e/test_export_loop.py::test_the_request_flow_over_a_restart",
            "extensions/memory/test_facts.py::test_deduplicated_facts_stand_once_and_of_one_key_the_newest",
        ),
        "The triggers are the budget's, and the number of entries only with --compact-entries: what fits needs no "
        "summary. Of one key the newest fact holds, where the seed drops equal texts only.",
    ),
    SeedRow(
        "000",
        "plans kept with the context; revised when steps fail",
        "plans",
        (
            "extensions/plans/test_plans.py::test_plans_kept_with_the_context_revised_when_steps_fail",
            "e2e/test_what_survives.py::test_the_plan_survives",
        ),
        "The model writes the plan with a tool and carries it out itself; no engine walks through the steps, as it may "
        "be wrong at any of them.",
    ),
    SeedRow(
        "000",
        "souls: prompt, tools, autonomy, iterations, risk, verbosity; switch in a session",
        "souls",
        (
            "extensions/profiles/test_narrowing.py::test_souls_as_the_seed_writes_them",
            "extensions/profiles/test_narrowing.py::test_souls_are_switched_in_a_session_without_losing_the_list",
            "e2e/test_what_survives.py::test_the_profile_survives",
        ),
        "They are called profiles and only take away: a file may come with a repository. autonomy_mode auto asks no "
        "less than the user's mode does.",
    ),
    SeedRow(
        "000",
        "background tasks: spawn, progress, cancel, state kept",
        "background_tasks",
        (
            "extensions/tasks/test_tasks.py::test_background_tasks_spawn_progress_cancel_state_kept",
            "e2e/test_background.py::test_random_starts_stops_interrupts_and_ends_leave_no_process_and_no_port",
            "e2e/test_what_survives.py::test_tasks_survive",
        ),
        "A task ends with its session, also a killed one; after a restart it is named as interrupted and runs again "
        "only when it was judged anew. Progress is time and lines: no command tells a share of 1.",
    ),
    SeedRow(
        "000",
        "approval flow: prompt, history, time-out 30 s",
        "approval_flow",
        (
            "safety/test_approvals.py::test_approval_flow_takes_no_answer_in_time_for_a_no",
            "safety/test_approvals.py::test_what_was_decided_is_remembered",
            "extensions/test_statistics.py::test_metrics_and_approval_history_are_shown_and_exported",
        ),
        "There is no time-out unless --ask-timeout names one: who reads a diff for a minute has not said no.",
    ),
    SeedRow(
        "000",
        "distributed session store with conflict resolution",
        "distributed_session_store",
        (
            "export/test_redis.py::test_distributed_session_store_hands_a_session_over_in_mid_work",
            "export/test_stores.py::test_a_save_over_an_unknown_state_is_a_conflict_and_changes_nothing",
            "export/test_redis.py::test_somebody_elses_work_after_a_restart_is_not_overwritten",
        ),
        "Two histories are not merged: the second writer is refused, and its work is kept beside the other.",
    ),
    SeedRow(
        "000",
        "long-term memory with search",
        "long_term_memory",
        (
            "extensions/memory/test_session_search.py::test_long_term_memory_with_search_cites_session_and_turn",
            "extensions/memory/test_fact_file.py::test_sessions_share_it",
        ),
        "Only where --memory or --facts opens it. What is found is cited; nothing of it is told as the user's word.",
    ),
    SeedRow(
        "000, 003",
        "environment snapshot: processes, memory, disk, battery, uptime",
        "environment_snapshot",
        (
            "extensions/test_machine_status.py::test_environment_snapshot_is_told_only_with_the_option_in_one_line",
            "extensions/test_machine_status.py::test_environment_snapshot_is_shown_whole_by_env",
        ),
        "The model is told one line, with --environment full only: 20 processes before each request would cost the "
        "provider's cache and help no coding. /env and the export have all of it.",
    ),
    SeedRow(
        "003",
        "permission tiers, blocked patterns, sandboxed files, whitelist",
        "permission_tiers",
        (
            "safety/test_rules.py::test_permission_tiers",
            "safety/test_rules.py::test_blocked_patterns_never_run_whoever_says_yes",
            "safety/test_rules.py::test_a_compound_command_needs_every_part",
            "safety/test_paths.py::test_links",
            "safety/test_escapes.py::test_no_way_leads_out",
        ),
        "rm -rf and dd are asked about, and refused where they reach beyond the workspace: deleting a build folder is "
        "work. A command is read as a shell reads it, no pattern is searched in its text.",
    ),
    SeedRow(
        "003",
        "audit trail, hash-chained",
        "audit_trail",
        (
            "safety/audit/test_log.py::test_audit_trail_is_broken_by_a_change_with_its_own_hash_made_anew",
            "safety/test_audit.py::test_every_verdict_answer_call_and_change_is_in_it",
        ),
        "Only with --audit, as it is a file.",
    ),
    SeedRow(
        "003",
        "circuit breaker, metrics (latency, duration, compactions, denials), structured logs",
        "circuit_breaker",
        (
            "providers/choice/test_breaker.py::test_circuit_breaker_opens_after_three_failures_in_a_row",
            "extensions/test_statistics.py::test_metrics_and_approval_history_are_shown_and_exported",
            "e2e/test_event_log.py::test_the_log_tells_requests_tools_retries_and_refusals_without_keys",
        ),
        "Nothing differs but that the log is written with --log only.",
    ),
    SeedRow(
        "003",
        "interface abstraction",
        "interface_abstraction",
        (
            "safety/test_unseen_tool.py::test_interface_abstraction_one_title_is_what_every_front_end_prints",
            "e2e/test_one_shot.py::test_stream_json_is_one_event_a_line",
            "api/test_open_session.py::test_what_an_export_left_open_is_continued",
        ),
        "A front end reads one stream of events and answers one question callable, in place of a trait with four "
        "methods: what it does not show it leaves out.",
    ),
    SeedRow(
        "001 codeNERD",
        "budget categories with hard enforcement; rolling segments; capped activation scores; back-references; "
        "feedback",
        "budget_categories",
        (
            "context/tokens/test_budget.py::test_budget_categories_take_no_more_than_their_share",
            "context/test_compactor.py::test_a_compaction_keeps_the_shares_of_history_and_kept_context",
            "context/compaction/test_observed.py::test_what_an_earlier_compaction_told_is_told_again_until_something_newer_is_known",
            "context/compaction/test_predictions.py::test_p4_no_signal_wins_alone_however_loud",
            "context/compaction/test_observed.py::test_names_of_the_prompt_point_back_to_the_turn_that_had_them_first",
            "context/compaction/test_predictions.py::test_p6_feedback_cannot_push_out_errors_anchors_or_constraints",
        ),
        "Turns are scored, not logical facts: there is no kernel of predicates. A share is kept by each compaction; "
        "between two of them only the whole budget is.",
    ),
    SeedRow(
        "001",
        "memory tiers: RAM, vector, graph, cold",
        "memory_tiers",
        (
            "context/test_compactor.py::test_memory_tiers_the_model_recalls_what_was_taken_out",
            "extensions/memory/test_fact_file.py::test_sessions_share_it",
            "export/test_sessions.py::test_search_finds_words_in_messages_facts_and_summaries",
        ),
        "In RAM are the list and the archive; what outlives the session is in the files that an option names.",
    ),
    SeedRow(
        "001",
        "failure predictions P1–P9",
        "p1",
        (
            "context/compaction/test_predictions.py::test_p1_a_text_of_100_megabytes_is_reduced_before_it_enters",
            "export/test_document.py::test_p2_a_corrupted_compressed_state_does_not_crash_the_load",
            "context/compaction/test_predictions.py::test_p3_nothing_grows_over_thousands_of_turns",
            "context/compaction/test_predictions.py::test_p4_no_signal_wins_alone_however_loud",
            "context/compaction/test_predictions.py::test_p5_a_summariser_that_fails_or_lies_changes_nothing_and_the_"
            "circuit_opens",
            "context/compaction/test_predictions.py::test_p6_feedback_cannot_push_out_errors_anchors_or_constraints",
            "context/compaction/test_predictions.py::test_p8_the_archive_stays_within_its_cap_and_says_what_it_lost",
            "context/compaction/test_predictions.py::test_p9_budgets_are_positive_integers_of_sensible_size",
        ),
        "They are predictions of failures, and none of them comes true here.",
    ),
    SeedRow(
        "002 OpenStarry",
        "immediate, short-term, long-term; sliding window; pair integrity; summary injection; observation reduction; "
        "snapshot 1.0",
        "snapshot_1_0",
        (
            "export/test_document.py::test_snapshot_1_0_of_the_four_required_fields_is_read",
            "e2e/test_export.py::test_snapshots_stand_in_their_folder",
            "context/compaction/test_text.py::test_results_that_the_model_has_not_seen_stay_whole_while_there_is_room",
            "context/compaction/test_compact.py::test_pinned_turns_stay_verbatim_a_call_with_its_results",
            "context/compaction/test_properties.py::test_the_last_two_turns_stay_unless_tier_three_is_reported",
            "e2e/test_incomplete.py::test_a_large_tool_result_can_be_read_on_and_is_no_cut_of_the_input",
        ),
        "A summary stands in a user's message: a system message in the middle is refused by several providers. What "
        "leaves the window is summarised by what it says, not by its age alone.",
    ),
    SeedRow(
        "003, 000",
        "left out, and why",
        "left_out",
        ("test_seeds.py::test_left_out_are_stored_credentials",),
        "An own sandbox folder and no shell at all: a coding tool works in the repository, where policy, containment "
        "and sandbox replace it. Stored credentials: keys come from the environment only. Widget and Telegram: the "
        "event stream is the seam for them.",
    ),
)


@cache
def _functions(file: str) -> frozenset[str]:
    """The tests of a file."""
    tree = ast.parse((ROOT / "tests" / file).read_bytes())
    return frozenset(each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.named)
def test_each_system_has_a_test_named_after_it(row: SeedRow) -> None:
    assert row.differs
    for test in row.tests:
        file, _, name = test.partition("::")
        assert name in _functions(file), f"there is no {test}"
    assert row.tests[0].partition("::")[2].startswith(f"test_{row.named}")


def test_every_prediction_has_its_test() -> None:
    names = {name for file in _TESTED for name in _functions(file)}
    found = {number for name in names for number in re.findall(r"(?<=_)p([1-9])(?=_)", name)}
    assert found == set("123456789")


_TESTED = (
    "context/compaction/test_predictions.py",
    "context/test_predictions.py",
    "export/test_document.py",
)


def test_the_rows_are_those_of_the_design(shared: Path) -> None:
    design = shared / "DESIGN.md"
    if not design.exists():
        pytest.skip("needs the design")
    section = design.read_text().partition("\n## 10. ")[2].partition("\n## ")[0]
    told = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if "|" in line][2:]
    assert [(row.seed, row.system) for row in ROWS] == [(seed, system) for seed, system, _ in told]


async def test_message_list_tool_loop_reminders_and_token_state(tmp_path: Path) -> None:
    """The flow that seed 004 shows: two prompts, a call between them, one list that only grows, reminders once each."""
    provider = ScriptedProvider()
    session = Session(provider, workspace=tmp_path, policy=Policy(tmp_path, yes=True))
    try:
        call = ("write", {"path": "test.txt", "content": "made\n"})
        provider.answers.extend([Answer("I will.", [call]), Answer("Created."), Answer("Added.")])
        seen = await turn(session, "Create a test file")
        assert (tmp_path / "test.txt").read_text() == "made\n"
        await turn(session, "Add content to the file")
        said = [message for message in session.messages if reminder_type(message) is None]
        assert [message["role"] for message in said] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
        assert len([event for event in seen if isinstance(event, events.ToolResult)]) == 1
        first, second, third = provider.sent
        assert second.stable[: len(first.stable)] == first.stable, "what was sent is never changed"
        assert third.stable[: len(second.stable)] == second.stable
        for sent in provider.sent:
            types = [kind for message in (*sent.stable, *sent.tail) if (kind := reminder_type(message))]
            assert sorted(types) == sorted(set(types)) and {"environment", "tokenStatus"} <= set(types)
        assert session.usage is not None and session.usage.total_input == sum(sent.size for sent in provider.sent)
    finally:
        await session.close()


def test_left_out_are_stored_credentials() -> None:
    """What an older context holds of them is not taken over."""
    from codelet.export.decode import from_json
    from codelet.export.encode import to_json

    held = b'{"session_id": "a", "recent_history": [], "oauth_tokens": {"access_token": "s3cret-word"}}'
    assert b"s3cret-word" not in to_json(from_json(held), mask=None)
