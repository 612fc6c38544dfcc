"""The completion script for bash, 3.2 and later, without the package bash-completion."""

from __future__ import annotations

from shlex import quote

from codelet.frontends.commands.shell_completion.command_table import CommandTable, Parameter

_SCRIPT = """\
# Completion of codelet for bash; made by `codelet completion bash`.
_codelet() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} path="" word="" i
    if [[ $cur == "=" ]]; then cur=; elif [[ $prev == "=" ]]; then prev=${{COMP_WORDS[COMP_CWORD-2]}}; fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${{COMP_WORDS[i]}}
        case "$path|$word" in
{valued}
            *) case "$path $word" in
{paths}
            esac ;;
        esac
    done
    COMPREPLY=()
    case "$path|$prev" in
{values}
    esac
    case "$path|$cur" in
{words}
    esac
}}
complete -o bashdefault -o default -F _codelet codelet
"""
_NONE = "compopt +o default +o bashdefault 2>/dev/null; return"


def bash_script(table: CommandTable) -> str:
    """The script."""
    valued, paths, values, words = [], [], [], []
    for command in table.every():
        path = command.place
        if command.taking:
            valued.append(f"            {_patterns(path, command.taking)}) ((i++)) ;;")
        if command.path:
            paths.append(f"                {quote(command.spelled)}) path={quote(path)} ;;")
        values += [_value(path, option) for option in command.options if option.takes_word]
        words += _words(path, command)
    return _SCRIPT.format(
        valued="\n".join(valued), paths="\n".join(paths), values="\n".join(values), words="\n".join(words)
    )


def _patterns(path: str, names: tuple[str, ...]) -> str:
    return "|".join(quote(f"{path}|{name}") for name in names)


def _value(path: str, option: Parameter) -> str:
    """What completes the value of one option; the shell's own completion of files where nothing is offered."""
    done = "return" if option.files else _NONE
    if option.choices:
        done = f"{_offer(option.choices)}; {_NONE}"
    return f"        {_patterns(path, option.names)}) {done} ;;"


def _words(path: str, command: CommandTable) -> list[str]:
    """What completes an option of a command, and a word without a dash."""
    names = [name for option in command.options for name in option.names]
    inner = [each.path[-1] for each in command.inner]
    choices = [choice for word in command.words for choice in word.choices]
    lines = [f"        {quote(path + '|-')}*) {_offer(names)} ;;"]
    if inner or choices:
        lines.append(f"        {quote(path + '|')}*) {_offer([*inner, *choices])} ;;")
    elif not any(word.files for word in command.words):
        lines.append(f"        {quote(path + '|')}*) {_NONE} ;;")
    return lines


def _offer(words: list[str] | tuple[str, ...]) -> str:
    return f'COMPREPLY=($(compgen -W {quote(" ".join(words))} -- "$cur"))'
