"""The one table of options, settings and variables that keep a repository from starting programs or redirecting git.

Settings on the command line win over every file and over variables. What has no such setting is switched off by an
option of the command, by a variable, or makes the repository one that is asked about (`configuration.doubt`).
"""

from __future__ import annotations

from collections.abc import Mapping

OPTIONS = ("--no-optional-locks", "--no-pager")
"""What stands before the git command."""

SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "safe.bareRepository": "explicit",
    "protocol.ext.allow": "never",
    "log.showSignature": "false",
    "log.diffMerges": "separate",
    "gpg.program": "false",
    "gpg.openpgp.program": "false",
    "gpg.ssh.program": "false",
    "gpg.x509.program": "false",
    "diff.submodule": "short",
    "diff.ignoreSubmodules": "all",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
    "stash.showPatch": "false",
    "blame.ignoreRevsFile": "",
}
"""Each stops one way in which a repository's configuration makes git run, read or print something."""

SETTINGS_FOR_COMMANDS = ("core.fsmonitor", "safe.bareRepository", "protocol.ext.allow")
"""Those that also hold for whatever runs git inside a command that the user approved."""

NO_PROGRAMS = ("--no-ext-diff", "--no-textconv")
COMMAND_OPTIONS: dict[str, tuple[str, ...]] = {
    "diff": (*NO_PROGRAMS, "--ignore-submodules=all"),
    "log": NO_PROGRAMS,
    "show": NO_PROGRAMS,
    "status": ("--ignore-submodules=all",),
    "blame": ("--no-textconv",),
    "grep": ("--no-textconv",),
}

ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
"""A repository can make git fetch what is missing, and name the program for it: nothing here needs a transport."""

_OFF = frozenset(
    ("GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS", "GIT_EXEC_PATH")
)
REDIRECTING = frozenset(
    ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY",
     "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_CONFIG", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE",
     "GIT_REPLACE_REF_BASE", "GIT_ATTR_SOURCE", "GIT_REFERENCE_BACKEND", "GIT_IMPLICIT_WORK_TREE")
)  # fmt: skip
"""Variables that make git read another repository, or other parts of it, than the one that the folder is in."""


def overrides_of(environment: Mapping[str, str]) -> dict[str, str]:
    """What to set in place of the user's variables that make git write a trace, take its own programs from elsewhere,
    or read path patterns otherwise.
    """
    return {
        name: "" if name == "GIT_EXEC_PATH" else "0"
        for name in sorted(environment)
        if name.startswith("GIT_TRACE") or name in _OFF
    }


def without_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for codelet's own calls: git looks at the folder it is started in, and writes no trace."""
    dropped = REDIRECTING | _OFF | {"GIT_EXTERNAL_DIFF"}
    return {
        name: value for name, value in environment.items() if name not in dropped and not name.startswith("GIT_TRACE")
    }
