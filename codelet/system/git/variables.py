"""git's own variables, as a hook or a shell sets them: honoured if they stay in one repository, else refused.

`git commit FILE` and `git commit -a` let their hooks read another index than the usual one, a push keeps its objects
apart until the hooks agree, and only GIT_DIR identifies the repository of a user's dotfiles. Without these variables
another repository would be read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from codelet.errors import UsageError
from codelet.system.git import GitVariables, use_variables
from codelet.system.git.hardening import Repository, find_repository, is_below, repository_at

_UNSUPPORTED = ("GIT_SHALLOW_FILE", "GIT_GRAFT_FILE", "GIT_REPLACE_REF_BASE", "GIT_REFERENCE_BACKEND")
"""Variables with which git would read other commits."""
_OBJECTS = "GIT_OBJECT_DIRECTORY"
_ALTERNATES = "GIT_ALTERNATE_OBJECT_DIRECTORIES"


def honour_variables(folder: Path) -> None:
    """Have `run_git` use the variables that name an index, objects or a repository, in this task and those it starts.

    Raises UsageError for a variable that leads out of the repository.
    """
    use_variables(_variables(os.path.realpath(folder), os.environ))


def check_no_variables(folder: Path) -> None:
    """Raise UsageError if a variable makes git read anything but the repository around `folder`."""
    found = _variables(os.path.realpath(folder), os.environ)
    if found is not None and (found.repository is not None or found.values):
        name = next(iter(found.values))
        raise _refused(name, "is not used here; run codelet review in the shell, or unset the variable")


def _variables(root: str, environment: Mapping[str, str]) -> GitVariables | None:
    """The variables to use; None if none of them changes what git reads."""
    for name in _UNSUPPORTED:
        if name in environment:
            raise _refused(name, "is not supported: unset it")
    around = find_repository(root)
    repository = _named(root, around, environment)
    if repository is None:
        return None
    values: dict[str, str] = {}
    if repository is not around:
        values["GIT_DIR"] = repository.git_folder
        if "GIT_WORK_TREE" in environment:
            values["GIT_WORK_TREE"] = repository.folder
    common = environment.get("GIT_COMMON_DIR")
    if common is not None and os.path.realpath(os.path.join(root, common)) != repository.common:
        raise _refused("GIT_COMMON_DIR", f"is not {repository.common}: unset it")
    values |= _index(repository, environment) | _objects(repository, environment)
    return GitVariables(repository=None if repository is around else repository, values=values) if values else None


def _named(root: str, around: Repository | None, environment: Mapping[str, str]) -> Repository | None:
    """The repository that GIT_DIR and GIT_WORK_TREE name; `around` itself if it is the one."""
    named, tree = environment.get("GIT_DIR"), environment.get("GIT_WORK_TREE")
    for name, value in (("GIT_DIR", named), ("GIT_WORK_TREE", tree)):
        if value is not None and not (value and os.path.isdir(os.path.join(root, value))):
            raise _refused(name, "names no folder: unset it")
    folder = None if tree is None else os.path.realpath(os.path.join(root, tree))
    if named is None:
        if folder is not None and (around is None or folder != around.folder):
            raise _refused("GIT_WORK_TREE", "is not the folder of the repository here: unset it")
        return around
    git_folder = os.path.realpath(os.path.join(root, named))
    inside = is_below(root, (git_folder,))
    if around is not None and not inside:
        if git_folder != around.git_folder:
            raise _refused("GIT_DIR", f"names another repository than the one in {around.folder}: unset it")
        if folder in (None, around.folder):
            return around
    return repository_at(folder or root, git_folder)


def _index(repository: Repository, environment: Mapping[str, str]) -> dict[str, str]:
    value = environment.get("GIT_INDEX_FILE")
    if value is None:
        return {}
    # git takes a relative one from the top of the work tree.
    place = os.path.realpath(os.path.join(repository.folder, value))
    if not value or not is_below(place, (repository.git_folder,)):
        raise _refused("GIT_INDEX_FILE", f"names an index outside {repository.git_folder}: unset it")
    return {} if place == f"{repository.git_folder}/index" else {"GIT_INDEX_FILE": place}


def _objects(repository: Repository, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the folders with objects. Those of a push that is not accepted yet are in a folder apart."""
    values: dict[str, str] = {}
    for name in (_OBJECTS, _ALTERNATES):
        value = environment.get(name)
        if value is None:
            continue
        given = [each for each in value.split(":") if each] if name == _ALTERNATES else [value]
        places = [os.path.realpath(os.path.join(repository.folder, each)) for each in given]
        if '"' in value or not all(is_below(place, (f"{repository.common}/objects",)) for place in places):
            raise _refused(name, f"leads out of {repository.common}/objects: unset it")
        if any(place != f"{repository.common}/objects" for place in places) or values:
            values[name] = ":".join(places)
    return values


def _refused(name: str, why: str) -> UsageError:
    return UsageError(f"the variable {name} {why}")
