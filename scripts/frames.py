"""How many of codelet's own stack frames lie between `cli.main` and the provider, and on to the first byte it sends.

And how many of its modules, packages included, are loaded by then.

Use: python -m scripts.frames

A one-shot prompt is answered by a server on loopback. The stack is read, not changed, when the provider is asked and
when the first bytes of the request go to the socket.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "codelet"
_ANSWER = b'data: {"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


class _Answer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(_ANSWER)))
        self.end_headers()
        self.wfile.write(_ANSWER)

    def log_message(self, *_: object) -> None:
        pass


def frames() -> tuple[list[str], list[str], list[str]]:
    """The functions above the provider's `stream`, those from there to the first bytes written, the modules by then."""
    server = HTTPServer(("127.0.0.1", 0), _Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = Path(folder, "frames.json")
            base = f"http://127.0.0.1:{server.server_port}/v1"
            arguments = ["-p", "hi", "--model", "openai/scripted", "--api-base", base, "--bare"]
            subprocess.run(
                [sys.executable, str(Path(__file__)), str(found), *arguments],
                env={**os.environ, "OPENAI_API_KEY": "test-key", "PYTHONPATH": str(ROOT)},
                cwd=folder,
                check=True,
                stdout=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
                timeout=60,
            )
            above, whole, modules = json.loads(found.read_text())
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    return above, whole[len(above) :], modules


def _watch(found: Path) -> None:
    """Run the command line in this process; note the two stacks and the modules."""
    above: list[str] = []

    def look(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call":
            return
        if not above and code.co_name == "stream" and code.co_filename.startswith(str(PACKAGE / "providers")):
            above.extend(_own(frame.f_back))
        elif above and code.co_qualname == "StreamWriter.write":
            modules = [name for name in sys.modules if name.partition(".")[0] == "codelet"]
            found.write_text(json.dumps([above, _own(frame), modules]))
            sys.setprofile(None)

    from codelet.cli import main

    sys.setprofile(look)
    main()


def _own(frame: FrameType | None) -> list[str]:
    """The names of codelet's functions on a stack, the outermost first."""
    names: list[str] = []
    while frame is not None:
        if Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
            names.append(frame.f_code.co_qualname)
        frame = frame.f_back
    return names[::-1]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        target = Path(sys.argv[1])
        sys.argv = ["codelet", *sys.argv[2:]]
        _watch(target)
    own, deeper, loaded = frames()
    print(f"{len(own)} frames above the provider: {' > '.join(own)}")
    print(f"{len(deeper)} in the provider, to the first byte: {' > '.join(deeper)}")
    print(f"{len(loaded)} modules before that byte: {' '.join(sorted(loaded))}")
