"""Reasoning inside an answer's text, before the answer itself: `<think>…</think>`.

Servers without a reasoning parser send it (LM Studio, llama.cpp and vLLM without `--reasoning-parser`). It goes back
before the text, verbatim: chat templates remove what the model does not need, and MiniMax's model needs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from codelet.providers.protocol import Chunk, ReasoningChunk, TextChunk

_TAGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<seed:think>": "</seed:think>",
    "[THINK]": "[/THINK]",
    "\u25c1think\u25b7": "\u25c1/think\u25b7",
}
"""Opening and closing tags: of Qwen, DeepSeek and most others; of Gemma, Seed-OSS, Magistral and Kimi-VL."""

_CLOSING = re.compile(r"^[ \t]*(?:</think>|</thinking>)[ \t]*$", re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)


class InlineReasoning:
    """Takes reasoning out of the beginning of a streamed text. Only a possible tag is held back."""

    def __init__(self) -> None:
        self._held = ""
        self._closing = ""
        self._begun = self._has_ended = self._is_over = False

    def feed(self, text: str) -> Iterator[Chunk]:
        self._held += text
        while self._held and not self._is_over:
            shown, taken = self._inside() if self._closing else ("", self._outside())
            if taken:
                shown = shown if self._begun else shown.lstrip()  # without leading blank lines
                self._begun = self._begun or bool(shown)
                self._held = self._held[len(taken) :]
                yield ReasoningChunk(shown, inline=taken)
            elif not self._is_over:
                return  # it may become a tag
        if self._held:
            text, self._held = self._held, ""
            yield TextChunk(text)

    def flush(self) -> Iterator[Chunk]:
        """Yield the rest: no more text comes."""
        held, self._held = self._held, ""
        if held and self._closing:
            yield ReasoningChunk(held, inline=held)
        elif held:
            yield TextChunk(held)

    def _outside(self) -> str:
        """The tag or white space at the beginning that is not part of the answer."""
        start = self._held.lstrip()
        skipped = len(self._held) - len(start)
        if skipped and self._has_ended:
            return self._held[:skipped]
        for opening, closing in _TAGS.items():
            for tag in (opening, closing):  # some servers remove the reasoning and leave the closing tag
                if start.startswith(tag):
                    self._closing, self._has_ended = (closing, False) if tag == opening else ("", True)
                    self._begun = False
                    return self._held[: skipped + len(tag)]
        self._is_over = not any(tag.startswith(start) for pair in _TAGS.items() for tag in pair)
        return ""

    def _inside(self) -> tuple[str, str]:
        """The reasoning to show, and the text that is taken with it."""
        place = self._held.find(self._closing)
        if place >= 0:
            taken = self._held[: place + len(self._closing)]
            self._closing, self._has_ended = "", True
            return self._held[:place].rstrip(), taken
        kept = next(n for n in range(len(self._closing), -1, -1) if n == 0 or self._held.endswith(self._closing[:n]))
        taken = self._held[: len(self._held) - kept].rstrip()
        return taken, taken


def split_reasoning(text: str) -> tuple[str, str]:
    """Return the reasoning before a closing tag without an opening one, and the answer after it.

    Templates of Qwen and DeepSeek open the block in the prompt, so only its end shows that it was reasoning. A tag in a
    code block, or inside a line, is part of the answer.
    """
    if "</think" not in text:
        return "", text
    found = _CLOSING.search(text)
    if found is None or not (answer := text[found.end() :].lstrip()):
        return "", text
    before = text[: found.start()]
    if len(_FENCE.findall(before)) % 2 or any(tag in before for tag in _TAGS):
        return "", text
    return text[: len(text) - len(answer)], answer
