"""Random answers in Markdown, together with what a reader has to find on the screen."""

from __future__ import annotations

import random
import string

_CJK = "数据库索引不要删除先检查再运行测试日本語テスト결과확인"
_EMOJI = ["🙂", "👍🏽", "👩‍💻", "🇩🇪", "❤️", "✅", "⚠️", "👨‍👩‍👧‍👦"]
_PLAIN = ["2 * 3", "a < b", "row[1]", "snake_case_name", "__init__.py", "x ~ y", "c:", "at&t", "f(x)", "it's", "wow!"]
_WRITTEN = [("\\*", "*"), ("&lt;", "<"), ("\\`", "`"), ("&amp;", "&"), ("\\[x\\]", "[x]"), ("<b>", "<b>")]


class Answers:
    """Generates random answers.

    `shown` is the visible text in order, without spaces; `cells` are the letters inside tables, whose cells are side by
    side. Only words of tables are in capital letters.
    """

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self._shown: list[str] = []
        self._cells: list[str] = []

    def answer(self, blocks: int) -> tuple[str, str, str]:
        """Source, what is shown outside of tables, letters inside them (sorted)."""
        self._shown, self._cells = [], []
        makers = (self._paragraph, self._paragraph, self._paragraph, self._bullets, self._numbers, self._quote)
        rare = (self._table, self._table, self._fence, self._heading)
        parts = [self.dice.choice((*makers, *rare))() for _ in range(blocks)]
        source = "\n\n".join(parts) + self.dice.choice(["", "\n", "\n\n"])
        return source, "".join("".join(self._shown).split()), "".join(sorted("".join(self._cells)))

    def _word(self, longest: int = 12) -> str:
        letters = self.dice.choices(string.ascii_lowercase, k=self.dice.randint(1, longest))
        return "".join(letters) + (str(self.dice.randint(0, 99)) if self.dice.random() < 0.3 else "")

    def _words(self, most: int) -> str:
        return " ".join(self._word() for _ in range(self.dice.randint(1, most)))

    def _inline(self, count: int, *, lines: bool = True) -> str:
        """RunningCall text of `count` parts; notes what of it is shown."""
        source = ""
        for number in range(count):
            written, shown = self._part()
            self._shown.append(shown)
            between = "\n" if lines and self.dice.random() < 0.06 else " "
            source += (between if number else "") + written
            if self.dice.random() < 0.1:
                sign = self.dice.choice([",", ".", ";", ":", "!", "?", ")"])
                source, self._shown = source + sign, [*self._shown, sign]
        return source

    def _part(self) -> tuple[str, str]:
        chance = self.dice.random()
        if chance < 0.55:
            word = "a" + self._word(25 if chance < 0.02 else 12)  # a letter first: no word looks like a list
            return word, word
        if chance < 0.65:
            return self._marked(self.dice.choice(["**", "*", "_", "__", "~~", "***"]))
        if chance < 0.75:
            code = self.dice.choice([self._words(3), "a*b", "x[0]", "--force", "a | b", "_x_", "<y>", "\\n"])
            return f"`{code}`", code
        if chance < 0.81:
            return self._link()
        if chance < 0.86:
            text = "".join(self.dice.choices(_CJK, k=self.dice.randint(1, 30)))
            return text, text
        if chance < 0.9:
            return (self.dice.choice(_EMOJI),) * 2
        if chance < 0.95:
            return (self.dice.choice(_PLAIN),) * 2
        return self.dice.choice(_WRITTEN)

    def _marked(self, mark: str) -> tuple[str, str]:
        first, last = self._words(5), self._words(5)
        chance = self.dice.random()
        if chance < 0.2:
            inside, shown = self._link()
        elif chance < 0.4:
            code = self._words(2)
            inside, shown = f"`{code}`", code
        else:
            inside = shown = self._word()
        return f"{mark}{first} {inside} {last}{mark}", f"{first}{shown}{last}"

    def _link(self) -> tuple[str, str]:
        address = f"https://{self._word()}.example/{self._word()}/{self._word(30)}.html"
        if self.dice.random() < 0.15:
            return f"<{address}>", address
        label = self._words(6)
        written = f"**{label}**" if self.dice.random() < 0.2 else f"`{label}`" if self.dice.random() < 0.2 else label
        image = "!" if self.dice.random() < 0.1 else ""
        title = f' "{self._words(3)}"' if self.dice.random() < 0.1 else ""
        return f"{image}[{written}]({address}{title})", f"{label}({address}{title})"

    def _paragraph(self) -> str:
        return self._inline(self.dice.choice([1, 5, 30, 60, 120]))

    def _bullets(self, depth: int = 0) -> str:
        lines = []
        for _ in range(self.dice.randint(1, 5)):
            box = "[ ] " if self.dice.random() < 0.1 else ""
            lines.append("  " * depth + "- " + box + self._inline(self.dice.randint(1, 25), lines=False))
            if depth < 3 and self.dice.random() < 0.15:
                lines.append(self._bullets(depth + 1))
        return "\n".join(lines)

    def _numbers(self) -> str:
        lines = []
        for number in range(1, self.dice.randint(2, 6)):
            self._shown.append(f"{number}.")
            lines.append(f"{number}. {self._inline(self.dice.randint(1, 25), lines=False)}")
        return "\n".join(lines)

    def _quote(self) -> str:
        lines = [self._inline(self.dice.randint(1, 25), lines=False) for _ in range(self.dice.randint(1, 4))]
        return "\n".join(f"> {line}" for line in lines)

    def _table(self) -> str:
        columns = self.dice.randint(1, 4)
        lines = ["| " + " | ".join(self._cell(2) for _ in range(columns)) + " |"]
        lines.append("| " + " | ".join(self.dice.choice(["---", ":-:", "--:"]) for _ in range(columns)) + " |")
        for _ in range(self.dice.randint(1, 6)):
            cells = columns + (self.dice.randint(0, 2) if self.dice.random() < 0.1 else 0)
            lines.append("| " + " | ".join(self._cell(8) for _ in range(cells)) + " |")
        return "\n".join(lines)

    def _cell(self, most: int) -> str:
        words = ["".join(self.dice.choices(string.ascii_uppercase, k=self.dice.randint(1, 9))) for _ in range(most)]
        words = words[: self.dice.randint(1, most)]
        self._cells += words
        return self.dice.choice(["{}", "**{}**", "`{}`", "*{}*"]).format(" ".join(words))

    def _fence(self) -> str:
        lines = [" " * self.dice.choice([0, 4]) + self._words(8) for _ in range(self.dice.randint(1, 8))]
        self._shown += lines
        return "```" + self.dice.choice(["", "python", "js"]) + "\n" + "\n".join(lines) + "\n```"

    def _heading(self) -> str:
        return "#" * self.dice.randint(1, 4) + " " + self._inline(self.dice.randint(1, 12), lines=False)
