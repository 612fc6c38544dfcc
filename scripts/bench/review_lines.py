"""Where findings come to stand in commits made from successive releases of real packages.

Use: python -m scripts.bench.review_lines --data DIR [--fetch] [--most N]

DIR holds a folder for each package with its releases as wheels; --fetch has pip download them there. Each release is
laid over the one before it in a repository, every file that differs as a commit of its own, and by turns the file is
also renamed, gets other line ends, a block of it is moved, or lines are repeated. In each commit findings are planted
as a model would state them (tests/support/planted.py), some with a quote that stands nowhere. The exit status is 1 if
one is not on its line. No model is asked: this measures codelet's placing, not a model's eyes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tests.support import repo
from tests.support.planted import Score, plant

RELEASES = {
    "click": "7.0 7.1 7.1.2 8.0.0 8.0.4 8.1.0 8.1.3 8.1.7 8.1.8",
    "packaging": "19.0 20.0 20.9 21.3 22.0 23.0 23.2 24.0 24.2 25.0",
    "attrs": "19.1.0 19.3.0 20.1.0 20.3.0 21.2.0 21.4.0 22.1.0 22.2.0 23.1.0 23.2.0 24.2.0",
    "jinja2": "2.10 2.11.0 3.0.0 3.0.3 3.1.0 3.1.2 3.1.4 3.1.6",
}
TURNS = ("plain", "plain", "rename", "plain", "line ends", "plain", "move", "repeat")


def fetch(data: Path) -> None:
    """Have pip download the releases."""
    for package, versions in RELEASES.items():
        for version in versions.split():
            words = ("--no-deps", "--only-binary", ":all:", "-q", "-d", str(data / package), f"{package}=={version}")
            subprocess.run([sys.executable, "-m", "pip", "download", *words], check=True)


def files_of(wheel: Path) -> dict[str, bytes]:
    """The text files of a release by name, without what its build wrote beside them."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name and not name.endswith("/")]
        return {name: data for name in names if b"\0" not in (data := archive.read(name))}


def in_order(folder: Path) -> list[Path]:
    """The releases, the oldest first."""
    return sorted(folder.glob("*.whl"), key=lambda path: [int(part) for part in path.name.split("-")[1].split(".")])


def turned(data: bytes, turn: str) -> bytes:
    """A file's bytes after the turn that is due."""
    lines = data.split(b"\n")
    match turn:
        case "line ends":
            return data.replace(b"\n", b"\r\n") if b"\r\n" not in data else data.replace(b"\r\n", b"\n")
        case "move" if len(lines) > 60:
            return b"\n".join([*lines[:10], *lines[30:50], *lines[10:30], *lines[50:]])
        case "repeat":
            middle = len(lines) // 2
            return b"\n".join([*lines[:middle], *[b"    return None", b"    pass  # again"] * 3, *lines[middle:]])
    return data


def replay(package: Path, folder: Path, score: Score, most: int) -> None:
    """Commit the releases of a package file by file, and plant findings in each commit."""
    repo.plain(folder, {"README.md": f"{package.name}\n"})
    names: dict[str, str] = {}
    held: dict[str, bytes] = {}
    due = 0
    for wheel in in_order(package):
        first = not held
        for name, data in sorted(files_of(wheel).items()):
            if held.get(name) == data or (first and not data):
                continue
            held[name] = data
            place = folder / names.get(name, name)
            turn = "plain" if first else TURNS[due % len(TURNS)]
            due += not first
            if turn == "rename" and place.exists():
                place.unlink()
                names[name] = f"moved {due}/{Path(name).name}"
            place = folder / names.get(name, name)
            repo.write(folder, {str(place.relative_to(folder)): turned(data, turn)})
            if not first:
                plant(folder, repo.commit(folder, {}, f"{wheel.name}: {name}"), score, seed=due, most=most)
        repo.commit(folder, {}, wheel.name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--fetch", action="store_true")
    parser.add_argument("--most", type=int, default=12, metavar="N", help="findings planted in a commit (12)")
    options = parser.parse_args()
    if options.fetch:
        fetch(options.data)
    score = Score()
    with tempfile.TemporaryDirectory() as folder:
        for package in sorted(path for path in options.data.iterdir() if path.is_dir()):
            before = score.commits
            replay(package, Path(folder) / package.name, score, options.most)
            print(f"{package.name}: {len(in_order(package))} releases, {score.commits - before} commits")
    for label in sorted(score.planted):
        print(f"{label:<22} {score.right[label]:>6} of {score.planted[label]:>6} right")
    print(f"{score.commits} commits, {score.planted.total()} findings, {len(score.wrong)} not on their line")
    print(f"{score.left_out} lines not planted on: blank, very long, or in a file that is left out")
    print("\n".join(score.wrong[:20]))
    return int(bool(score.wrong))


if __name__ == "__main__":
    sys.exit(main())
