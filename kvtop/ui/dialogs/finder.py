"""The command palette: finds every action by its name, its help or its key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider, SearchIcon

from kvtop.ui.commands.actions import Action, key_label

Performer = Callable[[Action], Awaitable[None]]
"""Does what an action's key does, on the dashboard."""


class Finder(CommandPalette):
    """Textual's command palette over a table of actions, with a prompt that every font can show."""

    def __init__(self, actions: tuple[Action, ...], perform: Performer) -> None:
        super().__init__(providers=[ActionProvider], placeholder="What to do?")
        self.actions = tuple(action for action in actions if action.id != "palette")
        self.perform = perform

    def on_mount(self) -> None:
        self.query_one(SearchIcon).icon = ">"


class ActionProvider(Provider):
    """Every action that this session has."""

    @property
    def _finder(self) -> Finder:
        # Textual gives a provider the screen below; the palette is the one on top of it.
        return next(screen for screen in reversed(self.app.screen_stack) if isinstance(screen, Finder))

    async def discover(self) -> Hits:
        """All of them, before anything is typed."""
        finder = self._finder
        for action in finder.actions:
            yield DiscoveryHit(_title(action), partial(finder.perform, action), help=action.help)

    async def search(self, query: str) -> Hits:
        """Those that the query matches."""
        matcher, finder = self.matcher(query), self._finder
        for action in finder.actions:
            title = _title(action)
            score = max(matcher.match(title), 0.8 * matcher.match(action.help))
            if score > 0:
                shown = matcher.highlight(title)
                yield Hit(score, shown, partial(finder.perform, action), text=title, help=action.help)


def _title(action: Action) -> str:
    """An action as people read it: `Zoom panel  (o)`."""
    keys = " ".join(map(key_label, action.keys)) or "no key"
    return f"{action.id.replace('_', ' ').capitalize()}  ({keys})"
