"""Errors in the command line: the probable meaning, where to look, and the replacement for another program's command,
option or slash command.

It is imported for mistakes only, and for a bare word, which may be one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from codelet.errors import UsageError
from codelet.system.text.spelling import did_you_mean, nearest

_NO_KEYS = "codelet stores no keys; export ANTHROPIC_API_KEY=… (or another vendor's) and run codelet"
_NO_SESSIONS = (
    "codelet keeps nothing unless asked; --session FILE saves a session there, and continues it the next time"
)
_MCP = "--mcp FILE starts the MCP servers in a JSON file; [mcp_servers.NAME] in your settings file starts one always"
_ONE_SHOT = "codelet -p PROMPT answers one prompt and exits"
_REPL = "codelet alone starts a session"
_AUTO = "--mode auto runs edits and sandboxed commands without asking; --yes answers every question with yes"
_MODES = "--mode ask, auto-edit, auto or read-only sets what runs without asking; --plan asks for a plan first"
_RULES = "--allow RULE and --deny RULE, such as 'bash(git log *)'"
_SETTINGS = "settings are flags, CODELET_… variables and ~/.config/codelet/config.toml; codelet help lists them"
_PIP = "update codelet the way it was installed: uv tool upgrade, pipx upgrade or pip"

PEER_COMMANDS: dict[str, tuple[str, tuple[str, ...] | None]] = {
    "login": (_NO_KEYS, ("status",)),
    "logout": (_NO_KEYS, ()),
    "auth": (_NO_KEYS, ("login", "logout", "list", "status")),
    "setup-token": (_NO_KEYS, ()),
    "mcp-server": ("codelet is a client of MCP servers, not one itself", ()),
    "resume": (_NO_SESSIONS, None),
    "continue": (_NO_SESSIONS, ()),
    "exec": (_ONE_SHOT, None),
    "run": (_ONE_SHOT, ()),
    "chat": (_REPL, None),
    "tui": (_REPL, ()),
    "init": ("/init in a session writes AGENTS.md, after asking you", ()),
    "config": (_SETTINGS, ("list", "get", "set")),
    "settings": (_SETTINGS, ()),
    "update": (_PIP, ()),
    "upgrade": (_PIP, ()),
    "plugin": ("codelet has no plugins; open_session(extensions=…) takes extensions in Python", ("install", "list")),
    "agents": ("codelet profiles lists the profiles, --profile NAME uses one", ()),
}
"""Commands of other programs: what to do here, and the words that can follow; None for any one argument.

A longer text that begins with such a word is a prompt, as is one argument with spaces: see `peer_command`.
"""

PEER_OPTIONS = {
    "-c": _NO_SESSIONS,
    "-r": _NO_SESSIONS,
    "--session-id": _NO_SESSIONS,
    "--print": _ONE_SHOT,
    "-e": _ONE_SHOT,
    "--message": _ONE_SHOT,
    "--yolo": _AUTO,
    "--full-auto": _AUTO,
    "--dangerously-skip-permissions": _AUTO,
    "--dangerously-bypass-approvals-and-sandbox": _AUTO,
    "--approval-mode": _MODES,
    "--permission-mode": _MODES,
    "--ask-for-approval": _MODES,
    "-a": _MODES,
    "-s": _MODES,
    "--allowedTools": _RULES,
    "--allowed-tools": _RULES,
    "--disallowedTools": _RULES,
    "--disallowed-tools": _RULES,
    "--mcp-config": _MCP,
    "--append-system-prompt": "instructions are in AGENTS.md or CLAUDE.md, or in a profile (--profile NAME)",
    "--settings": _SETTINGS,
    "--config": _SETTINGS,
    "--vim": "--edit-mode vi",
    "-C": "codelet works in the current folder: cd there first",
    "--cd": "codelet works in the current folder: cd there first",
    "--image": "name the image in the prompt: @shot.png",
    "-i": "name the image in the prompt: @shot.png",
}
"""Options of other programs, and what to do here."""

PEER_SLASH = {
    "login": _NO_KEYS,
    "logout": _NO_KEYS,
    "skills": "codelet found no skills; each is a file such as ~/.agents/skills/NAME/SKILL.md",
    "hooks": "hooks are in the settings file, as [[hooks.PreToolUse]], or in the file of --hooks FILE",
    "plugin": "codelet has no plugins; open_session(extensions=…) takes extensions in Python",
    "vim": "start codelet with --edit-mode vi",
    "settings": _SETTINGS,
    "config": _SETTINGS,
    "tree": "/rewind goes back to an earlier prompt, /fork keeps the conversation aside",
    "reasoning": "Ctrl-O shows the last reasoning in full",
    "hotkeys": "? shows the keys",
    "shortcuts": "? shows the keys",
    "keybindings": "? shows the keys; --keys changes them",
    "terminal-setup": "Alt-Enter and Ctrl-J begin a new line in every terminal",
    "statusline": "/status and /context show more than the row below the prompt",
    "add-dir": "--allow 'read(/path/**)' lets the model read another folder",
    "add": "attach a file with @path",
    "ide": "codelet has no editor plugin; Ctrl-X Ctrl-E opens the prompt in your editor",
    "run": "!COMMAND runs a shell command",
    "shell": "!COMMAND runs a shell command",
    "bug": "report bugs where you got codelet; codelet doctor shows what it finds on this machine",
    "feedback": "report bugs where you got codelet; codelet doctor shows what it finds on this machine",
    "upgrade": _PIP,
    "update": _PIP,
    "sandbox": "--sandbox auto, on or off; /mode shows what confines commands",
    "yolo": "/mode auto runs edits and sandboxed commands without asking",
    "security-review": "/review reviews a change, for security too",
    "web": "codelet does not search the web",
    "search": "codelet does not search the web",
}
"""Slash commands of other programs, and what to do here."""


def peer_command(words: Sequence[str]) -> UsageError | None:
    """Return the mistake in arguments that are a command of another program, such as `exec "hi"`; None for a prompt.

    The command is a separate argument, with nothing after it or with a word from its entry.
    """
    word, *following = words
    if word not in PEER_COMMANDS:
        return None
    answer, sub_words = PEER_COMMANDS[word]
    is_peers = not following or (len(following) == 1 if sub_words is None else following[0] in sub_words)
    prompt = " ".join(words)
    return UsageError(f"there is no command {word!r}: {answer}. As a prompt: -p {prompt!r}") if is_peers else None


def missing_value(flag: str) -> UsageError:
    """The mistake in a flag that has no value after it."""
    if flag in ("--session", "--continue", "--resume"):
        return UsageError(f"{flag} needs a file: {_NO_SESSIONS}; see codelet --help")
    return UsageError(f"{flag} needs a value; see codelet --help")


def invalid_choice(flag: str, value: str, choices: Sequence[str]) -> UsageError:
    """The mistake in a value that a flag does not take."""
    hint = f"; {_MODES}" if flag == "--sandbox" else ""
    return UsageError(f"{flag}: invalid choice {value!r} (choose from {', '.join(choices)}){hint}; see codelet --help")


def plain_message(message: str) -> str:
    """Return the message of argparse about the arguments of a command, made plainer."""
    if (words := message.removeprefix("unrecognized arguments: ")) != message:
        return f"not understood: {words}; a prompt that begins with a command's name is given with -p"
    return message.replace("the following arguments are required:", "missing:")


def near_command(word: str, commands: Iterable[str]) -> UsageError | None:
    """The mistake in a word that is nearly a command; None in any other word."""
    meant = did_you_mean(word, commands)
    return UsageError(f"there is no command {word!r}{meant} As a prompt: -p {word}") if meant else None


def unknown_option(name: str, known: Iterable[str], later: Iterable[tuple[str, Iterable[str]]]) -> UsageError:
    """The mistake in an option that the program lacks; `later` are the commands after it, each with its options."""
    if name in PEER_OPTIONS:
        return UsageError(f"unknown option {name}: {PEER_OPTIONS[name]}")
    for command, options in later:
        if meant := _meant_option(name, options, f"codelet {command} {{}}", itself=True):
            return UsageError(f"unknown option {name}{meant}")
    return UsageError(f"unknown option {name}{_meant_option(name, known) or '; see codelet --help'}")


def unknown_to_command(name: str, path: str, own: Iterable[str], main: Iterable[str]) -> UsageError:
    """The mistake in an option that a command lacks, but perhaps not the program; `path` is the command as written."""
    if name in main:
        return UsageError(f"{name} is no option of {path}: options of the whole program go before it")
    if meant := _meant_option(name, own):
        return UsageError(f"unknown option {name}{meant}")
    if meant := _meant_option(name, main):
        return UsageError(f"unknown option {name}{meant} It goes before {path}")
    return UsageError(f"unknown option {name}; codelet {path} --help lists them")


def _meant_option(name: str, known: Iterable[str], form: str = "{}", *, itself: bool = False) -> str:
    """The words for the option that was probably meant; from three letters on also one that begins like it."""
    names = list(known)
    longer = [each for each in names if name.startswith("--") and len(name) > 4 and each.startswith(name)]
    near = name if itself and name in names else nearest(name, names) or next(iter(longer), None)
    return f"; did you mean {form.format(near)}?" if near else ""
