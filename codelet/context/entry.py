"""The entry: what is too large for the list is cut to its head and tail before it comes in.

The whole text goes into the archive, where it fits; the marker in the list names it. For a prompt, and what was
piped in with it, it is noted what the model was really sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from codelet import prompt
from codelet.context.compactor import Compactor
from codelet.context.inputs import Attached, Input, Piped, Shown, byte_length, composed, cut_in, line_count
from codelet.context.window import ContextWindow
from codelet.events import Cut
from codelet.messages import Message, Picture, images_of, newest_prompt, user
from codelet.record import Record
from codelet.safety.secrets import Masker
from codelet.system.text import valid_unicode

if TYPE_CHECKING:
    from codelet.context.archive import ShownRange
    from codelet.conversation import Conversation

LARGEST_TEXT = 256 * 1024
_LARGEST_PIECE = 64_000
_SMALLEST_PIECE = 400
_PIECES = 24
_SHRUNK_PERCENT = 35
_HEADING = 200
LONGEST_KEPT = 16_000_000
"""Characters of a prompt that are kept in memory: three quarters are its beginning, where it has more."""
_SMALLEST_CAP = 2_000
_CHARACTERS_PER_TOKEN = 4
_BEGINNING = 40


class _Told(Record):
    """What `recall` showed, as it will stand in the list."""

    ranges: Sequence[ShownRange]
    text: str


class Entry:
    """Cuts texts on their way into the conversation. With `recall` the model can read on in what was cut.

    `reduced` are sentences on what was cut since they were last taken.
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
        self._inputs: list[Input] = []
        self._forms: list[tuple[Message, Shown]] = []
        self._unsent = False
        self._told: list[_Told] = []
        self._earlier: tuple[Cut, ...] = ()
        compactor.reform = self._reformed
        compactor.held = self._is_held

    def result(self, text: str, most: int | None = None) -> str:
        """A tool result as it goes into the list: within the working share, 256 KiB, and `most` characters."""
        half = _CHARACTERS_PER_TOKEN * self._compactor.share_of("working") // 2
        if len(text) <= max(_SMALLEST_CAP, min(half, LARGEST_TEXT)) and most is None:
            return text
        cap = self._room()
        if most is not None:
            cap = min(cap, most)
        if len(text) <= cap:
            return text
        from codelet.context.compaction.plan import cut

        key = self._kept("tool", text)
        self.reduced.append(f"a tool result of {len(text):,} characters was cut to its head and tail")
        return cut(text, cap, key if self._recall else "")

    def prompt(self, text: str, piped: Piped | None = None, attached: Attached | None = None) -> Message:
        """The message for a prompt and what was piped in or attached with it: `fit` cuts it to size.

        Without `text` what was piped in is the prompt.
        """
        self._earlier = ()
        self._images: Sequence[Picture] = attached.images if attached is not None else ()
        text = text if attached is None else f"{text}{attached.text}"
        self._inputs = [_as_input(valid_unicode(text))] if text or piped is None else []
        if piped is not None:
            self._inputs.append(Input("stdin", piped.text, piped.tail, piped.bytes, piped.lines))
        self._told.clear()
        self._unsent = True
        # What is longer than the window `fit` cuts in any case: no copy is made of it.
        length = sum(each.length for each in self._inputs) + len(prompt.STDIN) + 2
        longest = max(_SMALLEST_CAP, self._window.characters(self._window.budget.window))
        shown = composed(self._inputs, min(length, longest), recall=False)
        message = user(shown.text, self._images)
        self._forms = [(message, shown)]
        return message

    def forget(self) -> None:
        """The conversation was cleared."""
        self._inputs, self._forms, self._unsent, self._earlier = [], [], False, ()
        self._told.clear()

    def adopt(self) -> None:
        """The list came from elsewhere: its newest prompt's own marker says what of it was cut.

        What was recalled there is not known, so it counts as unread.
        """
        body = self._conversation.body
        place = newest_prompt(body)
        self._earlier = cut_in(body[place]["content"] or "") if place >= 0 else ()

    def fit(self) -> None:
        """Before a prompt is first sent: cut it to half of the room, where it does not fit beside what always stands.

        What earlier turns take counts for nothing: compaction makes room for a prompt.
        """
        place = self._place() if self._unsent else None
        if place is None:
            return
        message = self._conversation.body[place]
        room = max(0, self._window.budget.hard_trigger - 1 - self._window.beside(self._conversation))
        short = len(message["content"] or "") <= _SMALLEST_CAP
        if all(each.kept for each in self._inputs) and (short or self._window.estimate(message) <= room):
            return
        self._cut_to(place, max(_SMALLEST_CAP, self._window.characters(room // 2)))

    def shrink(self) -> bool:
        """Cut a prompt that has the list for itself, and does not fit though `fit` thought so, to a third of its size.

        False if that is not how things are: then a compaction is wanted.
        """
        place = self._place() if self._unsent else None
        if place is None or len(self._conversation.body) - len(self._conversation.appended) != 1:
            return False
        length = len(self._conversation.body[place]["content"] or "")
        if length <= 2 * _SMALLEST_CAP:
            return False
        self._cut_to(place, length * _SHRUNK_PERCENT // 100)
        return True

    def _cut_to(self, place: int, room: int) -> None:
        shown = self._shown(room)
        message = user(shown.text, self._images)
        self._window.replaced(self._conversation.replace(place, message))
        self._forms.append((message, shown))
        for each in self._inputs:
            if not each.kept or not _stands_whole(each, shown):
                account = each.account
                self.reduced.append(
                    f"{account.name} of {account.bytes:,} bytes was cut to its head and tail: it does not fit"
                )

    def sent(self) -> None:
        """The provider has begun to answer: what stands in the list was sent."""
        if self._unsent:
            self._unsent = False
            here = {id(message) for message in self._conversation.body}
            for _, shown in [form for form in self._forms if id(form[0]) in here][-1:]:
                for part, start, end in shown.ranges:
                    part.sent.add(start, end)
            for each in self._inputs:
                size = each.account
                each.cut = size.read < size.bytes
        if self._told:
            self._take_told()

    def told(self, ranges: Sequence[ShownRange], text: str) -> None:
        """`recall` gave ranges of entries; they count as sent once its answer is, whole."""
        if any(part.key == hit.key for each in self._inputs for part in each.parts for hit in ranges):
            self._told.append(_Told(ranges, prompt.escape(self._masker.mask(text))))

    def piece_room(self) -> int:
        """Return how many characters one answer of `recall` may have, its first line apart."""
        budget = self._window.budget
        free = budget.hard_trigger - self._window.size(self._conversation)
        # Half of what is free: a piece that makes a compaction due would be cut before the model sees it.
        wanted = self._window.characters(max(free // 2, budget.limit // _PIECES))
        return max(_SMALLEST_PIECE, min(_LARGEST_PIECE, self._room(), wanted) - _HEADING)

    @property
    def cut(self) -> tuple[Cut, ...]:
        """The newest prompt's texts that were not sent whole, or could not be before the turn ended."""
        return self._earlier + tuple(
            each.account for each in self._inputs if each.cut or not each.kept or self._is_cut(each)
        )

    def _is_cut(self, each: Input) -> bool:
        """Return whether an input that was not sent yet would be sent cut."""
        return self._unsent and bool(self._forms) and not _stands_whole(each, self._forms[-1][1])

    def _is_held(self, message: Message) -> bool:
        """Return whether the model is still to be sent a message: a prompt, or what it asked `recall` for."""
        if message["role"] == "tool":
            return any(message["content"] == told.text for told in self._told)
        return self._unsent and any(message is form for form, _ in self._forms)

    def _take_told(self) -> None:
        texts = {message["content"] for message in self._conversation.body if message["role"] == "tool"}
        by_key = {part.key: part for each in self._inputs for part in each.parts if part.key}
        for told in self._told:
            for hit in told.ranges if told.text in texts else ():
                if (part := by_key.get(hit.key)) is not None:
                    part.sent.add(hit.start, hit.end)
        self._told.clear()

    def _place(self) -> int | None:
        """Return where the newest prompt stands in the body, if it is there as it was put there."""
        ours, body = {id(message) for message, _ in self._forms}, self._conversation.body
        return next((place for place in range(len(body) - 1, -1, -1) if id(body[place]) in ours), None)

    def _reformed(self, messages: list[Message]) -> list[Message]:
        """A compacted conversation with our own form in the place of what a compaction left of the prompt.

        It names the size and the id that reads on; what it shows is known.
        """
        here = {id(message) for message in messages}
        place = newest_prompt(messages)
        if place < 0 or not self._forms or any(id(message) in here for message, _ in self._forms):
            return messages
        left, whole = messages[place]["content"] or "", self._forms[-1][0]["content"] or ""
        if left[:_BEGINNING] != whole[:_BEGINNING]:
            return messages
        shown = self._shown(len(left))
        if len(shown.text) > len(left):
            return messages
        message: Message = user(shown.text, images_of(messages[place]))
        self._forms.append((message, shown))
        return [*messages[:place], message, *messages[place + 1 :]]

    def _shown(self, room: int) -> Shown:
        """The prompt in so many characters, with ids for what it leaves out."""
        for each in self._inputs if self._recall else ():
            for part in each.parts if len(each.parts) > 1 or each.length > _SMALLEST_CAP else ():
                part.key = part.key or self._kept("user", part.text)
        return composed(self._inputs, room, recall=self._recall)

    def _kept(self, role: Literal["user", "tool"], text: str) -> str:
        """Put a text into the archive; its id, empty if it does not fit."""
        from codelet.context.compaction.segments import turns_of

        turns = turns_of(self._conversation.body)
        message: Message = {"role": role, "content": text}
        return self._compactor.archive.put(turns[-1] if turns else 1, message) or ""

    def _room(self) -> int:
        """Characters that a tool result may have: what its turn has left of the working share, or half of that share.

        A turn that continues beyond its share is compacted like any other; its results must still be of use.
        """
        [working] = [share for share in self._compactor.shares() if share.name == "working"]
        tokens = max(working.limit // 2, working.limit - working.used)
        return max(_SMALLEST_CAP, min(LARGEST_TEXT, _CHARACTERS_PER_TOKEN * tokens))


def _as_input(text: str) -> Input:
    """A prompt; of one that is longer than what is kept in memory its beginning and its end."""
    if len(text) <= LONGEST_KEPT:
        return Input("prompt", text)
    head, tail = LONGEST_KEPT * 3 // 4, LONGEST_KEPT // 4
    return Input("prompt", text[:head], text[-tail:], byte_length(text), line_count(text))


def _stands_whole(each: Input, shown: Shown) -> bool:
    part = each.parts[0]
    return each.kept and any(one is part and (start, end) == (0, len(part.text)) for one, start, end in shown.ranges)
