"""Find letters that look like others in a command, so that an approval can warn of them."""

from __future__ import annotations

import re
from functools import cache

# Pairs of a letter and the ASCII letter it is drawn like, by script.
_PAIRS = (
    "аa сc еe оo рp хx уy ѕs іi јj һh ԁd ԛq ԝw ӏl ꞓc "  # Cyrillic
    "АA ВB ЕE КK МM НH ОO РP СC ТT ХX ЅS ІI ЈJ ԌG ҮY "
    "οo αa νv ρp ιi κk υu ϲc ϳj ΑA ΒB ΕE ΖZ ΗH ΙI ΚK ΜM ΝN ΟO ΡP ΤT ΥY ΧX "  # Greek
    "օo ոn սu հh ցg զq ԼL ՏS ՕO "  # Armenian
    "ɡg ɑa ɩi ʏy ᴄc ᴏo ᴠv ᴡw ᴢz ꜱs ⅼl ⅽc ⅾd ⅿm ⅰi ⅴv ⅹx"  # Latin and number forms
)


@cache
def _table() -> dict[str, str]:
    return {pair[0]: pair[1] for pair in _PAIRS.split()}


def _skeleton(word: str) -> str:
    """The word as it looks: every look-alike letter replaced by the ASCII letter it is drawn like."""
    import unicodedata

    table = _table()
    letters = (unicodedata.normalize("NFKC", letter) if _is_wide(letter) else letter for letter in word)
    return "".join(table.get(letter, letter) for letter in letters)


def _is_wide(letter: str) -> bool:
    """Return whether the letter is a full-width or mathematical form of another."""
    return "\uff01" <= letter <= "\uff5e" or "\U0001d400" <= letter <= "\U0001d7ff"


def confusables(text: str) -> list[str]:
    """Return a warning for each word of a command that looks like another word.

    A word is suspect when look-alike letters are next to ASCII ones, when its letters are wide or mathematical forms of
    ASCII letters, or when it is a program's name and looks wholly ASCII.
    """
    if text.isascii():
        return []
    warnings = []
    for found in re.finditer(r"[^\W_][\w.+-]*", text):
        word = found.group()
        if word.isascii():
            continue
        skeleton = _skeleton(word)
        if skeleton == word:
            continue
        ascii_letters = any(letter.isascii() and letter.isalpha() for letter in word)
        names_program = not text[: found.start()].strip() or text[: found.start()].rstrip()[-1] in ";|&(`\n"
        wide = any(map(_is_wide, word))
        if ascii_letters or wide or (names_program and skeleton.isascii() and len(word) > 1):
            letters = sorted({letter for letter in word if not letter.isascii()})
            codes = ", ".join(f"{letter} is U+{ord(letter):04X}" for letter in letters)
            warnings.append(f"{word!r} only looks like {skeleton!r}: {codes}")
    return warnings
