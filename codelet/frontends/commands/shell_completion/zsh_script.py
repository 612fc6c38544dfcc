"""The completion script for zsh: a function for each command, made of what `_arguments` reads."""

from __future__ import annotations

import re

from codelet.frontends.commands.shell_completion.command_table import CommandTable, Parameter

_HEAD = """\
#compdef codelet
# Completion of codelet for zsh; made by `codelet completion zsh`.
"""
_TAIL = """
if [ "$funcstack[1]" = _codelet ]; then
    _codelet "$@"
else
    compdef _codelet codelet
fi
"""


def zsh_script(table: CommandTable) -> str:
    """The script."""
    return _HEAD + "\n".join(_function(command) for command in table.every()) + _TAIL


def _name(command: CommandTable) -> str:
    return "_".join(("_codelet", *command.path))


def _function(command: CommandTable) -> str:
    """The function that completes what stands after one command."""
    specs = [_option(option) for option in command.options]
    if command.inner:
        specs += ["'1: :->command'", "'*:: :->rest'"]
    else:
        specs += [f"'*: :{_action(word)}'" for word in command.words[:1]]
    lines = [
        f"{_name(command)}() {{",
        "    local curcontext=$curcontext state line",
        "    typeset -A opt_args",
        "    _arguments -C -s \\",
        " \\\n".join(f"        {spec}" for spec in specs),
    ]
    if command.inner:
        lines += ["    case $state in", "    command)", "        local -a commands=("]
        lines += [f"            {_quoted(f'{each.path[-1]}:{_plain(each.about)}')}" for each in command.inner]
        lines += ["        )", "        _describe command commands ;;", "    rest)", "        case $line[1] in"]
        lines += [f"        {each.path[-1]}) {_name(each)} ;;" for each in command.inner]
        lines += ["        esac ;;", "    esac"]
    return "\n".join([*lines, "}", ""])


def _option(option: Parameter) -> str:
    """One option as `_arguments` reads it; it may be given again."""
    about = _quoted(f"[{_plain(option.about)}]")
    value = ""
    if option.value:
        sign = "::" if option.optional else ":"
        value = _quoted(f"{sign}{_plain(option.value)}:") + _quoted(_action(option))
    names = "{" + ",".join(f"{name}{_behind(name, option)}" for name in option.names) + "}"
    spelled = names if len(option.names) > 1 else names[1:-1]
    return f"'*'{spelled}{about}{value}"


def _behind(name: str, option: Parameter) -> str:
    """How the value may follow: --name=value and --name value, -n value and -nvalue."""
    if not option.takes_word:
        return ""
    return "=" if name.startswith("--") else "+"


def _action(word: Parameter) -> str:
    if word.choices:
        return f"({' '.join(word.choices)})"
    return "_files" if word.files else " "


def _plain(text: str) -> str:
    """A text without what `_arguments` reads as a sign."""
    return re.sub(r"([\[\]:\\])", r"\\\1", text)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
