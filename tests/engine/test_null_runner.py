"""Scripted tokens: what they hang on, and what they do not."""

from __future__ import annotations

from kvtop.engine.null_runner import NullRunner
from kvtop.engine.runner import Row, StepPlan


def drawn(make, seed, branch, positions=range(1, 41)):
    request = make(1, [1], seed=seed)
    rows = [Row(1 << 16 | branch, request, branch, [1], at - 1, [0], 1, 0) for at in positions]
    return [result.token_ids[0] for result in NullRunner().run(StepPlan(rows=rows))]


def test_another_seed_or_branch_writes_another_text(make):
    texts = [drawn(make, seed, branch) for seed in (1, 2) for branch in (0, 1, 2)]
    assert len({tuple(text) for text in texts}) == 6
    assert drawn(make, 2, 1) == texts[4]


def test_a_later_position_is_another_draw(make):
    assert drawn(make, 1, 0, range(2, 42)) == [*drawn(make, 1, 0)[1:], drawn(make, 1, 0, [41])[0]]


def test_text_and_bytes():
    runner = NullRunner()
    assert runner.decode(runner.encode("Zwölf Blöcke\n")) == "Zwölf Blöcke\n"
    assert runner.decode([0x61, 300, 0xFF, 0x62]) == "a\N{REPLACEMENT CHARACTER}b"
    assert runner.eos_token_ids == frozenset() and runner.info.bytes_per_block is None
    assert runner.run(StepPlan()) == []
