"""Pictures of the screen: SVG from Textual, PNG drawn from the same strips.

Converters from SVG to PNG misplace text, so the cells are drawn one by one. Blocks, shades, braille and
box-drawing characters are drawn as shapes, so that they join as they do in a terminal; all else comes from
a monospaced font.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len, get_character_cell_size
from rich.color import Color
from rich.segment import Segment
from rich.style import Style

from kvtop.ui.draw.colours import NAMED

if TYPE_CHECKING:
    from textual.app import App

Rgb = tuple[int, int, int]

CELL_WIDTH, CELL_HEIGHT = 10, 20
FONTS = (
    "DejaVuSansMono",
    "LiberationMono-Regular",
    "NotoSansMono-Regular",
    "UbuntuMono-R",
    "Menlo",
    "consola",
)
BOLD = {"DejaVuSansMono": "DejaVuSansMono-Bold", "LiberationMono-Regular": "LiberationMono-Bold"}
FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "~/.fonts", "/Library/Fonts")
NEEDED = "PNG pictures need a monospaced font: apt-get install fonts-dejavu-core, or its like"

# Which of a box character's four arms (left, right, up, down) are drawn.
BOX = {
    "─": "lr", "│": "ud", "┌": "rd", "┐": "ld", "└": "ru", "┘": "lu", "├": "rud", "┤": "lud",
    "┬": "lrd", "┴": "lru", "┼": "lrud", "━": "lr", "┃": "ud", "╭": "rd", "╮": "ld", "╰": "ru", "╯": "lu",
}  # fmt: skip
HEAVY = "━┃"
ROUND = "╭╮╰╯"
_NAMES = """NU SH SX EX ET EQ AK BL BS HT LF VT FF CR SO SI
DL D1 D2 D3 D4 NK SY EB CN EM SB EC FS GS RS US""".split()  # noqa: SIM905
# Pictures of control characters, which hardly any monospaced font has: two letters of the name.
CONTROLS = {0x2400 + code: name for code, name in enumerate(_NAMES)} | {0x2421: "DT"}
SHADES = {"░": 0.25, "▒": 0.5, "▓": 0.75}


class PictureError(RuntimeError):
    """A picture cannot be drawn; the message says what is missing."""


@dataclass(frozen=True)
class Picture:
    """The cells of a screen at one moment."""

    rows: list[list[Segment]]
    width: int
    height: int
    svg: str
    ink: str
    ground: str

    @classmethod
    def of(cls, app: App[Any]) -> Picture:
        """Take the picture. Must be called on the app's own thread."""
        theme = app.current_theme
        strips = app.screen._compositor.render_strips()
        rows = [list(strip) for strip in strips]
        svg = app.export_screenshot(title=app.title)
        return cls(
            rows,
            app.size.width,
            app.size.height,
            svg,
            theme.foreground or "#ffffff",
            theme.background or "#000000",
        )

    def save_svg(self, path: Path) -> None:
        """Write the SVG. It names local monospaced fonts only and fetches nothing."""
        text = re.sub(r"@font-face\s*\{.*?\}", "", self.svg, flags=re.DOTALL)
        text = text.replace("Fira Code", "DejaVu Sans Mono")
        text = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
        path.write_text(text, "utf-8")

    def save_png(self, path: Path) -> None:
        """Draw the PNG. Raises PictureError without Pillow or a font."""
        try:
            from PIL import Image, ImageDraw
        except ImportError:
            raise PictureError("PNG pictures need Pillow: pip install pillow") from None
        image = Image.new("RGB", (self.width * CELL_WIDTH, self.height * CELL_HEIGHT), _rgb(self.ground))
        painter = Painter(image, ImageDraw.Draw(image), self.ink, self.ground)
        for y, row in enumerate(self.rows):
            x = 0
            for text, style, control in row:
                if not control:
                    painter.segment(x, y, text, style)
                    x += cell_len(text)
        image.save(path, optimize=True)


class Painter:
    """Draws segments into an image, a cell at a time."""

    def __init__(self, image: Any, draw: Any, ink: str, ground: str) -> None:
        self.image = image
        self.draw = draw
        self.ink, self.ground = _rgb(ink), _rgb(ground)
        self.plain, self.bold = load_fonts(round(CELL_HEIGHT * 0.78))
        self.small, _ = load_fonts(CELL_HEIGHT // 2 - 2)

    def segment(self, x: int, y: int, text: str, style: Style | None) -> None:
        """Draw a segment that begins at cell (x, y)."""
        fore, back = self._colours(style)
        width = cell_len(text)
        if not width:
            return
        left, top = x * CELL_WIDTH, y * CELL_HEIGHT
        self.draw.rectangle((left, top, left + width * CELL_WIDTH - 1, top + CELL_HEIGHT - 1), fill=back)
        font = self.bold if style is not None and style.bold else self.plain
        for character in text:
            if character != " ":
                self.glyph(left, top, character, fore, back, font)
            left += get_character_cell_size(character) * CELL_WIDTH
        if style is not None and style.underline:
            start = x * CELL_WIDTH
            self.draw.line((start, top + CELL_HEIGHT - 2, left - 1, top + CELL_HEIGHT - 2), fill=fore)

    def _colours(self, style: Style | None) -> tuple[Rgb, Rgb]:
        """Foreground and background of a style."""
        fore, back = self.ink, self.ground
        if style is not None:
            if style.color is not None and not style.color.is_default:
                fore = _colour(style.color)
            if style.bgcolor is not None and not style.bgcolor.is_default:
                back = _colour(style.bgcolor)
            if style.reverse:
                fore, back = back, fore
            if style.dim:
                fore = _mix(fore, back, 0.5)
        return fore, back

    def glyph(self, left: int, top: int, character: str, fore: Rgb, back: Rgb, font: Any) -> None:
        """Draw one character."""
        right, bottom = left + CELL_WIDTH - 1, top + CELL_HEIGHT - 1
        code = ord(character)
        if 0x2581 <= code <= 0x2588:  # lower eighths, full block
            height = round(CELL_HEIGHT * (code - 0x2580) / 8)
            self.draw.rectangle((left, bottom + 1 - height, right, bottom), fill=fore)
        elif 0x2589 <= code <= 0x258F:  # left eighths
            width = max(1, round(CELL_WIDTH * (0x2590 - code) / 8))
            self.draw.rectangle((left, top, left + width - 1, bottom), fill=fore)
        elif character == "▀":
            self.draw.rectangle((left, top, right, top + CELL_HEIGHT // 2 - 1), fill=fore)
        elif character == "▐":
            self.draw.rectangle((left + CELL_WIDTH // 2, top, right, bottom), fill=fore)
        elif character in SHADES:
            self.draw.rectangle((left, top, right, bottom), fill=_mix(back, fore, SHADES[character]))
        elif 0x2800 <= code <= 0x28FF:
            self._braille(left, top, code - 0x2800, fore)
        elif character in BOX:
            self._box(left, top, character, fore)
        elif code in CONTROLS:
            self._control(left, top, CONTROLS[code], fore)
        else:
            self.draw.text((left, top + 1), character, font=font, fill=fore)

    def _control(self, left: int, top: int, name: str, fore: Rgb) -> None:
        """Draw the picture of a control character: two small letters, one below the other's right."""
        self.draw.text((left, top + 1), name[0], font=self.small, fill=fore)
        self.draw.text(
            (left + CELL_WIDTH // 2, top + CELL_HEIGHT // 2 - 2), name[1], font=self.small, fill=fore
        )

    def _braille(self, left: int, top: int, dots: int, fore: Rgb) -> None:
        """Draw a braille pattern: two columns of four dots."""
        for bit in range(8):
            if dots >> bit & 1:
                column, row = (bit // 3, bit % 3) if bit < 6 else (bit - 6, 3)
                x, y = left + 2 + column * 5, top + 2 + row * 5
                self.draw.rectangle((x, y, x + 1, y + 1), fill=fore)

    def _box(self, left: int, top: int, character: str, fore: Rgb) -> None:
        """Draw a box-drawing character from its arms; round corners as quarter circles."""
        x, y = left + CELL_WIDTH // 2, top + CELL_HEIGHT // 2
        right, bottom = left + CELL_WIDTH - 1, top + CELL_HEIGHT - 1
        arms = BOX[character]
        if character in ROUND:
            radius = 4
            centre_x = x + radius if "r" in arms else x - radius
            centre_y = y + radius if "d" in arms else y - radius
            start = {"rd": 180, "ld": 270, "lu": 0, "ru": 90}[arms]
            box = (centre_x - radius, centre_y - radius, centre_x + radius, centre_y + radius)
            self.draw.arc(box, start, start + 90, fill=fore)
            self.draw.line((centre_x, y, right if "r" in arms else left, y), fill=fore)
            self.draw.line((x, centre_y, x, bottom if "d" in arms else top), fill=fore)
            return
        width = 3 if character in HEAVY else 1
        if "l" in arms:
            self.draw.line((left, y, x, y), fill=fore, width=width)
        if "r" in arms:
            self.draw.line((x, y, right, y), fill=fore, width=width)
        if "u" in arms:
            self.draw.line((x, top, x, y), fill=fore, width=width)
        if "d" in arms:
            self.draw.line((x, y, x, bottom), fill=fore, width=width)


def _colour(colour: Color) -> Rgb:
    """A colour of a style; one of the sixteen as `colours.NAMED` has it."""
    if colour.triplet is None and colour.number is not None and colour.number < len(NAMED):
        return _rgb(list(NAMED.values())[colour.number])
    return colour.get_truecolor()


def _rgb(colour: str) -> Rgb:
    """`#rrggbb`, or one of the sixteen as Textual names it: `ansi_red`."""
    red, green, blue = bytes.fromhex(NAMED.get(colour.removeprefix("ansi_"), colour)[1:7])
    return red, green, blue


def _mix(a: Rgb, b: Rgb, share: float) -> Rgb:
    red, green, blue = (round(x + (y - x) * share) for x, y in zip(a, b, strict=True))
    return red, green, blue


def load_fonts(size: int) -> tuple[Any, Any]:
    """A monospaced font and its bold, from Pillow's search path or the usual folders.

    Raises PictureError when the machine has none.
    """
    from PIL import ImageFont

    for name in FONTS:
        plain = _font(ImageFont, name, size)
        if plain is not None:
            return plain, _font(ImageFont, BOLD.get(name, name), size) or plain
    raise PictureError(NEEDED)


def _font(fonts: Any, name: str, size: int) -> Any:
    """A font by file name, or None."""
    try:
        return fonts.truetype(f"{name}.ttf", size)
    except OSError:
        pass
    for folder in FOLDERS:
        for path in Path(folder).expanduser().rglob(f"{name}.ttf"):
            return fonts.truetype(str(path), size)
    return None
