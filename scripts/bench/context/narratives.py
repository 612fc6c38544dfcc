"""Questions answered with and without a narrative at the head of the note.

The narratives come from a folder, a file for each session, as a model answered `narrative.INSTRUCTION` or as somebody
wrote them from the session: none is kept here, as they tell what stands in transcripts. Each is checked like a model's
before it is used, so that what the check strikes is measured as well. Without a folder each session gets a narrative
that takes up its room and says nothing: what the room costs. A real one may still cost other lines, those of its names.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

from codelet.context.compaction import IrreducibleContext, compact
from codelet.context.narrative import NarrativeCheck, narrative_room
from context import handover
from context.baselines import Message, size
from context.readers import Transcript
from context.recall import spoken


def file_of(folder: Path, session: str) -> Path:
    """The file of a session's narrative: its name with underscores for strokes and dots."""
    return folder / (session.replace("/", "_").replace(".", "_") + ".txt")


def saying_nothing(room: int) -> str:
    """Fifty lines that take all the room of a narrative, which is in tokens, and answer no question."""
    said = "the work went on as it was asked for, and nothing more is to be said of it; "
    length = 4 * room // 50 - len("State: ab ") - 1
    letters = (f"{one}{other}" for one, other in product("abcde", "abcdefghij"))
    return "\n".join(f"State: {pair} {(said * 4)[:length]}" for pair in letters)


def measure(transcripts: Sequence[Transcript], folder: Path | None, shares: Sequence[float]) -> list[dict[str, Any]]:
    """One row per session and share that has a narrative and questions, and one over all of them for each share."""
    asked = handover.questions()
    rows: list[dict[str, Any]] = []
    for share in shares:
        own: list[dict[str, Any]] = []
        for transcript in transcripts:
            text = _narrative_of(transcript, folder, share)
            if text and transcript.name in asked:
                own.append(_row(transcript, text, asked[transcript.name], share))
        names = ("asked", "without", "with", "lines", "struck")
        total = {name: sum(row[name] for row in own) for name in names}
        rows += [*own, {"session": "all of these", "share": share, **total}]
    return rows


def _narrative_of(transcript: Transcript, folder: Path | None, share: float) -> str:
    if folder is None:
        return saying_nothing(narrative_room(int(size(transcript.messages) * share)))
    path = file_of(folder, transcript.name)
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _row(transcript: Transcript, text: str, asked: Sequence[handover.Question], share: float) -> dict[str, Any]:
    target = int(size(transcript.messages) * share)
    check = NarrativeCheck(list(map(spoken, transcript.messages)), narrative_room(target))
    lines = check.accepted(text)

    def right(narrative: Sequence[str]) -> int:
        try:
            made: list[Message] = compact(list(transcript.messages), target, narrative=narrative).messages
        except IrreducibleContext:
            return 0
        return len(handover.answered(asked, made))

    return {
        "session": transcript.name,
        "share": share,
        "asked": len(asked),
        "without": right(()),
        "with": right(lines),
        "lines": len(lines),
        "struck": len(check.struck),
    }
