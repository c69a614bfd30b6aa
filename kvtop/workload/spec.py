"""What a scenario says, as frozen values: settings, requests and arrivals.

Every value was checked when its file was read (`kvtop.workload.scenario`), so nothing here checks again.
What the file leaves out is None where the command line or a default decides, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


class ScenarioError(ValueError):
    """A scenario that cannot be read or run. Its text is one line: file, line, key, what is wrong."""


def printable(text: str) -> str:
    """`text` on one line, with whatever a terminal could obey made visible (`\\x1b`, `\\n`, `\\u202e`)."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """`[pool]`: sizes in blocks and tokens. None leaves the choice to the command line."""

    blocks: int | None = None
    block_size: int | None = None
    """Tokens a block."""
    host_blocks: int | None = None
    preemption: str | None = None
    """`recompute` or `swap`."""


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """`[scheduler]`. None leaves the choice to the command line."""

    max_sequences: int | None = None
    token_budget: int | None = None
    """Tokens computed in a step at most."""
    watermark: float | None = None
    """Share of the pool that admission keeps free, 0 up to (not including) 1."""
    victim: str | None = None
    """`newest` or `oldest`."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long prompts or answers are, in tokens: from `minimum` to `maximum`, `mean` on average."""

    mean: float
    maximum: int
    minimum: int = 1


@dataclass(frozen=True, slots=True)
class Branching:
    """`share` of the requests branch, each into 2 to `maximum` samples (or beams), all equally likely."""

    share: float
    maximum: int


@dataclass(frozen=True, slots=True)
class Bursts:
    """`requests` at once at step `first` and every `every` steps after it."""

    every: int
    requests: int
    first: int


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """One `[[request]]`. Steps are engine steps (the first is 1), lengths are tokens."""

    at_step: int = 1
    prompt: str | None = None
    """The prompt's own text, after the shared prefix if there is one. Exclusive with `prompt_tokens`."""
    prompt_tokens: int | None = None
    """Length of the whole prompt, drawn from the built-in text."""
    shared_prefix: int | str | None = None
    """The first so many tokens of the built-in text, or a text, at the prompt's beginning."""
    n: int = 1
    beam_width: int = 1
    max_new_tokens: int = 128
    hold_at_stored: int | None = None
    ignore_eos: bool = False
    temperature: float = 0.7
    seed: int | None = None
    """None derives it from the run's seed and the request's id."""
    abort_at_step: int | None = None
    lines: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)
    """Line of each key that the file gives; `""` is the table's own."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """`[arrivals]`: requests drawn at random, for ever or up to and including `until_step`."""

    rate_per_step: float
    """Arrivals a step on average, apart from bursts."""
    prompt_tokens: Lengths
    new_tokens: Lengths
    shared_prefix: int | str | None = None
    shared_share: float = 1.0
    """Share of the requests that begin with `shared_prefix`."""
    samples: Branching | None = None
    """`n`: parallel samples."""
    beams: Branching | None = None
    """`beam_width`."""
    bursts: Bursts | None = None
    temperature: float = 0.7
    ignore_eos: bool = False
    max_unfinished: int | None = None
    """Nothing arrives while so many requests are unfinished."""
    until_step: int | None = None
    lines: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A whole scenario file. `name` and `caption` are text from outside: data, never markup."""

    name: str
    caption: str
    pool: PoolSettings
    scheduler: SchedulerSettings
    requests: tuple[RequestSpec, ...]
    """In the order of the file."""
    arrivals: Arrivals | None
    source: str
    """The file, as errors name it."""

    @property
    def endless(self) -> bool:
        """Whether its arrivals never stop."""
        return self.arrivals is not None and self.arrivals.until_step is None

    def error(self, lines: Mapping[str, int], key: str, what: str) -> ScenarioError:
        """The error to raise about `key` (`request.n`) of a table with these `lines`. Changes nothing."""
        line = lines.get(key.rpartition(".")[2], lines.get(""))
        place = printable(self.source) + (f":{line}" if line else "")
        return ScenarioError(f"{place}: {key}: {printable(what)}")


def hold_problem(spec: RequestSpec, prompt_tokens: int) -> str | None:
    """What is wrong with a request's `hold_at_stored` for a prompt of `prompt_tokens`, or None.

    When the k-th new token comes out, `prompt_tokens + k - 1` tokens are stored. A sequence ends as its last
    one comes out, so it can hold at `prompt_tokens` to `prompt_tokens + max_new_tokens - 2` stored tokens.
    """
    most = prompt_tokens + spec.max_new_tokens - 2
    if spec.hold_at_stored is None or prompt_tokens <= spec.hold_at_stored <= most:
        return None
    if most < prompt_tokens:
        return "is never reached: with one new token the sequence ends as its prompt is stored"
    range_ = f"{most:,}" if most == prompt_tokens else f"{prompt_tokens:,} to {most:,}"
    return f"must be {range_}: from the prompt's length to where the last new token but one is stored"
