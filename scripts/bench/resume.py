"""What it takes to go on with a large export: time and memory of a resume that has to compact before its first request.

Use: python scripts/bench/resume.py [--tokens N]

The session is made up: no line comes twice and new words never end. Codelet is started as a program, with a window of
128,000 tokens and a model that is a server on loopback. Beside it stands what Python takes to read the same file with
`json.loads`. What codelet tells meanwhile is printed. The exit status is 1 over 5 s or 300 MB for 50 MB.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from codelet.export.document import Document
from codelet.export.encode import Encoder
from codelet.messages import with_kinds
from scripts.bench.context.planted import made_up
from tests.support.script import Reply
from tests.support.server import ModelServer

MOST_SECONDS, MOST_MB = 5.0, 300.0


def run(*command: str) -> tuple[float, float, str]:
    """Run a program: seconds by the wall, megabytes at most, and what it printed on stderr."""
    begun = time.perf_counter()
    with tempfile.TemporaryFile() as told:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=told)
        _, status, used = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - begun
        child.returncode = os.waitstatus_to_exitcode(status)
        told.seek(0)
        text = told.read().decode(errors="replace").strip()
    if child.returncode:
        raise SystemExit(f"it ended with {child.returncode}: {text}")
    return seconds, used.ru_maxrss / 1024, text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=12_000_000)
    options = parser.parse_args()
    messages = tuple(with_kinds(made_up(options.tokens)))
    with tempfile.TemporaryDirectory() as folder, ModelServer([Reply("Going on.")]) as server:
        file = Path(folder) / "long.json"
        file.write_bytes(
            b"".join(
                Encoder(None).parts(
                    Document(timestamp=1.0, token_count=len(messages), messages=messages, session_id="made")
                )
            )
        )
        megabytes = file.stat().st_size / 1e6
        print(f"an export of {megabytes:.1f} MB, {len(messages):,} messages")
        reader = f"import json; json.loads(open({str(file)!r}, 'rb').read())"
        print("json.loads: {:.1f} s, {:.0f} MB".format(*run(sys.executable, "-c", reader)))
        model = ("--model", "openai/chat/made", "--api-base", server.openai, "--window", "128000")
        seconds, memory, told = run(
            sys.executable, "-m", "codelet", *model, "--resume", str(file), "--narrative=off", "-p", "Go on."
        )
        print(f"codelet: {seconds:.1f} s, {memory:.0f} MB\n{told}")
    scale = max(1.0, megabytes / 50)
    return 1 if seconds > MOST_SECONDS * scale or memory > MOST_MB * scale else 0


if __name__ == "__main__":
    sys.exit(main())
