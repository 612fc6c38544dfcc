"""Front ends: consumers of a session's events. Nothing below them prints (tests/api/test_open_session.py).

Each opens a session with `codelet.opening.session_from`, runs `async for event in session.send(prompt)` inside
`contextlib.aclosing`, matches on the events that it shows, ignores the others, and closes the session at the end.

`printing` answers one prompt in the text, json or stream-json format. `terminal` is the REPL: `run` prepares the
terminal, `repl` reads and evaluates, `turn_view` runs a turn, `show` makes rows of events, `slash_commands` holds the
/commands. `acp` serves editors. `commands` holds `codelet COMMAND`. `exporting` saves a session while it runs,
`arguments` reads the command line, `trust` asks about a project's settings.
"""
