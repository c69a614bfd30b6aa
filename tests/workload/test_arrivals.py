from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtop.workload.arrivals import Clock, Mix, length, mixed_seed
from kvtop.workload.spec import Arrivals, Branching, Bursts, Lengths

BASE = Arrivals(rate_per_step=0.25, prompt_tokens=Lengths(100, 400, 20), new_tokens=Lengths(30, 60, 10))


def arrivals(clock: Clock, steps: int, unfinished: int = 0) -> list[int]:
    return [clock.due(step, unfinished) for step in range(1, steps + 1)]


def test_rate_is_the_mean_and_gaps_vary():
    counts = arrivals(Clock(BASE, 1), 40_000)
    assert sum(counts) == pytest.approx(10_000, rel=0.03)
    assert Counter(counts)[2] > 500  # Poisson: two in one step, 1.9 % of the time


def test_bursts_come_at_their_steps_alone():
    mix = replace(BASE, rate_per_step=0.0, bursts=Bursts(every=10, requests=3, first=4))
    counts = arrivals(Clock(mix, 1), 30)
    assert {step: count for step, count in enumerate(counts, 1) if count} == {4: 3, 14: 3, 24: 3}


def test_until_step_is_the_last():
    clock = Clock(replace(BASE, rate_per_step=3.0, until_step=5), 1)
    counts = arrivals(clock, 9)
    assert all(counts[:5]) and not any(counts[5:])
    assert not clock.over(4) and clock.over(5)


def test_nothing_arrives_while_enough_are_unfinished():
    mix = replace(BASE, rate_per_step=5.0, max_unfinished=8, bursts=Bursts(every=1, requests=4, first=1))
    clock = Clock(mix, 1)
    assert arrivals(clock, 50, unfinished=8) == [0] * 50
    assert clock.due(51, 6) == 2
    assert clock.due(52, 9) == 0
    assert sum(arrivals(Clock(mix, 1), 10, unfinished=7)) == 10


def test_an_endless_queue_is_impossible():
    """With nobody ever finishing, the total stays at the limit."""
    clock = Clock(replace(BASE, max_unfinished=20), 1)
    unfinished = 0
    for step in range(1, 5000):
        unfinished += clock.due(step, unfinished)
    assert unfinished == 20


def test_shapes_have_the_shares_that_were_asked_for():
    mix = replace(
        BASE, samples=Branching(0.2, 4), beams=Branching(0.1, 3), shared_prefix=16, shared_share=0.5
    )
    draw = Mix(mix, 1)
    shapes = [draw.draw() for _ in range(20_000)]
    assert Counter(shape.n for shape in shapes).keys() == {1, 2, 3, 4}
    assert Counter(shape.beam_width for shape in shapes).keys() == {1, 2, 3}
    assert not any(shape.n > 1 and shape.beam_width > 1 for shape in shapes)
    assert sum(shape.n > 1 for shape in shapes) == pytest.approx(4000, rel=0.06)
    assert sum(shape.beam_width > 1 for shape in shapes) == pytest.approx(2000, rel=0.08)
    assert sum(shape.shared for shape in shapes) == pytest.approx(10_000, rel=0.04)
    assert sum(shape.prompt_tokens for shape in shapes) / 20_000 == pytest.approx(100, rel=0.02)
    assert sum(shape.new_tokens for shape in shapes) / 20_000 == pytest.approx(30, rel=0.02)
    assert {shape.shared for shape in [Mix(BASE, 1).draw() for _ in range(9)]} == {False}


@given(st.integers(1, 5000), st.integers(0, 5000), st.floats(0, 1), st.floats(0, 1, exclude_max=True))
def test_lengths_stay_in_their_range(minimum: int, span: int, where: float, uniform: float):
    lengths = Lengths(mean=minimum + where * span, maximum=minimum + span, minimum=minimum)
    assert minimum <= length(lengths, uniform) <= minimum + span


def test_the_numbers_are_the_same_on_every_machine():
    """Seeds by the published splitmix64 (Steele, Lea, Flood, OOPSLA'14), halved; the rest as once drawn."""
    assert [mixed_seed(1, i) for i in range(3)] == [
        5225608189600411232,
        6878622605533214259,
        8955919645141445295,
    ]
    mix = Mix(BASE, 7)
    assert [mix.draw()[:2] for _ in range(3)] == [(42, 24), (51, 18), (186, 29)]
    clock = Clock(BASE, 7)
    assert [step for step in range(1, 40) if clock.due(step, 0)] == [3, 5, 7, 8, 9, 12, 13, 30, 31, 36]


def test_seeds_differ_and_fit():
    assert len({mixed_seed(seed, i) for seed in range(40) for i in range(500)}) == 20_000
    assert all(0 <= mixed_seed(seed, 3) < 2**63 for seed in (0, 1, 2**64, 2**200))
