"""Makes requests: the next id, a prompt, a seed, lengths that the model has positions for."""

from __future__ import annotations

from typing import Any

from kvtop.workload.arrivals import Mix, Shape, mixed_seed
from kvtop.workload.prompts import PromptSource
from kvtop.workload.request import Request
from kvtop.workload.spec import Arrivals, Lengths

EVERYDAY = Arrivals(
    rate_per_step=0.0,
    prompt_tokens=Lengths(mean=160, maximum=640, minimum=32),
    new_tokens=Lengths(mean=120, maximum=400, minimum=32),
)
"""What a burst is made of where the scenario has no `[arrivals]`."""

_BURST_STREAM = 1 << 32
"""Counter of the seed of bursts by hand: no request's id, so that they change no other request's seed."""


class RequestFactory:
    """Requests numbered 1, 2, 3 ... in the order in which they are made. One run, the engine's thread.

    `max_positions` is the longest sequence that the model takes, in tokens; None when nothing limits it.
    """

    def __init__(
        self, prompts: PromptSource, *, seed: int, max_positions: int | None, mix: Arrivals | None = None
    ) -> None:
        self.prompts = prompts
        self.max_positions = max_positions
        self._seed = seed
        self._mix = mix or EVERYDAY
        self._burst = Mix(self._mix, mixed_seed(seed, _BURST_STREAM))
        shared = self._mix.shared_prefix
        self._preface = None if shared is None else prompts.preface(shared)
        self._made = 0

    def request(
        self,
        prompt: str | None = None,
        *,
        prompt_tokens: int = 128,
        max_new_tokens: int = 128,
        n: int = 1,
        beam_width: int = 1,
        temperature: float = 0.7,
        seed: int | None = None,
        label: str = "",
    ) -> Request:
        """The next request: a prompt of its own text, or of `prompt_tokens` of the built-in text.

        A drawn prompt is cut to leave the model a position for one new token, and new tokens to the positions
        left. Raises ValueError, and makes nothing, when the text is empty or longer than the model takes.
        """
        if prompt is None:
            room = prompt_tokens if self.max_positions is None else self.max_positions - 1
            ids = self.prompts.prompt(max(1, min(prompt_tokens, room)))
        else:
            ids = self.prompts.encode(prompt)
            self.prompts.reserve(ids)
        return self.make(
            ids,
            max_new_tokens=max_new_tokens,
            n=n,
            beam_width=beam_width,
            temperature=temperature,
            seed=seed,
            label=label,
        )

    def burst(self, requests: int) -> list[Request]:
        """Varied requests at once, as the scenario's arrivals (or everyday ones) would have them."""
        return [self.shaped(self._burst.draw()) for _ in range(requests)]

    def shaped(self, shape: Shape) -> Request:
        """The next request, of this shape; shorter where the model has not the positions for it."""
        prompt, new = shape.prompt_tokens, shape.new_tokens
        preface = self._preface if shape.shared else None
        if preface is not None:
            prompt = max(prompt, len(preface) + 1)
        if self.max_positions is not None:
            new = min(new, max(1, self.max_positions // 2))
            prompt = min(prompt, self.max_positions - new)
        return self.make(
            self.prompts.prompt(prompt) if preface is None else self.prompts.after(preface, prompt),
            max_new_tokens=new,
            n=shape.n,
            beam_width=shape.beam_width,
            temperature=self._mix.temperature,
            ignore_eos=self._mix.ignore_eos,
        )

    def make(
        self,
        prompt_token_ids: tuple[int, ...],
        *,
        max_new_tokens: int,
        beam_width: int = 1,
        temperature: float = 0.7,
        seed: int | None = None,
        **fields: Any,
    ) -> Request:
        """The next request with these tokens and other `fields` of Request. Beams are not sampled.

        Raises ValueError, and makes nothing, when the prompt is empty or leaves no position for a new token.
        """
        problem = self.problem(len(prompt_token_ids))
        if problem:
            raise ValueError(problem)
        if self.max_positions is not None:
            max_new_tokens = min(max_new_tokens, self.max_positions - len(prompt_token_ids))
        self._made += 1
        return Request(
            id=self._made,
            prompt_token_ids=prompt_token_ids,
            max_new_tokens=max_new_tokens,
            beam_width=beam_width,
            temperature=0.0 if beam_width > 1 else temperature,
            seed=mixed_seed(self._seed, self._made) if seed is None else seed,
            **fields,
        )

    def problem(self, prompt_tokens: int) -> str | None:
        """What is wrong with a prompt of so many tokens, or None. Changes nothing."""
        if not prompt_tokens:
            return "the prompt has no tokens"
        if self.max_positions is None or prompt_tokens < self.max_positions:
            return None
        positions = f"{self.max_positions:,} positions"
        return f"the prompt's {prompt_tokens:,} tokens leave no room in the model's {positions}"
