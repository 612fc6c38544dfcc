"""What was run in a conversation and what that did, found once for every part that asks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from codelet.compaction.attempts import Attempt, Endings, attempts, command_endings
from codelet.compaction.files import Effect, effects
from codelet.compaction.reading import Reading


class History:
    """Of a list that was read: its commands, how they ended, and what they did to files."""

    def __init__(self, readings: Sequence[Reading]) -> None:
        self._readings = readings

    @cached_property
    def ended(self) -> Endings:
        """For each result of a command, by index, the commands in it and how each ended."""
        return command_endings(self._readings)

    @cached_property
    def attempts(self) -> list[Attempt]:
        """Its commands and calls in order."""
        return attempts(self._readings, self.ended)

    @cached_property
    def effects(self) -> dict[int, list[Effect]]:
        """For each result of a command, by index, what it did to files; nothing for those that did nothing."""
        found = ((index, effects(ended, self._readings[index].text)) for index, ended in self.ended.items())
        return {index: done for index, done in found if done}
