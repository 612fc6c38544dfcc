"""Draw README's screenshots of the terminal, dark and light. Use: python -m scripts.pictures.terminal.

They are rendered from the output for 80 columns; a test compares them with the current output.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from tests.frontends.terminal.show.scene import screen

COLUMNS = 80
PICTURES = {theme: Path(__file__).with_name(f"terminal-{theme}.svg") for theme in ("dark", "light")}

_THEMES = {
    "dark": TerminalTheme(
        (22, 27, 34),
        (214, 220, 228),
        [(36, 41, 47), (255, 123, 114), (86, 211, 100), (227, 179, 65), (121, 192, 255), (210, 168, 255),
         (86, 212, 221), (177, 186, 196)],
    ),
    "light": TerminalTheme(
        (255, 255, 255),
        (31, 35, 40),
        [(36, 41, 47), (164, 14, 38), (17, 99, 41), (125, 78, 0), (9, 105, 218), (122, 58, 184), (11, 100, 120),
         (110, 119, 129)],
    ),
}  # fmt: skip


def picture(theme: str) -> str:
    """The screenshot as SVG."""
    console = Console(file=io.StringIO(), record=True, width=COLUMNS, force_terminal=True, color_system="truecolor")
    for row in screen(theme, COLUMNS).split("\n"):
        console.print(Text.from_ansi(row), soft_wrap=True, highlight=False, markup=False)
    return console.export_svg(title="codelet", theme=_THEMES[theme], unique_id=f"codelet-{theme}")


def main() -> int:
    """Write both."""
    for theme, file in PICTURES.items():
        file.write_text(picture(theme), encoding="utf-8")
        print(file, file.stat().st_size)
    return 0


if __name__ == "__main__":
    sys.exit(main())
