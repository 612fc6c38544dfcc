"""The settings, in one table: defaults < user file < trusted project file < environment < flags; frozen once made.

A row is one setting. From the rows come the flags with their help, the names in files and the variables `CODELET_*`.
A project's file belongs to the repository, so it is read only with `--trust` and may only choose a model
and an effort, tighten limits and add ask and deny rules: never commands, endpoints, keys or allow rules.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from codelet.record import Record
from codelet.setting_kinds import (
    FLAG,
    PROJECT_FILE,
    USER_FILE,
    VARIABLE,
    ChosenValues,
    Group,
    Setting,
    ThemeName,
    amount,
    answer_schema,
    any_text,
    count,
    count_or_zero,
    files,
    four_shares,
    is_file,
    models,
    names,
    own_aliases,
    own_checkers,
    own_hooks,
    own_keys,
    own_servers,
    own_vendors,
    percent,
    places,
    project_settings_file,
    row,
    rows_of,
    rules,
    switch,
    text,
    user_settings_file,
)

TYPE_CHECKING = False  # type checkers take it for True: nothing of this is imported to read a command line
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Literal

    from codelet.conversation import PlacementChoice
    from codelet.extensions.services import Checker, Hook
    from codelet.extensions.session_view import LogLevel
    from codelet.providers import Transport
    from codelet.providers.catalog import Vendor
    from codelet.providers.protocol import Effort
    from codelet.safety.sandbox import Use
    from codelet.safety.verdict import Mode


ONE_SHOT = Group("one shot")
MODEL = Group("model")
PROMPT = Group("prompt and tools")
PERMISSIONS = Group("permissions")
TERMINAL = Group("in the terminal")
KEEPING = Group("keeping a session", "TARGET is a file or redis://HOST[:PORT][/DATABASE]/NAME")
GROUPS = (ONE_SHOT, MODEL, PROMPT, PERMISSIONS, TERMINAL, KEEPING)

_ALL = (USER_FILE, PROJECT_FILE, VARIABLE, FLAG)


class Settings(Record):
    """The user's choices. Times are in seconds, sizes in tokens, cost in US dollars; None is "not set".

    `given` names what the command line set, `files` the files that were read, `unknown_variables` those named CODELET_*
    that set nothing; `vendors` are the user's. `home` and `own_folder` (of the settings file) are the user's folders;
    with `trusted` the project's files are read too.
    """

    max_turns: int | None = row(None, count, ONE_SHOT, "stop after N model requests", "N", bound=True)
    max_tokens: int | None = row(None, count, ONE_SHOT, "stop after N output tokens in total", "N", bound=True)
    max_cost: float | None = row(
        None, amount, ONE_SHOT, "send no request that would exceed this cost", "USD", bound=True
    )
    allow_unknown_cost: bool = row(
        False, switch, ONE_SHOT, "continue when no price is known and --max-cost cannot apply", by=(USER_FILE, FLAG)
    )
    timeout: float | None = row(None, amount, ONE_SHOT, "stop after this time", "SECONDS", bound=True)
    json_schema: str | dict[str, Any] | None = row(
        None, answer_schema, ONE_SHOT, "answer with JSON that meets the schema in FILE", "FILE", by=(FLAG,)
    )
    allow_cut: bool = row(False, switch, ONE_SHOT, "accept input that was shortened to fit (else exit 5)")
    model: str | None = row(
        None,
        text,
        MODEL,
        "the model, such as anthropic/claude-sonnet-5-5 (litellm's names)",
        "NAME",
        by=_ALL,
        short="-m",
    )
    fallback_model: tuple[str, ...] = row(
        (), models, MODEL, "use this model when the first one fails; repeat it or separate several by commas", "NAME"
    )
    api_base: str | None = row(None, text, MODEL, "the address of a server with OpenAI's or Anthropic's API", "URL")
    api_key: str | None = row(None, text, by=(VARIABLE,))
    transport: Transport = row("auto", ("auto", "native", "litellm"), MODEL, "how to reach the model (auto)")
    # It decides where keys are sent.
    vendors: tuple[Vendor, ...] = row((), own_vendors, by=(USER_FILE,))
    aliases: tuple[tuple[str, str], ...] = row((), own_aliases, by=(USER_FILE,))
    connect_timeout: float = row(15.0, amount)
    first_token_timeout: float = row(900.0, amount)
    chunk_timeout: float = row(120.0, amount)
    retries: int = row(4, count_or_zero)
    budget: int | None = row(None, count, MODEL, "keep each request within N tokens", "N", bound=True)
    compact: str = row("auto", ("auto", "off"), MODEL, "compact a conversation that gets too long (auto)", by=_ALL)
    compact_at: int | None = row(
        None, percent, MODEL, "compact when this much of the budget is used", "PERCENT", by=_ALL
    )
    compact_entries: int | None = row(
        None, count, MODEL, "also compact when there are more than N messages", "N", by=_ALL
    )
    keep_last: int = row(
        3, count, MODEL, "the number of newest turns that a compaction keeps verbatim (3)", "N", by=_ALL
    )
    narrative: str = row(
        "auto",
        ("auto", "on", "off"),
        MODEL,
        "let the model write a handoff summary when compacting: auto, on, off (the flag alone means on)",
        alone="on",
    )
    shares: tuple[int, ...] = row((5, 30, 15, 50), four_shares, by=_ALL)
    window: int | None = row(
        None, count, MODEL, "the model's context window in tokens, if codelet does not know it", "N", by=_ALL
    )
    effort: Effort | None = row(
        None,
        ("none", "minimal", "low", "medium", "high", "xhigh", "max"),
        MODEL,
        "reasoning effort; the nearest level that the model supports is used; not sent by default",
        by=_ALL,
    )
    debug_requests: bool = row(False, switch, MODEL, "print every request to stderr, with keys masked", by=(FLAG,))
    system_prompt: str | None = row(None, any_text, PROMPT, "replace the system prompt", "TEXT")
    append_system_prompt: str | None = row(None, text, PROMPT, "add to the system prompt", "TEXT")
    tools: tuple[str, ...] | None = row(
        None, names, PROMPT, "offer only these tools, separated by commas; '' for none", "NAMES"
    )
    bare: bool = row(False, switch, PROMPT, "send no reminders and no instruction files")
    reminders: PlacementChoice = row(
        "auto",
        ("auto", "tail", "append", "prepend"),
        PROMPT,
        "where changing reminders go: tail is the end, append after a change, prepend first; auto depends on the model",
    )
    skills: str = row(
        "on", ("on", "off"), PROMPT, "load your skills and Markdown commands, with --trust also the project's (on)"
    )
    mcp: tuple[str, ...] = row(
        (), files, PROMPT, "start the MCP servers that a JSON file lists under mcpServers", "FILE", by=(FLAG,)
    )
    # A project starts none: only the user's own file and --mcp name programs to run.
    mcp_servers: dict[str, Any] | None = row(None, own_servers, by=(USER_FILE,))
    mcp_direct: int = row(2_000, count_or_zero)
    profile: str | None = row(
        None, text, PROMPT, "restrict the session to a profile; codelet profiles lists them", "NAME"
    )
    agents: bool = row(False, switch, PROMPT, "let the model delegate tasks to subagents")
    web: bool = row(False, switch, PROMPT, "let the model fetch web pages from hosts that you allow")
    environment: str = row(
        "short", ("short", "full"), PROMPT, "full also tells the model the machine's memory, disk and load (short)"
    )
    mode: Mode = row("ask", ("read-only", "ask", "auto-edit", "auto"), PERMISSIONS, "what runs without asking (ask)")
    # Rules that allow something must be given by name, never by a variable.
    allow: tuple[str, ...] = row(
        (),
        rules,
        PERMISSIONS,
        "allow calls that match, such as 'bash(git log *)' or 'edit(src/**)'",
        "RULE",
        by=(USER_FILE, FLAG),
    )
    ask: tuple[str, ...] = row(
        (), rules, PERMISSIONS, "ask about calls that match, even if they are allowed", "RULE", by=_ALL
    )
    deny: tuple[str, ...] = row(
        (), rules, PERMISSIONS, "refuse calls that match, even if they are allowed", "RULE", by=_ALL
    )
    hooks: tuple[Hook, ...] = row(
        (), own_hooks, PERMISSIONS, "also run the hooks in this JSON file", "FILE", by=(USER_FILE, FLAG)
    )
    checkers: tuple[Checker, ...] = row(
        (),
        own_checkers,
        PROMPT,
        "check files after edits with ruff, mypy, gopls, tsc, …",
        "NAMES",
        by=(USER_FILE, FLAG),
    )
    yes: bool = row(False, switch, PERMISSIONS, "answer every question with yes", by=(FLAG,), short="-y")
    ask_timeout: float | None = row(None, amount, PERMISSIONS, "treat a question as refused after this time", "SECONDS")
    sandbox: Use = row(
        "auto",
        ("auto", "on", "off"),
        PERMISSIONS,
        "which commands to sandbox: those you did not approve (auto), all (on), none (off)",
    )
    sandbox_network: bool = row(False, switch, PERMISSIONS, "let sandboxed commands use the network")
    # What commands see of the home is the user's alone to say.
    sandbox_home: str = row("named", ("named", "open"), by=(USER_FILE,))
    sandbox_seen: tuple[str, ...] = row((), places, by=(USER_FILE,))
    # In MiB, processes, MiB; 0 is no limit. Generous: what runs away ends before the machine does.
    command_memory: int = row(16_384, count_or_zero)
    command_processes: int = row(16_384, count_or_zero)
    command_file_size: int = row(16_384, count_or_zero)
    audit: str | None = row(
        None, text, PERMISSIONS, "append every verdict, answer, call and change to a file", "FILE", kept=True
    )
    log: str | None = row(
        None,
        text,
        KEEPING,
        "append the session's events to a file, as JSON lines",
        "FILE",
        kept=True,
    )
    log_level: LogLevel = row(
        "info", ("debug", "info", "warning", "error"), KEEPING, "the lowest level to log", needs=("log",)
    )
    raw: bool = row(False, switch, PERMISSIONS, "do not mask keys from the environment", by=(FLAG,))
    plan: bool = row(False, switch, PERMISSIONS, "change nothing until you approve a plan", by=(FLAG,))
    theme: ThemeName = row(
        "auto",
        ("auto", "dark", "light", "colour-blind", "plain"),
        TERMINAL,
        "colours; auto asks the terminal, plain uses none (auto)",
    )
    edit_mode: str = row("emacs", ("emacs", "vi"), TERMINAL, "key bindings of the input line (emacs)")
    keys: tuple[tuple[str, tuple[str, ...]], ...] = row((), own_keys, by=(USER_FILE,))
    notify: str = row(
        "off",
        ("off", "bell", "osc9", "osc777"),
        TERMINAL,
        "notify you of a question and of the end of a long turn, by the bell or a terminal notification (off); "
        "the flag alone means bell",
        alone="bell",
    )
    title: bool = row(False, switch, TERMINAL, "show the current activity in the window's title")
    export: str | None = row(
        None, text, KEEPING, "save the session there after every step and at the end", "TARGET", by=(FLAG,)
    )
    export_every: int = row(1, count, KEEPING, "save only after every N-th step", "N", by=(FLAG,), needs=("export",))
    export_archive: bool = row(
        False, switch, KEEPING, "also save messages that compaction removed", by=(FLAG,), needs=("export",)
    )
    snapshots: str | None = row(
        None, text, KEEPING, "also keep a copy every minute in this folder, the newest ten", "FOLDER", by=(FLAG,)
    )
    resume: str | None = row(None, text, KEEPING, "continue a saved session", "TARGET", by=(FLAG,))
    wait: float | None = row(
        None, amount, KEEPING, "wait this long for a session that another process uses", "SECONDS", needs=("export",)
    )
    facts: str | None = row(
        None, text, KEEPING, "keep facts in this file, shared by sessions", "FILE", by=(FLAG,), kept=True
    )
    facts_model: str | None = row(None, text, by=(USER_FILE,))
    memory: str | None = row(
        None, text, KEEPING, "let the model search the sessions saved in a folder or Redis", "DIR|URL", by=(FLAG,)
    )
    record: str | None = row(
        None, text, KEEPING, "record the model's answers for --model replay:FILE", "FILE", by=(FLAG,)
    )
    history: str | None = row(None, text, KEEPING, "keep the prompts that you type in this file", "FILE", by=(FLAG,))
    force: bool = row(
        False,
        switch,
        KEEPING,
        "replace an existing target of --export or --record",
        by=(FLAG,),
        needs=("export", "record"),
    )

    given: frozenset[str] = frozenset()
    unknown_variables: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    home: Path | None = None
    own_folder: Path | None = None
    trusted: bool = False

    def file_of(self, name: Literal["facts", "facts_model"]) -> Path | None:
        """The file that this setting names, a ~ spelled out."""
        from pathlib import Path

        named: str | None = getattr(self, name)
        return None if named is None else Path(named).expanduser()

    def full_name(self, model: str) -> str:
        """Return the full name of a model; codelet's own short names have neither sign nor digit."""
        own = dict(self.aliases)
        if model not in own and not model.replace("-", "").isalpha():
            return model
        from codelet.providers.choice.names import full_name  # for short names only

        return full_name(model, own, self.api_base)

    def refused_model(self, model: str) -> str | None:
        """Return why a model that only a file names may not be used, be it an export's, a project's or a profile's.
        None if the user could have picked it: from the lists, from the user's own settings, or at the user's own
        `api_base`.
        """
        from codelet.providers.choice.names import refused_from_file  # only if a file names one

        aliases = dict(self.aliases)
        users = (*aliases, *aliases.values(), *self.fallback_model)
        return None if model in users else refused_from_file(model, self.api_base, self.vendors)

    @property
    def keeps_changes(self) -> bool:
        """Return whether what changes in the session is saved."""
        return self.export is not None or self.snapshots is not None

    @property
    def keeps(self) -> bool:
        """Return whether the session is read from somewhere, or saved."""
        return any(each is not None for each in (self.export, self.snapshots, self.resume))


SETTINGS: Mapping[str, Setting] = rows_of(Settings)
"""The rows, by name."""

_NOT_SETTINGS = frozenset({"CODELET_REDIS_PASSWORD", "CODELET_SHARED"})
"""Variables that are read elsewhere: the password of a Redis database, the data that some tests need."""


def current_folder() -> Path:
    """The workspace: the folder codelet was started in."""
    from pathlib import Path

    from codelet.errors import UsageError

    try:
        return Path.cwd()
    except OSError:
        raise UsageError("the current folder no longer exists; cd into another one") from None


def load_settings(
    flags: Mapping[str, object], *, workspace: Path, trust: bool = False, environment: Mapping[str, str] = os.environ
) -> Settings:
    """The settings in force; `flags` holds what the command line named. Raises UsageError naming the place."""
    from pathlib import Path

    chosen = ChosenValues(SETTINGS)
    user_file, project_file = user_settings_file(environment), project_settings_file(workspace)
    files: list[Path] = []
    if user_file is not None and is_file(user_file):
        chosen.read_file(user_file, USER_FILE)
        files.append(user_file)
    if trust and is_file(project_file):
        chosen.read_file(project_file, PROJECT_FILE)
        files.append(project_file)
    unknown = chosen.read_variables(environment, _NOT_SETTINGS)
    given = {name: value for name, value in flags.items() if value is not None}
    chosen.take_flags(given)
    settings = Settings(
        **chosen.values,
        given=frozenset(given),
        unknown_variables=unknown,
        files=tuple(files),
        home=Path(home) if (home := environment.get("HOME")) else None,
        own_folder=None if user_file is None else user_file.parent,
        trusted=trust,
    )
    settings = spelled_out(settings)
    if chosen.sources.get("model") == PROJECT_FILE and (refusal := settings.refused_model(settings.model or "")):
        from codelet.errors import UsageError

        raise UsageError(f"{project_file}: model: {refusal}; name it with --model")
    return settings


def spelled_out(settings: Settings) -> Settings:
    """The settings with the models by their full names."""
    full = settings.full_name
    return settings.replace(
        model=None if settings.model is None else full(settings.model),
        fallback_model=tuple(map(full, settings.fallback_model)),
    )
