"""The built-in themes can be read, and so can what is drawn in them; a person's own follow their files."""

from __future__ import annotations

import os
from itertools import combinations
from pathlib import Path

import pytest
from rich.color import ColorType

from kvtop.ui.draw.colours import NAMED, contrast, luminance, mix, shade
from kvtop.ui.draw.palette import FLASHES, LEVELS, Palette, load_palette, theme_path
from kvtop.ui.draw.themes import ORDER, SECONDS, ThemeWatcher, themes

DARK = theme_path("dark").read_text("utf-8")
HIGH = 7.0
DOCS = Path(__file__).parents[2] / "docs" / "themes.md"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's folder of themes."""
    monkeypatch.setenv("KVTOP_CONFIG_DIR", str(tmp_path))
    folder = tmp_path / "themes"
    folder.mkdir()
    return folder


def test_all_are_listed_and_none_has_a_mistake() -> None:
    assert [name for name, _, _ in themes()] == list(ORDER)
    assert [error for _, _, error in themes()] == [None] * len(ORDER)
    assert [load_palette(name).name for name in ORDER] == list(ORDER)


@pytest.mark.parametrize("name", ORDER)
def test_what_is_written_can_be_read(name: str) -> None:
    palette = load_palette(name)
    text = HIGH if name == "high-contrast" else 4.5
    for ground in ("background", "raised", "row"):
        assert contrast(palette.text, getattr(palette, ground)) >= text, ground
        assert contrast(palette.muted, getattr(palette, ground)) >= 3, ground
    for ink in ("primary", "good", "warning", "error", "match", "tag"):
        assert contrast(getattr(palette, ink), palette.background) >= text, ink
    for ink in palette.refs:
        assert contrast(ink, palette.background) >= 4.5, ink
    assert contrast(palette.key_text, palette.key) >= text
    assert contrast(palette.focus, palette.background) >= 3
    for ground in ("good", "warning"):  # a notice's mark
        assert contrast(palette.background, getattr(palette, ground)) >= 4.5


@pytest.mark.parametrize("name", ORDER)
def test_blocks_can_be_told_apart(name: str) -> None:
    palette = load_palette(name)
    # Every state has a glyph of its own: full, a reference count on a bright ground, a dot, nothing. Where
    # there are colours, those differ besides, in brightness too.
    looks = {
        "used": ("█", palette.used, palette.track),
        "shared": ("3", palette.background, palette.shared),
        "cached": ("·", palette.cached, palette.cached_track),
        "free": (" ", palette.track, palette.track),
    }
    for a, b in combinations(looks.values(), 2):
        assert a[0] != b[0]
        assert palette.mono or contrast(a[1], b[1]) > 1.2 or contrast(a[2], b[2]) > 1.2
    for ink in palette.inks:
        assert contrast(ink[4], palette.track) >= 1.8  # a block on a free one
        assert contrast(palette.background, ink[LEVELS - 1]) >= 4.4  # a digit on a shared one
    for kind in FLASHES:
        assert contrast(palette.flash(kind, 1), palette.track) >= 2.4
        assert palette.flash(kind, 0) == palette.track


@pytest.mark.parametrize("name", [name for name in ORDER if name != "16-colour"])
def test_shades_go_away_from_the_background(name: str) -> None:
    palette = load_palette(name)
    assert palette.graded
    ground = luminance(palette.background)
    for ink in palette.inks:
        distance = [abs(luminance(colour) - ground) for colour in ink]
        assert distance == sorted(distance), ink
        assert distance[-1] > distance[-2]


def test_the_16_colours_reach_the_terminal_under_their_names() -> None:
    palette = load_palette("16-colour")
    assert not palette.graded
    used = {palette.background, palette.track, *palette.owners, *palette.dimmed}
    used |= {colour for ink in palette.inks for colour in ink}
    used |= {palette.flash(kind, share / 8) for kind in FLASHES for share in range(9)}
    assert used <= NAMED.keys()
    style = palette.style("text", "row")
    assert style.color is not None and style.color.type is ColorType.STANDARD
    assert palette.style("good").color.get_ansi_codes() == ("92",)
    assert palette.style("good", "row").bgcolor.get_ansi_codes(foreground=False) == ("44",)
    assert palette.inks[0][LEVELS - 1] == "bright_yellow"


@pytest.mark.parametrize("name", ORDER)
def test_an_owners_mark_is_seen_on_the_row_under_the_cursor(name: str) -> None:
    palette = load_palette(name)
    assert palette.row not in {ink[4] for ink in palette.inks}


def test_a_mono_theme_has_greys_alone_and_one_ink() -> None:
    palette = load_palette("mono")
    assert palette.mono
    assert len(set(palette.inks)) == 1
    for name in ("text", "good", "error", "used", "flash_evicted", "cursor"):
        red, green, blue = bytes.fromhex(getattr(palette, name)[1:])
        assert red == green == blue


def test_names_are_mixed_into_names() -> None:
    assert mix("red", "#ffffff", 0.49) == "red"
    assert mix("#ffffff", "red", 0.5) == "red"
    assert shade("red", 0.4, "black", "#ffffff") == "bright_red"
    assert shade("bright_red", 0.4, "#ffffff", "#000000") == "red"
    assert shade("red", -0.4, "black", "#ffffff") == "red"
    assert shade("bright_black", 0.4, "black", "#ffffff") == "bright_black"


def test_reference_counts_above_the_last_share_its_colour() -> None:
    palette = load_palette()
    inks = [palette.reference(count).color.name for count in (0, 1, 2, 3, 4, 99)]
    assert inks == [palette.refs[place] for place in (0, 0, 1, 2, 3, 3)]


def test_textual_is_given_no_colour_that_it_would_mix() -> None:
    theme = load_palette("16-colour").textual_theme()
    assert theme.ansi and theme.background == "ansi_black"
    assert not load_palette("dark").textual_theme().ansi


@pytest.mark.parametrize("name", ["light", "16-colour", "mono"])
async def test_dialogs_open_in_every_kind_of_theme(drive, session, name: str) -> None:
    async with drive(session, (80, 24), palette=load_palette(name)) as driven:
        for keys in (("f1",), ("escape", "a"), ("escape", "f2"), ("escape", "ctrl+p")):
            await driven.press(*keys)
            assert len(driven.app.screen_stack) == 2


async def test_named_colours_are_sent_as_such_in_dialogs_too(drive, session) -> None:
    async with drive(session, (80, 24), palette=load_palette("16-colour")) as driven:
        for keys in ((), ("f1",), ("escape", "f2"), ("escape", "a")):
            await driven.press(*keys)
            for strip in driven.app.screen._compositor.render_strips():
                for _, style, _ in strip:
                    for colour in (style.color, style.bgcolor) if style is not None else ():
                        assert colour is None or colour.type in (ColorType.STANDARD, ColorType.DEFAULT), style


# -- a person's own -----------------------------------------------------------------------------------------


def test_ones_own_theme_wins_and_is_listed(own: Path) -> None:
    (own / "light.toml").write_text(DARK.replace('name = "dark"', 'name = "mine"'))
    (own / "aqua.toml").write_text(DARK.replace("cursor =", "crusor ="))
    found = {name: (path, error) for name, path, error in themes()}
    assert [*found] == [*ORDER, "aqua"]
    assert found["light"] == (own / "light.toml", None)
    assert load_palette("light").name == "mine"
    line = next(n for n, text in enumerate(DARK.splitlines(), 1) if text.startswith("cursor"))
    assert found["aqua"][1] == f'{own}/aqua.toml:{line}: unknown key "crusor" (did you mean "cursor"?)'


def test_a_theme_can_be_a_file(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.toml").write_text(DARK)
    assert load_palette(tmp_path / "x.toml") == load_palette(str(tmp_path / "x.toml")) == load_palette()
    monkeypatch.chdir(tmp_path)
    assert load_palette("x.toml") == load_palette("./x.toml") == load_palette()


def test_a_bad_colour_in_a_list_is_named_by_its_own_line(own: Path) -> None:
    broken = DARK.replace('owners = ["#e69f00", "#56b4e9"', 'owners = [\n"#e69f00",\n"#56b4"')
    (own / "mine.toml").write_text(broken)
    line = next(n for n, text in enumerate(broken.splitlines(), 1) if '"#56b4"' in text)
    error = {name: error for name, _, error in themes()}["mine"]
    assert error is not None and error.startswith(f'{own}/mine.toml:{line}: "owners" has "#56b4", which is')


def write(path: Path, text: str, number: int) -> None:
    """Write so that the change shows whatever the clock of the file system."""
    path.write_text(text)
    os.utime(path, ns=(number, number))


def test_a_changed_theme_is_read_again_at_most_once_a_second(own: Path) -> None:
    now = 100.0
    path = own / "mine.toml"
    write(path, DARK, 1)
    watcher = ThemeWatcher("mine", clock=lambda: now)
    now += SECONDS
    assert watcher.poll() is None
    write(path, DARK.replace("#d0d7de", "#aabbcc"), 2)
    assert watcher.poll() is None  # not yet
    now += SECONDS
    news = watcher.poll()
    assert isinstance(news, Palette) and news.text == "#aabbcc"
    now += SECONDS
    assert watcher.poll() is None


def test_a_broken_edit_is_told_once(own: Path) -> None:
    now = 0.0
    path = own / "mine.toml"
    write(path, DARK, 1)
    watcher = ThemeWatcher("mine", clock=lambda: now)
    write(path, DARK.replace("primary =", "pirmary ="), 2)
    now += SECONDS
    assert "did you mean" in str(watcher.poll())
    now += SECONDS
    assert watcher.poll() is None
    path.unlink()
    now += SECONDS
    assert watcher.poll() is None
    write(path, DARK, 3)
    now += SECONDS
    assert isinstance(watcher.poll(), Palette)


async def test_the_screen_follows_the_file_and_keeps_its_colours_when_that_is_broken(
    drive, session, own: Path
) -> None:
    path = own / "mine.toml"
    write(path, DARK, 1)
    now = 0.0
    async with drive(session, (80, 24), palette=load_palette("mine")) as driven:
        app = driven.app
        app.watcher = ThemeWatcher("mine", clock=lambda: now)

        async def colours() -> set[str]:
            nonlocal now
            now += SECONDS
            app._tick()
            await driven.settle()
            styles = [style for strip in app.screen._compositor.render_strips() for _, style, _ in strip]
            return {style.bgcolor.name for style in styles if style is not None and style.bgcolor is not None}

        assert "#0d1117" in await colours()
        write(path, DARK.replace("#0d1117", "#101010").replace("#161b22", "#202020"), 2)
        changed = await colours()
        assert "#0d1117" not in changed and "#161b22" not in changed and "#101010" in changed
        await driven.press("f1")  # dialogs are Textual's own to colour
        changed = await colours()
        assert "#161b22" not in changed and "#202020" in changed
        await driven.press("escape")
        write(path, DARK.replace("primary =", "pirmary ="), 3)
        assert "#101010" in await colours()
        assert "Theme not changed" in driven.lines[-1] and "pirmary" in driven.lines[-1]
        write(path, DARK, 4)
        await driven.press("f1")
        assert not await colours() & {"#101010", "#202020"}


def test_the_document_has_every_key_and_the_whole_of_it() -> None:
    text = DOCS.read_text("utf-8")
    for field in Palette.__dataclass_fields__:
        assert f"| `{field}` |" in text, field
    for name in ORDER:
        assert f"`{name}`" in text, name
