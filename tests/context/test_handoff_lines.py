"""Lines that the check strikes from good and invented handoffs, in four languages."""

from __future__ import annotations

import json

import pytest

from codelet.extensions.narrator import Narrator
from codelet.messages import Message, assistant, tool_call, tool_result, user
from tests.context.conftest import Open
from tests.context.scripted import Answer


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
