"""A turn on the terminal, part by part, for the snapshots and README's screenshots."""

from __future__ import annotations

import io
import re
from typing import Any

from prompt_toolkit.data_structures import Size

from codelet import events
from codelet.call_record import CommandEnd
from codelet.frontends.terminal.show.bottom import Bottom
from codelet.frontends.terminal.show.console import OutputConsole
from codelet.frontends.terminal.show.renderer import Renderer
from codelet.usage import Usage

_DIFF = """--- a/src/cart.py
+++ b/src/cart.py
@@ -11,3 +11,3 @@
     def total(self):
         amount = sum(item.price * item.count for item in self.items)
-        return amount - self.discount
+        return max(amount - self.discount, 0)
"""
_OUTPUT = "".join(f"tests/test_cart.py::test_{number} PASSED\n" for number in range(1, 12)) + "11 passed in 0.21s\n"
_TITLES = {"1": "grep discount", "2": "edit src/cart.py", "3": "bash pytest -q", "4": "bash make -C build"}
_ANSWER = """# The total can be negative

`total` took the discount off without looking whether it is *larger than the sum*; see
[the rules](https://shop.example/rules/discounts.html).

## What changed

| place | before | after |
|:------|-------:|:-----:|
| `src/cart.py:13` | -3.50 | 0 |
| tests | 10 | 11 |

1. the amount is never below **0**
2. a test says so:

```python
def test_a_discount_is_never_more_than_the_sum(cart):
    assert Cart([Item("tea", price=3, count=1)], discount=Discount.fixed(amount=650, reason="voucher")).total() == 0
```

> Prices are in cents.
"""


def scene() -> list[events.Event]:
    """The events of a turn, from its first step on."""
    return [
        events.Reasoning("A voucher may be worth more than the cart.\nSo total has to stop at zero."),
        events.ToolResult(id="1", name="grep", status="done", text="src/cart.py\n13: discount\n", counted="line"),
        events.ToolResult(id="2", name="edit", status="done", text="", display=_DIFF),
        events.ToolResult(id="3", name="bash", status="done", text=f"{_OUTPUT}[exit code 0]", seconds=0.4),
        events.ToolResult(
            id="4",
            name="bash",
            status="failed",
            text="no such file: build\n[exit code 2]",
            seconds=0.1,
            ended=CommandEnd(code=2),
        ),
        events.Text(_ANSWER),
        events.Compaction(phase="done", reason="hard", before=120_000, after=32_000, tier=2, kept_turns=3, segments=1),
        events.UsageReport(usage=Usage(), context=32_000, window=128_000, budget=96_000),
        events.TurnEnd("done", 3, Usage(total_input=31_200, cache_read=28_000, output=1_840)),
    ]


def screen(theme: str, columns: int) -> str:
    """The output of a prompt and the scene on a true-colour terminal."""
    file = io.StringIO()
    options: dict[str, Any] = {"force_terminal": True, "color_system": "truecolor", "width": columns, "height": 40}
    console = OutputConsole(theme, file=file, _environ={"TERM": "xterm-256color"}, **options)
    bottom = Bottom(file, lambda: Size(rows=40, columns=columns))
    renderer = Renderer(console, clock=lambda: 0.0, bottom=bottom, key="ctrl-o")
    bottom.hold(True)  # no frames on the way: they leave nothing on the screen
    renderer.say_prompt("a voucher makes the total negative: find out why, and fix it")
    renderer.show(events.TurnStart(1, "model"))
    renderer.name_calls(_TITLES)
    for event in scene():
        renderer.show(event)
    renderer.stop()
    bottom.hold(False)
    return re.sub(r"\x1b\[\?\d+[hl]| ?\x1b\[J|\r", "", file.getvalue())
