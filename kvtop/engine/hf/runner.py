"""The runner of a real model: plan in, tokens out."""

from __future__ import annotations

import threading
from collections.abc import Sequence as Seq
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from kvtop.engine.hf.attention import StepContext, forward
from kvtop.engine.hf.errors import TooLong
from kvtop.engine.hf.memory import available_bytes
from kvtop.engine.hf.packing import Packed, pack
from kvtop.engine.hf.pool import KVPool, KVShape
from kvtop.engine.hf.sampling import Draws, candidates, greedy, sample
from kvtop.engine.philox import uniforms
from kvtop.engine.runner import Row, RunnerInfo, Sampled, StepPlan
from kvtop.kernels.dispatch import choose
from kvtop.memory.sizing import blocks_for_budget

_DTYPE_NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


class HFRunner:
    """Runs a transformers decoder on paged K/V. Implements `kvtop.engine.runner.Runner`.

    One thread may call `run`; `encode` and `decode` may be called from others meanwhile.
    """

    def __init__(
        self,
        network: PreTrainedModel,
        tokenizer: Any,
        name: str,
        shape: KVShape,
        device: torch.device,
        weight_bytes: int,
    ) -> None:
        self._network = network
        self._tokenizer = tokenizer
        self._tokenizer_lock = threading.Lock()
        self._shape = shape
        self._device = device
        self._attention, attention_name = choose(device, shape.dtype)
        self._pool: KVPool | None = None
        config = network.config.get_text_config()
        self.info = RunnerInfo(
            model=name,
            device=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
            dtype=_DTYPE_NAMES.get(shape.dtype, str(shape.dtype)),
            attention=attention_name,
            bytes_per_block=None,
            weight_bytes=weight_bytes,
            max_positions=getattr(config, "max_position_embeddings", None),
            vocabulary=config.vocab_size,
        )
        self.eos_token_ids = _eos_token_ids(network)

    # -- the K/V pool -------------------------------------------------------------------------------------

    def bytes_per_block(self, block_size: int) -> int:
        """K and V of one block over all layers, in bytes."""
        return self._shape.bytes_per_token * block_size

    def available_bytes(self) -> int:
        """What the device has left for K/V, in bytes, measured now: after the weights, before `allocate`."""
        return available_bytes(self._device)

    def blocks_for(self, budget_bytes: int, block_size: int) -> int:
        """How many blocks fit into a budget. Raises ValueError when not a single one does."""
        return blocks_for_budget(budget_bytes, self.bytes_per_block(block_size))

    def allocate(self, blocks: int, block_size: int, host_blocks: int = 0) -> None:
        """Make the K/V tensors; what an earlier call made is dropped. Needed before `run`."""
        self._pool = None
        self._pool = KVPool(self._shape, blocks, block_size, host_blocks, self._device)
        self.info = self.info._replace(bytes_per_block=self.bytes_per_block(block_size))

    def warm_up(self) -> None:
        """Run a prefill and a decode on blocks of its own, so that no step of a request has to compile.

        Changes nothing that a request sees. Raises RuntimeError if torch's number of threads changed.
        """
        threads = torch.get_num_threads()
        block_size = self._pool.block_size if self._pool else 16
        kept, self._pool = self._pool, KVPool(self._shape, -(-8 // block_size), block_size, 0, self._device)
        try:
            table = range(-(-8 // block_size))
            for start, count in ((0, 6), (6, 1)):
                row = Row(0, None, 0, [0] * count, start, table, 0, 0)  # type: ignore[arg-type]
                self._logits(pack([row], block_size))
        finally:
            self._pool = kept
        if torch.get_num_threads() != threads:
            raise RuntimeError(
                f"warming up changed torch's threads from {threads} to {torch.get_num_threads()}"
            )

    # -- steps --------------------------------------------------------------------------------------------

    def run(self, plan: StepPlan) -> list[Sampled]:
        """Swaps, copies, then the rows of the plan; one result per row. Changes the K/V tensors.

        Raises TooLong, before anything is changed, for a row beyond the model's positions or vocabulary.
        """
        pool = self._pool
        if pool is None:
            raise RuntimeError("allocate() makes the K/V tensors; it comes before run()")
        self._check(plan.rows)
        pool.swap_out(plan.swaps_out)
        pool.swap_in(plan.swaps_in)
        pool.copy(plan.copies)
        if not plan.rows:
            return []
        packed = pack(plan.rows, pool.block_size)
        return self._sampled(plan.rows, packed, self._logits(packed))

    def _check(self, rows: Seq[Row]) -> None:
        limit, vocabulary = self.info.max_positions, self.info.vocabulary
        for row in rows:
            end = row.start + len(row.token_ids)
            if limit is not None and end > limit:
                raise TooLong(f"{self.info.model} takes {limit} tokens; request {row.request.id} has {end}")
            if max(row.token_ids) >= vocabulary or min(row.token_ids) < 0:
                raise TooLong(
                    f"{self.info.model} knows tokens 0 to {vocabulary - 1};"
                    f" request {row.request.id} holds others"
                )

    @torch.inference_mode()
    def _logits(self, packed: Packed) -> torch.Tensor:
        """`[answered rows, vocabulary]` of one forward."""
        assert self._pool is not None
        self._attention.begin(packed.step, self._device)
        context = StepContext(self._attention, self._pool.keys, self._pool.values)
        return forward(
            self._network,
            context,
            torch.from_numpy(packed.token_ids).to(self._device)[None],
            torch.from_numpy(packed.positions).to(self._device)[None],
            torch.from_numpy(packed.last_tokens).to(self._device),
        )

    def _sampled(self, rows: Seq[Row], packed: Packed, logits: torch.Tensor) -> list[Sampled]:
        results = [Sampled(())] * len(rows)
        if not len(packed.answered):
            return results
        answered = [rows[i] for i in packed.answered]
        table = logits.float().cpu().numpy()
        tokens = _draw(answered, table)
        for place, row, drawn, scores in zip(packed.answered, answered, tokens, table, strict=True):
            best = candidates(scores, row.candidates) if row.candidates else ()
            results[place] = Sampled(tuple(drawn), best)
        return results

    # -- text ---------------------------------------------------------------------------------------------

    def encode(self, text: str) -> list[int]:
        """Token ids of a prompt, with what the model expects at its beginning. Changes nothing."""
        with self._tokenizer_lock:
            ids: list[int] = self._tokenizer.encode(text)
        return ids

    def decode(self, token_ids: Seq[int]) -> str:
        """Text of tokens, special ones included, unescaped. Thread-safe."""
        with self._tokenizer_lock:
            text: str = self._tokenizer.decode(list(token_ids), skip_special_tokens=False)
        return text


def _draw(rows: Seq[Row], logits: np.ndarray[Any, np.dtype[np.float32]]) -> list[list[int]]:
    """Each row's `samples` tokens, from its row of `logits`."""
    tokens: list[list[int]] = [[] for _ in rows]
    greedy_rows = [i for i, row in enumerate(rows) if row.samples and row.request.temperature <= 0.0]
    if greedy_rows:
        best = greedy(logits if len(greedy_rows) == len(rows) else logits[greedy_rows])
        for i, token in zip(greedy_rows, best.tolist(), strict=True):
            tokens[i] = [token] * rows[i].samples
    drawn = [
        (i, row, branch)
        for i, row in enumerate(rows)
        if row.request.temperature > 0.0
        for branch in range(row.branch, row.branch + row.samples)
    ]
    if drawn:
        draws = Draws(
            rows=np.array([i for i, _, _ in drawn]),
            temperature=np.array([row.request.temperature for _, row, _ in drawn]),
            top_k=np.array([row.request.top_k for _, row, _ in drawn]),
            top_p=np.array([row.request.top_p for _, row, _ in drawn]),
            uniforms=uniforms(
                [row.request.seed for _, row, _ in drawn],
                [branch for _, _, branch in drawn],
                [row.start + len(row.token_ids) for _, row, _ in drawn],
            ),
        )
        for (i, _, _), token in zip(drawn, sample(logits, draws).tolist(), strict=True):
            tokens[i].append(token)
    return tokens


def _eos_token_ids(network: PreTrainedModel) -> frozenset[int]:
    """The ids that end a sequence, from the generation settings or the configuration; empty when none is."""
    for settings in (network.generation_config, network.config.get_text_config()):
        named = getattr(settings, "eos_token_id", None)
        if named is not None:
            return frozenset(named if isinstance(named, (list, tuple)) else [named])
    return frozenset()
