from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from kvtop.assembly import assemble
from kvtop.options import RunOptions
from kvtop.session.live import LiveSession
from kvtop.workload.scenario import load_scenario


@pytest.fixture
def live() -> Iterator[Callable[..., LiveSession]]:
    """Start a session on scripted tokens; all are closed afterwards."""
    started: list[LiveSession] = []

    def start(scenario: str = "mixed", *, speed: float = 0.0, paused: bool = True, **options) -> LiveSession:
        chosen = RunOptions(model=options.pop("model", "none"), **options)
        session = LiveSession(
            lambda progress: assemble(chosen, load_scenario(scenario), progress), speed=speed, paused=paused
        )
        started.append(session)
        session.start()
        return session

    yield start
    for session in started:
        session.close()
        assert not session._thread.is_alive()


@pytest.fixture
def until() -> Callable[[Callable[[], object]], object]:
    """Wait until something becomes true."""

    def wait(true: Callable[[], object], seconds: float = 20.0) -> object:
        deadline = time.monotonic() + seconds
        while not (value := true()):
            assert time.monotonic() < deadline, "it never became true"
            time.sleep(0.002)
        return value

    return wait
