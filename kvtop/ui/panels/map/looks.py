"""What blocks look like: the look-up tables of a palette.

A tile's code is made of an ink, which says whose block it is, and a shape, which says in what state. Where
owners have hues, the shape is a glyph in that hue: filled to some eighths, or the reference count. On screens
without hues or with ASCII alone, one character says both: a small letter is a used block, a capital a shared
one, a digit one that is partly filled. A second table has the cells of wide tiles, and what lies over a cell
(the cursor, a flash) is a third, from code to code.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kvtop.ui.draw.codestrip import Codes, CodeTable, pair_table
from kvtop.ui.draw.colours import mix
from kvtop.ui.draw.glyphs import BLOCK, Glyphs, owner_mark
from kvtop.ui.draw.palette import FLASHES, HUES, LEVELS, VARIANTS, Palette

INKS = HUES * VARIANTS
DIM = INKS
"""The ink of blocks that belong to nobody, or to none of those that are lit."""

MAX_DIGIT = 9
FULL = 7
"""Shapes: 0-7 filled to that many eighths and one."""
SHARED = FULL + 1
"""From here on reference counts 2 ... 9, and more."""
FREE = SHARED + MAX_DIGIT
CACHED = FREE + 1
LEVEL = CACHED + 1
"""From here on eight shapes of items that stand for many blocks: in use to that many eighths and one."""
SHAPES = LEVEL + 8
BASE = (INKS + 1) * SHAPES
"""Codes of tiles. Those from here on are cells of wide tiles, and what lies over cells."""
DIGITS = "23456789+"
GAP = "▊"
"""The second cell of a wide tile: three quarters, so that one sees where a block ends."""

FREE_COLOUR, CACHED_COLOUR, CURSOR_COLOUR = range(3)
FIRST_COLOUR = 3
PART, USED, STRONG = 1, 3, 5
"""Levels of a half cell's block: partly filled, used, shared."""
HALF_SHADES = (0.38, 0.52, 0.67, 0.84, 1.0)
"""How far a half cell's colour is from the track to its owner's hue, by level; shared goes beyond."""
SHARED_SHADE = 0.52
DIM_SHADES = (0.2, 0.24, 0.29, 0.34, 0.4, 0.48)
"""The same from the track to the colour of used blocks, for blocks whose owners are not lit."""
CACHED_SHADE = 0.22

FLASH_SHARES = (1.0, 0.75, 0.5, 0.28)
"""How strong a flash is in each of its steps."""
COARSE_STEPS = 2
"""Steps of a flash that cannot fade."""
FLASH_SIGNS = {"copied": "+", "evicted": "^", "preempted": "!"}
"""What stands for a flash where one character says everything."""
COLOUR_SIGNS = {"copied": "»", "evicted": "×", "preempted": "!"}
"""What stands in a flash's colour: owners have hues too, and a colour alone would look like one of theirs."""
FLASH_GROUNDS = {"copied": "used", "evicted": "used", "preempted": "track"}
"""What a flash fades to: copies and evictions end in a block in use, a preemption in a free one."""

Look = tuple[str, str, str]
"""A glyph, and the colours that it is drawn with and on."""


def code_of(ink: int, shape: int) -> int:
    """The code of a tile."""
    return ink * SHAPES + shape


def colour_of(ink: int, level: int) -> int:
    """The colour of a half cell."""
    return FIRST_COLOUR + (0 if ink == DIM else ink + 1) * LEVELS + level


class MapTables:
    """The look-up tables of a palette and a set of glyphs. `no_color` is for terminals without colours."""

    def __init__(self, palette: Palette, glyphs: Glyphs = BLOCK, *, no_color: bool = False) -> None:
        self.palette, self.glyphs = palette, glyphs
        self.plain = palette.mono or no_color
        """Whether owners have no hues."""
        self.letters = self.plain or glyphs.ascii
        """Whether one character says owner and state."""
        self.halves = glyphs.half_blocks and palette.graded and not self.letters
        """Whether half cells can tell states apart."""
        self.flash_steps = len(FLASH_SHARES) if palette.graded and not self.letters else COARSE_STEPS
        self._looks = [self._look(ink, shape) for ink in range(INKS + 1) for shape in range(SHAPES)]
        self._codes = {look: code for code, look in reversed([*enumerate(self._looks)])}
        self.wide: Codes = np.array(
            [self._wide(ink, shape) for ink in range(INKS + 1) for shape in range(SHAPES)], np.uint16
        ).T.copy()
        """What stands in the first and in the second cell of a tile of two, by its code."""
        self._cells = tuple(self._looks)
        self.cursor: Codes = self._over(self._under_cursor)
        """What a cell becomes under the cursor, by its code."""
        self.flashes: Codes = np.array(
            [
                [self._over(partial(self._flashing, kind, ink)) for ink in self._flash_inks(kind)]
                for kind in FLASHES
            ]
        )
        """What a cell becomes in a flash, by kind, step and its code."""
        self._make()

    def _make(self) -> None:
        """The tables themselves, once all codes are known."""
        palette = self.palette
        self.tile_digits = tuple(
            tuple(self._code((digit, ink, palette.background)) for digit in "0123456789")
            for ink in (palette.faint, palette.text)
        )
        """Codes of the labels' digits, and of those beside the cursor."""
        self.tile_blank = self._code((" ", palette.faint, palette.background))
        names = [*dict.fromkeys(colour for _, *pair in self._looks for colour in pair)]
        index = {name: number for number, name in enumerate(names)}
        glyphs = [look[0] for look in self._looks]
        fore, back = ([index[look[at]] for look in self._looks] for at in (1, 2))
        self.tiles = CodeTable(names, glyphs, fore, back)
        colours = self._half_colours()
        self.outside = len(colours) - 3
        """The colour of half cells beyond the last block."""
        self.colours = len(colours)
        self.pairs = pair_table(colours)
        self.pair_digits = tuple(
            tuple(self.pairs.add(digit, ink, self.outside) for digit in "0123456789")
            for ink in (self.outside + 1, self.outside + 2)
        )
        self.pair_blank = self.pairs.add(" ", self.outside + 1, self.outside)

    # -- tiles --------------------------------------------------------------------------------------------

    def _code(self, look: Look) -> int:
        """The code of a look, a new one when there is none yet."""
        code = self._codes.get(look)
        if code is None:
            code = self._codes[look] = len(self._looks)
            self._looks.append(look)
        return code

    def _ink(self, ink: int, level: int) -> str:
        return self.palette.dimmed[level] if ink == DIM else self.palette.inks[ink][level]

    def _look(self, ink: int, shape: int) -> Look:
        """How a tile of one cell looks."""
        palette = self.palette
        if shape == FREE:
            return " ", palette.track, palette.track
        if shape == CACHED:
            return self.glyphs.cached, palette.cached, palette.cached_track
        if shape >= LEVEL:
            return self.glyphs.eighths[shape - LEVEL], self._ink(ink, 4), palette.track
        if self.letters:
            return self._lettered(ink, shape, _letter(ink, shape))
        if shape >= SHARED:
            return DIGITS[shape - SHARED], palette.background, self._ink(ink, 5)
        return self.glyphs.eighths[shape], self._ink(ink, 4), palette.track

    def _lettered(self, ink: int, shape: int, character: str) -> Look:
        """A character in an owner's colours: on them where there are hues, in them where there are not."""
        colour = self._ink(ink, 5 if shape >= SHARED else 4 if shape == FULL else 2)
        if self.plain:
            return character, colour if shape >= SHARED else self._ink(ink, 4), self.palette.track
        return character, self.palette.background, colour

    def _wide(self, ink: int, shape: int) -> tuple[int, int]:
        """The cells of a tile of two: where there are hues with a gap before the next tile, beside a letter
        what the letter leaves unsaid."""
        code = code_of(ink, shape)
        if shape >= FREE or (shape == FULL and self.letters) or (shape < FULL and not self.letters):
            return code, code
        if not self.letters:
            return code, self._code((GAP, self._ink(ink, 5 if shape >= SHARED else 4), self.palette.track))
        if shape >= SHARED:
            return code, self._code(self._lettered(ink, shape, DIGITS[shape - SHARED]))
        return self._code(self._lettered(ink, shape, _letter(ink, FULL))), code_of(ink, LEVEL + shape)

    def _over(self, change: Callable[[Look], Look]) -> Codes:
        """For every cell, the code of what it is changed to."""
        return np.array([self._code(change(look)) for look in self._cells], np.uint16)

    def _under_cursor(self, look: Look) -> Look:
        """The same glyph in the cursor's colour, or on it."""
        glyph, _, back = look
        if not self.letters and (glyph == GAP or glyph in self.glyphs.eighths):
            return glyph, self.palette.cursor, back
        return glyph, self.palette.background, self.palette.cursor

    def _flashing(self, kind: str, colour: str, look: Look) -> Look:
        """The flash's sign on its colour; without colours, in the cell's own."""
        sign = (FLASH_SIGNS if self.letters else COLOUR_SIGNS)[kind]
        return (sign, colour, look[2]) if self.plain else (sign, self.palette.background, colour)

    def _flash_inks(self, kind: str) -> list[str]:
        """The colours of a flash, step by step."""
        ground = str(getattr(self.palette, FLASH_GROUNDS[kind]))
        return [self.palette.flash(kind, share, ground) for share in FLASH_SHARES[: self.flash_steps]]

    # -- half cells ---------------------------------------------------------------------------------------

    def _half_colours(self) -> list[str]:
        """The colours of half cells: states, every ink in every level, flashes, ground and labels."""
        palette = self.palette
        track = palette.track
        # There is no room for a dot: a cached block is a dark grey between free and partly filled.
        colours = [track, mix(palette.cached_track, palette.cached, CACHED_SHADE), palette.cursor]
        # Cached blocks are grey as well: those in use keep a tint, at strengths that no owner has.
        colours += [mix(track, palette.used, share) for share in DIM_SHADES]
        for ink in palette.inks:
            colours += [mix(track, ink[4], share) for share in HALF_SHADES]
            colours.append(mix(ink[4], palette.emphasis, SHARED_SHADE))
        self.flash_colours: NDArray[np.uint8] = np.zeros((len(FLASHES), self.flash_steps), np.uint8)
        """By kind and step: the colour of a half cell that flashes."""
        for number, kind in enumerate(FLASHES):
            self.flash_colours[number] = np.arange(self.flash_steps) + len(colours)
            colours += self._flash_inks(kind)
        return [*colours, palette.background, palette.faint, palette.text]


def _letter(ink: int, shape: int) -> str:
    """Owner and state in one character. Owners that are not lit have none, only the state."""
    if ink == DIM:
        return "=" if shape >= SHARED else "-"
    if shape >= SHARED:
        return owner_mark(ink)
    return owner_mark(ink).lower() if shape == FULL else str(ink % HUES + 1)
