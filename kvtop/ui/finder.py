"""What the command palette finds: every action of the table, by its name, its help or its key."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider, SearchIcon

from kvtop.ui.actions import Action, key_label

if TYPE_CHECKING:
    from kvtop.ui.app import KvtopApp


class Finder(CommandPalette):
    """Textual's command palette with a prompt that every terminal and font can show."""

    def on_mount(self) -> None:
        self.query_one(SearchIcon).icon = ">"


class ActionProvider(Provider):
    """Every action that this session has."""

    @property
    def _kvtop(self) -> KvtopApp:
        from kvtop.ui.app import KvtopApp

        assert isinstance(self.app, KvtopApp)
        return self.app

    async def discover(self) -> Hits:
        """All of them, before anything is typed."""
        for action in self._kvtop.actions:
            if action.id != "palette":
                yield DiscoveryHit(_title(action), partial(self._kvtop.perform, action), help=action.help)

    async def search(self, query: str) -> Hits:
        """Those that the query matches."""
        matcher = self.matcher(query)
        for action in self._kvtop.actions:
            title = _title(action)
            score = max(matcher.match(title), 0.8 * matcher.match(action.help))
            if score > 0 and action.id != "palette":
                shown = matcher.highlight(title)
                yield Hit(score, shown, partial(self._kvtop.perform, action), text=title, help=action.help)


def _title(action: Action) -> str:
    """An action as people read it: `Zoom panel  (o)`."""
    keys = " ".join(map(key_label, action.keys)) or "no key"
    return f"{action.id.replace('_', ' ').capitalize()}  ({keys})"
