"""The workload that a scenario describes: its requests at their steps, and its random arrivals."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

from kvtop.workload.arrivals import Clock, Mix, mixed_seed
from kvtop.workload.factory import RequestFactory
from kvtop.workload.prompts import Encode, PromptSource
from kvtop.workload.request import Request
from kvtop.workload.spec import RequestSpec, Scenario, hold_problem

_PROMPTS, _CLOCK, _MIX = ((1 << 32) + i for i in (1, 2, 3))
"""Counters of the seeds of the parts: no request's id."""


class ScenarioWorkload:
    """A `Workload`: requests 1, 2, 3 ... in order of arrival; in one step the file's come before random ones.

    Prompts of the file's requests are made here, so what only a tokenizer can tell (a shared prefix longer
    than its prompt, a prompt longer than the model) raises ScenarioError now, not in the middle of the run.
    `max_positions` is the longest sequence that the model takes, in tokens; None when nothing limits it.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        encode: Encode,
        block_size: int,
        max_positions: int | None = None,
        seed: int = 0,
    ) -> None:
        self.scenario = scenario
        prompts = PromptSource(encode, block_size, mixed_seed(seed, _PROMPTS))
        arrivals = scenario.arrivals
        self.factory = RequestFactory(prompts, seed=seed, max_positions=max_positions, mix=arrivals)
        """For requests by hand: shares ids and prompts with the scenario's own."""
        self._due: dict[int, deque[tuple[RequestSpec, tuple[int, ...]]]] = defaultdict(deque)
        for spec in scenario.requests:
            self._due[spec.at_step].append((spec, self._prompt(spec)))
        self._clock = Clock(arrivals, mixed_seed(seed, _CLOCK)) if arrivals else None
        self._mix = Mix(arrivals, mixed_seed(seed, _MIX)) if arrivals else None
        self._last_step = max(self._due, default=0)
        self._holding = sum(spec.hold_at_stored is not None for spec in scenario.requests)

    @property
    def holding_requests(self) -> int:
        """How many requests, past and to come, have `hold_at_stored` set."""
        return self._holding

    @property
    def endless(self) -> bool:
        """Whether arrivals go on for ever."""
        return self.scenario.endless

    def exhausted(self, step: int) -> bool:
        """Whether nothing will arrive after `step`. Changes nothing."""
        return step >= self._last_step and (self._clock is None or self._clock.over(step))

    def arrivals(self, step: int, unfinished: int) -> Sequence[Request]:
        """The requests that arrive at `step`, in order. Called once for every step from 1, in order.

        `unfinished` requests wait, run or are swapped out; `max_unfinished` of `[arrivals]` looks at it.
        """
        requests = [self._made(spec, prompt) for spec, prompt in self._due.pop(step, ())]
        if self._clock is not None and self._mix is not None:
            due = self._clock.due(step, unfinished + len(requests))
            requests += [self.factory.shaped(self._mix.draw()) for _ in range(due)]
        return requests

    def _made(self, spec: RequestSpec, prompt: tuple[int, ...]) -> Request:
        return self.factory.make(
            prompt,
            max_new_tokens=spec.max_new_tokens,
            n=spec.n,
            beam_width=spec.beam_width,
            temperature=spec.temperature,
            seed=spec.seed,
            ignore_eos=spec.ignore_eos,
            hold_at_stored=spec.hold_at_stored,
            abort_at_step=spec.abort_at_step,
        )

    def _prompt(self, spec: RequestSpec) -> tuple[int, ...]:
        """A request's prompt. Raises ScenarioError when its tokens contradict what else it says."""
        prompts, tokens = self.factory.prompts, spec.prompt_tokens
        prefix = () if spec.shared_prefix is None else prompts.preface(spec.shared_prefix)
        if tokens is not None and len(prefix) > tokens:
            what = f"is {len(prefix):,} tokens, longer than the prompt, {tokens:,} tokens"
            raise self.scenario.error(spec.lines, "request.shared_prefix", what)
        if spec.prompt is not None:
            ids = prompts.text_after(prefix, spec.prompt)
            prompts.reserve(ids)
        else:
            assert tokens is not None
            ids = prompts.after(prefix, tokens) if prefix else prompts.prompt(tokens)
        self._check(spec, len(ids))
        return ids

    def _check(self, spec: RequestSpec, tokens: int) -> None:
        """Raises ScenarioError when a prompt of so many tokens is too long, or could never hold."""
        positions = self.factory.max_positions
        key = "request.prompt" if spec.prompt is not None else "request.prompt_tokens"
        problem = self.factory.problem(tokens)
        if problem:
            raise self.scenario.error(spec.lines, key, problem)
        problem = hold_problem(spec, tokens)
        if problem is None and positions is not None and (spec.hold_at_stored or 0) > positions - 2:
            problem = f"is never reached: the model's {positions:,} positions end a sequence before it"
        if problem:
            raise self.scenario.error(spec.lines, "request.hold_at_stored", problem)
