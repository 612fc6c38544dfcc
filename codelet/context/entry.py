"""The entry into the list: texts that are too large are cut to their head and tail.

The whole text goes into the archive, if it fits; the marker in the list has its id. For a prompt and its piped input,
the entry records what the model was really sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from codelet import prompt
from codelet.context.inputs import Attached, Excerpt, Input, Piped, byte_length, composed, cut, cut_in, line_count
from codelet.context.tokens import CHARACTERS_PER_TOKEN
from codelet.events import Cut
from codelet.messages import Message, Picture, newest_prompt, user
from codelet.system.text import valid_unicode

if TYPE_CHECKING:
    from codelet.context.archive import ShownRange
    from codelet.context.compactor import Compactor
    from codelet.context.tokens import ContextWindow
    from codelet.conversation import Conversation
    from codelet.safety.secrets import Masker

LARGEST_TEXT = 256 * 1024
_LARGEST_PIECE = 64_000
_SMALLEST_PIECE = 400
_PIECES = 24
_SHRUNK_PERCENT = 35
_HEADING = 200
LONGEST_KEPT = 16_000_000
"""Characters of a prompt that stay in memory; of a longer one three quarters are its beginning."""
_SMALLEST_CAP = 2_000


class Entry:
    """Cuts texts on their way into the conversation. With `recall` the model can read the rest.

    `reduced` are notices about cuts, until they are taken.
    """

    def __init__(
        self, conversation: Conversation, compactor: Compactor, window: ContextWindow, masker: Masker, *, recall: bool
    ) -> None:
        self.reduced: list[str] = []
        self._conversation = conversation
        self._compactor = compactor
        self._window = window
        self._masker = masker
        self._recall = recall
        self.forget()

    def forget(self) -> None:
        """Reset after the conversation was cleared."""
        self._inputs: list[Input] = []
        self._images: Sequence[Picture] = ()
        self._message: Message | None = None  # the newest prompt in the list, and what it has of the inputs
        self._excerpt = Excerpt("", ())
        self._unsent = False
        self._recalled: list[tuple[Sequence[ShownRange], str]] = []
        self._earlier: tuple[Cut, ...] = ()

    def adopt(self) -> None:
        """Adopt a list from elsewhere: the marker in its newest prompt says what was cut.

        What was recalled there is unknown, so it counts as unread.
        """
        body = self._conversation.body
        place = newest_prompt(body)
        self._earlier = cut_in(body[place]["content"] or "") if place >= 0 else ()

    def result(self, text: str, most: int | None = None) -> str:
        """Return a tool result for the list, within the working share, 256 KiB, and `most` characters."""
        half = CHARACTERS_PER_TOKEN * self._compactor.share_of("working") // 2
        if len(text) <= max(_SMALLEST_CAP, min(half, LARGEST_TEXT)) and most is None:
            return text
        cap = self._room() if most is None else min(most, self._room())
        if len(text) <= cap:
            return text
        key = self._archived("tool", text)
        self.reduced.append(f"a tool result of {len(text):,} characters was cut to its head and tail")
        return cut(text, cap, key if self._recall else "")

    def prompt(self, text: str, piped: Piped | None = None, attached: Attached | None = None) -> Message:
        """Return the message for a prompt with its piped input and attachments; `fit` cuts it to size.

        Without `text` the piped input is the prompt.
        """
        self.forget()
        if attached is not None:
            text, self._images = f"{text}{attached.text}", attached.images
        if text or piped is None:
            self._inputs.append(Input("prompt", _as_input(valid_unicode(text))))
        if piped is not None:
            self._inputs.append(Input("stdin", piped))
        self._unsent = True
        # `fit` cuts what is longer than the window: do not copy all of it.
        return self._composed(max(_SMALLEST_CAP, self._window.characters(self._window.budget.window)))

    def _composed(self, room: int) -> Message:
        """Make the message of the prompt, in `room` characters."""
        self._excerpt = composed(self._inputs, room)
        self._message = user(self._excerpt.text, self._images)
        return self._message

    def fit(self) -> None:
        """Cut a new prompt to half of the room, if it does not fit next to system prompt, tools and reminders.

        Earlier turns do not count, as compaction makes room for a prompt.
        """
        if (place := self._place()) is None:
            return
        message = self._conversation.body[place]
        room = max(0, self._window.budget.hard_trigger - 1 - self._window.beside(self._conversation))
        short = len(message["content"] or "") <= _SMALLEST_CAP
        if all(each.in_memory for each in self._inputs) and (short or self._window.estimate(message) <= room):
            return
        self._cut_to(place, max(_SMALLEST_CAP, self._window.characters(room // 2)))

    def shrink(self) -> bool:
        """Cut a prompt that is alone in the list and does not fit after all to a third of its size.

        Returns False if it cannot be cut, so that a compaction is due.
        """
        place = self._place()
        if place is None or len(self._conversation.body) - len(self._conversation.appended) != 1:
            return False
        length = len(self._conversation.body[place]["content"] or "")
        if length <= 2 * _SMALLEST_CAP:
            return False
        self._cut_to(place, length * _SHRUNK_PERCENT // 100)
        return True

    def _cut_to(self, place: int, room: int) -> None:
        for each in self._inputs if self._recall else ():
            if len(each.text) > _SMALLEST_CAP:
                each.key = each.key or self._archived("user", each.text)
        self._window.replaced(self._conversation.replace(place, self._composed(room)))
        for each in self._inputs:
            if not self._is_whole(each):
                account = each.account
                self.reduced.append(f"{account.name} of {account.bytes:,} bytes was cut to its head and tail to fit")

    def sent(self) -> None:
        """Note that the provider has begun to answer, so that the list was sent."""
        if self._unsent:
            if self._place() is None:  # a compaction replaced it
                self._excerpt = Excerpt("", ())
            for each, start, end in self._excerpt.ranges:
                each.sent.append((start, end))
            self._unsent = False
        if not self._recalled:
            return
        texts = {message["content"] for message in self._conversation.body if message["role"] == "tool"}
        by_key = {each.key: each for each in self._inputs if each.key}
        for hit in (hit for ranges, text in self._recalled if text in texts for hit in ranges):
            if hit.key in by_key:
                by_key[hit.key].sent.append((hit.start, hit.end))
        self._recalled.clear()

    def recalled(self, ranges: Sequence[ShownRange], text: str) -> None:
        """Note ranges that `recall` returned; they count as sent once its whole answer is sent."""
        self._recalled.append((ranges, prompt.escape(self._masker.mask(text))))

    def piece_room(self) -> int:
        """Return the most characters of one answer of `recall`, besides its first line."""
        budget = self._window.budget
        free = budget.hard_trigger - self._window.size(self._conversation)
        # Half of the free room: a larger piece would make a compaction due, and be cut before the model sees it.
        wanted = self._window.characters(max(free // 2, budget.limit // _PIECES))
        return max(_SMALLEST_PIECE, min(_LARGEST_PIECE, self._room(), wanted) - _HEADING)

    @property
    def cut(self) -> tuple[Cut, ...]:
        """The newest prompt's texts that were not sent whole with it, or not before the turn ended."""
        return self._earlier + tuple(each.account for each in self._inputs if not self._is_whole(each))

    def _is_whole(self, each: Input) -> bool:
        return each.in_memory and (each, 0, len(each.text)) in self._excerpt.ranges

    def _place(self) -> int | None:
        """Return the place of the unsent prompt in the body, if no one else replaced it."""
        body = self._conversation.body if self._unsent else ()
        return next((place for place, each in enumerate(body) if each is self._message), None)

    def _archived(self, role: Literal["user", "tool"], text: str) -> str:
        """Archive a text; return its id, or "" if it does not fit."""
        from codelet.context.compaction.segments import turns_of

        turns = turns_of(self._conversation.body)
        message: Message = {"role": role, "content": text}
        return self._compactor.archive.put(turns[-1] if turns else 1, message) or ""

    def _room(self) -> int:
        """Return the most characters of a tool result: the rest of the working share, or at least half of the share.

        A turn beyond its share is compacted like any other, but its results must still be useful.
        """
        [working] = [share for share in self._compactor.shares() if share.name == "working"]
        tokens = max(working.limit // 2, working.limit - working.used)
        return max(_SMALLEST_CAP, min(LARGEST_TEXT, CHARACTERS_PER_TOKEN * tokens))


def _as_input(text: str) -> Piped:
    """Return a prompt with its size, cut to its beginning and its end if it is too long for memory."""
    size, lines = byte_length(text), line_count(text)
    if len(text) <= LONGEST_KEPT:
        return Piped(text, size, lines)
    head = text[: LONGEST_KEPT * 3 // 4]
    gap = len(head), len(head) + len(prompt.NOT_IN_MEMORY)
    return Piped(f"{head}{prompt.NOT_IN_MEMORY}{text[-(LONGEST_KEPT // 4) :]}", size, lines, gap)
