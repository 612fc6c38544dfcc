"""Text typed during a turn is never lost and never sent twice, however the turn ends: a property over a pty.

Lines are typed, kept for the turn's end, taken back and erased at random, on a screen that is resized; then the turn is
answered, interrupted, refused by the provider, or its context is compacted. The text must be in the requests or in the
input line, from where Enter sends it: each line once, in order. The seed is printed; CODELET_SEED sets it.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.amount import amount
from tests.support.moments import asks_for_narrative
from tests.support.recorded import STATUS
from tests.support.script import Call, HttpError, Reply, Step
from tests.support.server import ModelServer, Recorded
from tests.support.terminal import Terminal

SEED = int(os.environ.get("CODELET_SEED", "0")) or random.SystemRandom().randint(1, 2**32)
ENDS = ("answer", "interrupt", "error", "compaction")
BUDGET = 24_000
WORDS = " ".join(f"filler{number}" for number in range(40))


class Typing:
    """Types into the REPL while its turn waits for a file, and knows what is to become of each line."""

    def __init__(self, terminal: Terminal, chance: random.Random, mark: str) -> None:
        self.queued: list[str] = []
        self.later: list[str] = []
        self.text = ""
        self._terminal = terminal
        self._chance = chance
        self._mark = mark
        self._words = 0

    def act(self) -> None:
        """Do one random thing, and wait until the screen shows it."""
        self._chance.choice(
            [self.word, self.word, self.enter, self.enter, self.keep, self.up, self.erase, self.resize]
        )()

    def word(self) -> None:
        self._words += 1
        self.text += f"{' ' if self.text else ''}{self._mark}w{self._words}"
        self._terminal.type(self.text.rpartition(" ")[1] + self.text.rpartition(" ")[2])
        self._shown()

    def enter(self) -> None:
        if len(self.text.split()) > 4 or not self.text:
            self.word()
        self._terminal.key("enter")
        self._taken(f"queued: {self.text}")

    def keep(self) -> None:
        if not self.text:
            self.word()
        self._terminal.type("\x1b\r")
        self.later.append(self.text)
        self._taken(f"after this turn: {self.text}")

    def up(self) -> None:
        if self.text or not self.queued:
            return
        self._terminal.key("up")
        self.text = self.queued.pop()
        self.later = [line for line in self.later if line != self.text]
        self._shown()

    def erase(self) -> None:
        self._terminal.type("\x15")
        self.text = ""
        self._shown()

    def resize(self) -> None:
        self._terminal.resize(self._chance.randrange(70, 140), self._chance.randrange(16, 45))
        self._shown()

    def _taken(self, row: str) -> None:
        self.queued.append(self.text)
        self.text = ""
        self._terminal.until(lambda: f"  {row}\n" in self._terminal.text, row)
        self._shown()

    def _shown(self) -> None:
        wanted = f"› {self.text}".rstrip()
        self._terminal.until(lambda: self._terminal.text.split("\n")[-2:-1] == [wanted], f"the line {wanted!r}")


class Session:
    """The REPL on a model that calls a waiting command, and then ends the turn as told."""

    def __init__(self, server: ModelServer, repo: Path, home: Path, chance: random.Random) -> None:
        self.steps: list[Step] = []
        self._repo, self._server, self._chance = repo, server, chance
        server.script = self._answer
        said = [{"role": role, "content": f"{WORDS} {n}"} for n in range(80) for role in ("user", "assistant")]
        document = {"version": "1.0", "timestamp": 1_767_225_600.0, "tokenCount": 1, "model": None, "messages": said}
        (repo / "long.json").write_text(json.dumps(document))
        words = ("--model", "openai/scripted", "--api-base", server.openai, "--yes", "--resume", "long.json")
        options = {"cwd": repo, "home": home, "env": {"OPENAI_API_KEY": "key"}, "columns": 100, "rows": 30}
        self.terminal = Terminal(*words, "--budget", str(BUDGET), **options)

    def round(self, number: int, end: str) -> None:
        """One turn that ends so, with input before its end; then a turn that takes what is left in the editor."""
        mark = f"r{number}"
        waits = f"while [ ! -e go{number} ]; do sleep 0.02; done; echo went"
        if end == "compaction":
            (self._repo / "much.txt").write_text(f"{WORDS}\n" * 80)
            waits += "; cat much.txt"
        last = HttpError(400, "no such thing") if end == "error" else Reply(f"Seen {mark}.")
        self.steps = [Reply(calls=[Call(f"c{number}", "bash", {"command": waits})]), last]
        self.wait_for_prompt()
        base = len(self.requests)
        self.terminal.line(f"begin {mark}")
        self.terminal.wait_for(f"go{number} ]")
        typing = Typing(self.terminal, self._chance, mark)
        typing.erase()
        for _ in range(self._chance.randrange(2, 9)):
            typing.act()
        later = [line for line in typing.queued if line in typing.later]
        steered = [line for line in typing.queued if line not in typing.later]
        if end == "interrupt":
            self.terminal.key("esc")
            read, left = [], typing.queued
        else:
            (self._repo / f"go{number}").touch()
            read, left = (steered, later) if end == "error" else (steered + later, [])
            self.terminal.until(lambda: len(self.requests) >= base + 2, "the last step")
        if end in ("answer", "compaction"):
            self.terminal.until(lambda: len(self.requests) == base + 2 + len(later), "the lines kept for the end")
        left = [*left, typing.text] if typing.text else left
        self.wait_for_prompt()
        if left:
            self.terminal.until(lambda: f"› {left[0]}\n" in self.terminal.text, f"{left[0]!r} in the editor")
        self.steps = []
        count = len(self.requests)
        self.terminal.line("" if left else f"{mark}nothing")
        self.terminal.until(lambda: len(self.requests) == count + 1, "the last request")
        self.terminal.wait_for("Fine.")
        told = (f"{end}: {typing.queued} {typing.later} {typing.text!r}", self.terminal.scrollback[-3_000:])
        wanted = [f"begin {mark}", *read, *(left or [f"{mark}nothing"])]
        found = self.lines_of(self.requests[-1], mark)
        if end == "compaction":
            assert "compacted: " in self.terminal.scrollback, told
            assert set(found) == set(wanted), told
        else:
            assert found == wanted, told

    def wait_for_prompt(self) -> None:
        """Wait until the input line is ready: the last row names the model."""
        self.terminal.until(lambda: STATUS in self.terminal.text.rpartition("\n")[2], "the prompt")
        self.terminal.settle(0.1)

    @property
    def requests(self) -> list[Recorded]:
        """The conversation's requests. The narrator's may come at any time, before a compaction."""
        return [request for request in list(self._server.requests) if not asks_for_narrative(request)]

    def _answer(self, request: Recorded) -> Step:
        if asks_for_narrative(request):
            return Reply("Nothing to add.")
        return self.steps.pop(0) if self.steps else Reply("Fine.")

    @staticmethod
    def lines_of(request: Recorded, mark: str) -> list[str]:
        """The lines of this round that the user said, in the order of the request."""
        texts = [str(message["content"]) for message in request.messages if message["role"] == "user"]
        bare = "\n".join(re.sub(r"<system-reminder>.*?</system-reminder>", "", text, flags=re.DOTALL) for text in texts)
        lines = [re.sub(r"^\[t\d+ user\] ", "", line).strip() for line in bare.split("\n")]  # so a summary quotes them
        return [line for line in lines if re.search(rf"\b{mark}(w|n|$)", line)]


@pytest.fixture
def sessions(model_server: ModelServer, repo: Path, home: Path) -> Iterator[list[Session]]:
    opened: list[Session] = []
    yield opened
    for session in opened:
        session.terminal.__exit__()


@pytest.mark.timeout(3600)
def test_it_arrives_once_and_in_order(
    sessions: list[Session], model_server: ModelServer, repo: Path, home: Path
) -> None:
    print(f"CODELET_SEED={SEED}")
    number = 0
    for count in range(amount(1, 60)):
        chance = random.Random(f"{SEED} {count}")
        session = Session(model_server, repo, home, chance)
        sessions.append(session)
        for end in chance.sample(ENDS, len(ENDS)):
            session.round(number, end)
            number += 1
        session.wait_for_prompt()
        session.terminal.line("exit")
        assert session.terminal.wait_exit() == 0
