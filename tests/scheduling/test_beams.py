"""Beam search against a plain search over all continuations, on models that are small tables."""

from __future__ import annotations

import itertools
import random

import pytest

from kvtop.memory import events as ev
from kvtop.memory.events import FinishReason, PreemptionMode

END = 0


class TableModel:
    """Log-probabilities of the next token (0 to `vocabulary - 1`) for every text that was read so far."""

    def __init__(self, vocabulary, seed):
        self.vocabulary, self.seed = vocabulary, seed

    def scores(self, number):
        """The scores behind what the K/V memory says was read: no two alike."""
        generator = random.Random(number * 31 + self.seed)
        return [-generator.uniform(0.1, 3.0) for _ in range(self.vocabulary)]

    def candidates(self, number, width):
        scored = list(enumerate(self.scores(number)))
        return sorted(scored, key=lambda pair: (-pair[1], pair[0]))[:width]


def number_of(tokens):
    """What the simulated K/V memory of `conftest.Memory` holds at the last of `tokens`."""
    number = 7
    for token in tokens:
        number = (number * 1_000_003 + token + 1) % (1 << 61)
    return number


def plain_search(model, prompt, width, new, end=()):
    """Beam search over whole token lists: (mean log-probability, tokens), best first."""
    live, done = [(0.0, ())], []
    for length in range(1, new + 1):
        grown = [
            (score + more, place, token, (*tokens, token))
            for place, (score, tokens) in enumerate(live)
            for token, more in enumerate(model.scores(number_of([*prompt, *tokens])))
        ]
        grown.sort(key=lambda item: (-item[0], item[1], item[2]))
        survivors = []
        for score, _, token, tokens in grown:
            if len(survivors) == width:
                break
            if token in end:
                done.append((score / length, tokens))
            else:
                survivors.append((score, tokens))
        live = survivors
        if not live or length == new:
            break
        best = sorted((score for score, _ in done), reverse=True)[:width]
        if len(best) == width and best[-1] >= max(score / length for score, _ in live):
            return sorted(done, reverse=True)[:width]
    done += [(score / length, tokens) for score, tokens in live]
    return sorted(done, reverse=True)[:width]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("end", [(), (END,)])
@pytest.mark.parametrize("width", [2, 3, 4])
@pytest.mark.parametrize("vocabulary", [4, 5])
def test_against_a_search_over_whole_texts(run, vocabulary, width, end, seed):
    model = TableModel(vocabulary, seed)
    it = run(40, eos=end, beams=model.candidates)
    prompt = [1, 2, 3, 1, 2]
    group = it.add(prompt, new=7, beam_width=width)
    it.run()
    expected = plain_search(model, prompt, width, 7, end)
    assert [tuple(tokens) for tokens in it.outputs.values()] == [tokens for _, tokens in expected]
    assert [h.score for h in group.hypotheses] == pytest.approx([score for score, _ in expected])


@pytest.mark.parametrize("seed", range(4))
def test_wide_enough_it_finds_the_best_of_all_texts(run, seed):
    """With as many beams as there are beginnings, nothing is ever lost: the best of all 2**4 texts."""
    model = TableModel(2, seed)
    it = run(100, beams=model.candidates, max_sequences=8)
    group = it.add([1], new=4, beam_width=8)
    it.run()

    def score(tokens):
        return sum(model.scores(number_of([1, *tokens[:i]]))[token] for i, token in enumerate(tokens)) / 4

    ranked = sorted(itertools.product(range(2), repeat=4), key=score, reverse=True)
    assert [h.token_ids for h in group.hypotheses] == ranked[:8]


def test_survivors_are_forked_before_losers_are_freed(run):
    """The order of events in a step in which one beam has two heirs and another none."""

    def candidates(number, width):
        if number == number_of([5]):
            return [(1, -0.1), (2, -1.0)]
        return [(3, -0.1), (4, -0.2)] if number == number_of([5, 1]) else [(1, -9.0), (2, -9.5)]

    it = run(8, beams=candidates)
    it.add([5], new=3, beam_width=2)
    it.step()
    heard = len(it.events)
    it.step()
    names = [
        k
        for k in it.kinds(heard)
        if k in ("Forked", "Released", "Freed", "SequenceEnded", "Allocated", "Copied")
    ]
    assert names == ["Copied", "Forked", "Released", "Freed", "SequenceEnded"]
    assert it.of(ev.SequenceEnded)[-1].why == "pruned"
    assert [e.token_ids for e in it.events[heard:] if isinstance(e, ev.Advanced) and e.token_ids] == [
        (3,),
        (4,),
    ]
    it.run()
    assert next(iter(it.outputs.values()))[:2] == [1, 3]


def test_a_search_whose_continuations_all_end_gives_its_hypotheses(run):
    """Every continuation is an end token: no beam is left, and the texts are still the result."""
    it = run(8, eos=[1, 2], beams=lambda number, width: [(1, -0.5), (2, -0.7)])
    group = it.add([5, 6], new=9, beam_width=2)
    outputs = it.run()
    assert outputs == {"1.1": [1], "1.2": [2]}
    assert [h.reason for h in group.hypotheses] == [FinishReason.STOP] * 2
    assert it.of(ev.Finished)[0].reason is FinishReason.STOP


def test_beams_keep_their_seats_while_end_tokens_thin_them_out(run):
    """A search of four has one live beam after its first step; it grows again, so nobody takes its seats."""

    def candidates(number, width):
        if number == number_of([5]):
            return [(9, -0.1), (8, -0.2), (7, -0.3), (1, -0.4)]
        return [(2, -0.1), (3, -0.2), (4, -0.3), (6, -0.4)]

    it = run(64, eos=[7, 8, 9], beams=candidates, max_sequences=4, token_budget=4)
    beams = it.add([5], new=5, beam_width=4)
    it.step()
    assert len(beams.sequences) == 1
    for _ in range(3):
        it.add(1, new=9)
    it.step()
    it.step()
    # `Run.step` asserts that no more than `max_sequences` run, and no more than the budget is spent.
    assert len(beams.sequences) == 4 and it.running() == [1]
    it.run()


@pytest.mark.parametrize("blocks", [6, 9])
def test_a_search_that_outgrows_the_pool_alone_ends_with_what_it_has(run, blocks):
    it = run(blocks)
    group = it.add(6, new=40, beam_width=3)
    it.run()
    assert len(group.hypotheses) == 3 and all(h.reason is FinishReason.LENGTH for h in group.hypotheses)
    lengths = {len(h.token_ids) for h in group.hypotheses}
    assert len(lengths) == 1 and 1 <= lengths.pop() < 40


def test_positions_of_the_model_end_a_search(run):
    it = run(64, max_positions=12)
    it.add(6, new=40, beam_width=3)
    it.run()
    assert [len(tokens) for tokens in it.outputs.values()] == [6, 6, 6]


@pytest.mark.parametrize("mode", list(PreemptionMode))
@pytest.mark.parametrize("blocks", [9, 11, 14])
def test_two_searches_in_a_pool_for_one_and_a_half_give_what_each_gives_alone(run, blocks, mode):
    expected = {}
    for number in (1, 2):
        quiet = run(99)
        quiet.made = number - 1
        quiet.add(6, new=6, beam_width=3)
        expected |= quiet.run()
    it = run(blocks, host_blocks=12, preemption=mode)
    for _ in range(2):
        it.add(6, new=6, beam_width=3)
    assert it.run() == expected
    assert blocks > 11 or it.of(ev.Preempted)
