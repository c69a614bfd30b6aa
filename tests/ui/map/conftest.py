"""A pool of ten blocks for the tests of the map."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.ui.map.parts import columns, row


@pytest.fixture
def snapshot(session):
    """Two sequences in ten blocks: 0-2 of the first, 2-4 of the second, 5 and 6 cached."""
    some = columns([2, 2, 3, 2, 2, 1, 1, 0, 0, 0], [1, 1, 2, 1, 1, 0, 0, 0, 0, 0], [16] * 4 + [7] + [16] * 5)
    some = dataclasses.replace(some, owner=np.array([0, 0, 0, 1, 1, -1, -1, -1, -1, -1], np.int32))
    rows = (row(1, [0, 1, 2]), row(2, [2, 3, 4]))
    return dataclasses.replace(session.published, blocks=some, sequences=rows, step=9, flashes=())
