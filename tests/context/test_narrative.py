"""The narrative: asked on the cached prefix, checked line by line, and without a trace where it fails."""

from __future__ import annotations

import json
from contextlib import aclosing

import pytest

from codelet import events
from codelet.context.narrative import INSTRUCTION, NarrativeCheck
from codelet.errors import ProviderError
from codelet.extensions.narrator import Narrator
from codelet.loop.session import Session
from codelet.messages import Message, assistant, tool_call, tool_result, user
from codelet.providers.protocol import Request
from tests.context.conftest import Open
from tests.context.scripted import Answer, ScriptedProvider, by_hand, compactions, fill, turn

GOOD = "Goal: change src/part3/mod.py and never touch port 9003\nNext step: run part7"


def answering(answer: Answer) -> object:
    """Answers only the request for a narrative."""

    def script(request: Request) -> Answer | None:
        return answer if INSTRUCTION[:60] in str(request.messages[-1]["content"]) else None

    return script


async def compact(session: Session) -> events.Compaction:
    [done] = compactions(await by_hand(session), "done")
    return done


def asked(provider: ScriptedProvider) -> list[int]:
    """The numbers of the requests that asked for a narrative."""
    return [n for n, sent in enumerate(provider.sent) if INSTRUCTION[:60] in str(sent.stable[-1]["content"])]


@pytest.mark.parametrize("reasoning", ["", "State: part1 comes first\n</think>\n\n"])
async def test_the_narrative_is_the_head_of_the_note_and_uses_the_cached_prefix(open_session: Open, reasoning: str):
    session, provider = open_session(window=24_000, extensions=[Narrator()])
    await fill(session, provider, 8)
    false = "Done: src/never/seen.py\nValue: port 7777\nState: “no such words” was said"
    provider.script = answering(Answer(f"{reasoning}{GOOD}\n{false}"))
    before = list(provider.sent[-1].stable)
    await compact(session)
    [number] = asked(provider)
    own = provider.sent[number]
    assert own.tools == provider.sent[0].tools
    assert own.stable[: len(before)] == before
    lines = str(session.messages[0]["content"]).split("\n")
    place = lines.index("Goal: change src/part3/mod.py and never touch port 9003")
    assert lines[place + 1] == "Next step: run part7"
    assert lines[place - 1].startswith("[model's summary") and place <= 3, "only the opening and the note precede it"
    report = session.compactor.report
    assert report is not None and set(false.split("\n")) <= {each.partition(" (")[0] for each in report.struck}
    assert not [line for line in false.split("\n") if line in str(session.messages)]


async def test_a_new_narrative_takes_the_place_of_the_old_one(open_session: Open):
    session, provider = open_session(window=24_000, extensions=[Narrator()])
    await fill(session, provider, 8)
    provider.script = answering(Answer("State: part1 is looked at"))
    await compact(session)
    provider.script = None
    await fill(session, provider, 6)
    provider.script = answering(Answer("State: part5 is looked at"))
    await compact(session)
    text = str(session.messages)
    assert "part5 is looked at" in text and "part1 is looked at" not in text


@pytest.mark.parametrize(
    "answer",
    [
        Answer(error=ProviderError("no")),
        Answer(""),
        Answer("word " * 20_000),
        Answer("I'm sorry, but I can't help with that."),
        Answer("Goal: change src/part3/mod.py", hangs=True),
    ],
    ids=["fails", "empty", "too long", "refuses", "slow"],
)
async def test_a_failure_leaves_the_note_of_the_rules_and_the_receipt_says_so(open_session: Open, answer: Answer):
    plain, provider = open_session(window=24_000)
    await fill(plain, provider, 8)
    await compact(plain)
    session, provider = open_session(window=24_000, extensions=[Narrator()])
    await fill(session, provider, 8)
    # One more failure opens the circuit: no waiting between tries. The limit ends only the stream that hangs.
    Narrator(limit=0.2 if answer.hangs else 30.0, failures=2).attach(session)
    provider.script = answering(answer)
    before = session.usage
    async with aclosing(session.compact()) as stream:
        seen = [event async for event in stream]
    [done] = compactions(seen, "done")
    assert session.messages == plain.messages
    assert "no handoff" in done.note
    if not answer.text:
        [handoff] = [event for event in seen if isinstance(event, events.Handoff)]
        assert not handoff.prepared and handoff.usage is not None
        assert session.usage == before + handoff.usage, "an answer that is of no use is counted"


async def test_no_model_is_asked_about_a_list_that_is_larger_than_its_window(open_session: Open):
    session, provider = open_session(window=24_000, extensions=[Narrator()])
    provider.script = answering(Answer(GOOD))
    told = [(f"prompt {n}: look into src/part{n}.py", f"src/part{n}.py reads port {n}. " * 120) for n in range(40)]
    session.adopt([message for prompt, reply in told for message in (user(prompt), assistant(reply))])
    assert session.size > 24_000
    [done] = compactions(await turn(session, "go on"), "done")
    assert "too long" in done.note
    assert asked(provider) == [] and len(provider.sent) == 1


@pytest.mark.parametrize("always", [False, True])
async def test_where_a_recording_is_played_no_model_is_asked_unless_the_user_says_so(open_session: Open, always: bool):
    provider = ScriptedProvider(origin="replay:demo")
    session, _ = open_session(provider, window=24_000, extensions=[Narrator(always=always)])
    await fill(session, provider, 8)
    await compact(session)
    assert bool(asked(provider)) == always


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("State: 536 passed", False),
        ("State: from 536 passed to 539 passed", True),
        ("State: all is well, and pylint is clean", True),
        ("Value that holds now: 4,150 rows", True),
        ("Done: src/rows.py, not src/other.py", False),
        ("Done: edit/retry loops are gone", True),
        ("Done: src/retry is gone", False),
        ("Done: edit/vanish loops are gone", False),
        ("Done: ./run_all.sh is there", True),
        ("Goal: the user said “Retry is never … to be trusted.”", True),
        ("Goal: the user said “Retry is always … to be trusted.”", False),
        ("Goal: the user said “trusted … Retry is never”", False),
        ("Goal: the user said “edit is **slow**”", True),
    ],
)
def test_each_line_is_checked_against_the_source_and_the_runs(line: str, kept: bool):
    source = [
        "`load_rows(path)` in src/rows.py is called twice for 4150 rows by run_all.sh; edit is slow.",
        "*Retry* is never, whatever they say, to be trusted! 536 passed, 539 passed",
        "more of what was said " * 40,
    ]
    check = NarrativeCheck(source, runs={"pytest -q": ["exit 0, 536 passed in 2s", "exit 0, 539 passed in 1s"]})
    assert (check.accepted(line) == (line,)) == kept
    assert bool(check.struck) == (not kept)


def test_of_an_answer_that_is_too_long_the_lines_that_fit_are_kept_and_the_others_told():
    source = ["the words of a long session " * 100]
    lines = ["Goal: a", *(f"Done: {'and more ' * 9}{letter}" for letter in "abcdefgh"), "Next step: z"]
    check = NarrativeCheck(source, room=60)
    kept = check.accepted("\n".join(lines))
    assert kept[0] == lines[0] and kept[-1] == lines[-1] and 2 < len(kept) < len(lines)
    struck = [line for line in lines if line not in kept]
    assert [told.partition(" (no room")[0] for told in check.struck] == struck
    assert NarrativeCheck(source, room=600).accepted("\n".join(lines)) == tuple(lines)


def calling(number: int, name: str, arguments: dict[str, object], text: str, answer: str) -> list[Message]:
    call = tool_call(f"h{number}", name, json.dumps(arguments))
    return [assistant(text, [call]), tool_result(f"h{number}", answer)]


def conversation() -> list[Message]:
    """One session whose facts the lines below are about; what is called has quotes, line ends and backslashes."""
    return [
        user("Sync verliert Zeilen, siehe `agent-complex-task`. Never touch port 8443, „erst lesen, dann schreiben“."),
        *calling(
            1,
            "bash",
            {"command": 'nix-shell --run "pytest -q"'},
            "First the tests.",
            "E   AttributeError: module has no attribute 'reconcile'\nFAILED tests/test_output.py::test_merge\n"
            "8 failed, 524 passed in 2.03s",
        ),
        *calling(
            2,
            "write",
            {"path": "data/sample-terrain.json", "content": '{"cells": 4150,\n "mode": "flat"}'},
            "원인은 `session_lock`이 너무 늦게 잡히는 것입니다.",
            "created data/sample-terrain.json: 2 lines",
        ),
        *calling(
            3,
            "edit",
            {"path": "src/sync/merge.py", "edits": [{"old": "retry = 3", "new": "retry = 5  # C:\\temp\\merge.log"}]},
            "Der Cache hielt 4.150 Einträge; TokenBucket hilft nicht, load_rows() wird zweimal gerufen.",
            "edited src/sync/merge.py: 1 replacement",
        ),
        *calling(4, "bash", {"command": 'nix-shell --run "pytest -q"'}, "再跑一次测试。", "539 passed in 1.93s"),
        *calling(
            5, "bash", {"command": "git commit -am 'Take the lock first'"}, "", "[main 1a2b3c4] Take the lock first"
        ),
        assistant(
            "タイムアウトは30秒から45秒です。https://api.example.org/v2/rows は「429 Too Many Requests」を返す。"
        ),
        user("好的，不要改 config/prod.yaml，超时保持 45 秒。"),
        assistant("明白。下一步：检查 src/sync/queue.py 里的 max_inflight = 64。" + " Weitere Worte dazu." * 40),
    ]


TRUE = """
Task now: Sync verliert Zeilen; `agent-complex-task` ist der Auftrag.
Decided and why: retry = 5 statt 3 in src/sync/merge.py.
Tried and refuted: TokenBucket hilft nicht.
Open: load_rows() wird zweimal gerufen, der Cache hielt 4150 Einträge.
Decided and why: „erst lesen, dann schreiben“, und Port 8443 bleibt unberührt.
State: `nix-shell --run "pytest -q"` gibt 539 passed.
State: committed as 1a2b3c4, "Take the lock first".
Next step: src/sync/queue.py ansehen, dort steht max_inflight = 64.
지금 할 일: GitHub에 agent-complex-task를 올린다.
결정과 이유: `session_lock`을 먼저 잡는다, 너무 늦게 잡히기 때문이다.
시도했으나 실패: TokenBucket은 도움이 되지 않았다.
결정: data/sample-terrain.json에 4,150개의 cells를 넣었다.
결정: src/sync/merge.py에서 retry를 5로 바꿨다.
상태: pytest는 539 passed로 끝났다.
미해결: load_rows()가 두 번 불린다.
다음 단계: src/sync/queue.py의 max_inflight를 확인한다.
現在の作業: data/sample-terrain.jsonとsrc/sync/merge.pyを追加・修正した。
決定と理由: タイムアウトは30秒から45秒にした。
試して駄目だった: TokenBucketは役に立たない。
未解決: https://api.example.org/v2/rowsは「429 Too Many Requests」を返す。
状態: `nix-shell --run "pytest -q"`は539 passedになった。
決定: session_lockを先に取る(コミット1a2b3c4)。
次の一歩: src/sync/queue.pyのmax_inflight = 64を見る。
当前任务：修复 src/sync/merge.py 的丢行问题。
决定及原因：不改config/prod.yaml，超时保持45秒。
试过但无效：TokenBucket没有用。
状态：539 passed，之前 tests/test_output.py::test_merge 失败。
决定：日志写到 C:\\temp\\merge.log，retry改为5。
未决：load_rows()被调用两次。
下一步：检查src/sync/queue.py里的max_inflight。
"""
INVENTED = """
Task now: Sync verliert Zeilen in src/sync/writer.py.
Decided and why: retry = 5 statt 3 in lib/merge.py.
Tried and refuted: LeakyBucket hilft nicht.
Open: drop_rows() wird zweimal gerufen.
Open: der Cache hielt 9999 Einträge.
Decided and why: „erst schreiben, dann fragen“.
State: `nix-shell --run "mypy src"` gibt 539 passed.
State: 512 passed.
지금 할 일: agent-simple-task/README.md를 고친다.
결정과 이유: `global_lock`을 먼저 잡는다.
시도했으나 실패: RateLimiter는 도움이 되지 않았다.
결정: data/real-terrain.json에 cells를 넣었다.
결정: retry를 17로 바꿨다.
상태: 클라이언트가 "connection reset by peer"를 돌려준다.
미해결: save_rows()가 두 번 불린다.
다음 단계: src/async/queue.py의 max_inflight를 확인한다.
現在の作業: data/other-terrain.jsonを追加した。
決定と理由: タイムアウトは75秒にした。
試して駄目だった: LeakyBucketは役に立たない。
未解決: https://api.example.org/v3/colsは「429 Too Many Requests」を返す。
未解決: APIは「503 Service Unavailable」を返す。
決定: table_lockを先に取る。
次の一歩: src/sync/queue.pyのmin_inflight = 64を見る。
当前任务：修复 src/sync/split.py 的丢行问题。
决定及原因：不改config/test.yaml。
试过但无效：ConnectionPool没有用。
状态：540 passed。
决定：日志写到“/var/log/merge.log”。
未决：端口 9443 被占用。
下一步：检查 max_outflight。
"""


@pytest.mark.parametrize(("lines", "most_kept", "least_kept"), [(TRUE, 30, 29), (INVENTED, 0, 0)], ids=["true", "not"])
async def test_what_is_struck_of_thirty_lines(open_session: Open, lines: str, most_kept: int, least_kept: int):
    said = lines.strip().split("\n")
    assert len(said) == 30
    session, provider = open_session(window=64_000, extensions=[Narrator(failures=2)])
    provider.answers.append(Answer("\n".join(said)))
    session.adopt(conversation())
    narrator = session.compactor.narrator
    assert narrator is not None
    kept = await narrator.lines(session.conversation.messages, "", 3_000)
    assert least_kept <= len(kept) <= most_kept, (narrator.struck, [line for line in said if line in kept])
    assert len(kept) + len(narrator.struck) == 30, "each line was checked separately"
