"""The names of other agents' tools and arguments, as data: models that learnt on those use their names here.

A name is listed only if its meaning is that of codelet's own, so that nothing is guessed. For what codelet does not
have, or has in another form, a sentence says what to send instead.
"""

from __future__ import annotations

from typing import Any

OTHER_TOOLS = {
    other: own
    for own, others in {
        "bash": "shell local_shell run_shell_command run_command run_terminal_cmd run_terminal_command run_in_terminal "
        "exec_command execute_command execute_bash container.exec terminal",
        "read": "read_file read_text_file view view_file view_image open open_file cat ls list list_dir list_directory "
        "list_files",
        "write": "write_file write_to_file create create_file create_new_file new_file",
        "edit": "str_replace edit_file file_edit replace replace_in_file search_replace multiedit multi_edit",
        "grep": "search search_files search_dir search_in_files search_file_content grep_search grep_files ripgrep rg",
        "find": "glob glob_file_search find_files find_file file_search",
        "plan": "update_plan todowrite todo_write write_todos todo manage_todo_list",
        "remember": "save_memory",
        "fetch": "webfetch web_fetch",
        "task": "agent spawn_agent new_task delegate",
        "ask_user": "askuserquestion ask_user_question ask_followup_question",
    }.items()
    for other in others.split()
}
"""Tool names of other agents, in lower case."""

EDITORS = frozenset(("str_replace_editor", "str_replace_based_edit_tool", "text_editor"))
EDITOR_COMMANDS = {"view": "read", "create": "write", "str_replace": "edit"}
"""Tools that are several in one, and which of codelet's the argument `command` means."""

_NO_WEB = "there is no tool for the web; where commands have a network, call bash with the command `curl -sL URL`"
_NO_AGENTS = "there are no other agents: do the work with your own tools"
_ASK = "to ask the user, end your turn with an answer that asks"
_END = "to finish, end your turn with a text answer"
_TASKS = "call bash with the command `jobs %1` to see the output of the background task %1, `kill %1` to end it"
_PATCH = (
    'call edit with {"path": FILE, "edits": [{"old": TEXT, "new": TEXT}]}, once per file; write makes a new file, bash '
    "with rm or mv deletes or moves one"
)
NO_SUCH_TOOL = {
    other: sentence
    for others, sentence in {
        "apply_patch applypatch patch apply_diff insert insert_edit_into_file": _PATCH,
        "bashoutput taskoutput write_stdin killshell killbash taskstop kill_shell bash_output shell_output": _TASKS,
        "webfetch web_fetch websearch web_search google_web_search fetch browser": _NO_WEB,
        "task agent spawn_agent new_task delegate": _NO_AGENTS,
        "askuserquestion ask_user ask_user_question ask_followup_question request_user_input question": _ASK,
        "exitplanmode exit_plan_mode attempt_completion submit finish complete_task": _END,
        "read_many_files read_files": "call read once for each file, all in one step",
        "notebookedit edit_notebook": "call edit with text of the notebook's JSON, as bash with cat shows it",
        "codebase_search list_code_definition_names lsp search_symbols": "call grep with a regular expression",
        "delete_file remove_file": "call bash with the command `rm FILE`",
        "move_file rename_file": "call bash with the command `mv FILE PLACE`",
        "toolsearch tool_search": "all tools are given already",
    }.items()
    for other in others.split()
}
"""Alternatives to tools that codelet does not have."""

_FILE = "file_path filePath filepath absolute_path target_file filename file relative_path"
_FOLDER = "dir dir_path directory folder relative_workspace_path"
NAMES: dict[str, dict[str, str]] = {
    tool: {other: own for own, others in arguments.items() for other in others.split()}
    for tool, arguments in {
        "": {
            "path": _FILE,
            "command": "cmd script",
            "background": "run_in_background is_background",
            "content": "contents",
            "pattern": "regex",
            "limit": "head_limit",
        },
        "bash": {
            "unconfined": "dangerouslyDisableSandbox with_escalated_permissions",
            "workdir": "cwd working_directory working_dir workingDirectory directory dir_path",
            "timeout": "timeout_seconds",
        },
        "read": {
            "path": f"{_FILE} {_FOLDER}",
            "offset": "line_number start_line startLine line_start start start_line_one_indexed",
            "end": "end_line endLine line_end end_line_one_indexed_inclusive",
        },
        "write": {"content": "contents file_text text"},
        "edit": {"content": "diff"},
        "grep": {
            "path": f"{_FILE} {_FOLDER} dir_name search_path",
            "pattern": "regex query search_term search_pattern",
            "glob": "include include_pattern includePattern file_pattern filePattern",
            "exclude": "exclude_pattern",
            "ignore_case": "-i ignoreCase case_insensitive insensitive",
            "case_sensitive": "caseSensitive",
            "around": "-C context context_lines",
            "after": "-A",
            "before": "-B",
            "limit": "head_limit max_results maxResults max_matches total_max_matches",
            "literal": "fixed_strings -F fixedStrings",
        },
        "find": {
            "path": f"{_FILE} {_FOLDER}",
            "pattern": "query glob glob_pattern file_name filename name",
        },
        "plan": {"plan": "todos steps items todoList"},
        "recall": {"entry": "id"},
    }.items()
}
"""By tool: codelet's names of arguments, or those that `call_forms` reads, by what others call them; "" is any tool."""

EDIT_PARTS = {
    **dict.fromkeys(("old_string", "oldString", "old_str", "old_text", "oldText", "search"), "old"),
    **dict.fromkeys(("new_string", "newString", "new_str", "new_text", "newText", "replace", "replacement"), "new"),
    **dict.fromkeys(("replace_all", "replaceAll", "allow_multiple"), "all"),
}

_Values = tuple[Any, ...] | None
_ANY: _Values = None
_COMMENTS: dict[str, _Values] = dict.fromkeys(("description", "explanation", "security_risk"), _ANY)
HARMLESS: dict[str, dict[str, _Values]] = {
    "bash": {
        **_COMMENTS,
        **dict.fromkeys(("justification", "yield_time_ms", "max_output_tokens", "prefix_rule"), _ANY),
        **dict.fromkeys(("restart", "tty", "interactive", "is_input"), (False,)),
        "login": _ANY,
        "requires_approval": _ANY,
        "shell": ("bash", "/bin/bash", "sh", "/bin/sh"),
        "sandbox_permissions": ("use_default",),
    },
    "read": {
        **_COMMENTS,
        **dict.fromkeys(("pages", "should_read_entire_file", "ignore", "file_filtering_options"), _ANY),
        "command": ("view",),
        "encoding": ("utf-8", "utf8"),
        "mode": ("slice",),
        "recursive": (False,),
        "depth": (1,),
    },
    "write": {**_COMMENTS, "overwrite": (True,), "append": (False,), "command": ("create",), "encoding": ("utf-8",)},
    "edit": {**_COMMENTS, "instruction": _ANY, "expected_replacements": (1,), "command": ("str_replace",)},
    "grep": {
        **_COMMENTS,
        "-n": _ANY,
        "show_line_numbers": _ANY,
        "output_mode": ("content", "files_with_matches"),
        "max_matches_per_file": _ANY,
        **dict.fromkeys(("multiline", "invert_match", "-v", "no_ignore", "include_ignored"), (False,)),
        **dict.fromkeys(("recursive", "-r", "is_regex", "use_default_ignore", "respect_git_ignore"), (True,)),
        "offset": (0,),
    },
    "find": {
        **_COMMENTS,
        **dict.fromkeys(("limit", "head_limit", "max_results", "sort"), _ANY),
        **dict.fromkeys(("recursive", "case_sensitive", "respect_git_ignore", "respect_gemini_ignore"), (True,)),
        "type": ("file", "f", "files"),
    },
    "plan": {**_COMMENTS, "action": ("write",), "merge": (False,)},
    "recall": _COMMENTS,
}
"""By tool: foreign arguments that change nothing, with their harmless values.

Arguments that could change a call's effect (`env`, `dry_run`) are not listed, so the call is refused.
"""

_IGNORED = "to search what git ignores, give its folder as path"
_WHOLE = 'write replaces the whole file; to add to a file, call edit: "old" is its last line, "new" that line and more'
_BY_TEXT = (
    'edit finds places by their text, not by number: send "old", the present lines, and "new", their replacement; '
    "to insert, repeat a line of the file in both"
)
INSTEAD: dict[str, dict[str, str]] = {
    "bash": {
        **dict.fromkeys(("env", "environment"), "set variables in the command: `NAME=value pytest`"),
        **dict.fromkeys(("stdin", "input", "chars"), "a command has no input: use a here-document, `python - <<'END'`"),
        **dict.fromkeys(("session_id", "bash_id", "shell_id"), _TASKS),
        "restart": "each command has a new shell, none has to be restarted: send the next command",
        "tty": "there is no terminal: use options that need none",
        "shell": "name the shell in the command: `zsh -c '…'`",
    },
    "read": {
        **dict.fromkeys(("paths", "files"), "one path a call: call read once for each file, all in one step"),
        **dict.fromkeys(("recursive", "depth"), "to list files of all folders below, call find with pattern `**`"),
        **dict.fromkeys(("view_range", "end"), 'send "offset", the first line, and "limit", how many'),
    },
    "write": dict.fromkeys(("append", "overwrite", "mode"), _WHOLE),
    "edit": {
        **dict.fromkeys(("start_line", "end_line", "line", "insert_line", "line_number", "position"), _BY_TEXT),
        **dict.fromkeys(("replacement_text", "insert_text", "new_content"), _BY_TEXT),
        **dict.fromkeys(("patch", "content", "input", "code_edit"), "send each place as old and new text"),
        "expected_replacements": 'set "all" to true, or make "old" longer',
        "regex": "edit replaces exact text: make one edit for each place, or call bash with sed",
    },
    "grep": {
        "multiline": "grep matches within one line: search for one and set around, or call bash with `rg -U`",
        "output_mode": "grep shows the lines; to count them, call bash with `rg -c PATTERN`",
        "offset": "raise limit (at most 1000), or narrow the pattern, the path or the glob",
        **dict.fromkeys(("type", "exclude"), "send one glob, such as *.py or !*.min.js"),
        **dict.fromkeys(("invert_match", "-v"), "call bash with `grep -v`"),
        **dict.fromkeys(("no_ignore", "include_ignored", "use_default_ignore", "respect_git_ignore"), _IGNORED),
        **dict.fromkeys(("paths", "globs"), "send one path, and a glob such as {src,test}/**/*.ts"),
    },
    "find": {
        "case_sensitive": "write both letters in the glob: [Rr]eadme*",
        **dict.fromkeys(("respect_git_ignore", "no_ignore"), _IGNORED),
        "type": "find gives files only; call read to list a folder",
    },
    "plan": {"action": "an empty plan shows it", "merge": "send the whole plan each time"},
}
"""By tool: replacements for arguments or values that it does not take."""

FILE_TYPES = {
    "py": "*.{py,pyi}",
    "python": "*.{py,pyi}",
    "js": "*.{js,jsx,mjs,cjs}",
    "ts": "*.{ts,tsx,mts,cts}",
    "rust": "*.rs",
    "go": "*.go",
    "java": "*.java",
    "c": "*.{c,h}",
    "cpp": "*.{cc,cpp,cxx,h,hh,hpp}",
    "cs": "*.cs",
    "ruby": "*.rb",
    "php": "*.php",
    "md": "*.{md,markdown}",
    "json": "*.json",
    "yaml": "*.{yaml,yml}",
    "html": "*.{htm,html}",
    "css": "*.{css,scss}",
    "sh": "*.{sh,bash}",
    "sql": "*.sql",
}
"""ripgrep's names of file types, as globs."""
