"""Apps over the scripted session of `fake_session`."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kvtop.ui.app import KvtopApp
from tests.ui.fake_session import FakeSession


@pytest.fixture
def make_session() -> Callable[..., FakeSession]:
    """Makes scripted sessions."""
    return FakeSession


@pytest.fixture
def session() -> FakeSession:
    """A session that has run for 300 steps."""
    return FakeSession().run(300)


def text_of(app: KvtopApp) -> list[str]:
    """The screen's lines as text."""
    return [strip.text for strip in app.screen._compositor.render_strips()]


@pytest.fixture
def shown() -> Callable[[KvtopApp], list[str]]:
    """Reads the screen's lines."""
    return text_of


@dataclasses.dataclass
class Driven:
    """An app under test, with its session and the keys to it."""

    app: KvtopApp
    session: FakeSession
    pilot: Any

    async def press(self, *keys: str) -> None:
        """Press keys and draw what comes of them."""
        for key in keys:
            await self.pilot.press(key)
            await self.settle()

    async def settle(self) -> None:
        """Let messages run out and draw the newest snapshot."""
        await self.pilot.pause()
        self.app.refresh_view(force=True)
        await self.pilot.pause()

    @property
    def lines(self) -> list[str]:
        return text_of(self.app)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def selected(self) -> tuple[int, int | None] | None:
        """Request and branch of the selected row."""
        row = self.app.selection.row
        return None if row is None else (row.request, row.branch)


@pytest.fixture
def drive() -> Callable[..., Any]:
    """Opens an app over a session: `async with drive(session, (120, 36)) as driven`."""

    @contextlib.asynccontextmanager
    async def opened(
        session: FakeSession, size: tuple[int, int] = (120, 36), **options: Any
    ) -> AsyncIterator[Driven]:
        # One frame an hour: what is drawn is drawn because a test asked for it.
        app = KvtopApp(session, fps=options.pop("fps", 1 / 3600), probe=False, **options)
        async with app.run_test(size=size) as pilot:
            driven = Driven(app, session, pilot)
            await driven.settle()
            yield driven

    return opened
