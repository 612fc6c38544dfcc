"""Reasoning inside an answer's text, before the answer itself: `<think>…</think>`.

Servers without a reasoning parser send it (LM Studio, llama.cpp and vLLM without `--reasoning-parser`). It goes back
before the text, verbatim: the chat templates of Qwen3 and DeepSeek remove it from earlier turns, Qwen3's keeps that of
the running turn, and MiniMax's model needs it.
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
    """Takes reasoning out of the beginning of a streamed text.

    Only a possible tag is held back: ordinary text is not delayed.
    """

    def __init__(self) -> None:
        self._held = ""
        self._closing = ""
        self._begun = self._has_ended = self._is_over = False

    def feed(self, text: str) -> Iterator[Chunk]:
        """Yield the chunks for the next piece of text."""
        self._held += text
        while self._held and not self._is_over:
            before = self._held
            yield from self._inside() if self._closing else self._outside()
            if self._held == before and not self._is_over:
                return
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

    def _outside(self) -> Iterator[Chunk]:
        """Before the answer: open a block, or find that the answer begins."""
        start = self._held.lstrip()
        blanks = self._held[: len(self._held) - len(start)]
        if blanks and self._has_ended:
            self._held = start
            yield ReasoningChunk(inline=blanks)
            return
        for opening, closing in _TAGS.items():
            # A closing tag alone: the server removed the reasoning and left the tag.
            for tag in (opening, closing):
                if start.startswith(tag):
                    self._closing, self._has_ended = (closing, False) if tag == opening else ("", True)
                    self._begun = False
                    self._held = start[len(tag) :]
                    yield ReasoningChunk(inline=blanks + tag)
                    return
        if not any(tag.startswith(start) for pair in _TAGS.items() for tag in pair):
            self._is_over = True

    def _inside(self) -> Iterator[Chunk]:
        place = self._held.find(self._closing)
        if place >= 0:
            end = place + len(self._closing)
            shown, taken, self._held = self._held[:place].rstrip(), self._held[:end], self._held[end:]
            self._closing, self._has_ended = "", True
            yield ReasoningChunk(self._shown(shown), inline=taken)
            return
        kept = next(n for n in range(len(self._closing), -1, -1) if n == 0 or self._held.endswith(self._closing[:n]))
        taken = self._held[: len(self._held) - kept].rstrip()
        self._held = self._held[len(taken) :]
        if taken:
            yield ReasoningChunk(self._shown(taken), inline=taken)

    def _shown(self, text: str) -> str:
        """The text for the user, without leading blank lines."""
        text = text if self._begun else text.lstrip()
        self._begun = self._begun or bool(text)
        return text


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
