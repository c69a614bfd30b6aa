"""The one table of actions: keys, key bar, help, palette and a person's key map are all made from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from kvtop.session.session import (
    Abort,
    AddBurst,
    AddRequest,
    Fork,
    Pause,
    Preempt,
    SetSpeed,
    StepOnce,
)

Target = Literal["app", "screen", "panel"]
APP: Final = "app"
"""A command to the session, a dialog, the program itself: `KvtopApp.action_<id>`."""
SCREEN: Final = "screen"
"""What is shown and where the cursors are: `Dashboard.action_<id>`."""
PANEL: Final = "panel"
"""`do_<id>` of the panel that has the keys, or else of the action's owner."""


@dataclass(frozen=True, slots=True)
class Action:
    """Something a key does."""

    id: str
    """Names the method that does it, and the entry of a key map."""
    keys: tuple[str, ...]
    """Textual's key names; the first is shown."""
    help: str
    """A sentence for the help page."""
    section: str
    target: Target
    """Who does it: the app, the screen, or the panel that has the keys."""
    bar: str = ""
    """One word for the key bar; empty keeps it out."""
    command: type | None = None
    """The session command it needs; without it the key is neither bound nor shown."""
    owner: str = ""
    """The panel that does it when the one that has the keys cannot."""
    call: str = ""
    """The method that does it, with its arguments, where it is not `action_<id>`."""

    @property
    def binding(self) -> str:
        """The action as Textual names it."""
        if self.target == PANEL:
            return f"panel('{self.id}')"
        return f"{'app.' if self.target == APP else ''}{self.call or self.id}"

    @property
    def label(self) -> str:
        """Its first key as people write it."""
        return key_label(self.keys[0]) if self.keys else ""


_LABELS = {
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "question_mark": "?",
    "slash": "/",
    "backslash": "\\",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "plus": "+",
    "minus": "-",
    "space": "Space",
    "tab": "Tab",
    "shift+tab": "S-Tab",
    "enter": "Enter",
    "escape": "Esc",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "home": "Home",
    "end": "End",
}


def key_label(key: str) -> str:
    """A key as people write it: `F1`, `^S`, `[`."""
    if key in _LABELS:
        return _LABELS[key]
    if key.startswith("ctrl+"):
        return "^" + _LABELS.get(key[5:], key[5:].upper())
    if key.startswith("shift+"):
        return "S-" + _LABELS.get(key[6:], key[6:].upper())
    return key.upper() if len(key) > 1 else key


ACTIONS: tuple[Action, ...] = (
    # -- htop's bar, in htop's order ----------------------------------------------------------------------
    Action(
        "help",
        ("f1", "question_mark", "h"),
        "all keys, on pages that can be searched",
        "Program",
        APP,
        bar="Help",
    ),
    Action("setup", ("f2", "S"), "settings, with a preview of the theme", "Program", APP, bar="Setup"),
    Action(
        "search",
        ("f3", "slash"),
        "search as you type; Enter keeps, F3 again goes to the next",
        "List",
        PANEL,
        bar="Search",
        owner="sequences",
    ),
    Action("previous_match", ("shift+f3", "f15"), "the match before", "List", PANEL, owner="sequences"),
    Action(
        "filter",
        ("f4", "backslash"),
        "show only rows with a text; | is or",
        "List",
        PANEL,
        bar="Filter",
        owner="sequences",
    ),
    Action(
        "tree",
        ("f5", "t"),
        "samples and beams under their request, or a flat list",
        "List",
        PANEL,
        bar="Tree",
        owner="sequences",
    ),
    Action(
        "sort",
        ("f6", "less_than_sign", "greater_than_sign"),
        "choose what to sort by; so does a click on a column's head",
        "List",
        PANEL,
        bar="Sort",
        owner="sequences",
    ),
    Action(
        "slower",
        ("f7", "left_square_bracket"),
        "fewer steps a second",
        "Generator",
        APP,
        bar="Slower",
        command=SetSpeed,
    ),
    Action(
        "faster",
        ("f8", "right_square_bracket"),
        "more steps a second, up to unbounded",
        "Generator",
        APP,
        bar="Faster",
        command=SetSpeed,
    ),
    Action(
        "abort",
        ("f9", "k"),
        "abort the selected request, or those of all tagged rows (asks first)",
        "Sequence",
        APP,
        bar="Abort",
        command=Abort,
    ),
    Action("quit", ("f10", "q", "ctrl+c"), "quit", "Program", APP, bar="Quit"),
    Action(
        "pause",
        ("Z", "z"),
        "pause after the current step, or run on",
        "Generator",
        APP,
        bar="Pause",
        command=Pause,
    ),
    Action("step", ("n",), "run one step and stay paused", "Generator", APP, bar="Step", command=StepOnce),
    Action("add", ("a",), "add a request", "Generator", APP, bar="Add", command=AddRequest),
    Action("burst", ("A",), "add a burst of eight requests", "Generator", APP, bar="Burst", command=AddBurst),
    Action("palette", ("ctrl+p",), "find an action by its name", "Program", APP, bar="Palette"),
    # -- on the selected sequence -------------------------------------------------------------------------
    Action(
        "fork",
        ("f",),
        "fork the selected sequence: the child shares its blocks",
        "Sequence",
        APP,
        bar="Fork",
        command=Fork,
    ),
    Action(
        "preempt",
        ("p",),
        "preempt its group: free its blocks, compute them again later",
        "Sequence",
        APP,
        bar="Preempt",
        command=Preempt,
    ),
    Action(
        "swap",
        ("s",),
        "preempt its group: copy its blocks to host memory",
        "Sequence",
        APP,
        bar="Swap",
        command=Preempt,
    ),
    # -- in the panel that has the keys -------------------------------------------------------------------
    Action("tag", ("space",), "tag the row: its blocks stay lit", "List", PANEL, owner="sequences"),
    Action("untag", ("U",), "untag all rows", "List", PANEL, owner="sequences"),
    Action(
        "follow",
        ("F",),
        "keep the cursor's row in sight until the cursor is moved",
        "List",
        PANEL,
        owner="sequences",
    ),
    Action("invert", ("I",), "invert the order", "List", PANEL, owner="sequences"),
    Action(
        "expand", ("plus",), "unfold a group or a chain; in the map zoom in", "List", PANEL, owner="sequences"
    ),
    Action(
        "collapse",
        ("minus",),
        "fold a group or a chain; in the map zoom out",
        "List",
        PANEL,
        owner="sequences",
    ),
    # -- what is shown ------------------------------------------------------------------------------------
    Action(
        "preset_overview",
        ("1",),
        "overview: meters, map, sequences, events",
        "View",
        SCREEN,
        call="preset('overview')",
    ),
    Action("preset_map", ("2",), "the block map alone", "View", SCREEN, call="preset('map')"),
    Action(
        "preset_tables",
        ("3",),
        "block tables: logical blocks across, physical ids in the cells",
        "View",
        SCREEN,
        call="preset('tables')",
    ),
    Action(
        "preset_prefixes", ("4",), "the tree of cached prefixes", "View", SCREEN, call="preset('prefixes')"
    ),
    Action(
        "preset_compare", ("5",), "paged beside contiguous memory", "View", SCREEN, call="preset('compare')"
    ),
    Action(
        "preset_timeline", ("6",), "events and rates over time", "View", SCREEN, call="preset('timeline')"
    ),
    Action(
        "preset_kernel", ("7",), "what this step's attention read", "View", SCREEN, call="preset('kernel')"
    ),
    Action("zoom_panel", ("o",), "the panel to full size, and back", "View", SCREEN),
    Action(
        "split_left",
        ("ctrl+left",),
        "move the border of the panel left",
        "View",
        SCREEN,
        call="split('left')",
    ),
    Action(
        "split_right",
        ("ctrl+right",),
        "move the border of the panel right",
        "View",
        SCREEN,
        call="split('right')",
    ),
    Action("split_up", ("ctrl+up",), "move the border of the panel up", "View", SCREEN, call="split('up')"),
    Action(
        "split_down",
        ("ctrl+down",),
        "move the border of the panel down",
        "View",
        SCREEN,
        call="split('down')",
    ),
    # -- moving -------------------------------------------------------------------------------------------
    Action("next_panel", ("tab",), "next panel", "Moving", SCREEN, call="next_panel(1)"),
    Action("previous_panel", ("shift+tab",), "previous panel", "Moving", SCREEN, call="next_panel(-1)"),
    Action("move_up", ("up",), "a row up; in a log an older line", "Moving", SCREEN, call="move(0, -1)"),
    Action("move_down", ("down",), "a row down; in a log a newer line", "Moving", SCREEN, call="move(0, 1)"),
    Action("move_left", ("left",), "a block to the left", "Moving", SCREEN, call="move(-1, 0)"),
    Action("move_right", ("right",), "a block to the right", "Moving", SCREEN, call="move(1, 0)"),
    Action("page_up", ("pageup",), "a page up", "Moving", SCREEN, call="page(-1)"),
    Action("page_down", ("pagedown",), "a page down", "Moving", SCREEN, call="page(1)"),
    Action("first", ("home",), "the first row or block", "Moving", SCREEN, call="edge(-1)"),
    Action(
        "last", ("end",), "the last row or block; in a log the newest line", "Moving", SCREEN, call="edge(1)"
    ),
    Action(
        "inspect",
        ("enter",),
        "from a sequence to its first block, from a block to its owner; in a coarse map zoom in",
        "Moving",
        SCREEN,
    ),
    Action("back", ("escape",), "zoom out, then let go of what is selected", "Moving", SCREEN),
    # -- program ------------------------------------------------------------------------------------------
    Action("screenshot", ("ctrl+s",), "save the screen as SVG and PNG", "Program", APP),
    Action("redraw", ("ctrl+l",), "draw the screen again", "Program", APP),
    Action("suspend_process", ("ctrl+z",), "suspend; fg in the shell comes back", "Program", APP),
)

BY_ID = {action.id: action for action in ACTIONS}


def available(
    supports: Iterable[type], *, readonly: bool = False, actions: tuple[Action, ...] = ACTIONS
) -> tuple[Action, ...]:
    """The actions of a session that takes the commands `supports`; `readonly` leaves those out."""
    taken: frozenset[type] = frozenset() if readonly else frozenset(supports)
    return tuple(action for action in actions if action.command is None or action.command in taken)


def remapped(
    keys: Mapping[str, Sequence[str]], places: Mapping[str, str]
) -> tuple[tuple[Action, ...], list[str]]:
    """The table with a person's own keys, and one line for each problem with them; see `keymap.key_map`."""
    if not keys:
        return ACTIONS, []
    from kvtop.ui.commands.keymap import key_map

    found, problems = key_map([(action.id, action.keys) for action in ACTIONS], keys, places)
    return tuple(replace(action, keys=found[action.id]) for action in ACTIONS), problems
