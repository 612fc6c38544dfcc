"""The program against the model server, ready to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.support.program import Finished, run
from tests.support.server import ModelServer
from tests.support.terminal import Terminal

Wire = Literal["openai", "openai/responses", "anthropic"]
PROMPT = "›"
KEYS = {"OPENAI_API_KEY": "test-key", "ANTHROPIC_API_KEY": "test-key"}


@dataclass
class Codelet:
    """codelet with its model set to the server's; `wire` says which protocol."""

    server: ModelServer
    cwd: Path
    home: Path
    wire: Wire = "openai"

    @property
    def arguments(self) -> list[str]:
        base = self.server.anthropic if self.wire == "anthropic" else self.server.openai
        return ["--model", f"{self.wire}/scripted", "--api-base", base]

    def __call__(self, *arguments: str, env: Mapping[str, str | None] | None = None, **options: Any) -> Finished:
        """Run it to its end, see `tests.support.program.run`."""
        options = {"cwd": self.cwd, "home": self.home} | options
        return run(*self.arguments, *arguments, env=KEYS | dict(env or {}), **options)

    def terminal(self, *arguments: str, env: Mapping[str, str | None] | None = None, **options: Any) -> Terminal:
        """Open the REPL in a terminal and wait for its prompt."""
        options = {"cwd": self.cwd, "home": self.home} | options
        terminal = Terminal(*self.arguments, *arguments, env=KEYS | dict(env or {}), **options)
        terminal.wait_for(PROMPT)
        terminal.settle(0.1)
        return terminal


@pytest.fixture
def codelet(model_server: ModelServer, repo: Path, home: Path) -> Codelet:
    """codelet in a small git repository, speaking Chat Completions."""
    return Codelet(model_server, repo, home)


@pytest.fixture(params=["openai", "openai/responses", "anthropic"])
def codelet_on_each_wire(request: pytest.FixtureRequest, codelet: Codelet) -> Codelet:
    codelet.wire = request.param
    return codelet


@pytest.fixture
def tree() -> Callable[[Path], dict[str, bytes]]:
    """All files below a folder with their bytes, .git left out."""

    def files(folder: Path) -> dict[str, bytes]:
        paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and ".git" not in path.parts)
        return {str(path.relative_to(folder)): path.read_bytes() for path in paths}

    return files
