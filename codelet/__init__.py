"""codelet: an ephemeral coding REPL. The parts and how they fit: AGENTS.md."""

__version__ = "0.1.0"
