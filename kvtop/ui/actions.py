"""The one table of actions: keys, key bar and help are all made from it, and so will be a user's key map."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Action:
    """Something a key does."""

    id: str
    """Names the method `action_<id>` of screen or app, and the entry of a key map."""
    keys: tuple[str, ...]
    """Textual's key names; the first is shown."""
    help: str
    """A sentence for the help page."""
    section: str
    bar: str = ""
    """One word for the key bar; empty keeps it out."""
    command: type | None = None
    """The session command it needs; without it the key is neither bound nor shown."""
    needs_sequence: bool = False
    """Whether it acts on the selected sequence."""

    @property
    def binding(self) -> str:
        """The action as Textual names it: cursors belong to the screen, all else to the app."""
        return self.id if self.section == "Moving" else f"app.{self.id}"

    @property
    def label(self) -> str:
        """Its first key as people write it."""
        return key_label(self.keys[0])


_LABELS = {
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "question_mark": "?",
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
        return "^" + key[5:].upper()
    return key.upper() if len(key) > 1 else key


ACTIONS: tuple[Action, ...] = (
    Action("help", ("f1", "question_mark", "h"), "this page", "Program", "Help"),
    Action("slower", ("f7", "left_square_bracket"), "fewer steps a second", "Generator", "Slower", SetSpeed),
    Action(
        "faster",
        ("f8", "right_square_bracket"),
        "more steps a second, up to unbounded",
        "Generator",
        "Faster",
        SetSpeed,
    ),
    Action(
        "abort",
        ("f9", "k"),
        "abort the request of the selected sequence (asks first)",
        "Sequence",
        "Abort",
        Abort,
        True,
    ),
    Action("quit", ("f10", "q", "ctrl+c"), "quit", "Program", "Quit"),
    Action("pause", ("Z", "z"), "pause after the current step, or run on", "Generator", "Pause", Pause),
    Action("step", ("n",), "run one step and stay paused", "Generator", "Step", StepOnce),
    Action("add", ("a",), "add a request", "Generator", "Add", AddRequest),
    Action("burst", ("A",), "add a burst of eight requests", "Generator", "Burst", AddBurst),
    Action(
        "fork",
        ("f",),
        "fork the selected sequence: the child shares its blocks",
        "Sequence",
        "Fork",
        Fork,
        True,
    ),
    Action(
        "preempt",
        ("p",),
        "preempt its group: free its blocks, compute them again later",
        "Sequence",
        "Preempt",
        Preempt,
        True,
    ),
    Action(
        "swap", ("s",), "preempt its group: copy its blocks to host memory", "Sequence", "Swap", Preempt, True
    ),
    Action("next_panel", ("tab",), "next panel", "Moving"),
    Action("previous_panel", ("shift+tab",), "previous panel", "Moving"),
    Action("move_up", ("up",), "previous sequence; in the map one row up; in the log older", "Moving"),
    Action("move_down", ("down",), "next sequence; in the map one row down; in the log newer", "Moving"),
    Action("move_left", ("left",), "in the map: previous block", "Moving"),
    Action("move_right", ("right",), "in the map: next block", "Moving"),
    Action("page_up", ("pageup",), "a page up", "Moving"),
    Action("page_down", ("pagedown",), "a page down", "Moving"),
    Action("first", ("home",), "the first row or block", "Moving"),
    Action("last", ("end",), "the last row or block; in the log the newest", "Moving"),
    Action("inspect", ("enter",), "from a sequence to its first block, from a block to its owner", "Moving"),
    Action("back", ("escape",), "let go of what is selected", "Moving"),
    Action("screenshot", ("ctrl+s",), "save the screen as SVG and PNG", "Program"),
    Action("redraw", ("ctrl+l",), "draw the screen again", "Program"),
    Action("suspend_process", ("ctrl+z",), "suspend; fg in the shell comes back", "Program"),
)

BY_ID = {action.id: action for action in ACTIONS}


def available(supports: Iterable[type]) -> tuple[Action, ...]:
    """The actions of a session that takes the commands `supports`."""
    taken = frozenset(supports)
    return tuple(action for action in ACTIONS if action.command is None or action.command in taken)
