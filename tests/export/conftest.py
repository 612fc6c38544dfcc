"""A redis-server for the session; its tests skip, naming it, where it is not installed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from codelet.export.store_target import open_place
from codelet.export.stores.store import Store
from tests.export.redis_server import PROGRAM, RedisServer

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    if PROGRAM is None:
        pytest.skip("needs the program redis-server")
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.close()


@pytest.fixture(params=["file", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for exports of each kind, empty: a folder or a Redis database."""
    if request.param == "file":
        return str(tmp_path)
    import redis

    server: RedisServer = request.getfixturevalue("redis_server")
    url = server.url.removesuffix("0") + str(next(_numbers) % 16)
    with redis.Redis.from_url(url) as client:  # other tests leave there what no session wrote
        client.flushdb()
    return url


@pytest.fixture
def store(place: str) -> Store:
    opened = open_place(place)
    for entry in opened.entries():
        opened.delete(entry.name)
    return opened
