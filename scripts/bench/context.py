"""The ruler: how well compaction keeps what is needed later, on real transcripts and on planted facts.

Use: python scripts/bench/context.py --data DIR [--history REPOSITORY]
     [--only handover,rounds,recall,needles,speed,kit,cost] [--cuts N] [--shares S …] [--out FILE.json]
     [--only narratives [--narratives DIR]]
Reads pi, SWE-agent and LangChain transcripts and Chat Completions lists. Baselines that need a package (langchain,
compaction-conformance-kit) are skipped with a message where it is absent. Exit status 1: a compaction of about 150,000
tokens took longer than is promised.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, pstdev
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context import (
    baselines,
    cost,
    handover,
    history,
    kit,
    langchain_baselines,
    narratives,
    needles,
    readers,
    recall,
    rounds,
    speed,
)

SHARES = (0.25, 0.125)
Shares = Sequence[float]
READERS: dict[str, Callable[[str], set[str]]] = {"names": recall.identifiers, "words": recall.words}
Table = list[dict[str, Any]]


def orphans(messages: list[dict[str, Any]]) -> int:
    """Calls without a result right after them, and results without a call."""
    count, wanted = 0, []
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") in wanted:
                wanted.remove(message["tool_call_id"])
            else:
                count += 1
            continue
        count += len(wanted)
        wanted = [call["id"] for call in message.get("tool_calls") or []]
    return count + len(wanted)


def user_share(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> float:
    """The share of user messages whose first 60 characters are still somewhere."""
    text = "\n".join(map(recall.spoken, after))
    heads = [recall.spoken(m)[:60] for m in before if m["role"] == "user"]
    return sum(head in text for head in heads) / max(1, len(heads))


def measure_recall(
    transcripts: list[readers.Transcript], policies: dict[str, baselines.Policy], count: int, shares: Shares
) -> Table:
    """One row per session, reading, share and policy: means over the cuts, and their spread."""
    rows: Table = []
    for transcript in transcripts:
        for reading, reader in READERS.items():
            cuts = recall.cuts(transcript.messages, count, 30_000, True, reader)
            if len(cuts) < 3:
                cuts = recall.cuts(transcript.messages, count, 12_000, False, reader)
            for share in shares:
                fitting = [cut for cut in cuts if baselines.codelet(cut.before, target_of(cut, share))]
                for name, policy in policies.items() if fitting else ():
                    rows.append(one_policy(transcript.name, reading, reader, fitting, share, name, policy))
            if not cuts:
                print(f"{transcript.name}: too short to be cut", file=sys.stderr)
    return rows


def target_of(cut: recall.Cut, share: float) -> int:
    """A share of the list's size in tokens."""
    return int(baselines.size(cut.before) * share)


def one_policy(
    session: str,
    reading: str,
    reader: Callable[[str], set[str]],
    cuts: list[recall.Cut],
    share: float,
    name: str,
    policy: baselines.Policy,
) -> dict[str, Any]:
    """One row: a policy over the cuts of a session."""
    found, users, over, lost, seconds, stable = [], [], [], 0, 0.0, True
    for cut in cuts:
        target = target_of(cut, share)
        begun = time.process_time()
        after = policy(list(cut.before), target)
        seconds += time.process_time() - begun
        found.append(recall.recall(cut, after, reader))
        users.append(user_share(cut.before, after))
        over.append(baselines.size(after) / target)
        lost += orphans(after)
        if name == "codelet":
            stable = stable and policy(list(cut.before), target) == after
    return {
        "session": session,
        "reading": reading,
        "share": share,
        "policy": name,
        "cuts": len(cuts),
        "FRR": round(mean(r.frr for r in found), 3),
        "±": round(pstdev(r.frr for r in found), 3),
        "relFRR": round(mean(r.rel for r in found), 3),
        "users": round(mean(users), 2),
        "size/target max": round(max(over), 2),
        "orphans": lost,
        "s": round(seconds, 2),
        "same bytes": stable,
    }


def measure_handover(
    transcripts: list[readers.Transcript], policies: dict[str, baselines.Policy], count: int, shares: Shares
) -> Table:
    """One row per share and policy over all sessions; codelet's own rows by session are shown before."""
    table, single = handover.measure(transcripts, policies, count, shares, orphans)
    show("codelet by session, with its cuts", single)
    return table


def measure_needles(
    transcripts: list[readers.Transcript], policies: dict[str, baselines.Policy], shares: Shares
) -> Table:
    """One row per host, share, policy and kind: survival after one round and after five, and stale values shown."""
    hosts = {"made up": needles.synthetic()}
    hosts.update({t.name: t.messages for t in transcripts if baselines.size(t.messages) > 100_000})
    rows: Table = []
    for host, messages in hosts.items():
        for share in shares:
            for name, policy in policies.items():
                found = needles.run(policy, messages, share)
                row: dict[str, Any] = {"host": host, "share": share, "policy": name, "target": found[0]["target"]}
                for kind in needles.KINDS:
                    last = [r for r in found if r["kind"] == kind]
                    marks = [mean(r["held"] for r in last if r["round"] == number) for number in (1, needles.ROUNDS)]
                    row[kind] = "/".join(f"{100 * mark:.0f}" for mark in marks)
                row["stale"] = sum(r["stale"] for r in found)
                row["max size/target"] = round(max(r["tokens"] / r["target"] for r in found), 2)
                rows.append(row)
    return rows


def measure_cost(transcripts: list[readers.Transcript], policies: dict[str, baselines.Policy]) -> Table:
    """Cost of the longest session by placement of reminders, then by policy, relative to the cheapest of its kind."""
    longest = max(transcripts, key=lambda t: baselines.size(t.messages)).messages
    rows: Table = []
    base, steps, _ = cost.replay(longest)
    for name, placement in cost.PLACEMENTS.items():
        total, _, _ = cost.replay(longest, placement)
        rows.append({"what": f"reminders: {name}", "requests": steps, "compactions": 0, "cost": round(total / base, 3)})
    for name, policy in policies.items():
        total, _, times = cost.replay(longest, cost.tail, policy)
        relative = round(total / base, 3)
        rows.append({"what": f"policy: {name}", "requests": steps, "compactions": times, "cost": relative})
    return rows


def measure_kit() -> Table:
    """The kit's survival table, its own compactors and ours."""
    return [
        {
            "budget": entry["budget_fraction"],
            "compactor": entry["compactor"],
            "within budget": entry["budget_compliant"],
            "survival": entry["randomized"]["overall_final_survival"],
            "resolved": entry["semantic"]["resolved_rate"],
            "pairs": entry["semantic"]["distinct_pair_rate"],
        }
        for entry in kit.survival()
    ]


def show(title: str, rows: Table) -> None:
    """Print rows as a Markdown table."""
    print(f"\n## {title}\n")
    if not rows:
        print("nothing to show")
        return
    print("| " + " | ".join(rows[0]) + " |")
    print("|" + "---|" * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(str(value) for value in row.values()) + " |")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, action="append", default=[], help="a folder of transcripts, or a file")
    parser.add_argument("--history", type=Path, help="a git repository: sessions made up from its commits, too")
    parser.add_argument("--only", default="handover,rounds,recall,needles,speed,kit,cost")
    parser.add_argument(
        "--cuts", type=int, default=20, help="of each session for recall; a quarter of that for the hand-over"
    )
    parser.add_argument(
        "--shares", type=float, nargs="+", default=SHARES, help="the sizes to compact to, 0.25 for a quarter"
    )
    parser.add_argument("--narratives", type=Path, help="a folder of narratives, for `--only narratives`")
    parser.add_argument("--out", type=Path, help="write all rows as JSON to this file")
    return parser.parse_args()


def main() -> int:
    args = parsed()
    transcripts = [t for folder in args.data for t in readers.read_all(folder)]
    if args.history:
        transcripts += history.sessions(args.history)
    if not transcripts:
        print("no transcript found: name some with --data or --history", file=sys.stderr)
        return 2
    policies = {name: baselines.with_system(policy) for name, policy in baselines.PLAIN.items()}
    policies |= {name: baselines.PLAIN[name] for name in baselines.OWN}
    try:
        policies |= {n: baselines.with_system(policy) for n, policy in langchain_baselines.policies().items()}
    except ImportError as error:
        print(f"LangChain's baselines are left out: {error} (pip install langchain)", file=sys.stderr)
    longest = max(transcripts, key=lambda t: baselines.size(t.messages)).messages
    parts: dict[str, Callable[[], Table]] = {
        "handover": lambda: measure_handover(transcripts, policies, max(1, args.cuts // 4), args.shares),
        "rounds": lambda: rounds.drift(transcripts, policies, args.shares),
        "recall": lambda: measure_recall(transcripts, policies, args.cuts, args.shares),
        "needles": lambda: measure_needles(transcripts, policies, args.shares),
        "speed": lambda: speed.measure(longest),
        "kit": measure_kit,
        "narratives": lambda: narratives.measure(transcripts, args.narratives, args.shares),
        "cost": lambda: measure_cost(transcripts, policies),
    }
    everything: dict[str, Table] = {}
    for name in args.only.split(","):
        try:
            everything[name] = parts[name]()
        except ImportError as error:
            print(f"{name} is left out: {error} (pip install compaction-conformance-kit)", file=sys.stderr)
            continue
        show(name, everything[name])
    if args.out:
        args.out.write_text(json.dumps(everything, indent=1), encoding="utf-8")
    slow = speed.too_slow(everything.get("speed", []))
    for row in slow:
        promised = f"{speed.PROMISED} x json.dumps"
        print(
            f"too slow: {row['list']}, {row['tokens']} tokens: {row['ratio']} x, promised {promised}", file=sys.stderr
        )
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
