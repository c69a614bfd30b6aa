"""Random requests and random commands between the steps, checked after every step and command.

Whatever the pool did, the outputs are those of a pool that never fills.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvtop.memory.events import PreemptionMode
from kvtop.scheduling.queues import SchedulerError

SEATS = 6


@st.composite
def requests(draw, make):
    """Three to eight requests within the first steps, with common beginnings, samples and beams."""
    made = []
    for number in range(1, draw(st.integers(3, 8)) + 1):
        prompt = [draw(st.integers(0, 1))] * draw(st.integers(0, 9))
        prompt += [10 * number + i % 3 for i in range(draw(st.integers(1, 8)))]
        kind = draw(st.sampled_from(["one", "one", "samples", "beams", "holds"]))
        fields = {"n": draw(st.integers(2, 4))} if kind == "samples" else {}
        fields |= {"beam_width": draw(st.integers(2, 3))} if kind == "beams" else {}
        fields |= {"hold_at_stored": len(prompt) + draw(st.integers(1, 5))} if kind == "holds" else {}
        new = draw(st.integers(1, 12))
        made.append((draw(st.integers(1, 6)), make(number, prompt, new, **fields)))
    return made


SETTINGS = st.fixed_dictionaries(
    {
        "block_size": st.sampled_from([1, 2, 3, 4, 4, 8]),
        "host_blocks": st.sampled_from([0, 3, 8, 40]),
        "prefix_caching": st.booleans(),
        "preemption": st.sampled_from(list(PreemptionMode)),
        "victim": st.sampled_from(["newest", "newest", "oldest"]),
        "token_budget": st.sampled_from([SEATS, SEATS + 1, 11, 64]),
        "watermark": st.sampled_from([0.0, 0.01, 0.2]),
    }
)


def largest_need(requests_, size):
    """Blocks with which every request can run alone to its end, all samples apart."""
    return max(
        max(r.n, r.beam_width) * -(-(len(r.prompt_token_ids) + r.max_new_tokens) // size)
        for _, r in requests_
    )


class Commands:
    """What a user does between two steps, read from a string of bytes."""

    def __init__(self, code):
        self.code, self.at = code, 0
        self.aborted, self.forked = set(), set()

    def below(self, limit):
        self.at += 1
        return self.code[self.at % len(self.code)] % limit

    def __call__(self, bench):
        scheduler = bench.scheduler
        if not scheduler.groups or self.below(4):
            return
        group = list(scheduler.groups.values())[self.below(len(scheduler.groups))]
        id_, command = group.request.id, self.below(8)
        try:
            if command == 0:
                scheduler.abort(id_)
                self.aborted.add(id_)
                assert not scheduler.abort(id_)
            elif command <= 2:
                scheduler.fork(group.sequences[self.below(len(group.sequences))].id)
                self.forked.add(id_)
            else:
                scheduler.preempt(id_, list(PreemptionMode)[command % 2])
        except SchedulerError:
            assert group.is_beam or group.state.value != "running" or command <= 2


def of_requests(outputs, ids):
    return {name: tokens for name, tokens in outputs.items() if int(name.partition(".")[0]) in ids}


def run_examples(bench, make, examples):
    steps = {"steps": 0, "preemptions": 0, "copies": 0, "evictions": 0, "forks": 0, "hits": 0}

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(requests(make), SETTINGS, st.integers(0, 8), st.binary(min_size=64, max_size=64), st.data())
    def example(requests_, settings_, spare, code, data):
        ends = data.draw(st.sampled_from([0, 0, 8]))
        quiet = bench(requests_, 999, settings_["block_size"], ends=ends, checked=False, max_sequences=99)
        expected = quiet.run()
        blocks = largest_need(requests_, settings_["block_size"]) + spare
        it = bench(requests_, blocks, ends=ends, max_sequences=SEATS, **settings_)
        commands = Commands(code)
        outputs = it.run(commands)
        # A fork has a branch, and so a draw, of its own; it may also make its group outgrow the pool.
        ids = {r.id for _, r in requests_} - commands.aborted - commands.forked
        assert of_requests(outputs, ids) == of_requests(expected, ids)
        for name, tokens in of_requests(expected, commands.forked).items():
            assert outputs.get(name, [])[: len(tokens)] == tokens[: len(outputs.get(name, []))]
        steps["steps"] += it.engine.steps
        steps["preemptions"] += it.scheduler.counts["swap"] + it.scheduler.counts["recompute"]
        steps["copies"] += it.manager.cow_copies
        steps["evictions"] += it.manager.pool.evictions
        steps["forks"] += len(commands.forked)
        steps["hits"] += it.manager.prefix_hits

    example()
    return steps


def test_random_requests_and_commands(bench, make):
    done = run_examples(bench, make, 350)
    assert done["steps"] > 5_000 and min(done.values()) > 40, done


def run_small(bench, make, examples):
    """The same in pools that are too small for some of the requests. Returns how many were cut short."""
    cut = {"cut": 0, "rejected": 0}

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(requests(make), SETTINGS, st.integers(1, 9), st.binary(min_size=64, max_size=64))
    def example(requests_, settings_, blocks, code):
        expected = bench(requests_, 999, settings_["block_size"], checked=False, max_sequences=99).run()
        it = bench(requests_, blocks, max_sequences=SEATS, **settings_)
        commands = Commands(code)
        outputs = it.run(commands)
        beams = {r.id for _, r in requests_ if r.beam_width > 1}
        for name, tokens in of_requests(expected, {r.id for _, r in requests_} - beams).items():
            got = outputs.get(name, [])
            # A sequence that outgrew the pool alone has ended early, with what it should have until then.
            assert got == tokens[: len(got)]
            cut["cut"] += 0 < len(got) < len(tokens)
        cut["rejected"] += it.scheduler.counts["rejected"]

    example()
    return cut


def test_pools_too_small_for_some_requests(bench, make):
    cut = run_small(bench, make, 150)
    assert min(cut.values()) > 50, cut


@pytest.mark.long
def test_many_pools_too_small_for_some_requests(bench, make):
    run_small(bench, make, 10_000)


@pytest.mark.long
def test_many_random_requests_and_commands(bench, make):
    run_examples(bench, make, 20_000)
