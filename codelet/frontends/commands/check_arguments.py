"""What `codelet policy check` and `codelet audit verify` take on the command line.

Short, because it stands apart from `checks`: a help page has no use for the policy.
"""

from __future__ import annotations

import argparse

from codelet.settings import SETTINGS


def add_policy_arguments(policy: argparse.ArgumentParser) -> None:
    """Add what `codelet policy` takes to its parser."""
    check = policy.add_subparsers(
        dest="policy_command", metavar="check", required=True, prog="codelet policy"
    ).add_parser("check", help="say what would happen to a command, without running it")
    check.add_argument("shell_command", nargs="?", metavar="COMMAND", help="the command line, quoted as one word")
    check.add_argument("--cases", metavar="FILE", help="judge the cases of a JSON lines file instead")
    check.add_argument("--mode", dest="check_mode", choices=SETTINGS["mode"].choices)
    check.add_argument(
        "--sandbox",
        dest="check_sandbox",
        choices=("auto", "off"),
        default="auto",
        help="judge as if a sandbox works (auto), or as if none does (off)",
    )
    check.add_argument("--json", action="store_true", help="one JSON object a line")


def add_audit_arguments(audit: argparse.ArgumentParser) -> None:
    """Add what `codelet audit` takes to its parser."""
    verify = audit.add_subparsers(
        dest="audit_command", metavar="verify", required=True, prog="codelet audit"
    ).add_parser("verify", help="find changed, removed, added and moved lines")
    verify.add_argument("file", metavar="FILE")
    verify.add_argument("--open", action="store_true", help="a session without its closing record may still run")
    verify.add_argument("--expect", metavar="HASH", help="the last hash, as an earlier run gave it")
    verify.add_argument("--json", action="store_true", help="print one JSON object")
