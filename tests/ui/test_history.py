"""Figures over time."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from kvtop.session.session import Phase, Status
from kvtop.ui.draw.glyphs import BRAILLE
from kvtop.ui.frame.history import History


@pytest.fixture
def add(session):
    """Appends samples: `add(history, seconds, step, evictions=3, tokens=...)`."""

    def added(history: History, seconds: float, step: int, *, tokens: float | None = 1.0, **counted) -> None:
        snapshot = session.published
        figures = dataclasses.replace(snapshot.figures, tokens_per_second=tokens, kv_bytes_read=None)
        counters = dataclasses.replace(
            snapshot.counters, evictions=0, preempted_swap=0, preempted_recompute=0, cow_copies=0
        )
        counters = dataclasses.replace(counters, **counted)
        history.add(
            dataclasses.replace(snapshot, step=step, figures=figures, counters=counters),
            Status(Phase.RUNNING, elapsed_seconds=seconds),
        )

    return added


def shown(history: History, name: str, width: int = 9, each: int = 1) -> list[float | None]:
    return [None if np.isnan(value) else value for value in history.columns(name, width, each).tolist()]


def test_rates_are_differences_of_counters_over_time(add) -> None:
    history = History()
    add(history, 1.0, 10, evictions=4)
    add(history, 1.5, 20, evictions=9, preempted_swap=1)
    add(history, 3.5, 30, evictions=9, preempted_swap=1, preempted_recompute=2, cow_copies=4)
    assert shown(history, "evictions_per_second") == [None, 10.0, 0.0]
    assert shown(history, "preemptions_per_second") == [None, 2.0, 1.0]
    assert shown(history, "copies_per_second") == [None, 0.0, 2.0]
    assert shown(history, "preempted") == [0, 1, 2]


def test_without_time_there_is_no_rate(add) -> None:
    history = History()
    add(history, 1.0, 10, evictions=4)
    add(history, 1.0, 11, evictions=5)
    assert shown(history, "evictions_per_second") == [None, None]


def test_what_is_not_published_is_absent_and_not_zero(add) -> None:
    history = History()
    for step, tokens in enumerate((None, 4.0, None, None, 8.0)):
        add(history, float(step), step, tokens=tokens)
    assert shown(history, "tokens_per_second") == [None, 4.0, None, None, 8.0]
    assert shown(history, "tokens_per_second", each=2) == [4.0, None, 8.0]
    assert shown(history, "kv_bytes_read") == [None] * 5
    assert history.spark("tokens_per_second", 9) == "▅█"


def test_shares_are_of_the_pool(add, session) -> None:
    history = History()
    add(history, 1.0, 1, total_blocks=200, used_blocks=150, cached_blocks=30)
    assert shown(history, "used_percent") == [75.0]
    assert shown(history, "cached_percent") == [15.0]


def test_the_newest_are_kept(add) -> None:
    history = History(4)
    for step in range(11):
        add(history, step / 2, step, tokens=float(step))
        assert history.kept == min(step + 1, 4)
        assert shown(history, "tokens_per_second") == [float(n) for n in range(max(0, step - 3), step + 1)]
    assert history.newest("tokens_per_second", 2).tolist() == [9.0, 10.0]


def test_columns_share_the_same_samples_whenever_they_are_asked_for(add) -> None:
    history = History(8)
    seen: dict[int, float] = {}
    for step in range(30):
        add(history, step / 2, step, tokens=float(step))
        columns = shown(history, "tokens_per_second", 2, each=3)
        newest = step // 3
        assert len(columns) <= 2
        assert columns[-1] == np.mean(range(newest * 3, step + 1))
        if len(columns) == 2 and newest - 1 in seen:
            assert columns[0] == seen[newest - 1]
        seen[newest] = columns[-1]


def test_ages_are_seconds_before_the_newest(add) -> None:
    history = History()
    for step, seconds in enumerate((0.0, 0.5, 1.0, 9.0)):
        add(history, seconds, step)
    assert history.ages(9).tolist() == [9.0, 8.5, 8.0, 0.0]
    assert history.ages(2).tolist() == [8.0, 0.0]
    assert history.ages(9, 2).tolist() == [9.0, 8.0]
    assert len(History().ages(9)) == len(History().columns("running", 9)) == 0


def test_a_step_that_goes_backwards_begins_anew(add) -> None:
    history = History()
    add(history, 5.0, 50)
    add(history, 6.0, 3, evictions=2)
    assert shown(history, "evictions_per_second") == [None]


def test_a_spark_has_as_many_figures_as_its_glyphs_carry(add) -> None:
    history = History()
    for step in range(40):
        add(history, step / 2, step, tokens=float(step))
    assert len(history.spark("tokens_per_second", 10)) == 10
    assert len(history.spark("tokens_per_second", 10, glyphs=BRAILLE)) == 10
    assert history.spark("tokens_per_second", 10, 100)[-1] < "█"
