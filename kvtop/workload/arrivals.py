"""Random traffic: when requests arrive, and how long they are.

Uniform numbers come from counter-based generators (Philox) and are turned into times and lengths by closed
formulas here, so a seed gives the same traffic on every machine.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from kvtop.workload.spec import Arrivals, Branching, Lengths

_MASK = (1 << 64) - 1


def mixed_seed(seed: int, counter: int) -> int:
    """Number `counter` of the stream that `seed` names, 0 to 2**63 - 1 (splitmix64)."""
    z = (seed + (counter + 1) * 0x9E3779B97F4A7C15) & _MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK
    return (z ^ z >> 31) >> 1


class Shape(NamedTuple):
    """What a random request looks like, before it has a prompt. Lengths in tokens."""

    prompt_tokens: int
    new_tokens: int
    shared: bool
    """Whether it begins with the shared prefix."""
    n: int
    beam_width: int


class Mix:
    """Draws the shapes of random requests, one after the other."""

    def __init__(self, arrivals: Arrivals, seed: int) -> None:
        self._arrivals = arrivals
        self._random = np.random.Generator(np.random.Philox(seed))

    def draw(self) -> Shape:
        """The next request's shape. Changes the generator by the same amount for every shape."""
        prompt, new, shared, kind, branches = self._random.random(5).tolist()
        mix = self._arrivals
        n = beam_width = 1
        sampled = mix.samples.share if mix.samples else 0.0
        if mix.samples and kind < sampled:
            n = _branches(mix.samples, branches)
        elif mix.beams and kind < sampled + mix.beams.share:
            beam_width = _branches(mix.beams, branches)
        return Shape(
            prompt_tokens=length(mix.prompt_tokens, prompt),
            new_tokens=length(mix.new_tokens, new),
            shared=mix.shared_prefix is not None and shared < mix.shared_share,
            n=n,
            beam_width=beam_width,
        )


class Clock:
    """When random requests arrive: a Poisson process on step time, plus bursts at fixed steps.

    It stands still while `max_unfinished` requests are unfinished, as clients do that wait for an answer
    before they ask again; what is left of a burst then is lost.
    """

    def __init__(self, arrivals: Arrivals, seed: int) -> None:
        self._arrivals = arrivals
        self._random = np.random.Generator(np.random.Philox(seed))
        self._wait = self._gap()
        """Steps until the next arrival."""

    def due(self, step: int, unfinished: int) -> int:
        """How many arrive at `step`. Moves the clock on; called for every step, in order."""
        if self.over(step - 1):
            return 0
        limit = self._arrivals.max_unfinished
        room = math.inf if limit is None else limit - unfinished
        if room <= 0:
            return 0
        self._wait -= 1
        count = 0
        while self._wait <= 0 and count < room:
            count += 1
            self._wait += self._gap()
        self._wait = max(self._wait, 0.0)
        bursts = self._arrivals.bursts
        if bursts and step >= bursts.first and (step - bursts.first) % bursts.every == 0:
            count += bursts.requests
        return int(min(count, room))

    def over(self, step: int) -> bool:
        """Whether nothing arrives after `step`. Changes nothing."""
        return self._arrivals.until_step is not None and step >= self._arrivals.until_step

    def _gap(self) -> float:
        """Steps to the next arrival; never when only bursts arrive."""
        rate = self._arrivals.rate_per_step
        return -math.log1p(-float(self._random.random())) / rate if rate else math.inf


def length(lengths: Lengths, uniform: float) -> int:
    """The length that a uniform number in [0, 1) stands for: minimum + span * uniform ** p.

    p is chosen so that the mean is exact; short ones are common and long ones rare where the mean is low.
    """
    span = lengths.maximum - lengths.minimum
    if lengths.mean <= lengths.minimum:
        return lengths.minimum
    power: float = span / (lengths.mean - lengths.minimum) - 1
    return lengths.minimum + round(span * math.pow(uniform, power))


def _branches(branching: Branching, uniform: float) -> int:
    """2 to the maximum, all equally likely."""
    return 2 + int(uniform * (branching.maximum - 1))
