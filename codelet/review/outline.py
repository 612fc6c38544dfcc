"""The outline of a change: what happens to each of its files, the same for every request of a review.

A reviewer of one part has to know what else changes: a removed or renamed file breaks code in another part.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from codelet.review.diff import FileDiff, text_of_bytes
from codelet.review.left_out import why_left_out
from codelet.system.text import with_codes

MOST_TOKENS = 1_500
_CHARACTERS_PER_TOKEN = 3
_MOST_FOLDERS = 20


def outline_of(files: Sequence[FileDiff]) -> str:
    """One row for each file, at most so many tokens: removed, renamed and special files first, the rest as a sum."""
    rows = sorted(((_rank(file), _row(file), file) for file in files), key=lambda row: row[0])
    room = MOST_TOKENS * _CHARACTERS_PER_TOKEN - _MOST_FOLDERS * 40 * (len(files) > 60)
    shown: list[str] = []
    for number, (_, row, _) in enumerate(rows):
        room -= len(row) + 1
        if room < 0:
            return "\n".join([*shown, _rest([file for _, _, file in rows[number:]])])
        shown.append(row)
    return "\n".join(shown)


def _rank(file: FileDiff) -> int:
    """What other files may depend on comes first."""
    if file.state in ("removed", "renamed") or file.submodule or file.modes is not None:
        return 0
    return 2 if why_left_out(file) is not None else 1


def _row(file: FileDiff) -> str:
    added, removed = sum(hunk.added for hunk in file.hunks), sum(hunk.removed for hunk in file.hunks)
    facts = []
    if file.state != "changed":
        facts.append(file.state if file.old_path is None else f"{file.state} from {_name(file.old_path)}")
    if file.modes is not None:
        facts.append(f"mode {file.modes[0]} to {file.modes[1]}")
    if file.submodule:
        ids = [row.split(" ")[-1][:12] for hunk in file.hunks for row in text_of_bytes(hunk.body).split("\n")]
        facts.append(f"submodule {'..'.join(ids)}")
    elif (why := why_left_out(file)) is not None and file.state != "removed" and file.modes is None:
        facts.append(f"not shown: {why}")
    return f"{_name(file.path)} (+{added} -{removed}{''.join(f', {fact}' for fact in facts)})"


def _rest(files: Sequence[FileDiff]) -> str:
    folders = Counter(file.path.rpartition("/")[0] or "." for file in files)
    parts = [f"{_name(folder)[:60]} ({number})" for folder, number in folders.most_common(_MOST_FOLDERS)]
    more = ", and other folders" if len(folders) > _MOST_FOLDERS else ""
    return f"and {len(files):,} more files, in {', '.join(parts)}{more}"


def _name(path: str) -> str:
    """A file's name on one row, as a JSON text."""
    return json.dumps(with_codes(path), ensure_ascii=False)
