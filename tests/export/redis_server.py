"""A real redis-server on loopback, without a trace on this machine but its own folder; it can be killed and revived."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path

from tests.support.waiting import until

PROGRAM = shutil.which("redis-server")


class RedisServer:
    """One server process; with `durable` what it confirmed survives a kill."""

    def __init__(self, folder: Path, *, durable: bool = False, password: str | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._durable = durable
        self._password = password
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        assert PROGRAM is not None
        words = [PROGRAM, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(self._folder)]
        words += ["--appendonly", "yes", "--appendfsync", "always"] if self._durable else []
        words += ["--requirepass", self._password] if self._password else []
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(self._answers, "the start of redis-server")

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False

    def signal(self, number: int) -> None:
        """As SIGSTOP, for a server that hangs."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """As a power cut would: no farewell."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def close(self) -> None:
        if self._process is not None:
            self.kill()
