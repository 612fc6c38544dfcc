"""Settings: which place wins, what each place may say, and what is said of a wrong value."""

# near: codelet/setting_kinds.py

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from codelet.conversation import PlacementChoice
from codelet.errors import UsageError
from codelet.extensions.base import OpenedWith
from codelet.extensions.manifest import turned_on
from codelet.frontends.parsers import build_parser
from codelet.providers import Transport
from codelet.safety.sandbox import Use
from codelet.safety.verdict import Mode
from codelet.setting_kinds import user_settings_file
from codelet.settings import SETTINGS, Settings, load_settings
from tests.support.repo import write


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path, dict[str, str]]:
    """The workspace, the user's file, and the environment that leads to it."""
    home, workspace = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    workspace.mkdir()
    return workspace, home / ".config" / "codelet" / "config.toml", {"HOME": str(home)}


def load(places: tuple[Path, Path, dict[str, str]], /, *, trust: bool = True, **flags: Any) -> Settings:
    workspace, _, environment = places
    return load_settings(flags, workspace=workspace, trust=trust, environment=environment)


def write_user(places: tuple[Path, Path, dict[str, str]], text: str) -> None:
    write(places[1].parent, {places[1].name: text})


def write_project(places: tuple[Path, Path, dict[str, str]], text: str) -> None:
    write(places[0], {".codelet/config.toml": text})


def chosen(settings: Settings) -> Settings:
    """The settings without the folders that they were looked for in."""
    return settings.replace(home=None, own_folder=None, trusted=False)


def test_without_anything_there_are_the_defaults(places):
    assert chosen(load(places)) == Settings()


def test_flags_win_over_variables_over_the_project_over_the_user(places):
    write_user(places, 'model = "user"\nmax_turns = 1\ntimeout = 1.5\nwindow = 1\nmode = "read-only"\n')
    assert (load(places).model, load(places).mode) == ("user", "read-only")
    write_project(places, 'model = "openai/project"\nmax_turns = 2\nwindow = 2\n')
    assert (load(places).model, load(places).max_turns, load(places).timeout) == ("openai/project", 1, 1.5)
    places[2].update(CODELET_MODEL="variable", CODELET_MAX_TURNS="3")
    assert (load(places).model, load(places).max_turns, load(places).window) == ("variable", 3, 2)
    settings = load(places, model="flag", max_turns=None)
    assert (settings.model, settings.max_turns) == ("flag", 3)
    assert settings.files == (places[1], places[0] / ".codelet" / "config.toml")


def test_rules_add_up(places):
    write_user(places, 'allow = ["edit(src/**)"]\ndeny = ["bash(rm *)"]\n')
    write_project(places, 'deny = ["read(x)"]\n')
    places[2]["CODELET_DENY"] = "write, read(y)"
    settings = load(places, allow=["bash(git log *)"], deny=["find"])
    assert settings.allow == ("edit(src/**)", "bash(git log *)")
    assert settings.deny == ("bash(rm *)", "read(x)", "write", "read(y)", "find")


def test_the_project_is_read_only_when_trusted(places):
    write_project(places, 'model = "openai/project"\n')
    assert load(places, trust=False).model is None
    assert load(places, trust=True).model == "openai/project"


def test_the_project_may_say_little(places):
    allowed = set()
    for key in SETTINGS:
        write_project(places, f"{key} = 1\n")
        try:
            load(places)
            allowed.add(key)
        except UsageError as error:
            if "may not be set" not in str(error):
                allowed.add(key)
    assert allowed >= {"model", "max_turns", "max_tokens", "max_cost", "timeout", "window", "deny"}
    assert allowed.isdisjoint({"api_base", "api_key", "transport", "allow", "yes", "mode", "tools", "bare"})
    assert allowed.isdisjoint({"system_prompt", "append_system_prompt"})


@pytest.mark.parametrize("key", ["api_key", "yes"])
def test_the_users_file_holds_no_key_and_no_yes(places, key: str):
    write_user(places, f'{key} = "x"\n')
    with pytest.raises(UsageError, match=f"config.toml: '{key}' may not be set"):
        load(places)


@pytest.mark.parametrize("key", ["YES", "ALLOW"])
def test_what_a_variable_may_not_say_is_not_passed_over(places, key: str):
    places[2][f"CODELET_{key}"] = "1"
    with pytest.raises(UsageError, match=f"CODELET_{key}: .*flag --{key.lower()}"):
        load(places)
    places[2][f"CODELET_{key}"] = ""
    assert chosen(load(places)) == Settings()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("colour = 1\n", "unknown setting 'colour'"),
        ("model = 5\n", "model: must be"),
        ('model = ""\n', "model: must be"),
        ("model = {a = 1}\n", "model: must be"),
        ("system_prompt = 42\n", "system_prompt: must be"),
        ("max_turns = 1.5\n", "max_turns: must be"),
        ("max_turns = true\n", "max_turns: must be"),
        ("max_turns = 0\n", "max_turns: must be"),
        ("max_cost = nan\n", "max_cost: must be"),
        ("timeout = inf\n", "timeout: must be"),
        ("timeout = [1]\n", "timeout: must be"),
        ("bare = 2\n", "bare: must be"),
        ("allow = [1]\n", "allow: must be"),
        ('mode = "wild"\n', "mode: must be one of read-only"),
        ('transport = "pigeon"\n', "transport: must be one of"),
        ("model = \n", "config.toml: "),
        ("\x00\n", "config.toml: "),
        (f"deny = {'[' * 5_000}", "nested too deep"),
        (f"max_turns = {'9' * 5_000}", "config.toml: "),
        ("# " + "x" * (256 << 10), "256 KiB"),
    ],
)
def test_wrong_values_name_the_place(places, text: str, says: str):
    write_user(places, text)
    with pytest.raises(UsageError) as caught:
        load(places)
    assert str(places[1]) in str(caught.value)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_that_is_nearly_a_setting_is_told(places):
    write_user(places, 'modle = "x"\n')
    with pytest.raises(UsageError, match="'modle'; did you mean 'model'"):
        load(places)
    write_user(places, "")
    with pytest.raises(UsageError, match=r"CODELET_MAX_TURN: .*CODELET_MAX_TURNS"):
        load((places[0], places[1], places[2] | {"CODELET_MAX_TURN": ""}))
    told = load((places[0], places[1], places[2] | {"CODELET_SHARED": "x", "CODELET_PALETTE": "x"}))
    assert told == load(places).replace(unknown_variables=("CODELET_PALETTE",))


def test_a_file_that_is_no_text_is_named(places):
    write(places[1].parent, {places[1].name: b"\xff\xfe"})
    with pytest.raises(UsageError, match=r"config\.toml: "):
        load(places)


@pytest.mark.parametrize(
    ("key", "value", "parsed"),
    [
        ("max_turns", "7", 7),
        ("max_cost", "0.25", 0.25),
        ("timeout", "1e2", 100.0),
        ("bare", "yes", True),
        ("retries", "0", 0),
        ("retries", 0, 0),
        ("tools", "read, grep", ("read", "grep")),
        ("tools", "", ()),
        ("system_prompt", "", ""),
    ],
)
def test_texts_are_read_as_what_they_mean(places, key: str, value: Any, parsed: Any):
    assert getattr(load(places, **{key: value}), key) == parsed


@pytest.mark.parametrize("value", ["", "x", "-1", "1.5", "0", "٣", "9" * 5_000, "1_000"])
def test_a_count_that_is_none(places, value: str):
    with pytest.raises(UsageError, match="--max-turns: "):
        load(places, max_turns=value)


def test_a_home_that_cannot_be_looked_into_holds_no_settings(places):
    workspace, _, _ = places
    for home in ("/" + "x" * 300, "/dev/null"):
        assert chosen(load_settings({}, workspace=workspace, environment={"HOME": home})) == Settings()
    assert load_settings({}, workspace=workspace, environment={}) == Settings()


def test_where_the_users_file_stands(tmp_path: Path):
    both = {"HOME": "/h", "XDG_CONFIG_HOME": "/c"}
    assert user_settings_file(both) == Path("/c/codelet/config.toml")
    assert user_settings_file({"HOME": "/h"}) == Path("/h/.config/codelet/config.toml")
    assert user_settings_file({}) is None


def test_a_project_only_tightens_limits(places):
    """Whatever the user's file leaves open it may set; a flag or a variable of the user's wins as ever."""
    limits = ("max_turns", "max_tokens", "max_cost", "timeout", "budget")
    write_project(places, "".join(f"{name} = 50\n" for name in limits))
    assert [getattr(load(places), name) for name in limits] == [50] * 5
    write_user(places, "".join(f"{name} = 20\n" for name in limits))
    assert [getattr(load(places), name) for name in limits] == [20] * 5
    write_user(places, "".join(f"{name} = 90\n" for name in limits))
    assert [getattr(load(places), name) for name in limits] == [50] * 5
    assert load(places, max_turns="70").max_turns == 70
    assert load((places[0], places[1], places[2] | {"CODELET_MAX_COST": "80"})).max_cost == 80


def test_what_may_not_come_from_a_variable_names_where_it_may(places):
    with pytest.raises(UsageError, match=r"CODELET_YES: .* flag --yes"):
        load((places[0], places[1], places[2] | {"CODELET_YES": "1"}))
    with pytest.raises(UsageError, match=r"CODELET_FACTS_MODEL: .* facts_model in your settings"):
        load((places[0], places[1], places[2] | {"CODELET_FACTS_MODEL": "x"}))


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"export_every": "3"}, "--export-every does nothing without --export"),
        ({"export_archive": True}, "--export-archive does nothing without --export"),
        ({"force": True}, "--force does nothing without --export or --record"),
        ({"log_level": "debug"}, "--log-level does nothing without --log"),
    ],
)
def test_a_flag_that_does_nothing_is_told(places, flags: dict[str, Any], told: str):
    with pytest.raises(UsageError, match=re.escape(told)):
        load(places, **flags)
    load(places, **flags, export="x.json", log="x.log")
    if "log_level" in flags:
        write_user(places, 'log_level = "debug"\n')
        load(places)  # in a file it says how to log, if at all


def test_a_setting_turns_an_extension_on():
    without, with_it = Settings(), Settings(log="x.log")
    labels = [[each.label for each in turned_on(OpenedWith(settings=settings))] for settings in (without, with_it)]
    assert [label for label in labels[1] if label not in labels[0]] == ["EventLog"]


def test_the_table_knows_all_values_that_the_program_does():
    types = {"mode": Mode, "transport": Transport, "reminders": PlacementChoice, "sandbox": Use}
    assert {name: SETTINGS[name].choices for name in types} == {name: get_args(each) for name, each in types.items()}


def test_a_row_is_the_flag_the_field_and_the_help():
    shown = "".join(build_parser().format_help().split())  # long lines are wrapped, at hyphens too
    for name, setting in SETTINGS.items():
        assert getattr(Settings(), name) == setting.default
        assert (f"{setting.flag}{setting.metavar or ''}" in shown.replace("{", "")) == (setting.group is not None), name
        if setting.group is not None:
            assert setting.about and "".join(setting.about.split()) in shown, name


@pytest.mark.parametrize("name", SETTINGS)
def test_a_default_is_a_value_that_the_setting_takes(name: str):
    setting = SETTINGS[name]
    if setting.default is not None:
        assert setting.parse(setting.default) == setting.default


def test_a_byte_order_mark_is_no_part_of_a_settings_file(places):
    write_user(places, "\ufeffmax_turns = 4\n")
    write_project(places, '\ufeffmodel = "openai/project"\n')
    assert (load(places).max_turns, load(places).model) == (4, "openai/project")
