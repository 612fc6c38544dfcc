"""The places that a confined command sees: the system's folders, toolchains, what PATH names, and no more of the home.

Every command needs the workspace and its repository as well. Nothing here is hidden by its name: what is not on these
lists is not there. The lists are data to review; the profile for a Mac is made from the same ones.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from codelet.safety.paths import contained

SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/sys", "/nix", "/snap",
    "/gnu/store", "/var/guix", "/var/lib/dpkg", "/var/lib/rpm", "/var/lib/pacman", "/var/lib/apt/lists",
    "/var/cache/fontconfig",
)  # fmt: skip
"""The system's folders on Linux, besides /dev and /proc."""

TOOLCHAINS = (
    # Rust, Go, Python, JavaScript
    ".cargo/bin", ".cargo/registry", ".cargo/git", ".cargo/config", ".cargo/config.toml", ".cargo/env", ".rustup",
    "go/bin", "go/pkg", ".cache/go-build", ".goenv", ".pyenv", ".virtualenvs", ".local/bin", ".local/lib",
    ".local/share/uv", ".local/share/pipx", ".local/pipx", ".local/share/virtualenvs", ".local/share/pnpm",
    ".local/share/mise", ".local/share/rtx", ".local/share/fnm", ".local/share/hatch", ".cache/uv", ".cache/pip",
    ".cache/pypoetry", ".cache/pre-commit", ".cache/yarn", ".cache/node", ".cache/node-gyp", ".cache/deno",
    ".cache/typescript", ".cache/ms-playwright", ".nvm", ".nodenv", ".volta/bin", ".volta/tools", ".fnm", ".bun/bin",
    ".bun/install/cache", ".deno/bin", ".npm/_cacache", ".npm-global", ".npm-packages", ".pnpm-store",
    ".yarn/berry/cache", "miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba",
    # The JVM, .NET, Ruby, PHP, Haskell, OCaml, Elixir, Julia, Swift, Dart, Nix, and managers of versions
    ".sdkman/candidates", ".jenv", ".jabba/jdk", ".m2/repository", ".m2/wrapper", ".gradle/wrapper", ".gradle/caches",
    ".gradle/jdks", ".ivy2/cache", ".sbt/boot", ".cache/coursier", ".konan", ".dotnet", ".nuget/packages", ".rbenv",
    ".rvm", ".gem/ruby", ".bundle/cache", ".config/composer/vendor", ".composer/vendor", ".ghcup", ".cabal/bin",
    ".cabal/packages", ".cabal/store", ".stack/programs", ".stack/snapshots", ".opam", ".mix", ".hex/packages",
    ".asdf", ".elan", ".juliaup", ".julia/packages", ".julia/artifacts", ".swiftly", ".pub-cache", ".nix-profile",
    ".local/state/nix", ".tfenv", ".krew/bin", ".conan2/p", ".vcpkg", ".emsdk", ".luarocks", "Android/Sdk",
    "Library/Java", "Library/Python", "Library/Caches/pip", "Library/Caches/go-build",
    # Settings without keys
    ".config/git/ignore", ".config/git/attributes", ".gitignore", ".gitignore_global", ".config/ruff", ".config/mypy",
    ".config/black", ".config/fontconfig", ".tool-versions", ".python-version", ".nvmrc",
)  # fmt: skip
"""Places of a home with programs, packages and caches: none of them holds keys."""

VARIABLES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("RUSTUP_HOME", "GOROOT", "GOMODCACHE", "GOCACHE", "PYENV_ROOT", "NVM_DIR", "VIRTUAL_ENV", "CONDA_PREFIX",
         "JAVA_HOME", "DOTNET_ROOT", "PIP_CACHE_DIR", "UV_CACHE_DIR", "UV_PYTHON_INSTALL_DIR", "RBENV_ROOT", "ASDF_DIR",
         "ASDF_DATA_DIR", "MISE_DATA_DIR", "BUN_INSTALL", "ANDROID_HOME", "ANDROID_SDK_ROOT", "PNPM_HOME"), ("",)
    ),
    "CARGO_HOME": ("bin", "registry", "git", "config.toml"),
    "GOPATH": ("bin", "pkg"),
    "GRADLE_USER_HOME": ("wrapper", "caches", "jdks"),
    "VOLTA_HOME": ("bin", "tools"),
    "SDKMAN_DIR": ("candidates",),
    "npm_config_cache": ("_cacache",),
}  # fmt: skip
"""Variables that name a toolchain's folder, and what of it is seen."""

GIT_SETTINGS = (".gitconfig", ".config/git/config")
_KEY_MARKS = ("://", "helper", "extraheader", "password", "token")
"""A user's git settings in which one of these stands are not seen."""
_SETTINGS_CAP = 1 << 16
_PREFIX_MARKS = ("lib", "lib64", "libexec", "pyvenv.cfg", "conda-meta", "package.json", ".package-lock.json")
"""What stands next to a folder of programs where both belong to one toolchain."""
_PUBLIC = 0o004


def seen_of_system() -> tuple[str, ...]:
    """The system's folders that are there."""
    return tuple(place for place in SYSTEM if os.path.exists(place))


def home_in_system(search: str) -> str | None:
    """The home if it lies in one of the system's folders, which must not show it. `search` is PATH."""
    home = os.path.realpath(os.path.expanduser("~"))
    inside = any(contained(home, place) and home != place for place in seen_of_system())
    return home if inside and home not in map(os.path.realpath, filter(None, search.split(os.pathsep))) else None


def toolchains(root: str, environment: Mapping[str, str], more: Sequence[str] = ()) -> list[str]:
    """Files and folders outside the system's that commands need: toolchains, programs, `more` of the user's choice.

    Each as it is spelled and with its links followed. None of them holds the home or the workspace `root`.
    """
    named = [environment[name] for name in VARIABLES if environment.get(name, "").startswith("/")]
    key = (root, environment.get("PATH", ""), tuple(named), tuple(more), os.path.expanduser("~"))
    if key not in _known:
        _known.clear()
        _known[key] = _toolchains(root, environment, more)
    return _known[key]


_known: dict[tuple[object, ...], list[str]] = {}


def _toolchains(root: str, environment: Mapping[str, str], more: Sequence[str]) -> list[str]:
    home = os.path.expanduser("~")
    spelled = [f"{home}/{name}" for name in TOOLCHAINS]
    spelled += [place for name in GIT_SETTINGS if _is_plain(place := f"{home}/{name}")]
    spelled += [
        f"{environment[name]}/{inner}".rstrip("/")
        for name, inside in VARIABLES.items()
        for inner in inside
        if environment.get(name, "").startswith("/")
    ]
    spelled += [sys.prefix, sys.base_prefix, *_of_path(environment.get("PATH", ""), home)]
    spelled += [os.path.expanduser(place) for place in more]
    both = {os.path.normpath(each) for place in spelled for each in (place, os.path.realpath(place))}
    holders = (root, home, os.path.realpath(home), "/")
    kept = sorted(
        place
        for place in both
        if os.path.lexists(place) and not contained(place, root) and not any(contained(one, place) for one in holders)
    )
    covered = home_in_system(environment.get("PATH", ""))
    inside = [place for place in kept if covered and contained(place, covered)]
    return [*_outermost((place for place in kept if place not in inside), seen_of_system()), *_outermost(inside, ())]


def _of_path(search: str, home: str) -> Iterator[str]:
    """The folders of PATH, each with its whole toolchain if it is one."""
    own = {home, *(f"{home}/{name.partition('/')[0]}" for name in TOOLCHAINS if "/" in name)}
    for folder in filter(os.path.isabs, search.split(os.pathsep)):
        yield folder
        for place in {os.path.normpath(folder), os.path.realpath(folder)}:
            prefix, _, name = place.rpartition("/")
            toolchain = name in ("bin", "sbin", ".bin", "Scripts") and prefix not in ("", *own)
            if toolchain and any(os.path.lexists(f"{prefix}/{mark}") for mark in _PREFIX_MARKS):
                yield prefix


def _outermost(places: Iterable[str], seen: Sequence[str]) -> Iterator[str]:
    """The places that lie in no other one."""
    around: list[str] = list(seen)
    for place in places:
        if not any(contained(place, one) for one in around):
            around.append(place)
            yield place


def _is_plain(settings: str) -> bool:
    """Whether a user's git settings hold neither addresses nor names of programs that give keys."""
    try:
        with open(settings, encoding="utf-8", errors="replace") as file:
            text = file.read(_SETTINGS_CAP + 1).lower()
    except OSError:
        return False
    return len(text) <= _SETTINGS_CAP and not any(mark in text for mark in _KEY_MARKS)


@lru_cache(maxsize=1)
def private_settings() -> tuple[str, ...]:
    """The files and folders of /etc that this user may read and others may not: keys of the machine, mostly."""
    found: list[str] = []
    waiting = ["/etc"]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.is_symlink():
                continue
            try:
                private = not entry.stat(follow_symlinks=False).st_mode & _PUBLIC
            except OSError:
                continue
            if private and os.access(entry.path, os.R_OK):
                found.append(entry.path)
            elif not private and entry.is_dir():
                waiting.append(entry.path)
    return tuple(sorted(found))


def holds_home(folder: str) -> bool:
    """Whether the home is this folder or lies in it, so that commands that see the folder see all of the home."""
    return contained(os.path.realpath(os.path.expanduser("~")), folder)
