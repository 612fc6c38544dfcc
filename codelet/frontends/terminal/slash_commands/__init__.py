"""The /commands: `slash_command` says what one is and finds it, `command_list` lists them, the others hold handlers.

A handler in `show_…` writes on a `Screen` what a `Session` holds, and works without a terminal, too; the others act on
the REPL through `ReplControls`.
"""
