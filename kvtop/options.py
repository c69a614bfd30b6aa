"""What a person asks of a run, checked as far as that goes without a model. Imports nothing heavy: the first
frame waits for it."""

from __future__ import annotations

from dataclasses import dataclass


class UsageError(Exception):
    """Wrong options or input; the message is one line that names the remedy. Exit code 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the command line asks for; None where it is silent. Memory in bytes."""

    model: str = "inside"
    device: str = "auto"
    dtype: str | None = None
    kernels: str = "auto"
    blocks: int | None = None
    kv_memory: int | None = None
    memory_utilization: float | None = None
    block_size: int | None = None
    host_blocks: int | None = None
    preemption: str | None = None
    victim: str | None = None
    max_sequences: int | None = None
    token_budget: int | None = None
    watermark: float | None = None
    prefix_caching: bool = True
    seed: int = 0
    check: bool = False
    keep_outputs: bool = False

    def __post_init__(self) -> None:
        named = {
            "--blocks": self.blocks,
            "--kv-memory": self.kv_memory,
            "--memory-utilization": self.memory_utilization,
        }
        given = [name for name, value in named.items() if value is not None]
        if len(given) > 1:
            both = "both" if len(given) == 2 else "all"
            raise UsageError(f"{' and '.join(given)} {both} set the size of the pool: give one of them")
        if self.model == "none" and given and given != ["--blocks"]:
            raise UsageError(
                f"{given[0]} needs a model to know a block's bytes: give --blocks with --model none"
            )
        if self.model == "none" and self.kernels != "auto":
            raise UsageError("--kernels needs a model: --model none computes no attention")
