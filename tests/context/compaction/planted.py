"""Made-up sessions with a known truth: conclusions in many languages, events that invite untrue lines, sizes."""

from __future__ import annotations

import itertools
import json
import random
from base64 import encodebytes
from typing import Any

from tests.context.compaction.lists import Message, calling, result, says, user

# In languages of several scripts, two of them without spaces between words: a name and "go on", an order, conclusions.
_TABLE = """\
th ต่อไป
ห้ามเขียนลงฐานข้อมูลจริงเด็ดขาด
สาเหตุคือไม่มีการล็อกตอนเขียนไฟล์
เราตัดสินใจใช้ตัวแยกวิเคราะห์เดิมเพราะเร็วกว่า
การลองซ้ำไม่ช่วย ล้มเหลวสามครั้งด้วยคำตอบเดิม
แคชเก็บรายการของผู้ใช้ที่ออกไปแล้ว
ไลบรารีนี้อ่านไฟล์บีบอัดไม่ได้

my ဆက်လုပ်ပါ
ထုတ်လုပ်ရေးဒေတာဘေ့စ်သို့ ဘယ်တော့မှ မရေးပါနှင့်။
အကြောင်းရင်းမှာ ရေးသားသူတွင် သော့မရှိခြင်းဖြစ်သည်။
မြန်ဆန်မှုအတွက် ခွဲခြမ်းစနစ်ဟောင်းကို ဆက်သုံးမည်။
ထပ်ကြိုးစားခြင်းက မကူညီပါ။ သုံးကြိမ် ကျရှုံးခဲ့သည်။
ထွက်သွားသော အသုံးပြုသူများ၏ မှတ်တမ်းများ ကျန်ရှိနေသည်။
ဤစာကြည့်တိုက်သည် ချုံ့ထားသောဖိုင်များကို မဖတ်နိုင်ပါ။

ar تابع
لا تكتب أبدا في قاعدة بيانات الإنتاج.
السبب هو غياب القفل في الكاتب.
قررنا الإبقاء على المحلل القديم من أجل السرعة.
إعادة المحاولة لا تفيد، فقد فشلت ثلاث مرات.
الذاكرة المؤقتة احتفظت بسجلات مستخدمين غادروا.
المكتبة لا تستطيع قراءة الملفات المضغوطة.

hi आगे बढ़ो
उत्पादन डेटाबेस में कभी मत लिखना।
कारण यह है कि लेखक में ताला नहीं है।
गति के कारण हमने पुराना पार्सर रखने का निर्णय लिया।
दोबारा कोशिश से मदद नहीं मिली, तीन बार असफल रही।
कैश ने उन उपयोगकर्ताओं की प्रविष्टियाँ रखीं जो जा चुके थे।
यह लाइब्रेरी संपीड़ित फ़ाइलें नहीं पढ़ सकती।

tr devam et
Üretim veritabanına asla yazma.
Neden, yazıcıda kilidin eksik olmasıdır.
Hız nedeniyle eski ayrıştırıcıyı tutmaya karar verdik.
Yeniden denemek işe yaramıyor, üç kez başarısız oldu.
Önbellek ayrılan kullanıcıların kayıtlarını tuttu.
Kitaplık sıkıştırılmış dosyaları okuyamıyor.
"""
# Conclusions, an order, and "go on".
LANGUAGES: dict[str, tuple[list[str], str, str]] = {
    first.split(" ", 1)[0]: (conclusions, order, first.split(" ", 1)[1])
    for first, order, *conclusions in (block.split("\n") for block in _TABLE.strip().split("\n\n"))
}


def ran(call_id: str, command: str, output: str) -> list[Message]:
    """A command and what it printed."""
    return did(call_id, "shell", {"cmd": command}, output)


def reads(first: int, last: int) -> list[Message]:
    """Reads of modules without later questions."""
    found: list[Message] = []
    for number in range(first, last):
        lines = [f"def func_{number}_{n}(arg_{n}): return value_{number}_{n}" for n in range(40)]
        found += did(f"p{number}", "open", {"file": f"src/mod{number}.py"}, "\n".join(lines))
    return found


def in_language(name: str) -> list[Message]:
    """A session with five conclusions among sixty reads."""
    conclusions, order, on = LANGUAGES[name]
    messages: list[Message] = [user(order)]
    for turn, conclusion in enumerate(conclusions):
        steps = reads(12 * turn, 12 * turn + 12)
        steps[8]["content"] = conclusion
        messages += [*steps, says("OK."), user(on)]
    return messages


def did(call_id: str, name: str, arguments: dict[str, Any], output: str) -> list[Message]:
    """A call and its result."""
    return [calling((call_id, name, arguments)), result(call_id, output)]


def put(path: str, content: str, result: str = "ok") -> list[Message]:
    """A file that is written."""
    return did("w", "put", {"path": path, "content": content}, result)


def todo(call_id: str, **steps: str) -> list[Message]:
    """A plan with the status of each step."""
    items = [{"text": text.replace("_", " "), "status": status} for text, status in steps.items()]
    return did(call_id, "todo", {"items": items}, "ok")


_PATCH = "*** Begin Patch\n*** Add File: n.py\n+x = 1\n*** Delete File: o.py\n*** End Patch"
_IN_JSON = json.dumps({"output": "test result: FAILED. 7 passed; 2 failed", "metadata": {"exit_code": 101}})
GOOD, BAD = "[exit code 0]", "[exit code 1]"
# What happened, and what has to be said of it, or must not be ("not: ").
EVENTS: dict[str, tuple[list[Message], list[str]]] = {
    "a file whose name looks like an error": (
        put("src/TimeoutException.kt", "class T", "ok: 1 line"),
        ["wrote src/TimeoutException.kt", "not: error", "not: failed:"],
    ),
    "fails, then passes": (
        ran("a", "rspec", f"3 examples, 2 failures\n{BAD}") + ran("b", "rspec", f"3 examples, 0 failures\n{GOOD}"),
        ["ran `rspec`: exit 0, 3 examples, 0 failures", "before, at t1: exit 1"],
    ),
    "passes, then fails": (
        ran("a", "ctest", f"12 passed\n{GOOD}") + ran("b", "ctest", "11 passed, 1 failed\n[exit code 8]"),
        ["ran `ctest`: exit 8, 11 passed, 1 failed", "not: exit 0"],
    ),
    "the status is another program's": (
        ran("a", "make test | tee log", f"FAIL: t_7\n4 tests, 1 failed\n{GOOD}"),
        ["ran `make test | tee log`: 4 tests, 1 failed", "not: exit 0"],
    ),
    "fails, then an ending that nobody knows": (
        ran("a", "zig build", f"error: no field named x\n{BAD}") + ran("b", "zig build | head -3", "done"),
        ["not known", "not: exit 0"],
    ),
    "written, then removed": (
        put("tmp/probe.lua", "print(1)") + ran("b", "rm tmp/probe.lua", GOOD),
        ["deleted tmp/probe.lua", "not: wrote tmp/probe.lua", "not: print(1)"],
    ),
    "written, then moved": (
        put("lib/old_name.ex", "defmodule A") + ran("b", "git mv lib/old_name.ex lib/new_name.ex", GOOD),
        ["not: wrote lib/old_name.ex", "not: deleted lib/old_name.ex"],
    ),
    "an error in a comment": (
        did("e", "change", {"path": ".env", "old_text": "A=1", "new_text": "# ERROR: only TCP\nA=2"}, "saved"),
        ["wrote .env", "not: failed:"],
    ),
    "a listing of errors": (
        ran("a", "ls", f"NotFoundError.ts\nTimeoutError.ts\n{GOOD}"),
        ["not: failed", "not: exit 1"],
    ),
    "a commit": (
        ran("a", "git commit -m x", f"[main 4f5e6d7] Rename the queue\n 1 file changed\n{GOOD}"),
        ["committed 4f5e6d7 Rename the queue"],
    ),
    "a commit that was refused": (
        ran("a", "git commit -m x", f"nothing to commit, working tree clean\n{BAD}"),
        ["not: committed"],
    ),
    "a step that is done and one that is not": (
        todo("a", Move_the_queue="completed", Drop_it="open"),
        ["step done: Move the queue", "not: step done: Drop it"],
    ),
    "a step that is open again": (
        todo("a", Move_it="completed") + todo("b", Move_it="in_progress"),
        ["not: step done: Move it"],
    ),
    "another command helps": (
        ran("a", "git push origin", f"error: remote rejected\n{BAD}") + ran("b", "git push -f origin", f"ok\n{GOOD}"),
        ["ran `git push origin`: exit 1", "not: open"],
    ),
    "run again in what stays": (ran("a", "late_check", f"1 failed\n{BAD}"), ["not: ran `late_check`: exit 1"]),
    "a patch that adds and deletes": (did("a", "patch", {"input": _PATCH}, "ok"), ["wrote n.py", "deleted o.py"]),
    "a command in a JSON object": (
        did("a", "run", {"command": ["bash", "-lc", "cargo test"]}, _IN_JSON),
        ["ran `cargo test`: exit 101", "not: exit 0"],
    ),
    "removed in another folder": (put("a.py", "a = 1") + ran("a", "cd sub && rm a.py", GOOD), ["not: deleted a.py"]),
    "removed by force, if it was there": (ran("a", "rm -f never.txt", GOOD), ["not: deleted never.txt"]),
    "a folder that was removed": (
        put("pkg/in/a.py", "a = 1") + ran("a", "rm -r pkg", GOOD),
        ["deleted pkg", "not: wrote pkg/in/a.py"],
    ),
    "files removed by a pattern": (put("pkg/b.py", "b = 1") + ran("a", "rm pkg/*.py", GOOD), ["not: wrote pkg/b.py"]),
    "all taken back": (put("lib/c.py", "c = 1") + ran("a", "git reset --hard", GOOD), ["not: wrote lib/c.py"]),
    "one program in two folders": (
        ran("a", "cd one && make", "error: no rule\n[exit code 2]") + ran("b", "cd two && make", GOOD),
        ["ran `cd one && make`: exit 2", "not: before, at"],
    ),
}


def around(middle: list[Message]) -> list[Message]:
    """An event among reads, with two short turns after it; the last of them runs `late_check` again."""
    end = [says("I see."), user("go on")]
    end += [*ran("late", "late_check", "1 passed\n[exit code 0]"), says("Looking.")]
    return [user("Make it work."), *reads(0, 20), *middle, *reads(20, 40), *end, user("and now?")]


def with_base64(seed: int = 3) -> list[Message]:
    """A session with an image in base64 for a fifth of its text."""
    rows = encodebytes(random.Random(seed).randbytes(18_000)).decode()
    return around(ran("pic", "base64 logo.png", rows))


def made_up(tokens: int, seed: int = 7) -> list[Message]:
    """A session of about that many tokens over code whose words never end; the same for the same seed."""
    chance = random.Random(seed)
    found: list[Message] = [{"role": "system", "content": "You are a coding agent."}]
    total, number = 0, 0
    while total < 4 * tokens:
        number += 1
        words = [f"{chance.choice('abcdefgh')}{chance.randrange(1 << 24):x}_{number}" for _ in range(40)]
        code = "\n".join(f"    {a} = {b}({a}, {number})" for a, b in itertools.pairwise(words))
        path = f"src/{words[0]}.py"
        edit = {"path": path, "old": code[:120], "new": code[:240]}
        name, arguments = [("read", {"path": path}), ("bash", {"command": f"grep -rn {words[1]} src"}), ("edit", edit)][
            number % 3
        ]
        if number % 4 == 1:
            found.append(user(f"Now look at {words[2]}, then change it."))
        found += did(f"made_{number}", name, arguments, code)
        found[-2]["content"] = f"Next is {words[3]}, as {words[4]} calls it."
        total += 2 * len(code) + 200
    return [*found, says("Done.")]
