"""What the graph of files is worth to `@` completion.

Use: python -m scripts.bench.relations --data DIR

Real sessions are cut at the user's prompts. The files that the agent then reads or changes first are looked for among
all paths that the session ever names, with the prompt before the @ and nothing, one or three letters of the name behind
it: the share that is among the first five, and the mean of 1/place. `by touch alone` counts what was read and changed.
"""

from __future__ import annotations

import argparse
import posixpath
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from codelet.context.compaction.reading import call_of
from codelet.context.relations.session_files import SessionFiles
from codelet.frontends.terminal.completion import best_matches
from codelet.messages import calls_of, text_of
from scripts.bench.context import readers, recall

_PATH = re.compile(r"[\w@.~-]*(?:/[\w@.~-]+)+\.\w{1,4}\b")
FIRST = 3
Message = dict[str, Any]


def paths_in(messages: Sequence[Message]) -> list[str]:
    """Every path of a file that a session names."""
    found = {path: None for message in messages for path in _PATH.findall(recall.spoken(message))}
    return list(found)[:20_000]


def next_files(messages: Sequence[Message]) -> list[str]:
    """The files that are read or changed first, up to the next prompt."""
    found: dict[str, None] = {}
    for message in messages:
        if message["role"] == "user":
            break
        for call in calls_of(message):
            path = call_of(call).path
            if "/" in path:
                found[path] = None
    return list(found)[:FIRST]


def completion(messages: Sequence[Message]) -> dict[str, list[float]]:
    """The places of the files, without and with the graph, by what is typed."""
    known, session, rows = paths_in(messages), SessionFiles(), {}
    for index, message in enumerate(messages):
        if message["role"] != "user" or not index:
            continue
        relations = session.of(messages[:index], prompt=text_of(message))
        bearings = {path: relations.bearing(path) for path in known}
        points = {path: found.total for path, found in bearings.items()}
        recent = {path: found.recent + found.changed for path, found in bearings.items()}
        for path in next_files(messages[index + 1 :]):
            for letters in (0, 1, 3):
                typed = posixpath.basename(path)[:letters]
                for name, order in (("without", dict[str, int]()), ("by touch alone", recent), ("with", points)):
                    found = best_matches(known, typed, lambda path, order=order: order.get(path, 0))
                    place = found.index(path) + 1 if path in found else 0
                    rows.setdefault(f"{letters} letters, {name}", []).append(1 / place if place else 0.0)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="a folder of transcripts, or a file")
    for transcript in readers.read_all(parser.parse_args().data):
        for name, found in completion(transcript.messages).items():
            five = mean(value >= 1 / 5 for value in found)
            print(f"{transcript.name}: @ {name}: first five {five:.3f}, 1/place {mean(found):.3f} ({len(found)} files)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
