"""Which command lines are runs of tests, builds, checks and commits, and which run covers which."""

from __future__ import annotations

import pytest

from codelet.context.compaction.runners import Run, run_of
from codelet.context.compaction.shell_commands import commands


def run(line: str) -> Run | None:
    found = commands(line)
    return run_of(found[-1]) if found else None


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("pytest", "tests pytest"),
        ("py.test -q", "tests pytest"),
        ("npx playwright test a.spec.ts", "tests playwright test"),
        ("npx playwright install", None),
        ("npx cypress run", "tests cypress run"),
        ("bundle exec rubocop app", "build rubocop"),
        ("rubocop -a", None),
        ("python3 -m pytest tests", "tests pytest"),
        ("python -m", None),
        ("python -m mypy", "build mypy"),
        ("python pytest", None),
        ("coverage run -m pytest tests", "tests pytest"),
        ("coverage report -m pytest", None),
        ("coverage run -m", None),
        ("uv run pytest", "tests pytest"),
        ("uv pip pytest", None),
        ("uv run", None),
        ("npx eslint src", "build eslint"),
        ("npx --yes eslint src", None),
        ("poetry run uv run mypy", "build mypy"),
        (".venv/bin/ruff check src", "build ruff check"),
        ("ruff format --check", "build ruff format"),
        ("ruff format", None),
        ("ruff", None),
        ("black --check .", "build black"),
        ("black .", None),
        ("cmake --build out", "build cmake"),
        ("cmake -S .", None),
        ("cargo test", "tests cargo test"),
        ("cargo +nightly clippy", "build cargo clippy"),
        ("cargo +nightly", None),
        ("cargo publish", None),
        ("go vet ./...", "build go vet"),
        ("make", "build make"),
        ("gmake", "build make"),
        ("make -j4 CC=gcc", "build make"),
        ("make test", "tests make"),
        ("make lint test", "tests make"),
        ("make lint all", "build make"),
        ("make lint deploy", None),
        ("make deploy", None),
        ("gmake check", "tests make"),
        ("just", None),
        ("just test", "tests just"),
        ("gradle", None),
        ("mvn verify", "tests mvn"),
        ("mvn clean install", "build mvn"),
        ("mvn -q clean test -pl core", "tests mvn"),
        ("mvn clean", None),
        ("mvn deploy test", None),
        ("mvn verify -DskipTests", "build mvn"),
        ("mvn verify -Dmaven.test.skip=true", "build mvn"),
        ("mvn verify -DskipTests=false", "tests mvn"),
        ("mvn test -fn", None),
        ("mvn test -Dmaven.test.failure.ignore=true", None),
        ("./gradlew clean :app:test --tests Cart", "tests gradlew"),
        ("./gradlew build -x test", "build gradlew"),
        ("./gradlew check -x :app:test", "build gradlew"),
        ("./gradlew test -m", None),
        ("npm test", "tests npm test"),
        ("npm t", "tests npm t"),
        ("npm run test:unit", "tests npm test:unit"),
        ("npm run build", "build npm build"),
        ("npm build", None),
        ("yarn build", "build yarn build"),
        ("pnpm run-script lint", "build pnpm lint"),
        ("npm run", None),
        ("npm run start", None),
        ("git commit -m x", "commit git commit"),
        ("git push", "commit git push"),
        ("git status", None),
        ("git commit --dry-run", None),
        ("git tag -l", None),
        ("pytest --collect-only", None),
        ("make -n test", None),
        ("pytest -n 4", "tests pytest"),
        ("PYTEST_ADDOPTS=-x pytest", None),
        ("CI=1 pytest", "tests pytest"),
        ("go test -run=NONE ./...", None),
        ("ls", None),
    ],
)
def test_what_a_line_runs(line: str, what: str | None):
    found = run(line)
    assert (f"{found.what} {found.name}" if found else None) == what


@pytest.mark.parametrize(
    ("line", "other", "covers"),
    [
        ("pytest", "pytest tests/test_a.py", True),
        ("pytest tests/test_a.py", "pytest", False),
        ("pytest tests", "pytest tests/test_a.py::test_b", True),
        ("pytest ./tests/", "pytest tests/test_a.py", True),
        ("pytest tests/test_a.py", "pytest tests/test_a.py::test_b", True),
        ("pytest test", "pytest tests/test_a.py", False),
        ("pytest .", "pytest tests/test_a.py", True),
        ("pytest tests/a", "pytest tests/a tests/b", False),
        ("pytest tests/a tests/b", "pytest tests/b tests/a/x.py", True),
        ("pytest", "pytest -k one", True),
        ("pytest -k one", "pytest -k one tests", True),
        ("pytest -k one", "pytest -k two", False),
        ("pytest -k one", "pytest", False),
        ("pytest -q -x --tb=short", "pytest --tb long --durations 3", True),
        ("pytest --lf", "pytest", False),
        ("pytest -m slow", "pytest", False),
        ("pytest", "pytest -m slow", False),
        ("pytest", "mypy", False),
        ("cd a && pytest", "pytest", False),
        ("A=1 pytest", "pytest", False),
        ("go test ./...", "go test ./pkg/a", True),
        ("go test ./pkg/...", "go test ./pkg/a", True),
        ("go test ./pkg/...", "go test ./pkgs/a", False),
        ("go test ./pkg", "go test ./pkg/a", False),
        ("go test .", "go test ./pkg/a", False),
        ("go test", "go test ./...", False),
        ("go test", "go test .", True),
        ("go test ./...", "go test", True),
        ("go test ./pkg/a", "go test ./pkg/a -run TestOne", True),
        ("npm test", "npm test", True),
        ("npm test", "npm test src", False),
        ("npm test --tb src", "npm test --tb lib", False),
        ("make test", "make lint test", False),
        ("rspec", "rspec spec/a_spec.rb:42", True),
        ("rspec spec/a_spec.rb", "bundle exec rspec -f doc spec/a_spec.rb:42", True),
        ("rspec spec/a_spec.rb:4", "rspec spec/a_spec.rb:42", False),
        ("rspec --tag ~slow", "rspec spec/a_spec.rb", False),
        ("npx vitest", "npx vitest run src/a.test.ts", True),
        ("npx vitest run", "npx vitest run -t one", True),
        ("jest -t one", "jest", False),
        ("npx playwright test", "npx playwright test --project=webkit a.spec.ts", True),
        ("npx playwright test --project webkit", "npx playwright test", False),
        ("ctest --test-dir build -j8", "ctest --test-dir build --output-on-failure -R one", True),
        ("ctest --test-dir build -j 8", "ctest --test-dir build", True),
        ("ctest --test-dir build -E slow", "ctest --test-dir build", False),
        ("ctest --test-dir build", "ctest --test-dir build-tsan", False),
        ("cmake --build build -j8", "cmake --build build", True),
        ("mix test", "mix test --trace test/a_test.exs:9", True),
        ("cargo test", "cargo test parser::tests -- --nocapture", True),
        ("cargo test -p one", "cargo test", False),
        ("mvn test", "mvn -q -B -pl core -am test", True),
        ("mvn clean verify", "mvn -Dtest=UserTest test", True),
        ("mvn test", "mvn verify", False),
        ("mvn -pl core test", "mvn -pl api test", False),
        ("mvn -pl core test", "mvn test", False),
        ("mvn verify", "mvn verify -DskipTests", False),
        ("mvn verify -DskipTests", "mvn verify", False),
        ("./gradlew test --info", "./gradlew test --tests UserTest", True),
        ("gradle build test", "gradle build -x test", False),
        ("eslint .", "eslint src/a.ts", True),
        ("eslint --fix .", "eslint .", False),
    ],
)
def test_which_run_covers_which(line: str, other: str, covers: bool):
    one, two = run(line), run(other)
    assert one is not None and two is not None
    assert one.covers(two) is covers


@pytest.mark.parametrize(
    ("line", "code", "tells"), [("pytest", 1, True), ("pytest", 5, False), ("mypy .", 2, False), ("npm test", 5, True)]
)
def test_a_run_that_could_not_begin_tells_nothing(line: str, code: int, tells: bool):
    found = run(line)
    assert found is not None and found.tells(code) is tells


@pytest.mark.parametrize("line", ["git push origin main", "git commit origin main", "ruff check origin main", "make"])
def test_what_a_run_is_about_is_all_that_stands_behind_its_name(line: str) -> None:
    found = run(line)
    assert found is not None and found.places == (("main", "origin") if "main" in line else ())


@pytest.mark.parametrize(
    ("line", "output", "nothing"),
    [
        ("cargo test", "running 12 tests\ntest result: ok. 12 passed\n   Doc-tests gate\nrunning 0 tests", False),
        ("cargo test x", "running 0 tests\ntest result: ok. 0 passed\nrunning 0 tests", True),
        ("go test ./...", "?   \ta/cmd\t[no test files]\nok  \ta/queue\t0.412s\nok  \ta/pump\t(cached)", False),
        ("go test ./...", "?   \ta/cmd\t[no test files]\nok  \ta/queue\t0.412s [no tests to run]", True),
        ("go test -run X .", "testing: warning: no tests to run\nok  \ta/queue\t0.004s", True),
        ("mvn test", "[INFO] No tests to run.\n[INFO] Tests run: 14, Failures: 0", False),
        ("mvn test", "[INFO] No tests to run.\n[INFO] BUILD SUCCESS", True),
        ("dotnet test", "No test matches the given testcase filter\nPassed!  - Failed:     0, Passed:    31", False),
        ("dotnet test", "No test matches the given testcase filter", True),
        ("phpunit", "No tests executed!", True),
        ("ctest", "100% tests passed, 0 tests failed out of 34", False),
        ("npm test", "12 passed, 0 tests skipped", False),
        ("mix test", "0 tests, 0 failures", True),
        ("rspec", "0 examples, 0 failures", True),
        ("rspec", "10 examples, 0 failures", False),
        ("pytest", "no tests ran in 0.01s", True),
    ],
)
def test_a_run_of_no_test_says_nothing_and_one_of_which_a_part_had_none_does(line: str, output: str, nothing: bool):
    found = run(line)
    assert found is not None and found.ran_nothing(output) is nothing
