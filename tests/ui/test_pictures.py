"""Pictures of the screen as files."""

from __future__ import annotations

import sys

import pytest

from kvtop.ui.draw import png
from kvtop.ui.draw.png import Painter, Picture, PictureError

Image = pytest.importorskip("PIL.Image", reason="pictures need Pillow, which the dev extra brings")
ImageDraw = pytest.importorskip("PIL.ImageDraw")


async def test_a_key_saves_svg_and_png_and_names_them(drive, session, tmp_path) -> None:
    async with drive(session, (80, 24), folder=tmp_path) as driven:
        for stem in ("kvtop", "kvtop-2"):
            await driven.press("ctrl+s")
            await driven.app.workers.wait_for_complete()
            await driven.pilot.pause()
            assert f"Saved {stem}.svg and {stem}.png" in driven.lines[-1]
            with Image.open(tmp_path / f"{stem}.png") as image:
                assert image.size == (80 * png.CELL_WIDTH, 24 * png.CELL_HEIGHT)
            svg = (tmp_path / f"{stem}.svg").read_text("utf-8")
            assert "Sequences" in svg
            assert "url(" not in svg.replace("url(#", "")  # it fetches nothing


async def test_a_folder_that_cannot_be_written_is_named(drive, session, tmp_path) -> None:
    async with drive(session, (80, 24), folder=tmp_path / "none") as driven:
        await driven.press("ctrl+s")
        await driven.app.workers.wait_for_complete()
        await driven.pilot.pause()
        assert "Not saved:" in driven.lines[-1]


async def test_without_pillow_it_says_what_to_install(drive, session, tmp_path, monkeypatch) -> None:
    async with drive(session, (80, 24)) as driven:
        picture = Picture.of(driven.app)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(PictureError, match="pip install pillow"):
        picture.save_png(tmp_path / "x.png")


def test_without_a_font_it_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setattr(png, "_font", lambda *a: None)
    with pytest.raises(PictureError, match="fonts-dejavu-core"):
        png.load_fonts(15)


WHITE, BLACK = (255, 255, 255), (0, 0, 0)


def drawn(character: str) -> set[tuple[int, int]]:
    """The pixels of a character in one cell."""
    image = Image.new("RGB", (png.CELL_WIDTH, png.CELL_HEIGHT))
    painter = Painter(image, ImageDraw.Draw(image), "#ffffff", "#000000")
    painter.glyph(0, 0, character, WHITE, BLACK, painter.plain)
    return {
        (x, y)
        for x in range(png.CELL_WIDTH)
        for y in range(png.CELL_HEIGHT)
        if image.getpixel((x, y)) != BLACK
    }


def test_blocks_fill_their_share_of_the_cell() -> None:
    cell = png.CELL_WIDTH * png.CELL_HEIGHT
    sizes = [len(drawn(character)) for character in "▁▂▃▄▅▆▇█"]
    assert sizes == sorted(sizes)
    assert sizes[-1] == cell
    assert sizes[3] == len(drawn("▀")) == cell // 2
    assert not drawn("▀") & drawn("▄")
    assert len(drawn("░")) == cell


@pytest.mark.parametrize("character", "─│╭╮╰╯├└━")
def test_lines_reach_the_edges_that_they_join(character: str) -> None:
    pixels = drawn(character)
    right, bottom = png.CELL_WIDTH - 1, png.CELL_HEIGHT - 1
    reached = {
        "l": any(x == 0 for x, _ in pixels),
        "r": any(x == right for x, _ in pixels),
        "u": any(y == 0 for _, y in pixels),
        "d": any(y == bottom for _, y in pixels),
    }
    assert {arm for arm, touches in reached.items() if touches} == set(png.BOX[character])


@pytest.mark.parametrize("character", "·▌◂▾✓→…×↵␛“3A")
def test_every_other_glyph_is_in_the_font(character: str) -> None:
    pixels = drawn(character)
    assert pixels
    assert pixels != drawn("\U0010ffff")
