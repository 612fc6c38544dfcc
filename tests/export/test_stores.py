"""One contract, two stores: what a folder of files does, a Redis database does too."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from codelet.errors import ExportError, SaveConflict, SessionHeld
from codelet.export.document import Document
from codelet.export.encode import to_json
from codelet.export.live import read_export, same_target
from codelet.export.saver import Saver, save_once
from codelet.export.store_target import Target, open_place, open_target
from codelet.export.stores.file import FileStore
from codelet.export.stores.store import Store, this_process
from tests.export import material

NAME = "work.json"


def save(store: Store, number: int, expected: str | None) -> str:
    """Lock, save a numbered state, unlock."""
    lease = store.lock(NAME)
    try:
        return store.save(NAME, [to_json(material.numbered(number), mask=None)], lease=lease, expected=expected)
    finally:
        lease.release()


def state(store: Store, name: str = NAME) -> int:
    """The number of the state that is stored."""
    from codelet.export.decode import from_json

    stored = store.load(name)
    assert stored is not None
    return from_json(stored.data).token_count


def test_context_manager_loads_what_is_saved(store: Store) -> None:
    assert store.load(NAME) is None
    assert store.revision(NAME) is None
    first = save(store, 1, None)
    stored = store.load(NAME)
    assert stored is not None
    assert stored.revision == first == store.revision(NAME)
    second = save(store, 2, first)
    assert second != first
    assert state(store) == 2


def test_a_save_over_an_unknown_state_is_a_conflict_and_changes_nothing(store: Store) -> None:
    first = save(store, 1, None)
    other = open_place(_place_of(store))
    save(other, 2, first)
    for expected in (None, first, "made-up"):
        with pytest.raises(SaveConflict, match="another process"):
            save(open_place(_place_of(store)), 3, expected)
    assert state(store) == 2


def _place_of(store: Store) -> str:
    return store.shown("") if "redis" in store.shown("") else str(Path(store.shown(NAME)).parent)


def test_a_lock_keeps_others_off_and_says_who_holds_it(store: Store) -> None:
    lease = store.lock(NAME)
    for other in (store, open_place(_place_of(store))):
        with pytest.raises(SessionHeld) as caught:
            other.lock(NAME)
        assert this_process() in str(caught.value)
        assert "\n" not in str(caught.value)
    store.lock("another.json").release()
    lease.release()
    lease.release()
    store.lock(NAME).release()


def test_a_released_lease_saves_nothing(store: Store) -> None:
    lease = store.lock(NAME)
    lease.release()
    with pytest.raises(SaveConflict):
        store.save(NAME, [b"{}"], lease=lease, expected=None)
    assert store.load(NAME) is None


def test_a_lock_is_taken_in_one_thread_and_released_in_another(store: Store) -> None:
    leases = []
    taker = threading.Thread(target=lambda: leases.append(store.lock(NAME)))
    taker.start()
    taker.join()
    leases[0].release()
    store.lock(NAME).release()


def test_context_manager_lists_and_deletes(store: Store) -> None:
    assert store.entries() == []
    save(store, 1, None)
    lease = store.lock("b.json")
    store.save("b.json", [b"x" * 10], lease=lease, expected=None)
    entries = {entry.name: entry for entry in store.entries()}
    assert set(entries) == {NAME, "b.json"}
    assert entries["b.json"].size == 10
    assert entries["b.json"].holder is not None
    assert this_process() in entries["b.json"].holder
    assert entries[NAME].holder is None
    with pytest.raises(SessionHeld):
        store.delete("b.json")
    lease.release()
    store.delete("b.json")
    with pytest.raises(ExportError, match="no such"):
        store.delete("b.json")
    assert [entry.name for entry in store.entries()] == [NAME]


def test_work_kept_beside_gets_a_name_of_its_own_each_time(store: Store) -> None:
    save(store, 1, None)
    names = {store.save_beside(NAME, [to_json(material.numbered(number), mask=None)]) for number in (5, 6, 7)}
    assert len(names) == 3
    assert sorted(state(store, name) for name in names) == [5, 6, 7]
    assert state(store) == 1
    assert all("conflict" in name for name in names)


async def test_a_saver_whose_name_was_overwritten_goes_on_beside_it_and_says_so(store: Store) -> None:
    saver = await Saver.open(Target(store, NAME), mask=None)
    saver.save(material.numbered(1))
    await saver.settle()
    _overwrite(store, material.numbered(100))
    saver.save(material.numbered(2))
    await saver.settle()
    notices = saver.notices.take()
    assert len(notices) == 1
    assert saver.target.name != NAME
    assert saver.target.shown in notices[0]
    assert saver.notices.take() == []
    saver.save(material.numbered(3))
    await saver.close()
    assert state(store) == 100
    assert state(store, saver.target.name) == 3
    assert len(store.entries()) == 2
    assert all(entry.holder is None for entry in store.entries())


def _overwrite(store: Store, snapshot: Document) -> None:
    """Write past the lock, as a program that knows none would."""
    data = to_json(snapshot, mask=None)
    if "redis" in store.shown(""):
        import redis

        from codelet.redis_store import scripts as redis_scripts

        with redis.Redis.from_url(store.shown("")) as client:
            client.hset(redis_scripts.session_key(NAME), mapping={"document": data, "revision": "theirs"})
    else:
        path = Path(store.shown(NAME))
        path.write_bytes(data)


async def test_an_existing_name_is_refused_unless_resumed_or_forced(store: Store) -> None:
    target = Target(store, NAME)
    save_once(target, [to_json(material.numbered(1), mask=None)])
    with pytest.raises(ExportError, match="--force"):
        save_once(target, [to_json(material.numbered(2), mask=None)])
    with pytest.raises(ExportError, match="--force"):
        await Saver.open(target, mask=None)
    with pytest.raises(ExportError, match="changed since"):
        await Saver.open(target, mask=None, resumed="older")
    assert state(store) == 1
    store.lock(NAME).release()
    saver = await Saver.open(target, mask=None, resumed=store.revision(NAME))
    saver.save(material.numbered(3))
    await saver.close()
    save_once(target, [to_json(material.numbered(4), mask=None)], force=True)
    assert state(store) == 4


async def test_only_the_newest_of_waiting_snapshots_is_written(store: Store) -> None:
    saver = await Saver.open(Target(store, NAME), mask=None)
    for number in range(200):
        saver.save(material.numbered(number))
    await saver.close()
    assert state(store) == 199
    assert saver.saves <= 3


async def test_a_target_is_opened_by_its_name(store: Store, place: str) -> None:
    save(store, 8, None)
    resumed = await read_export(f"{place}/{NAME}")
    assert resumed.snapshot == material.numbered(8)
    assert resumed.revision == store.revision(NAME)
    assert same_target(resumed.target, open_target(f"{place}/{NAME}"))
    assert not same_target(resumed.target, open_target(f"{place}/other.json"))
    with pytest.raises(ExportError, match="no such export"):
        await read_export(f"{place}/missing.json")


def test_a_file_may_have_the_name_of_another_kind_of_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("redis", "rediss", "other:x"):
        assert open_target(name).shown == name and isinstance(open_target(name).store, FileStore)


@pytest.mark.parametrize("target", ["/", "", "."])
def test_a_target_without_a_name_is_refused(target: str) -> None:
    with pytest.raises(ExportError, match="names no file"):
        open_target(target)
