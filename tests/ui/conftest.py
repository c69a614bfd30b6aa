"""Apps over the scripted session of `fake_session`."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import textual.app
import textual.pilot
from textual._wait import wait_for_idle

from kvtop.ui.app.app import KvtopApp
from tests.ui.fake_session import FakeSession

QUIET_ROUNDS = 4
"""So many times in a row nothing is ready to run: what a thread or a pipe hands over comes a round later."""


async def nothing_left_to_run(min_sleep: float = 0, max_sleep: float = 1) -> None:
    """Wait until the loop has run everything that was ready, and what that made ready.

    Textual's own `wait_for_idle` sleeps 20 ms and looks whether the process used little of the processor
    meanwhile: that is most of the time of these tests, and on a busy machine a process that had no turn looks
    as idle as one that is done. It is still asked where a thread works beside the loop or something moves.
    """
    loop = asyncio.get_running_loop()
    app = textual.app.active_app.get()
    beside = any(thread.name.startswith(("asyncio_", "kvtop")) for thread in threading.enumerate())
    if beside or app.animator._animations or app.animator._scheduled:
        await wait_for_idle(min_sleep, max_sleep)
        return
    end = time.monotonic() + max_sleep
    quiet = 0
    while quiet < QUIET_ROUNDS and time.monotonic() < end:
        await asyncio.sleep(0)
        quiet = 0 if loop._ready or frame_is_due(app) else quiet + 1


def frame_is_due(app: KvtopApp) -> bool:
    """Draw now what Textual puts off to its next frame, or hand on a new size; whether there was any."""
    if app._resize_timer is not None:
        app._check_resize()
        return True
    for screen in app._screen_stack:
        if screen._update_timer._active.is_set():
            screen._on_timer_update()
            return True
    return False


@pytest.fixture(scope="session", autouse=True)
def pilots_wait_for_the_loop() -> Iterator[None]:
    """A pilot's pauses end when nothing is left to run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(textual.pilot, "wait_for_idle", nothing_left_to_run)
        patch.setattr(textual.app, "wait_for_idle", nothing_left_to_run)
        yield


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
