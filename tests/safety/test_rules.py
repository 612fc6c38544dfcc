"""Rules, modes and answers: deny beats ask beats allow, and a compound command needs every part."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from codelet.errors import UsageError
from codelet.safety import Policy
from codelet.safety.rules import escaped, parse_rule
from codelet.safety.verdict import MODES, Mode, Touch


def bash(policy: Policy, command: str, *, sandboxed: bool = True) -> str:
    return policy.judge("bash", [Touch("run", command)], sandboxed=sandboxed).action


@pytest.mark.parametrize(
    ("rule", "meant"),
    [
        ("Bash(npm test:*)", "write 'bash(npm test *)'"),
        ("bash(git log:* )", "write 'bash(git log *)'"),
        ("Bash", "write 'bash'"),
        ("Bash(*)", "write 'bash'"),
        ("Read(src/**)", "write 'read(src/**)'"),
        (" WRITE ( a:* ) ", "write 'write(a:*)'"),
        ("Bash(ls; rm)", "write tool(prefix *) or"),
        ("bash(:*)", "write 'bash'"),
        ("rm -rf", "write tool(prefix *) or"),
    ],
)
def test_a_rule_as_other_programs_spell_it_is_told_as_it_is_spelled_here(rule: str, meant: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_rule(rule)
    assert str(caught.value).startswith(f"bad rule {rule!r}: {meant}")


def test_a_rule_is_told_apart_from_what_it_covers() -> None:
    rule = parse_rule(" edit( ./src/a*.py ) ")
    assert (rule.text, rule.tool, rule.body) == ("edit( ./src/a*.py )", "edit", "./src/a*.py")
    assert rule.matches_path("src/ab.py") and not rule.matches_path("src/b.py") and not rule.spells("src/ab.py")
    assert rule.matches_path("src/ab.py/inner"), "a folder covers its content"
    assert parse_rule("edit").matches_path("any/where") and not parse_rule("edit").spells("any")
    assert parse_rule("edit(./a.py)").spells("a.py") and not parse_rule("edit(src)").spells("src/a.py")
    assert parse_rule(f"edit({escaped('a*b.py')})").spells("a*b.py")
    assert parse_rule("bash").matches_words(["any", "command"])
    git = parse_rule("bash(git log *)")
    assert git.matches_words(["git", "log"]) and git.matches_words(["git", "log", "-1"])
    assert not git.matches_words(["git"]) and not git.matches_words(["git", "show"])
    exact = parse_rule("bash(npm test)")
    assert exact.matches_words(["npm", "test"]) and not exact.matches_words(["npm", "test", "x"])


def test_the_rules_in_force_name_what_was_allowed_for_the_session(workspace: Path) -> None:
    policy = Policy(workspace, allow=["bash(ls *)"], deny=["edit(.env)"], ask=["write"])
    policy.add_allow("read(src/**)")
    policy.exact.add(("make all | tail", (("make all", "it writes"),)))
    assert policy.rules == {
        "deny": ["edit(.env)"],
        "ask": ["write"],
        "allow": ["bash(ls *)", "read(src/**)", "bash, exactly: make all | tail"],
    }


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "bash(",
        "bash()",
        "Bash(ls)",
        "bash(*)",
        "bash(ls * x)",
        "bash(ls*)",
        "bash(ls; rm *)",
        "bash(a && b)",
        "edit( )",
        "bash(x | y)",
        "bash(echo $(x))",
        "rm -rf",
        "bash(ls) x",
    ],
)
def test_a_bad_rule_is_refused(workspace: Path, rule: str) -> None:
    with pytest.raises(UsageError, match="bad rule"):
        Policy(workspace, allow=[rule])
    with pytest.raises(UsageError):
        Policy(workspace).add_allow(rule)


def test_a_rule_covers_whole_words(workspace: Path) -> None:
    policy = Policy(workspace, allow=["bash(npm test *)", "bash(make build)"])
    assert bash(policy, "npm test") == "allow"
    assert bash(policy, "npm test --watch a") == "allow"
    assert bash(policy, "npm tests") == "ask"
    assert bash(policy, "npm testing") == "ask"
    assert bash(policy, "make build") == "allow"
    assert bash(policy, "make build all") == "ask"


def test_rules_for_hosts(workspace: Path) -> None:
    rows = {
        "fetch": {"a.example": "allow", "b.a.example": "allow"},
        "look": {"a.example": "allow"},
        "fetch(A.example)": {"a.example": "allow", "b.a.example": "ask", "a.example.org": "ask"},
        "look(*.a.example)": {"b.a.example": "allow", "a.example": "ask", "ba.example": "ask"},
        "other(a.example)": {"a.example": "ask"},
    }
    for rule, hosts in rows.items():
        for host, action in hosts.items():
            policy = Policy(workspace, allow=[rule])
            assert policy.judge("look", [Touch("fetch", host)]).action == action, (rule, host)
            assert (
                Policy(workspace, allow=[rule], deny=["fetch"]).judge("look", [Touch("fetch", host)]).action == "deny"
            )


def test_a_compound_command_needs_every_part(workspace: Path) -> None:
    policy = Policy(workspace, allow=["bash(npm test *)"])
    assert bash(policy, "npm test && ls") == "allow"
    assert bash(policy, "npm test && touch x") == "ask"
    assert bash(policy, "npm test > out.txt") == "ask"
    assert bash(policy, "npm test $(touch x)") == "ask"
    assert bash(policy, "X=1 npm test") == "ask"
    assert bash(policy, "npm test &") == "ask"


def test_a_bare_rule_does_not_allow_more_than_can_be_looked_at(workspace: Path) -> None:
    policy = Policy(workspace, allow=["bash"])
    assert bash(policy, "touch x; " * 40) == "allow"
    verdict = policy.judge("bash", [Touch("run", "touch x; " * 41)])
    assert verdict.action == "ask" and "40" in verdict.reason
    assert bash(policy, f"touch {'x' * 16_384}") == "ask"


def test_a_deny_rule_reaches_into_nested_shells(workspace: Path) -> None:
    policy = Policy(workspace, allow=["bash"], deny=["bash(make *)"])
    for line in (
        "make",
        "sh -c make",
        """sh -c 'sh -c make'""",
        """sh -c "sh -c 'sh -c make'" """,
        "sudo -u me make x",
    ):
        assert bash(policy, line) == "deny", line


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tool", ["edit", "write"])
def test_a_rule_for_files_holds_for_redirections_too(workspace: Path, tool: str, mode: Mode) -> None:
    policy = Policy(workspace, mode, allow=["bash"], deny=[f"{tool}(src/**)"], ask=[f"{tool}(docs/**)"])
    for line in ("echo > src/new.py", "ls && cat a.txt >> ./src/../src/new.py", "cd src && ls > new.py"):
        assert bash(policy, line) == "deny", line
    assert bash(policy, "echo > docs/new.md") == "ask"
    assert bash(policy, "cat < src/app.py; echo > new.py") == "allow"
    assert bash(Policy(workspace, mode, deny=[tool]), "echo > new.py") == "deny"


def test_deny_beats_ask_beats_allow(workspace: Path) -> None:
    policy = Policy(
        workspace, allow=["bash"], ask=["bash(git commit *)"], deny=["bash(git push *)", "read(docs/**)"], yes=True
    )
    assert bash(policy, "git pull") == "allow"
    assert bash(policy, "git push origin x") == "deny"
    assert bash(policy, "ls && git push") == "deny"
    assert bash(policy, "sudo -u me git push") == "deny"
    assert bash(policy, "/usr/bin/git push") == "deny"
    assert bash(policy, "bash -c 'git push'") == "deny"
    assert bash(policy, "echo $(git push)") == "deny"
    assert policy.judge("read", [Touch("read", "docs/index.md")]).action == "deny"
    policy.yes = False
    assert bash(policy, "git commit -m x") == "ask"


def test_yes_answers_an_ask_but_never_a_deny(workspace: Path) -> None:
    policy = Policy(workspace, yes=True)
    assert bash(policy, "touch x") == "allow"
    assert bash(policy, "rm -rf /") == "deny"
    assert policy.judge("write", [Touch("write", "a.txt")]).action == "allow"
    assert policy.judge("write", [Touch("write", ".git/config")]).action == "deny"
    assert policy.judge("something", None).action == "allow"


@pytest.mark.parametrize(
    ("touch", "tier", "action"),
    [
        (Touch("read", "a.txt"), "read", "allow"),
        (Touch("write", "a.txt"), "write", "ask"),
        (Touch("run", "cat a.txt"), "read", "allow"),
        (Touch("run", "python build.py"), "execute", "ask"),
        (Touch("run", "rm -rf build"), "execute", "ask"),
        (Touch("run", "dd if=a.img of=b.img"), "execute", "ask"),
        (Touch("run", "git push --force"), "critical", "deny"),
    ],
)
def test_permission_tiers(workspace: Path, touch: Touch, tier: str, action: str) -> None:
    verdict = Policy(workspace).judge("some", [touch])
    assert (verdict.tier, verdict.action) == (tier, action)


@pytest.mark.parametrize(
    "command",
    ["rm -rf /", "rm -rf ~", "dd if=/dev/zero of=/dev/sda", "mkfs.ext4 /dev/sda1", "shutdown now", "reboot",
     ":(){ :|:& };:"],
)  # fmt: skip
def test_blocked_patterns_never_run_whoever_says_yes(workspace: Path, command: str) -> None:
    policy = Policy(workspace, yes=True, allow=["bash"])
    assert policy.judge("bash", [Touch("run", command)]).action == "deny"


def test_a_tool_that_is_not_known_asks(workspace: Path) -> None:
    assert Policy(workspace).judge("something", None).action == "ask"
    assert Policy(workspace, allow=["something"]).judge("something", None).action == "allow"
    assert Policy(workspace, "auto", deny=["something"]).judge("something", None).action == "deny"
    assert Policy(workspace, "read-only").judge("recall", ()).action == "allow"
    assert Policy(workspace, deny=["recall"]).judge("recall", ()).action == "deny"


def test_the_modes(workspace: Path) -> None:
    policy = Policy(workspace)
    expected = {
        "read-only": ("allow", "deny", "ask", "ask"),
        "ask": ("allow", "ask", "ask", "ask"),
        "auto-edit": ("allow", "allow", "ask", "allow"),
        "auto": ("allow", "allow", "ask", "allow"),
    }
    for mode, verdicts in expected.items():
        policy.mode = mode
        found = (
            policy.judge("read", [Touch("read", "a.txt")]).action,
            policy.judge("edit", [Touch("write", "a.txt")]).action,
            bash(policy, "make", sandboxed=False),
            bash(policy, "ls > new.txt", sandboxed=False),
        )
        assert found == verdicts, mode
    assert bash(policy, "make") == "allow"
    assert bash(policy, "rm -rf /") == "deny"


def test_what_nobody_said_yes_to_runs_in_a_sandbox(workspace: Path) -> None:
    """`--yes` and a rule for exactly this command lift the sandbox; a mode and a rule with `*` do not."""

    def judged(command: str, mode: Mode = "ask", *, unconfined: bool = False, **more: Any) -> tuple[str, str | None]:
        verdict = Policy(workspace, mode, **more).judge("bash", [Touch("run", command, unconfined)])
        return verdict.action, verdict.sandbox

    for mode in ("read-only", "ask", "auto-edit"):
        assert judged("git status", mode) == ("allow", "read-only"), mode
        assert judged("make", mode) == ("ask", None), mode
    assert judged("ls > new.txt", "auto-edit") == ("allow", "workspace")
    assert judged("ls > new.txt", allow=["write(new.txt)"]) == ("allow", "workspace")
    assert judged("git status", "auto") == judged("make", "auto") == ("allow", "workspace")
    assert judged("make", "auto", allow=["bash(make)"]) == ("allow", None)
    assert judged("make x", allow=["bash(make *)"]) == judged("make", allow=["bash(make *)"]) == ("allow", "workspace")
    assert judged("make && make x", allow=["bash(make)", "bash(make x *)"]) == ("allow", "workspace")
    assert judged("make x", unconfined=True, allow=["bash(make *)"]) == ("ask", None)
    # Every sandbox protects .git.
    assert judged("git commit -m x", allow=["bash(git commit *)"]) == ("allow", None)
    assert judged("git commit -m x && make x", allow=["bash(git *)", "bash(make *)"]) == ("allow", "workspace")
    assert judged("git bisect run make", allow=["bash(git *)"]) == ("allow", "workspace"), "it may be any git command"
    assert judged("git status && make", allow=["bash(make)"]) == ("allow", "workspace")
    assert judged("cat a.txt && make", allow=["bash(make)"]) == ("allow", None)
    assert judged("cat *.txt && make", allow=["bash(make)"]) == ("ask", None), "its files are unknown"
    assert judged("git status", allow=["bash(git status)"]) == ("allow", "read-only"), "the rule was not needed"
    assert judged("make", yes=True) == ("allow", None)
    for mode in ("ask", "auto"):
        assert judged("ls", mode, unconfined=True) == ("ask", None), mode
    assert judged("ls", unconfined=True, yes=True) == ("allow", None)
    assert judged("make", unconfined=True, allow=["bash(make)"]) == ("allow", None)
    assert judged("rm -rf /", unconfined=True)[0] == "deny"


def test_a_call_of_several_commands_runs_in_the_narrowest_sandbox(workspace: Path) -> None:
    both = [Touch("run", "make"), Touch("run", "ls")]
    verdict = Policy(workspace, allow=["bash(make)"]).judge("several", both)
    assert (verdict.action, verdict.sandbox) == ("allow", "read-only")


@pytest.mark.parametrize("mode", ["read-only", "ask", "auto-edit", "auto"])
def test_without_a_sandbox_only_programs_that_cannot_do_more_run_unasked(workspace: Path, mode: Mode) -> None:
    policy = Policy(workspace, mode)
    for command in ("ls -la", "cat a.txt | grep -c o", "cd src && head -3 app.py", "sort a.txt", "find ."):
        assert bash(policy, command, sandboxed=False) == "allow", command
    for command in (
        "git status",
        "find . -fprint x",
        "rg x",
        "sed -n 1p a.txt",
        "awk 1 a.txt",
        "sort -o a a.txt",
        "wc -l src/*.py",
        "echo $(pwd)",
        "jq . a",
    ):
        assert bash(policy, command, sandboxed=False) == "ask", command
    policy.add_allow("bash(git status)")
    assert bash(policy, "git status", sandboxed=False) == "allow"


def test_a_redirection_is_a_write(workspace: Path) -> None:
    policy = Policy(workspace, "auto-edit")
    assert bash(policy, "ls > new.txt") == "allow"
    assert bash(policy, "ls > AGENTS.md") == "ask"
    assert bash(policy, "ls > ../x") == "ask"
    assert bash(policy, "ls > .git/x") == "deny"
    assert bash(policy, "cd src && ls > ../new.txt") == "allow"
    assert bash(Policy(workspace, "ask", allow=["write(out/**)"]), "ls > out/x") == "allow"


def test_only_a_rule_for_writes_lets_a_redirection_write(workspace: Path) -> None:
    for rule, action in (("write(out/**)", "allow"), ("read(out/**)", "ask"), ("write", "ask")):
        assert bash(Policy(workspace, allow=[rule]), "echo x > out/a") == action, rule


def test_a_rule_lets_a_redirection_write_what_is_only_asked_about_but_no_secret(workspace: Path) -> None:
    (workspace / "other-name.txt").hardlink_to(workspace / "a.txt")
    for name, by_rule in (("a.txt", "allow"), ("new.txt", "allow"), (".env", "ask"), ("AGENTS.md", "ask")):
        assert bash(Policy(workspace, "ask", allow=[f"write({name})"]), f"ls > {name}") == by_rule, name
        assert bash(Policy(workspace, "ask"), f"ls > {name}") == "ask", name
    assert bash(Policy(workspace, "auto-edit"), "ls > a.txt") == "ask", "it has another name"


def test_always_for_this_session_allows_what_it_showed_and_no_more(workspace: Path) -> None:
    policy = Policy(workspace)
    shown = {
        "npm test -- a": "bash(npm test *)",
        "pytest -q": "bash(pytest *)",
        "sed -i s/a/b/ a.txt": "bash(sed -i s/a/b/ a.txt)",
        "cat /etc/hostname": "bash(cat /etc/hostname)",
        "git commit -m x": "bash(git commit *)",
        "bash -c x": None,
        "python3 x.py": None,
        "touch a; touch b": None,
        "ls > x": None,
    }
    for command, rule in shown.items():
        assert policy.judge("bash", [Touch("run", command)]).suggestion == rule, command
        if rule:
            policy.add_allow(rule)
            assert bash(policy, command) == "allow"
    assert bash(policy, "cat /etc/passwd") == "ask"
    assert bash(policy, "npm install") == "ask"


def always(policy: Policy, tool: str, touch: Touch) -> str | None:
    """Answer the question about the touch with "always"; the rule that this made."""
    verdict = policy.judge(tool, [touch])
    assert verdict.action == "ask"
    if verdict.suggestion:
        policy.add_allow(verdict.suggestion)
        assert policy.judge(tool, [touch]).action == "allow"
    return verdict.suggestion


@pytest.mark.parametrize(
    ("given", "others"),
    [
        ("a*.txt", ("ab.txt", "a.txt", "a*b.txt")),
        ("what?", ("whatx", "what")),
        ("x*y/new.txt", ("xy/new.txt", "x1y/new.txt", "other.txt")),
        ("back\\*slash", ("back*slash", "back\\x")),
    ],
)
def test_always_for_a_name_with_wildcards_is_for_that_name_alone(
    workspace: Path, given: str, others: tuple[str, ...]
) -> None:
    policy = Policy(workspace)
    assert always(policy, "write", Touch("write", given))
    for other in others:
        assert policy.judge("write", [Touch("write", other)]).action == "ask", other


def test_always_for_a_secret_is_for_that_file_and_not_for_its_folder(workspace: Path) -> None:
    policy = Policy(workspace)
    assert always(policy, "read", Touch("read", "deploy/id_ed25519")) == "read(deploy/id_ed25519)"
    assert policy.judge("read", [Touch("read", "deploy/.env")]).action == "ask"
    assert always(policy, "write", Touch("write", "docs/AGENTS.md")) == "write(docs/AGENTS.md)"
    assert policy.judge("write", [Touch("write", "docs/index.md")]).action == "ask"
    assert always(policy, "write", Touch("write", "docs/index.md")) == "write(docs/**)"
    assert policy.judge("write", [Touch("write", "docs/.env")]).action == "ask"
    assert always(policy, "write", Touch("write", "line\nbreak/x.txt")) is None


def test_a_rule_for_some_uses_of_a_tool_is_none_for_all_of_them(workspace: Path) -> None:
    for rules in ({"allow": ["something(x)"]}, {"deny": ["something(x)"]}, {"ask": ["something(x)"]}):
        policy = Policy(workspace, **rules)
        assert policy.judge("something", None).reason.startswith("something ")
        assert policy.judge("something", ()).action == "allow"
        assert policy.judge("something", [Touch("run", "make")]).action == "ask"
        assert policy.judge("something", [Touch("run", "ls")]).action == "allow"


def test_a_path_rule_lifts_what_it_names(workspace: Path) -> None:
    policy = Policy(workspace, allow=["edit(src/**)", "read"])
    assert policy.judge("edit", [Touch("write", "src/app.py")]).action == "allow"
    assert policy.judge("edit", [Touch("write", "src/../a.txt")]).action == "ask"
    assert policy.judge("edit", [Touch("write", "src/.env")]).action == "ask"
    assert policy.judge("read", [Touch("read", ".env")]).action == "ask"  # a secret needs a rule with its very name
    assert Policy(workspace, allow=["read(.env)"]).judge("read", [Touch("read", ".env")]).action == "allow"
    assert policy.judge("read", [Touch("read", "/etc/hostname")]).action == "allow"


def test_importing_the_policy_loads_no_parser() -> None:
    code = (
        "import sys, pathlib; own = set(sys.modules)\n"  # some Pythons load glob for it
        "import codelet.safety, codelet.system.text\n"
        "slow = {'tree_sitter', 'tree_sitter_bash', 'rich', 'glob', 'unicodedata', 'tempfile', 'hashlib', 'ctypes'}\n"
        "sys.exit(' '.join(slow & set(sys.modules) - own) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_several_touches_are_judged_for_one_place_or_for_none(workspace: Path) -> None:
    policy = Policy(workspace, yes=True)
    alone = policy.judge("something", [Touch("write", "new.txt")])
    assert alone.place is not None
    assert policy.judge("something", [Touch("write", "new.txt"), Touch("run", "ls")]).place == alone.place
    assert policy.judge("something", [Touch("write", "new.txt"), Touch("read", "a.txt")]).place is None
    assert policy.judge("something", [Touch("run", "ls"), Touch("run", "pwd")]).place is None


@pytest.mark.parametrize("mode", ["read-only", "ask", "auto-edit", "auto"])
def test_nothing_writes_what_codelet_keeps_a_record_in(workspace: Path, mode: Mode) -> None:
    (workspace / "way").symlink_to("audit.jsonl")
    policy = Policy(workspace, mode, allow=["write", "edit"], yes=True, kept=[workspace / "audit.jsonl"])
    for name in ("audit.jsonl", "./audit.jsonl", "way"):
        verdict = policy.judge("write", [Touch("write", name)])
        assert (verdict.action, verdict.tier) == ("deny", "write")
        assert verdict.reason.startswith(f"{name} ")
        assert policy.judge("read", [Touch("read", name)]).action == "allow"
    assert policy.judge("write", [Touch("write", "audit.json")]).action == ("deny" if mode == "read-only" else "allow")
