"""The command lines that confine a command.

bubblewrap gives the command a separate file system, read-only but for its writable places, without network and
privileges. For Landlock a helper's child gives up rights and then becomes the command. Both install a filter of system
calls. A Mac's sandbox-exec gets a profile.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath

from codelet.record import Record
from codelet.safety.paths import contained
from codelet.safety.sandbox.call_filter import filter_program, helped_calls
from codelet.safety.sandbox.places import home_in_system, seen_of_system
from codelet.safety.tables import read_table
from codelet.safety.verdict import SandboxKind
from codelet.system.process.start import DESCRIPTOR, CommandWords

_HELPER = Path(__file__).with_name("landlock_helper.py")
# Sockets of services that would act for the command outside (the user's bus, Docker) are in /run and /tmp.
_EMPTY = ("/run", "/tmp", "/var/tmp")
_KERNEL = ("/proc/sys", "/proc/sysrq-trigger")
_PRIVATE_BYTES, _OTHER_BYTES = 1 << 30, 1 << 24
"""The sizes of the private temporary folder, and of any other folder that is empty in the sandbox."""


class Bounds(Record):
    """The rights of a confined command: `root` is the workspace, resolved.

    `seen` are the places that it can read besides the system's and the workspace (see `places`); with `open_home` it
    can read everything outside temporary folders. `hidden` are files and folders that it cannot read, `protected` those
    of the workspace that it cannot write. `settled`: it can write only entries that are at the top of the workspace
    now. `attributes` are a folder of git's and the content of the file `attributes` there (see `find_attributes`).
    """

    root: str
    kind: SandboxKind = "workspace"
    network: bool = False
    protected: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    open_home: bool = False
    settled: bool = False
    attributes: tuple[str, bytes] | None = None

    def leading_to(self, places: Iterable[str]) -> list[str]:
        """The folders of the workspace that lead to these places, outermost first: a rename of one would put another
        entry at a protected place.
        """
        inside = f"{self.root}/"
        parents = {str(each) for place in places if place.startswith(inside) for each in PurePath(place).parents}
        return sorted(each for each in parents if each.startswith(inside))


def bubblewrap_argv(program: str, command: Sequence[str], bounds: Bounds) -> CommandWords:
    """The words that run `command` confined by bubblewrap, whose path is `program`."""
    argv = [program, "--die-with-parent", "--unshare-all", "--new-session", "--cap-drop", "ALL"]
    argv += ["--share-net"] if bounds.network else []
    argv += ["--ro-bind", "/", "/"] if bounds.open_home else _system()
    argv += ["--dev", "/dev", "--proc", "/proc"]
    for place in _KERNEL:  # the kernel's settings check only the user number, which is root's inside too
        argv += ["--ro-bind", place, place] if os.path.exists(place) else []
    # A command that only reads may see /var/tmp: each mount costs two milliseconds.
    emptied = _EMPTY if bounds.kind == "workspace" else _EMPTY[:2] if bounds.open_home else _EMPTY[1:2]
    empty = [os.path.realpath(folder) for folder in emptied if Path(folder).is_dir()]
    for folder in empty:
        size = _PRIVATE_BYTES if folder == "/tmp" else _OTHER_BYTES
        argv += ["--size", str(size), "--tmpfs", folder]
    if bounds.network:  # the resolver's file is often in /run
        resolver = os.path.realpath("/etc/resolv.conf")
        argv += ["--ro-bind-try", resolver, resolver]
    for place in bounds.seen:
        needed = not bounds.open_home or any(place != folder and contained(place, folder) for folder in empty)
        if needed and not contained(place, bounds.root):
            argv += ["--ro-bind", place, place]
    argv += ["--ro-bind" if bounds.settled or bounds.kind == "read-only" else "--bind", bounds.root, bounds.root]
    if bounds.settled and bounds.kind == "workspace":
        for place in sorted(each.path for each in os.scandir(bounds.root) if not each.is_symlink()):
            argv += ["--bind", place, place]
    if bounds.kind == "workspace":
        for folder in bounds.leading_to(bounds.protected):  # a mount point cannot be renamed
            argv += ["--bind", folder, folder]
        for place in bounds.protected:
            argv += ["--ro-bind", place, place]
    for secret in bounds.hidden:
        argv += ["--size", "4096", "--tmpfs", secret] if os.path.isdir(secret) else ["--ro-bind", "/dev/null", secret]
    data: list[bytes] = []
    if bounds.attributes is not None:
        folder, attributes = bounds.attributes
        argv += ["--size", "65536", "--tmpfs", folder]
        kept = [place for place in sorted(os.listdir(folder)) if place != "attributes"]
        argv += [word for name in kept for word in ("--ro-bind-try", f"{folder}/{name}", f"{folder}/{name}")]
        argv += ["--ro-bind-data", DESCRIPTOR, f"{folder}/attributes", "--remount-ro", folder]
        data.append(attributes)
    home = os.path.realpath(os.path.expanduser("~"))
    remounted = ["--remount-ro", home] if home == home_in_system(os.environ.get("PATH", "")) else []
    argv += [] if bounds.open_home else ["--dir", home, "--remount-ro", "/", *remounted]
    calls = filter_program(network=bounds.network, metadata=True)
    argv += ["--seccomp", DESCRIPTOR, "--setenv", "TMPDIR", "/tmp", "--chdir", bounds.root]
    argv += ["--setenv", "UV_NO_CACHE", "1"]  # uv ends if it cannot write its cache
    return CommandWords([*argv, "--", *command], [*data, calls])


def _system() -> list[str]:
    """The words that show the system's folders."""
    words: list[str] = []
    for place in seen_of_system():
        words += ["--symlink", os.readlink(place), place] if os.path.islink(place) else ["--ro-bind", place, place]
    covered = home_in_system(os.environ.get("PATH", ""))
    return words + (["--size", str(_OTHER_BYTES), "--tmpfs", covered] if covered else [])


def landlock_argv(command: Sequence[str], bounds: Bounds) -> list[str]:
    """The words that run `command` confined by Landlock.

    Landlock can only grant whole folders. In a folder with a protected or hidden entry, each other entry is granted
    separately. The helper makes new entries there, but for a command that lasts, and no new one can be read where
    something is hidden.
    """
    closed = (*bounds.protected, *bounds.hidden)  # a right to write is one to read, too
    excepted = (*closed, f"{bounds.root}/.git") if bounds.settled else closed
    writable = _granted(bounds.root, excepted) if bounds.kind == "workspace" else []
    system = ("/",) if bounds.open_home else (*seen_of_system(), "/proc", "/dev/pts")
    covered = None if bounds.open_home else home_in_system(os.environ.get("PATH", ""))
    real = list(dict.fromkeys(map(os.path.realpath, system)))
    besides = dict.fromkeys(map(os.path.realpath, () if bounds.open_home else (*bounds.seen, bounds.root)))
    not_read = (*bounds.hidden, *filter(None, [covered]))
    helped = bounds.kind == "workspace" and writable != [bounds.root] and not bounds.settled
    calls = filter_program(network=bounds.network, metadata=False, writing=helped)
    request = {
        "write": writable,
        "guarded": [bounds.root, *closed] if helped else [],
        "read": [granted for place in real for granted in _granted(place, not_read)]
        + [granted for place in besides for granted in _granted(place, bounds.hidden)],
        "list": [*real, *besides],
        "network": bounds.network,
        "calls": calls.hex(),
        "helped": helped_calls(),
        "temporary": os.path.realpath(tempfile.gettempdir()),
    }
    return [sys.executable, "-I", "-S", str(_HELPER), json.dumps(request), *command]


def _granted(folder: str, excepted: Sequence[str]) -> list[str]:
    """The folder, or its other entries if something in it is excepted."""
    if folder in excepted:
        return []
    if not any(place.startswith(f"{folder.rstrip('/')}/") for place in excepted):
        return [folder]
    granted = []
    for entry in os.scandir(folder):
        if entry.path not in excepted and not entry.is_symlink():
            granted += _granted(entry.path, excepted)
    return granted


def writable_root(workspace: Path) -> str:
    """The workspace, resolved. Raises FileNotFoundError for `/`, which leaves nothing to protect."""
    root = os.path.realpath(workspace)
    if root == "/":
        raise FileNotFoundError("the workspace is the whole file system")
    return root


def profile(bounds: Bounds) -> str:
    """The profile for `sandbox-exec`. Raises FileNotFoundError for a path that no profile can name.

    The last rule that fits counts. A command may do what it may without, but for what is named here: writing, the
    network, reading in homes and on other disks but for the seen places, what reaches into other processes, and
    services that act for it outside.
    """
    mac = {name: row.split() for name, row in read_table("visible")["mac"].items()}
    rules = ["(version 1)", "(allow default)", "(deny file-write*)"]
    rules.append(f'(allow file-write* {_each("literal", mac["outputs"])} (regex #"^/dev/fd/"))')
    if bounds.kind == "workspace":
        rules.append(f"(allow file-write* {_each('subpath', [bounds.root])})")
        # A profile can name an absent file; only a command that ends may make a repository.
        protected = (*bounds.protected, f"{bounds.root}/.git" if bounds.settled else f"{bounds.root}/.git/hooks")
        rules.append(f"(deny file-write* {_each('subpath', protected)})")
        if folders := bounds.leading_to((*protected, *bounds.hidden)):  # a rule is about a path: it must not move
            rules.append(f"(deny file-write-unlink {_each('literal', folders)})")
    if not bounds.open_home:
        rules.append(f"(deny file-read* {_each('subpath', (*mac['private'], os.path.expanduser('~')))})")
        rules.append(f"(allow file-read-metadata) (allow file-read* {_each('subpath', (*bounds.seen, bounds.root))})")
    if bounds.hidden:
        rules.append(f"(deny file-read* file-write* {_each('subpath', bounds.hidden)})")
    if not bounds.network:
        rules.append("(deny network*)")
    rules += ["(deny mach-lookup)", f"(allow mach-lookup {_each('global-name', mac['services'])})"]
    rules += ["(deny appleevent-send)", "(deny lsopen)"]
    rules += ["(deny signal)", "(allow signal (target same-sandbox))"]
    rules += ["(deny process-info*)", "(allow process-info* (target same-sandbox))"]
    return "\n".join(rules)


def _each(kind: str, texts: Iterable[str]) -> str:
    spelled = []
    for text in texts:
        if not text.isprintable():
            raise FileNotFoundError("its profile cannot name a path with a control character")
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        spelled.append(f'({kind} "{escaped}")')
    return " ".join(spelled)
