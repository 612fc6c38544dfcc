"""Old content of files that calls changed: back byte for byte, and never over what somebody else did."""

from __future__ import annotations

import os
import random
import resource
import shutil
import stat
import threading
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.errors import ToolError
from codelet.extensions.base import Extension, Guard, GuardedCall
from codelet.extensions.file_history import ChangeLog, FileBack, KeptChange
from codelet.extensions.file_history.place_state import look
from codelet.extensions.services import file_history
from codelet.loop.session import Session
from codelet.safety.verdict import Touch
from codelet.tools.tool import Arguments, Progress, Tool, ToolContext, ToolOutput
from tests.context.scripted import Answer, ScriptedProvider, turn
from tests.extensions.conftest import Open
from tests.support.amount import amount

PLACES = ("a.txt", "b.bin", "dir/c.txt", "dir/deep/d.py", "new/e")
CONTENTS = (
    b"",
    b"one\ntwo\n",
    b"one\r\ntwo\r\n",
    b"\xef\xbb\xbfwith a mark\n",
    b"\x00\x01\xff" * 99,
    "ä €\n".encode() * 40,
)

Tree = dict[str, tuple[str, int, bytes]]


def tree(root: Path) -> Tree:
    """All files and links below the folder: kind, mode, bytes."""
    found: Tree = {}
    for folder, folders, files in os.walk(root):
        for name in (*(each for each in folders if (Path(folder) / each).is_symlink()), *files):
            path = Path(folder) / name
            mode = stat.S_IMODE(path.lstat().st_mode)
            key = str(path.relative_to(root))
            if path.is_symlink():
                found[key] = ("link", 0, os.fsencode(os.readlink(path)))
            else:
                found[key] = ("file", mode, path.read_bytes())
    return found


def make(path: Path, content: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


async def change(context: ToolContext, progress: Progress, *, path: str, does: str, **arguments: Any) -> ToolOutput:
    """A tool from outside that does to a file whatever can be done to one."""
    place = context.workspace / path
    match does:
        case "write":
            make(place, bytes.fromhex(arguments["content"]), arguments["mode"])
        case "remove":
            place.unlink(missing_ok=True)
        case "mode" if place.is_file() and not place.is_symlink():
            place.chmod(arguments["mode"])
        case "link":
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            place.symlink_to(arguments["to"])
        case "stop":
            place.write_bytes(b"half")
            raise ToolError("it went wrong half way")
    return ToolOutput("done")


class Changes(Extension):
    tools = (
        Tool(
            "change",
            "Change a file.",
            {"type": "object"},
            change,
            lambda arguments: [Touch("write", arguments["path"])],
        ),
    )


def a_change(chance: random.Random) -> tuple[str, Arguments]:
    path = chance.choice(PLACES)
    does = chance.choice(["write", "write", "write", "remove", "mode", "own", "own"])
    if does == "own":
        return "write", {"path": chance.choice(PLACES), "content": chance.choice(["", "x\n", "y\r\nz"])}
    made = {"content": chance.choice(CONTENTS).hex(), "mode": chance.choice([0o644, 0o755, 0o444, 0o600])}
    return "change", {"path": path, "does": does, **made}


def put_back_all(log: ChangeLog, turn_number: int) -> list[FileBack]:
    """Put back what nobody else had a hand in; gives the rest."""
    plan = log.plan(log.since(turn_number))
    for back in plan:
        if not back.foreign and not back.lost:
            log.put_back(back)
    return [back for back in plan if (back.foreign or back.lost) and not back.stands]


async def one_turn(session: Session, provider: ScriptedProvider, *calls: tuple[str, Arguments]) -> list[events.Event]:
    provider.answers = deque([Answer("ok", list(calls)), Answer("done")])
    return await turn(session, f"prompt {session.turns + 1}")


@pytest.mark.parametrize("seed", range(amount(8, 8)))
async def test_files_and_list_come_back_byte_for_byte(open_session: Open, tmp_path: Path, seed: int) -> None:
    """25 sequences a seed, 200 in all: turns that change files, then back to before a prompt, again and again."""
    chance = random.Random(seed)
    for number in range(25):
        work = tmp_path / f"{number}"
        work.mkdir()
        make(work / "a.txt", b"first\r\n")
        make(work / "dir/c.txt", b"\x00\x01", 0o755)
        session, provider = open_session(Changes(), workspace_at=work)
        log = file_history(session)
        points: list[tuple[int, Tree, list[Any]]] = []
        for _ in range(chance.randint(2, 6)):
            if len(points) > 1 and chance.random() < 0.3:  # back, and on from there
                await _back(session, log, points, chance, work)
            points.append((session.turns + 1, tree(work), list(session.messages)))
            await one_turn(session, provider, *(a_change(chance) for _ in range(chance.randint(0, 3))))
        await _back(session, log, points, chance, work)
        await session.close()


async def _back(session: Session, log: ChangeLog, points: list[Any], chance: random.Random, work: Path) -> None:
    prompts = chance.randint(1, len(points))
    number, files, messages = points[-prompts]
    assert put_back_all(log, number) == []
    assert session.rewind(prompts) == f"prompt {number}"
    assert tree(work) == files
    assert list(session.messages) == messages
    del points[-prompts:]


@pytest.fixture
def opened(open_session: Open, tmp_path: Path) -> tuple[Session, ScriptedProvider, ChangeLog]:
    make(tmp_path / "a.txt", b"old\n")
    session, provider = open_session(Changes())
    return session, provider, file_history(session)


Opened = tuple[Session, ScriptedProvider, ChangeLog]
WRITE = ("change", {"path": "a.txt", "does": "write", "content": b"model's\n".hex(), "mode": 0o644})


@pytest.mark.parametrize("what", ["content", "mode", "removed", "link", "folder", "folder gone", "in between"])
async def test_what_somebody_else_did_is_not_overwritten(opened: Opened, tmp_path: Path, what: str) -> None:
    session, provider, log = opened
    path = tmp_path / "sub/a.txt" if what == "folder gone" else tmp_path / "a.txt"
    make(path, b"old\n")
    write = ("change", WRITE[1] | {"path": str(path.relative_to(tmp_path))})
    await one_turn(session, provider, write)
    match what:
        case "content":
            path.write_text("a person's\n")
        case "mode":
            path.chmod(0o755)
        case "removed":
            path.unlink()
        case "link":
            path.unlink()
            path.symlink_to("/etc/hostname")
        case "folder":
            path.unlink()
            (path / "inside").mkdir(parents=True)
        case "folder gone":
            shutil.rmtree(path.parent)
        case "in between":
            path.write_text("a person's\n")
            await one_turn(session, provider, write)
    as_left = tree(tmp_path)
    (back,) = put_back_all(log, 1)
    assert back.foreign and tree(tmp_path) == as_left
    if what == "folder":
        with pytest.raises(ToolError, match=r"a\.txt"):
            log.put_back(back)
        assert tree(tmp_path) == as_left
        return
    log.put_back(back)  # the yes
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"old\n", 0o644)
    assert not path.is_symlink() and log.changes == []


async def test_a_change_after_the_look_is_noticed_too(opened: Opened, tmp_path: Path) -> None:
    session, provider, log = opened
    await one_turn(session, provider, WRITE)
    (back,) = log.plan(log.since(1))
    (tmp_path / "a.txt").write_text("just now\n")
    with pytest.raises(ToolError, match="changed"):
        log.put_back(back)
    assert (tmp_path / "a.txt").read_text() == "just now\n" and len(log.changes) == 1


async def test_no_link_is_followed_on_the_way_back(opened: Opened, tmp_path: Path) -> None:
    session, provider, log = opened
    make(tmp_path / "dir/a.txt", b"old\n")
    make(tmp_path / "elsewhere/a.txt", b"model's\n")
    await one_turn(session, provider, ("change", WRITE[1] | {"path": "dir/a.txt"}))
    shutil.rmtree(tmp_path / "dir")
    (tmp_path / "dir").symlink_to("elsewhere")
    (back,) = put_back_all(log, 1)
    with pytest.raises(ToolError, match=r"dir/a\.txt"):
        log.put_back(back)
    assert (tmp_path / "elsewhere/a.txt").read_bytes() == b"model's\n"


async def test_a_new_file_goes_and_its_folder_stays(opened: Opened, tmp_path: Path) -> None:
    session, provider, log = opened
    await one_turn(session, provider, ("write", {"path": "x/y/new.txt", "content": "new\n"}))
    assert put_back_all(log, 1) == []
    assert list(tree(tmp_path)) == ["a.txt"] and (tmp_path / "x/y").is_dir()


async def test_a_file_in_the_place_of_a_link_comes_back(opened: Opened, tmp_path: Path) -> None:
    session, provider, log = opened
    await one_turn(session, provider, ("change", {"path": "a.txt", "does": "link", "to": "nowhere"}))
    (back,) = put_back_all(log, 1)
    assert back.foreign and (tmp_path / "a.txt").is_symlink()
    log.put_back(back)
    assert tree(tmp_path) == {"a.txt": ("file", 0o644, b"old\n")}


async def test_a_name_that_is_no_text_can_be_shown_and_sent(opened: Opened, tmp_path: Path) -> None:
    session, provider, log = opened
    odd = tmp_path / "odd\udcff.txt"
    make(odd, b"old\n")
    (tmp_path / "link").symlink_to(odd.name)
    await one_turn(session, provider, ("read", {"path": "link"}), ("write", {"path": "link", "content": "new\n"}))
    assert (odd.read_bytes(), log.changes[0].name.encode()) == (b"new\n", "odd\ufffd.txt".encode())
    assert put_back_all(log, 1) == [] and odd.read_bytes() == b"old\n"


async def test_a_full_disk_leaves_the_file_whole_and_can_be_tried_again(opened: Opened, tmp_path: Path) -> None:
    session, provider, log = opened
    make(tmp_path / "a.txt", b"x" * 50_000)
    await one_turn(session, provider, WRITE)
    (back,) = log.plan(log.since(1))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        with pytest.raises(ToolError, match=r"a\.txt"):
            log.put_back(back)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sorted(tree(tmp_path)) == ["a.txt"] and (tmp_path / "a.txt").read_bytes() == b"model's\n"
    assert put_back_all(log, 1) == [] and len((tmp_path / "a.txt").read_bytes()) == 50_000


async def test_a_call_that_failed_half_way_counts_with_what_it_left(opened: Opened, tmp_path: Path) -> None:
    session, provider, log = opened
    await one_turn(session, provider, ("change", {"path": "a.txt", "does": "stop"}))
    assert (tmp_path / "a.txt").read_bytes() == b"half"
    assert put_back_all(log, 1) == [] and (tmp_path / "a.txt").read_bytes() == b"old\n"


async def test_a_call_that_was_stopped_is_asked_about(opened: Opened, tmp_path: Path) -> None:
    """Nobody knows what it left: who else may have written is not to be told apart."""
    _, _, log = opened
    path = tmp_path / "a.txt"
    log.begin(KeptChange(call=1, turn=1, at=0.0, tool="change", place=path, name="a.txt", before=look(path, 100)))
    path.write_text("half")
    (back,) = log.plan(log.since(1))
    assert "stopped" in back.foreign


async def test_what_a_guard_does_to_a_file_belongs_to_the_call(open_session: Open, tmp_path: Path) -> None:
    class Formats(Extension, Guard):
        def __init__(self) -> None:
            self.guards = (self,)

        async def after(self, call: GuardedCall, output: ToolOutput) -> ToolOutput:
            if call.ran:
                (tmp_path / "a.txt").write_text("formatted\n")
            return output

    make(tmp_path / "a.txt", b"old\n")
    session, provider = open_session(Changes(), Formats())
    await one_turn(session, provider, WRITE)
    assert put_back_all(file_history(session), 1) == [] and (tmp_path / "a.txt").read_bytes() == b"old\n"


async def test_commands_are_noted_and_reading_costs_nothing(opened: Opened, tmp_path: Path) -> None:
    session, provider, log = opened
    await one_turn(session, provider, ("bash", {"command": "ls"}), ("read", {"path": "a.txt"}))
    assert (log.changes, log.commands) == ([], [])
    await one_turn(session, provider, ("bash", {"command": "echo x > made.txt"}))
    assert [(each.turn, each.about) for each in log.commands] == [(2, "bash echo x > made.txt")]
    session.clear()
    assert log.commands == []


def test_memory_is_bounded_and_what_had_to_go_is_told(tmp_path: Path) -> None:
    log = ChangeLog(most=1_000, largest=600)
    for number in range(4):
        path = tmp_path / f"{number}.txt"
        make(path, b"x" * 500)
        log.begin(
            KeptChange(
                call=number, turn=1, at=0.0, tool="w", place=path, name=path.name, before=look(path, log.largest)
            )
        )
        make(path, b"y")
        log.ended(number)
    plan = log.plan(log.since(1))
    assert [bool(back.lost) for back in plan] == [True, True, False, False]
    assert log.forgotten == 2
    big = tmp_path / "big"
    make(big, b"x" * 601)
    assert look(big, log.largest).data is None
    assert look(big, log.largest).same(look(big, log.largest))
    os.utime(big, ns=(1, 1))
    assert not look(big, log.largest).same(look(tmp_path / "3.txt", log.largest))


def test_a_pipe_that_comes_into_a_file_s_place_while_it_is_looked_at_is_not_waited_for(tmp_path: Path) -> None:
    place, stop, swaps = tmp_path / "a.txt", threading.Event(), 0
    make(place, b"plain")

    def swap() -> None:
        nonlocal swaps
        while not stop.is_set():
            swaps += 1
            os.mkfifo(tmp_path / "pipe")
            os.replace(tmp_path / "pipe", place)
            (tmp_path / "file").write_bytes(b"plain")
            os.replace(tmp_path / "file", place)

    thread = threading.Thread(target=swap, daemon=True)
    thread.start()
    kinds, looks = set(), 0
    try:
        while looks < 2_000 or swaps < 2_000:
            looks += 1
            kinds.add(look(place, 100).kind)
    finally:
        stop.set()
        thread.join()
    assert kinds == {"file", "other"}


async def test_the_user_is_told_once_that_old_content_had_to_go(opened: Opened) -> None:
    session, provider, log = opened
    log.forgotten = 3
    for notices in (1, 0):
        seen = await one_turn(session, provider, WRITE)
        told = [event.text for event in seen if isinstance(event, events.Note)]
        assert sum("3 changes" in text for text in told) == notices
