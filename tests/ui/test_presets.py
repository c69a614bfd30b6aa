"""Presets, borders and full size: what stands where, on every screen."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.geometry import Region, Size

from kvtop.ui.commands.actions import BY_ID as ACTIONS
from kvtop.ui.dashboard.arrangement import Split, border_at, border_of, borders, panels, place
from kvtop.ui.dashboard.presets import BY_ID, PRESETS, arrange

SIZES = st.tuples(st.integers(60, 300), st.integers(18, 90)).map(lambda size: Size(*size))
SHARES = st.dictionaries(
    st.sampled_from(["columns", "rows", "stack", "tables.columns", "timeline.rows"]),
    st.floats(0, 1),
)


@given(
    preset=st.sampled_from(PRESETS), size=SIZES, panel=st.integers(0, 9), block=st.booleans(),
    zoom=st.booleans(), shares=SHARES,
)  # fmt: skip
def test_regions_cover_the_screen_without_overlap(preset, size, panel, block, zoom, shares) -> None:
    focus = preset.panels[panel % len(preset.panels)]
    placed = arrange(preset, size, focus, block=block, zoom=zoom, shares=shares)
    regions = list(placed.regions.values())
    assert sum(region.area for region in regions) == size.area
    for one, other in itertools.combinations(regions, 2):
        assert one.intersection(other).area == 0
    assert focus in placed.regions
    for name, region in placed.regions.items():
        if name in preset.panels:
            assert region.width >= 8
            assert region.height >= 5


@pytest.mark.parametrize("size", [(59, 18), (60, 17), (1, 1)])
def test_below_the_minimum_there_is_one_message(size) -> None:
    placed = arrange(PRESETS[0], Size(*size), "sequences")
    assert list(placed.regions) == ["too-small"]
    assert placed.tree is None


def test_every_preset_has_an_action_in_its_order() -> None:
    assert [ACTIONS[f"preset_{preset.id}"].keys for preset in PRESETS] == [(str(n),) for n in range(1, 8)]


def test_the_log_or_a_line_of_it_is_always_in_sight() -> None:
    for preset, size in itertools.product(PRESETS, [(60, 18), (80, 24), (120, 36), (200, 50)]):
        regions = arrange(preset, Size(*size), preset.first).regions
        assert {"log", "trace", "ticker"} & set(regions) or size == (60, 18)


def test_a_border_is_found_where_it_is_drawn_and_belongs_to_its_panels() -> None:
    tree = Split("a", True, "map", Split("b", False, "sequences", "log", 0.5), 0.4)
    whole = Region(0, 5, 100, 30)
    regions = place(tree, whole, {})
    assert panels(tree) == ("map", "sequences", "log")
    assert [split.name for split, _ in borders(tree, whole, {})] == ["a", "b"]
    for x in (regions["map"].right - 1, regions["sequences"].x):
        assert border_at(tree, whole, {}, x, 10)[0].name == "a"
    assert border_at(tree, whole, {}, 80, regions["log"].y)[0].name == "b"
    assert border_at(tree, whole, {}, 10, 10) is None
    assert border_of(tree, "log", across=False).name == "b"
    assert border_of(tree, "log", across=True).name == "a"
    assert border_of(tree, "map", across=False) is None


# -- on the screen ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.id)
@pytest.mark.parametrize("size", [(60, 18), (80, 24), (200, 50)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_its_key_shows_a_preset_with_its_panels(drive, session, preset, size) -> None:
    async with drive(session, size) as driven:
        await driven.press(*ACTIONS[f"preset_{preset.id}"].keys)
        dashboard = driven.app.dashboard
        assert dashboard.preset is preset
        assert dashboard.panel in preset.panels
        view = dashboard.view
        for name in preset.panels:
            if name in dashboard.regions(driven.app.size):
                title = dashboard.bodies[name].heading(view)[0]
                assert title and f" {title[:12]}" in driven.text
                assert any(strip.text.strip() for strip in dashboard.bodies[name].strips)


async def test_a_preset_comes_back_with_the_panel_that_had_the_keys(drive, session) -> None:
    async with drive(session, (120, 36)) as driven:
        await driven.press("tab")
        assert driven.app.dashboard.panel == "log"
        await driven.press("3", "1")
        assert driven.app.dashboard.panel == "log"


async def test_a_panel_goes_to_full_size_and_back(drive, session) -> None:
    async with drive(session, (120, 36)) as driven:
        before = driven.app.dashboard.regions(driven.app.size)
        await driven.press("o")
        assert driven.app.dashboard.regions(driven.app.size)["sequences"] == Region(0, 1, 120, 34)
        assert "Blocks (" not in driven.text
        await driven.press("o")
        assert driven.app.dashboard.regions(driven.app.size) == before
        await driven.press("o", "escape")
        assert driven.app.dashboard.regions(driven.app.size) == before


@pytest.mark.parametrize(
    ("key", "panel", "side", "sign"),
    [
        ("ctrl+right", "map", "width", 1),
        ("ctrl+left", "map", "width", -1),
        ("ctrl+down", "map", "height", 1),
        ("ctrl+up", "map", "height", -1),
    ],
)
async def test_keys_move_the_borders(drive, session, key, panel, side, sign) -> None:
    async with drive(session, (120, 36)) as driven:
        before = getattr(driven.app.dashboard.regions(driven.app.size)[panel], side)
        await driven.press(key)
        region = driven.app.dashboard.regions(driven.app.size)[panel]
        assert (getattr(region, side) - before) * sign > 0
        assert driven.app.dashboard.body("map").extent.width == region.width - 2 or panel != "map"


async def test_a_border_is_dragged_with_the_mouse(drive, session) -> None:
    async with drive(session, (120, 36)) as driven:
        edge = driven.app.dashboard.regions(driven.app.size)["sequences"].x
        await driven.pilot.mouse_down("#sequences-frame", offset=(0, 4))
        await driven.pilot.hover(None, offset=(70, 10))
        await driven.pilot.mouse_up(None, offset=(70, 10))
        await driven.settle()
        assert driven.app.dashboard.regions(driven.app.size)["sequences"].x > edge
        assert driven.app.selection.row is None


def test_shares_of_all_presets_have_names_of_their_own() -> None:
    seen: dict[str, str] = {}
    for preset in BY_ID.values():
        placed = arrange(preset, Size(200, 50), preset.first, block=True)
        for split, _ in borders(placed.tree, placed.body, {}):
            assert seen.setdefault(split.name, preset.id) == preset.id
