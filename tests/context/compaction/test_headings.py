"""Headings: what stands above is left out of them, and whoever reads a segment back gets it whole."""

from __future__ import annotations

import pytest

from codelet.context.compaction import compact
from codelet.context.compaction.segments import ParsedSegment, SegmentEntry, WrittenOut, parse_segment, render
from codelet.context.tokens import estimate_message

PATH = "/home/somebody/projects/shop/src/cart.py"
OTHER = "/home/somebody/projects/shop/tests/cart.py"
FOLDER = "/home/somebody/projects/shop"


def shortened(labels: list[str]) -> list[str]:
    written = WrittenOut()
    return [written.short(label) for label in labels]


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        ([f"read {PATH}", f"edit {PATH}"], [f"read {PATH}", "edit …/cart.py"]),
        ([f"read {PATH}", f"read {OTHER}", f"edit {PATH}"], [f"read {PATH}", f"read {OTHER}", f"edit {PATH}"]),
        (["read src/cart.py", "edit src/cart.py"], ["read src/cart.py", "edit src/cart.py"]),
        (
            [f"bash cd {FOLDER} && make", f"bash cd {FOLDER} && make test", f"bash cd {FOLDER}; ls"],
            [f"bash cd {FOLDER} && make", "bash cd … && make test", "bash cd …; ls"],
        ),
        (
            [f"bash cd {FOLDER} && make", f"bash cd {FOLDER}/docs && make", f"bash cd {FOLDER} && ls"],
            [f"bash cd {FOLDER} && make", f"bash cd {FOLDER}/docs && make", f"bash cd {FOLDER} && ls"],
        ),
        (["bash cd src && make", "bash cd src && make"], ["bash cd src && make", "bash cd src && make"]),
        (
            ["read generated_documentation/chapter.md", "edit generated_documentation/chapter.md"],
            ["read generated_documentation/chapter.md", "edit generated_documentation/chapter.md"],
        ),
        (["bash", f"bash cat {PATH} | head"], ["bash", f"bash cat {PATH} | head"]),
    ],
    ids=[
        "a path",
        "two files of one name",
        "a short path",
        "a folder",
        "two folders",
        "a short folder",
        "one folder",
        "no path",
    ],
)
def test_a_path_and_a_folder_are_written_out_once(labels: list[str], shown: list[str]):
    assert shortened(labels) == shown
    written = WrittenOut()
    assert [written.whole(label) for label in shown] == labels


def test_a_segment_read_back_has_the_whole_paths():
    labels = [f"read {PATH}", f"bash cd {FOLDER} && make", "", f"edit {PATH}", f"bash cd {FOLDER} && ls"]
    entries = [SegmentEntry(1, label, [f"line {place}"], place) for place, label in enumerate(labels)]
    text = render(ParsedSegment(1, 1, [], entries), note=False)
    assert (text.count(PATH), text.count(FOLDER)) == (1, 2)
    assert [entry.label for entry in parse_segment(text).entries] == labels


def test_what_nothing_above_explains_stays_as_it_is():
    text = '<compacted turns="1-1">\n[t1 edit …/cart.py]\nx = 1\n[t1 bash cd … && ls]\nsrc'
    assert [entry.label for entry in parse_segment(text).entries] == ["edit …/cart.py", "bash cd … && ls"]
    assert render(parse_segment(text), note=False) == text


@pytest.mark.parametrize(("separator", "whole"), [("-", False), (" ", True)], ids=["a list of names", "sentences"])
def test_a_last_prompt_that_is_a_printed_list_takes_less_of_the_room(separator: str, whole: bool):
    listed = "\n".join(separator.join(["look", "at", "the", "file", f"number{n}"]) for n in range(160))
    earlier = [{"role": "user" if n % 2 == 0 else "assistant", "content": f"part {n} of it. " * 60} for n in range(60)]
    made = compact([*earlier, {"role": "user", "content": listed}], 2_400).messages
    [last] = [message for message in made if message["content"].startswith(f"look{separator}at")]
    assert (last["content"] == listed) == whole
    assert whole or estimate_message(last) <= 2_400 * 20 // 100


@pytest.mark.parametrize(("folder", "left_out"), [("/srv/shop/a", False), ("/srv/shop/ab", True)])
def test_a_folder_of_twelve_characters_is_written_out_once(folder: str, left_out: bool):
    labels = [f"bash cd {folder} && make", f"bash cd {folder} && ls"]
    assert shortened(labels) == [labels[0], "bash cd … && ls" if left_out else labels[1]]
