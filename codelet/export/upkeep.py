"""The upkeep of a session that lives for days, as pure functions: what facts and tasks to keep."""

from __future__ import annotations

from collections.abc import Iterable

from codelet.export.snapshot import Snapshot, TaskState

TASK_SECONDS = 24 * 3600.0


def unique_facts(facts: Iterable[str]) -> tuple[str, ...]:
    """Each fact once, in the order in which they came; blanks around and between words do not make two of one."""
    first: dict[str, str] = {}
    for fact in facts:
        words = " ".join(fact.split())
        if words:
            first.setdefault(words, words)
    return tuple(first)


def current_tasks(tasks: Iterable[TaskState], now: float) -> tuple[TaskState, ...]:
    """The tasks but those that were completed more than 24 hours before `now` (Unix seconds)."""
    return tuple(task for task in tasks if task["status"] != "Completed" or task["updated_at"] > now - TASK_SECONDS)


def kept_up(snapshot: Snapshot, now: float) -> Snapshot:
    """The snapshot with each fact once and without tasks that were completed long ago."""
    return snapshot.replace(facts=unique_facts(snapshot.facts), active_tasks=current_tasks(snapshot.active_tasks, now))
