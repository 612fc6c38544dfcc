"""The completion script for fish: one `complete` line for each option and command, under the command it belongs to."""

from __future__ import annotations

from codelet.frontends.commands.shell_completion.command_table import CommandTable, Parameter

_HEAD = """\
# Completion of codelet for fish; made by `codelet completion fish`.
function __codelet_at --description 'whether the words so far lead to this command'
    set -l path
    set -l skip 0
    for word in (commandline -opc)[2..-1]
        if test $skip = 1
            set skip 0
            continue
        end
        switch "$path|$word"
{valued}
            case '*'
                switch "$path $word"
{paths}
                end
        end
    end
    test "$path" = "$argv[1]"
end
complete -c codelet -f
"""


def fish_script(table: CommandTable) -> str:
    """The script."""
    valued, paths, lines = [], [], []
    for command in table.every():
        path = command.place
        if command.taking:
            names = " ".join(_quoted(f"{path}|{name}") for name in command.taking)
            valued.append(f"            case {names}\n                set skip 1")
        if command.path:
            paths.append(f"                    case {_quoted(command.spelled)}")
            paths.append(f"                        set path {_quoted(path)}")
        lines += _lines(path, command)
    return _HEAD.format(valued="\n".join(valued), paths="\n".join(paths)) + "\n".join(lines) + "\n"


def _lines(path: str, command: CommandTable) -> list[str]:
    at = f"complete -c codelet -n {_quoted(f'__codelet_at {_quoted(path)}')}"
    lines = [f"{at} -a {each.path[-1]} -d {_quoted(each.about)}" for each in command.inner]
    for word in command.words:
        if word.choices:
            lines.append(f"{at} -a {_quoted(' '.join(word.choices))}")
        elif word.files:
            lines.append(f"{at} -F")
    return lines + [f"{at} {_option(option)}" for option in command.options]


def _option(option: Parameter) -> str:
    words = []
    for name in option.names:
        words += ["-l" if name.startswith("--") else "-s", name.lstrip("-")]
    if option.choices:
        words += [*([] if option.optional else ["-x"]), "-a", _quoted(" ".join(option.choices))]
    elif option.files:
        words += ["-r", "-F"]
    elif option.takes_word:
        words.append("-x")
    return " ".join([*words, "-d", _quoted(option.about)])


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
