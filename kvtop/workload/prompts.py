"""Prompts cut from real English: windows of a built-in text, no two of which begin alike.

A prefix cache shares blocks from a prompt's beginning on, so two prompts share nothing exactly when their
first blocks differ. `PromptSource` guarantees that for the windows it hands out; prompts that shall share
begin with a preface, the same tokens for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import resources

import numpy as np
from numpy.typing import NDArray

Encode = Callable[[str], Sequence[int]]
"""Token ids of a text; may add special tokens in front, as it does for every prompt."""

TEXTS = ("1893-cleveland.txt", "1867-johnson.txt", "1915-wilson.txt")
"""One sentence a line, the preface first. `kvtop/workload/text/SOURCE.md` says where they come from."""

_KEY_TOKENS = 32
"""Windows are told apart by at most so many tokens after their first."""


def sentences() -> list[str]:
    """The built-in text in sentences, each but the first with the space before it."""
    folder = resources.files("kvtop.workload") / "text"
    lines = [line for name in TEXTS for line in (folder / name).read_text("utf-8").splitlines()]
    return [lines[0], *(f" {line}" for line in lines[1:])]


class PromptSource:
    """The built-in text as tokens, and which of its windows were handed out. One run, one thread.

    The text is tokenised at the first prompt that needs it. Memory: a few hundred kB.
    """

    def __init__(self, encode: Encode, block_size: int, seed: int) -> None:
        self._encode = encode
        self._block_size = block_size
        self._seed = seed
        self._specials = tuple(encode(""))
        self._own = max(1, block_size - len(self._specials))
        """Tokens of a window in its prompt's first block."""
        self._text: NDArray[np.int64] | None = None
        self._windows: Iterator[tuple[int, int]] = iter(())
        """(first token, start) of the windows still to come."""
        self._starts = 0
        self._reserved: set[tuple[int, ...]] = set()

    def encode(self, text: str) -> tuple[int, ...]:
        """The token ids of a text, as the model's tokenizer gives them. Changes nothing."""
        return tuple(map(int, self._encode(text)))

    def prompt(self, tokens: int) -> tuple[int, ...]:
        """Exactly `tokens` ids that share no block with any other prompt of this source.

        A block must hold two tokens besides the special ones for that. With one, first tokens stay distinct
        for as many prompts as the text has different tokens; with none, all prompts share the special ones.
        """
        if tokens <= len(self._specials):
            return self._specials[:tokens]
        return (*self._specials, *self._window(tokens - len(self._specials)))

    def after(self, prefix: Sequence[int], tokens: int) -> tuple[int, ...]:
        """Exactly `tokens` ids: `prefix`, cut if it is longer, then a window like no other's."""
        prefix = tuple(prefix)[:tokens]
        missing = tokens - len(prefix)
        return (*prefix, *self._window(missing)) if missing else prefix

    def preface(self, prefix: int | str) -> tuple[int, ...]:
        """A shared prefix: the first so many tokens of the built-in text, or a text's own tokens.

        Prefaces of the built-in text are prefixes of each other. Windows never begin like one from now on.
        """
        if isinstance(prefix, str):
            ids = self.encode(prefix)
        else:
            text = self._tokens()
            repeats = -(-prefix // len(text))
            ids = (*self._specials, *np.tile(text, repeats).tolist())[:prefix]
        self.reserve(ids)
        return ids

    def text_after(self, prefix: Sequence[int], text: str) -> tuple[int, ...]:
        """`prefix`, then a text's tokens without the special ones that would open it. Changes nothing."""
        ids = self.encode(text)
        opened = bool(prefix) and ids[: len(self._specials)] == self._specials
        return (*prefix, *(ids[len(self._specials) :] if opened else ids))

    def reserve(self, prompt: Sequence[int]) -> None:
        """Keep later windows from beginning like `prompt`."""
        self._reserved.add(self._key(tuple(prompt)[len(self._specials) :]))

    # -- windows ------------------------------------------------------------------------------------------

    def _window(self, tokens: int) -> tuple[int, ...]:
        """The next window, cut or wrapped round to `tokens`."""
        text = self._tokens()
        length = max(tokens, self._key_span + 1)
        window: tuple[int, ...] = ()
        for _ in range(self._starts + 1):  # past a whole lap every beginning is reserved: then one is shared
            head, start = next(self._windows)
            window = (head, *np.take(text, range(start + 1, start + length), mode="wrap").tolist())
            if self._key(window) not in self._reserved:
                break
        return window[:tokens]

    @property
    def _key_span(self) -> int:
        """Tokens after the first that tell windows apart: within the first block."""
        return min(self._own - 1, _KEY_TOKENS)

    def _key(self, window: tuple[int, ...]) -> tuple[int, ...]:
        """What no two windows have in common: the first block without its first token, or that token."""
        return window[1 : 1 + self._key_span] if self._key_span else window[:1]

    def _tokens(self) -> NDArray[np.int64]:
        """The text's tokens; tokenises it the first time. Raises ValueError when that gives none."""
        if self._text is None:
            pieces = [self._plain(sentence) for sentence in sentences()]
            self._text = np.array([token for piece in pieces for token in piece], dtype=np.int64)
            if not len(self._text):
                raise ValueError("the tokenizer gives no tokens for English text, so prompts cannot be made")
            starts = np.cumsum([0, *map(len, pieces[:-1])]) % len(self._text)
            order = self._order(self._text, starts)
            self._starts = len(order)
            self._windows = _laps(self._text, order)
        return self._text

    def _plain(self, text: str) -> tuple[int, ...]:
        """A text's tokens without the special ones in front."""
        ids = self.encode(text)
        return ids[len(self._specials) :] if ids[: len(self._specials)] == self._specials else ids

    def _order(self, text: NDArray[np.int64], sentence_starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where windows may start: at sentences first, then anywhere, and never two with equal keys."""
        random = np.random.Generator(np.random.Philox(self._seed))
        order = np.concatenate([random.permutation(sentence_starts[1:]), random.permutation(len(text))])
        span = self._key_span
        hashes = _window_hashes(text, span, skip=1) if span else _window_hashes(text, 1, skip=0)
        return order[np.sort(np.unique(hashes[order], return_index=True)[1])]


def _laps(text: NDArray[np.int64], order: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """(first token, start) of windows at `order`, over and over.

    Two windows of one lap differ after their first token (they have no equal keys). On lap l the first
    token is moved l places on among the text's different tokens, so two windows from one start differ in
    it, for as many laps as there are different tokens.
    """
    different, ranks = np.unique(text, return_inverse=True)
    lap = 0
    while True:
        for start in order.tolist():
            yield int(different[(ranks[start] + lap) % len(different)]), start
        lap += 1


def _window_hashes(text: NDArray[np.int64], length: int, skip: int) -> NDArray[np.uint64]:
    """A hash of the `length` tokens at every position plus `skip`, wrapping round.

    Two equal windows have equal hashes; that two different ones may too only costs a start.
    """
    hashes = np.zeros(len(text), dtype=np.uint64)
    terms = text.astype(np.uint64) + np.uint64(1)
    for offset in range(skip, skip + length):
        hashes = hashes * np.uint64(0x9E3779B97F4A7C15) + np.roll(terms, -offset)
    return hashes
