"""Contiguous reservation against paging, on numbers that can be checked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from kvtop.analysis.reservations import (
    Demand,
    Region,
    Scheme,
    contiguous,
    demands,
    paged,
    region_length,
)
from kvtop.timeline.snapshot import SequenceRow

SHORT, LONG = Demand(1, 100, 50, (120,)), Demand(2, 300, 213, (300,))


def row(request: int, branch: int = 0, **changes) -> SequenceRow:
    table = np.array(changes.pop("table", ()), np.int32)
    fields = {
        "id": request << 16 | branch,
        "name": str(request),
        "request": request,
        "branch": branch,
        "label": "",
        "state": "running",
        "wait_reason": "",
        "prompt_tokens": 100,
        "generated_tokens": 0,
        "stored_tokens": 0,
        "max_new_tokens": 50,
        "n": 1,
        "beam_width": 1,
        "blocks": len(table),
        "on_host": False,
        "shared_blocks": 0,
        "waste_slots": 0,
        "prefix_hit_tokens": 0,
        "preemptions": 0,
        "table": table,
        "tail": (),
    }
    return SequenceRow(**fields | changes)


@pytest.mark.parametrize(
    ("scheme", "demand", "length"),
    [
        (Scheme.ORACLE, SHORT, 150),
        (Scheme.ORACLE, LONG, 513),
        (Scheme.POW2, SHORT, 256),
        (Scheme.POW2, LONG, 1024),
        (Scheme.POW2, Demand(3, 256, 256, (0,)), 512),
        (Scheme.MAX, SHORT, 2048),
    ],
)
def test_the_length_of_a_region(scheme: Scheme, demand: Demand, length: int) -> None:
    assert region_length(scheme, demand, 2048) == length


def test_no_region_is_longer_than_the_model() -> None:
    endless = Demand(1, 1500, 900, (10,))
    assert region_length(Scheme.ORACLE, endless, 2048) == 2048
    assert region_length(Scheme.POW2, endless, 2048) == 2048
    assert region_length(Scheme.POW2, endless, None) == 4096
    with pytest.raises(ValueError, match="positions"):
        region_length(Scheme.MAX, endless, None)


def test_the_slots_of_a_region_are_used_for_later_or_never() -> None:
    held = contiguous(Scheme.POW2, [SHORT, LONG], 8192)
    assert held.regions == (Region(1, 120, 30, 106), Region(2, 300, 213, 511))
    assert (held.used, held.later, held.never, held.reserved) == (420, 243, 617, 1280)
    assert held.admitted == held.requests == 2
    # 6,912 slots are left, and the two take 640 each on average.
    assert held.more == 10


def test_the_oracle_never_wastes() -> None:
    assert contiguous(Scheme.ORACLE, [SHORT, LONG], 8192).never == 0


def test_the_first_that_does_not_fit_stops_the_others() -> None:
    held = contiguous(Scheme.ORACLE, [SHORT, LONG, SHORT], 600)
    assert (held.admitted, held.requests, held.more) == (1, 3, 0)
    assert held.reserved == 150


def test_the_limit_on_sequences_is_not_a_lack_of_memory() -> None:
    held = contiguous(Scheme.ORACLE, [SHORT, SHORT, SHORT], 1000, max_sequences=2)
    assert (held.admitted, held.more) == (2, 4)


def test_every_sample_needs_a_region_of_its_own() -> None:
    four = Demand(1, 100, 50, (110, 110, 110, 110))
    assert contiguous(Scheme.ORACLE, [four], 599).admitted == 0
    held = contiguous(Scheme.ORACLE, [four], 600)
    assert (held.admitted, held.reserved, len(held.regions)) == (1, 600, 4)
    assert contiguous(Scheme.ORACLE, [four], 600, max_sequences=3).admitted == 0


def test_nothing_lives() -> None:
    held = contiguous(Scheme.MAX, [], 8192, max_positions=2048)
    assert (held.admitted, held.requests, held.reserved, held.more) == (0, 0, 0, None)


def test_requests_come_in_the_order_of_arrival_with_the_regions_they_will_need() -> None:
    rows = [
        row(9, 1, n=4, stored_tokens=64),
        row(3, 1, n=4, stored_tokens=120, generated_tokens=20),
        row(3, 2, n=4, stored_tokens=119, generated_tokens=20),
        row(4, 1, beam_width=3, stored_tokens=110, generated_tokens=9),
        row(5, state="waiting"),
    ]
    found = demands(rows)
    assert [demand.request for demand in found] == [3, 4, 5, 9]
    # Two of request 3's four samples have ended; the beams of 4 grow again; 9 has not branched.
    assert [demand.stored for demand in found] == [(120, 119), (110, 0, 0), (0,), (64, 0, 0, 0)]


def test_paging_wastes_only_the_rest_of_last_blocks() -> None:
    fill = np.array([16, 16, 4, 16, 8, 0, 16, 0], np.int32)
    rows = [
        row(1, table=(0, 1, 2), stored_tokens=36, waste_slots=12),
        row(2, table=(3, 4), stored_tokens=24, waste_slots=8),
        row(3, state="waiting"),
        row(4, on_host=True, state="swapped", table=(0,), stored_tokens=16),
    ]
    held = paged(rows, fill, block_size=16, total_blocks=8, used_blocks=5, cached_blocks=1)
    assert held.regions == (Region(1, 36, 0, 12), Region(2, 24, 0, 8))
    assert (held.slots, held.used, held.never, held.cached) == (128, 60, 20, 16)
    assert (held.admitted, held.requests) == (2, 4)
    assert held.more == 1  # 3 blocks are left, and the two take 2.5 each on average


def test_a_shared_block_is_counted_once() -> None:
    fill = np.array([16, 16, 4, 16, 8, 0], np.int32)
    rows = [
        row(2, table=(0, 1, 3, 4), stored_tokens=56, waste_slots=8, shared_blocks=2),
        row(1, table=(0, 1, 2), stored_tokens=36, waste_slots=12, shared_blocks=2),
    ]
    held = paged(rows, fill, block_size=16, total_blocks=6, used_blocks=5, cached_blocks=0)
    assert held.regions == (Region(1, 36, 0, 12), Region(2, 24, 0, 8))
