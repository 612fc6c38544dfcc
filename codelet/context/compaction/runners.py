"""Which commands are runs of tests, of a build or a check, and commits; and which run covers which.

A run is known by its first word alone: a line that only names a runner (`grep -n ruff`, `cat Makefile`) runs none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from codelet.context.compaction.shell_commands import ShellCommand, commands

_PYTHON = re.compile(r"python(?:\d(?:\.\d+)?)?\Z")
# Programs that run another one which is named behind them, and the words that stand between.
_CARRIERS: Mapping[str, tuple[str, ...]] = {
    "uv": ("run",), "poetry": ("run",), "pipenv": ("run",), "hatch": ("run",), "rye": ("run",), "pdm": ("run",),
    "bundle": ("exec",), "npx": (), "bunx": (), "pnpx": (),
}  # fmt: skip
_TESTS = frozenset("pytest py.test unittest tox nox vitest jest mocha ava ctest rspec phpunit".split())
_CHECKS = frozenset("mypy flake8 pylint pyright eslint tsc tsgo shellcheck ninja webpack rubocop stylelint".split())
# Programs whose first word says what they do: tests, or a build or check.
_ACTIONS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    name: (frozenset(tests.split()), frozenset(builds.split()))
    for name, tests, builds in (
        ("cargo", "test t nextest", "build b check c clippy"),
        ("go", "test", "build vet"),
        ("dotnet", "test", "build"),
        ("swift", "test", "build"),
        ("deno", "test", "check lint"),
        ("mix", "test", "compile"),
        ("bazel", "test", "build"),
        ("meson", "test", "compile"),
        ("rake", "test spec", "build"),
        ("rails", "test", ""),
        ("ruff", "", "check"),
        ("golangci-lint", "", "run"),
        ("biome", "", "check ci lint"),
        ("vite", "", "build"),
        ("playwright", "test", ""),
        ("cypress", "run", ""),
        ("flutter", "test", "analyze"),
        ("sbt", "test", "compile"),
        ("next", "", "build lint"),
        ("gradle", "test check", "build assemble"),
        ("gradlew", "test check", "build assemble"),
        ("mvn", "test verify", "package compile install"),
        ("mvnw", "test verify", "package compile install"),
        ("make", "test tests check", "all build lint typecheck"),
        ("gmake", "test tests check", "all build lint typecheck"),
        ("just", "test tests check", "build lint typecheck"),
    )
}
_SCRIPTS = frozenset({"npm", "yarn", "pnpm", "bun"})
_TEST_SCRIPT = re.compile(r"(?:test|tests|spec|e2e)(?:[:_-].*)?\Z|t\Z|tst\Z")
_BUILD_SCRIPT = re.compile(r"(?:build|check|lint|typecheck|type-check|compile|tsc)(?:[:_-].*)?\Z")
_FORMATTERS = frozenset({"black", "isort", "prettier"})
_COMMITS = frozenset({"commit", "tag", "push", "merge"})
# What a runner says that found no test; and, of those that report each part by itself, what a part says that had some.
_NOTHING_RAN = re.compile(
    r"\bRan 0 tests\b|\bno tests? (?:ran|found|to run|(?:were )?executed)\b|\[no test files\]|"
    r"\b0 tests\b(?! (?:were |are )?(?:fail|skip|pending|ignored|disabled|broken|errored|timed out|not run))|"
    r"\b0 examples,|\bno test matches\b",
    re.IGNORECASE,
)
_PART_RAN: Mapping[str, re.Pattern[str]] = {
    "cargo": re.compile(r"^running [1-9]\d* tests?$", re.MULTILINE),
    "go": re.compile(r"^ok\s+\S+\s+(?:[\d.]+s|\(cached\))(?!.*\[no tests to run\])", re.MULTILINE),
    "mvn": re.compile(r"\bTests run: [1-9]"),
    "mvnw": re.compile(r"\bTests run: [1-9]"),
    "dotnet": re.compile(r"\bPassed: +[1-9]"),
}
# Go's word for a package of which no test was picked; the line of the package may say so at its end, or not.
_NONE_PICKED = "testing: warning: no tests to run"
# Maven's and gradle's options that have their value behind them, and what leaves the tests out or hides how they ended.
_VALUED = frozenset("--tests -x --exclude-task -p --project-dir -pl --projects -P -f --file -s -T -rf".split())
_NO_TESTS = re.compile(r"-D(?:skipTests|maven\.test\.skip)(?:=true)?\Z")
_HIDING = re.compile(r"-fn\Z|--fail-never\Z|-D(?:maven\.)?test\.?[fF]ailure\.?[iI]gnore(?:=true)?\Z")
# With one of these a runner runs nothing, or hides how it ended.
_NO_RUN = frozenset(
    "--version -V --help -h help --collect-only --co --dry-run --just-print --recon --no-run --list --list-tests "
    "--listTests --listenvs --show-config --showConfig --print-config --show-settings --show-files --init --exit-zero "
    "--fixtures --markers --setup-only --setup-plan --cache-show --watch -w --passWithNoTests --pass-with-no-tests "
    "--if-present --ignore-errors --question --touch --no-verify-run --warn-only --exit-0 --fix-only".split()
)
_NO_RUN_OF: Mapping[str, frozenset[str]] = {
    name: frozenset(flags.split())
    for name, flags in (
        ("make", "-n -q -i -t -k -p -ni -in"),
        ("gmake", "-n -q -i -t -k -p -ni -in"),
        ("go", "-c -list -n"),
        ("ctest", "-N"),
        ("tox", "-l -a"),
        ("nox", "-l"),
        ("git", "-n -l -d --delete --abort --quit --no-commit"),
        ("tsc", "--showConfig"),
        ("rubocop", "-a -A -x --autocorrect --autocorrect-all --auto-correct --auto-gen-config -L"),
        ("just", "-n -l"),
        ("gradle", "-m -t --continuous"),
        ("gradlew", "-m -t --continuous"),
    )
}
# Variables that give a runner options of which the line says nothing, and patterns that select no test.
_BENDING = ("PYTEST_ADDOPTS=", "MAKEFLAGS=", "MAKEFILES=", "npm_config_", "NPM_CONFIG_", "GOFLAGS=", "CARGO_BUILD_")
_NOTHING = frozenset({"^$", "NONE", "^NONE$", "-run=^$", "-run=NONE"})
# Options that change what is printed, not what is run.
_QUIET = re.compile(
    r"-[qvsx]+\Z|-r[A-Za-z]\Z|--(?:quiet|verbose|silent|exitfirst|no-header|no-summary|color|colour|durations|maxfail|tb|"
    r"showlocals|pretty|no-pretty|output-format|no-color)(?:=.*)?\Z"
)
_QUIET_PAIRS = frozenset({"--tb", "--maxfail", "--durations", "--color", "--output-format", "-n", "--numprocesses"})
# The same of single runners: options that stand alone, and those with their value behind them.
_QUIET_OF: Mapping[str, tuple[re.Pattern[str], frozenset[str]]] = {
    name: (re.compile(rf"(?:{alone})\Z"), frozenset(valued.split()))
    for name, alone, valued in (
        ("ctest", r"--output-on-failure|-VV?|--progress|-j\d*|--parallel(?:=\d+)?|--no-label-summary", "-j --parallel"),
        ("cmake", r"-j\d*|--parallel(?:=\d+)?", "-j --parallel"),
        ("rspec", r"--format=\S+|-fd|-fp|-c|--backtrace|-b", "-f --format"),
        ("vitest", r"--reporter=\S+", "--reporter"),
        ("jest", r"--reporters=\S+|--ci|-i|--runInBand", ""),
        ("mix test", r"--trace|--stale-manifest", "--max-failures"),
        ("playwright test", r"--reporter=\S+|--workers=\d+|-j", "--reporter --workers -j"),
        ("cargo test", r"--nocapture|--", ""),
        ("mvn", r"-[BeX]|-ntp|--batch-mode|--no-transfer-progress|--errors", "-T --threads"),
        ("mvnw", r"-[BeX]|-ntp|--batch-mode|--no-transfer-progress|--errors", "-T --threads"),
        ("gradle", r"--info|--stacktrace|-[iS]|--no-daemon|--console=\w+", "--console"),
        ("gradlew", r"--info|--stacktrace|-[iS]|--no-daemon|--console=\w+", "--console"),
        ("make", r"-j\d*|--jobs(?:=\d+)?|--no-print-directory", ""),
        ("rubocop", r"--parallel|-P", "-f --format"),
    )
}
# Options that pick a part of what a runner runs, with their value behind them or behind a `=`.
_SELECTING: Mapping[str, frozenset[str]] = {
    name: frozenset(options.split())
    for name, options in (
        ("pytest", "-k"),
        ("go test", "-run"),
        ("ctest", "-R -L --tests-regex --label-regex"),
        ("rspec", "-e --example"),
        ("vitest", "-t --testNamePattern"),
        ("jest", "-t --testNamePattern"),
        ("mocha", "-g --grep"),
        ("phpunit", "--filter"),
        ("playwright test", "-g --grep --project"),
        ("mvn", "-pl --projects -Dtest"),
        ("mvnw", "-pl --projects -Dtest"),
        ("gradle", "--tests"),
        ("gradlew", "--tests"),
    )
}
# Maven's `-am` only adds the modules that a part needs. What `mvn verify` runs holds what `mvn test` runs.
_ALSO_MADE = frozenset({"-am", "--also-make"})
_MAVEN = frozenset({"mvn", "mvnw"})
# A marker may be left out by the project's own settings, so a run without one does not cover one with it.
_MARKER = "-m"
# Runners that run everything if no place is named, else everything below the named places.
_BY_PLACE = frozenset(
    {
        "pytest", "go test", "mypy", "ruff check", "flake8", "pylint", "rspec", "vitest", "jest", "mocha", "phpunit",
        "eslint", "rubocop", "mix test", "playwright test", "cargo test", "ctest",
    }
)  # fmt: skip
# One that runs the package of the folder it is in if no place is named, and of a place that package alone.
_BY_PACKAGE = "go test"
_NOT_ENDED: Mapping[str, frozenset[int]] = {
    "pytest": frozenset({3, 4, 5}), "mypy": frozenset({2}), "ruff check": frozenset({2}),
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """What a command runs: `what` is tests, build or commit; `name` the runner, however it was called."""

    what: str
    name: str
    places: tuple[str, ...] = ()
    selects: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    def covers(self, other: Run) -> bool:
        """Whether this run includes everything that the other one ran."""
        if self == other:
            return True
        if (self.what, self.name, self.options, self.beside) != (other.what, other.name, other.options, other.beside):
            return False
        if self.selects not in ((), other.selects):
            return False
        if self.name in _MAVEN and self.what == "tests":
            return self.places == other.places or self.places == ("verify",)
        if self.name not in _BY_PLACE:
            return self.places == other.places and self.name in _SELECTING
        if self.name == _BY_PACKAGE:
            own, places = self.places or (".",), other.places or (".",)
            return all(any(_package_of(place, pattern) for pattern in own) for place in places)
        return not self.places or (bool(other.places) and all(map(self._holds, other.places)))

    def _holds(self, place: str) -> bool:
        return any(own in (".", "./...") or _below(place, own) for own in self.places)

    def ran_nothing(self, output: str) -> bool:
        """Whether a run that ended well says that there was no test to run."""
        part = _PART_RAN.get(self.name.split(" ")[0])
        if not _NOTHING_RAN.search(output):
            return False
        return part is None or _NONE_PICKED in output or part.search(output) is None

    def tells(self, code: int) -> bool:
        """Whether an exit status says that the run itself failed, rather than that it could not begin."""
        return code not in _NOT_ENDED.get(self.name, ())


def _below(place: str, own: str) -> bool:
    place, own = place.removeprefix("./"), own.removeprefix("./").removesuffix("...").rstrip("/")
    return place == own or place.startswith((own + "/", own + ":"))


def _package_of(place: str, own: str) -> bool:
    """Whether a pattern of packages holds all of another: only one that ends with `...` has what lies below it."""
    return place == own or own == "./..." or (own.endswith("/...") and _below(place, own))


def run_of(command: ShellCommand) -> Run | None:
    """What a command runs; None for one that runs no tests, build, check or commit."""
    words = list(command.words)
    while words:
        name = words[0].rpartition("/")[2]
        between = _CARRIERS.get(name)
        if between is None or tuple(words[1 : 1 + len(between)]) != between:
            break
        words = words[1 + len(between) :]
        if words and words[0].startswith("-"):
            return None
    if not words:
        return None
    name, arguments = words[0].rpartition("/")[2], words[1:]
    if _PYTHON.match(name) and len(arguments) > 1 and arguments[0] == "-m":
        name, arguments = arguments[1], arguments[2:]
    if name == "coverage" and arguments[:2] in (["run", "-m"], ["run", "--module"]) and len(arguments) > 2:
        name, arguments = arguments[2], arguments[3:]
    found = _named(name.removesuffix(".cmd"), arguments)
    if found is None:
        return None
    what, runner, rest = found
    if _NO_RUN.intersection(arguments) or _NO_RUN_OF.get(name, frozenset()).intersection(arguments):
        return None
    if any(variable.startswith(_BENDING) for variable in command.assigned) or _NOTHING.intersection(arguments):
        return None
    return _made(what, runner, rest, (command.folder, *command.assigned))


def _named(name: str, arguments: list[str]) -> tuple[str, str, list[str]] | None:
    """What a program does with some arguments, its name as a runner, and the arguments that are left."""
    first = arguments[0] if arguments else ""
    if name in _TESTS:
        rest = arguments[1:] if name == "vitest" and first == "run" else arguments
        return "tests", "pytest" if name == "py.test" else name, rest
    if name in _CHECKS or (name in _FORMATTERS and any(word.startswith("--check") for word in arguments)):
        return "build", name, arguments
    if name == "git":
        return ("commit", f"git {first}", arguments[1:]) if first in _COMMITS else None
    if name == "cargo" and first.startswith("+"):
        arguments, first = arguments[1:], arguments[1] if len(arguments) > 1 else ""
    if name == "ruff" and first == "format":
        return ("build", "ruff format", arguments[1:]) if "--check" in arguments else None
    if name == "cmake":
        return ("build", "cmake", arguments) if "--build" in arguments else None
    if name in _SCRIPTS:
        return _script(name, arguments)
    if name in _ACTIONS:
        return _action(name, arguments)
    return None


def _script(name: str, arguments: list[str]) -> tuple[str, str, list[str]] | None:
    """A script of a package, run by its manager."""
    plain = [word for word in arguments if not word.startswith("-")]
    explicit = plain[:1] in (["run"], ["run-script"])
    script = plain[int(explicit)] if len(plain) > int(explicit) else ""
    if _TEST_SCRIPT.match(script):
        return "tests", f"{name} {script}", arguments
    if _BUILD_SCRIPT.match(script) and (explicit or name in ("yarn", "pnpm")):
        return "build", f"{name} {script}", arguments
    return None


def _action(name: str, arguments: list[str]) -> tuple[str, str, list[str]] | None:
    """A program whose words say what it does; for make and its like every target must be a known one."""
    tests, builds = _ACTIONS[name]
    if name in ("gradle", "gradlew", "mvn", "mvnw"):
        return _goals(name, arguments)
    targets = [word for word in arguments if not word.startswith("-") and "=" not in word]
    if name in ("make", "gmake", "just"):
        if not targets and name in ("make", "gmake"):
            return "build", "make", arguments
        known = [target for target in targets if target in tests | builds]
        if not targets or len(known) < len(targets):
            return None
        return (
            "tests" if tests.intersection(targets) else "build",
            name.removeprefix("g") if name == "gmake" else name,
            arguments,
        )
    first = arguments[0] if arguments else ""
    if first in tests:
        return "tests", f"{name} {first}", arguments[1:]
    return ("build", f"{name} {first}", arguments[1:]) if first in builds else None


def _goals(name: str, arguments: list[str]) -> tuple[str, str, list[str]] | None:
    """A run of maven or gradle; one that leaves the tests out is no run of tests."""
    tests, builds = _ACTIONS[name]
    pairs = list(zip(["", *arguments], arguments, strict=False))
    goals = [word for before, word in pairs if not word.startswith("-") and "=" not in word and before not in _VALUED]
    goals = [goal.rpartition(":")[2] for goal in goals if goal not in ("clean", "cleanTest")]
    if not goals or not tests | builds >= set(goals) or any(map(_HIDING.match, arguments)):
        return None
    left_out = {word.rpartition(":")[2] for before, word in pairs if before in ("-x", "--exclude-task")}
    tested = not left_out & tests and not any(map(_NO_TESTS.match, arguments))
    return "tests" if tested and tests.intersection(goals) else "build", name, arguments


def _made(what: str, name: str, arguments: list[str], beside: tuple[str, ...]) -> Run:
    """A run with its arguments sorted by what they mean."""
    places: list[str] = []
    selects: list[str] = []
    options: list[str] = []
    selecting = _SELECTING.get(name, frozenset())
    alone, valued = _QUIET_OF.get(name, (None, frozenset[str]()))
    rest = iter(arguments)
    for word in rest:
        option, equals, value = word.partition("=")
        if option in selecting:
            selects += [option, value if equals else next(rest, "")]
        elif word == _MARKER and name == "pytest":
            options += [word, next(rest, "")]
        elif word in valued or (word in _QUIET_PAIRS and name in ("pytest", "ruff check")):
            next(rest, None)
        elif (
            _QUIET.match(word)
            or (alone is not None and alone.match(word))
            or (name in _MAVEN and (word in _ALSO_MADE or word == "clean"))
        ):
            continue
        elif word.startswith("-"):
            options.append(word)
        else:
            places.append(word)
    return Run(what, name, tuple(sorted(places)), tuple(selects), tuple(options), beside)


@lru_cache(maxsize=256)
def run_in(text: str) -> Run | None:
    """The run that a command's text (`ShellCommand.text`) stands for."""
    found = commands(text)
    return run_of(found[-1]) if found else None
