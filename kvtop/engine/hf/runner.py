"""The runner of a real model: plan in, tokens out."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Any

import torch
from transformers import PreTrainedModel

from kvtop.engine.hf import device_sampling
from kvtop.engine.hf.attention import StepContext, forward
from kvtop.engine.hf.drawing import answers, draw, plan_drawing
from kvtop.engine.hf.errors import TooLong
from kvtop.engine.hf.memory import available_bytes
from kvtop.engine.hf.packing import Packed, pack
from kvtop.engine.hf.pool import KVPool, KVShape
from kvtop.engine.runner import CacheReads, Row, RunnerInfo, Sampled, StepPlan
from kvtop.kernels.dispatch import DTYPE_NAMES, Kernels
from kvtop.kernels.packed import Array, PackedStep
from kvtop.kernels.protocol import Moves
from kvtop.kernels.upload import upload
from kvtop.memory.sizing import blocks_for_budget

Uploaded = Mapping[str, torch.Tensor]

_WARM_UP_TOKENS = 6
_SPLIT_LENGTH = 1024
"""Tokens of a row whose decode is split over programs on any GPU: another compiled variant."""


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
        kernels: Kernels,
    ) -> None:
        self._network = network
        self._tokenizer = tokenizer
        self._tokenizer_lock = threading.Lock()
        self._shape = shape
        self._device = device
        self._kernels = kernels
        self._layers_by_window = Counter(shape.windows)
        self._samples_on_device = device.type != "cpu"
        self.reads: CacheReads | None = None
        self._pool: KVPool | None = None
        config = network.config.get_text_config()
        self.info = RunnerInfo(
            model=name,
            device=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
            dtype=DTYPE_NAMES.get(shape.dtype, str(shape.dtype)),
            attention=kernels.name,
            bytes_per_block=None,
            weight_bytes=weight_bytes,
            max_positions=getattr(config, "max_position_embeddings", None),
            vocabulary=config.vocab_size,
            windows=shape.windows,
            kernels=kernels.kind,
            kernels_note=kernels.note,
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
        """Run a prefill, decodes and moves on blocks of its own, so that no step of a request has to compile.

        Changes nothing that a request sees. Raises RuntimeError if torch's number of threads changed.
        """
        threads = torch.get_num_threads()
        block_size = self._pool.block_size if self._pool else 16
        moves, longest, more = Moves(), _WARM_UP_TOKENS + 1, 0
        if self._device.type == "cuda":
            moves, more = Moves(swaps_out=[(0, 0)], swaps_in=[(0, 0)], copies=[(0, 1)]), 1
            longest = min(_SPLIT_LENGTH, self.info.max_positions or _SPLIT_LENGTH)
        blocks = -(-longest // block_size) + more
        kept, self._pool = self._pool, KVPool(self._shape, blocks, block_size, more, self._device)
        try:
            for start, count in ((0, _WARM_UP_TOKENS), (_WARM_UP_TOKENS, 1), (longest - 1, 1)):
                row = Row(0, None, 0, [0] * count, start, range(blocks), 0, 0)  # type: ignore[arg-type]
                self._forward(pack([row], block_size), moves, {})
            if self._device.type == "cuda":
                torch.cuda.synchronize(self._device)  # its pools go: nothing may still read or write them
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
        self.reads = None
        moves = Moves(plan.swaps_out, plan.swaps_in, plan.copies)
        if not plan.rows:
            self._move(pool, moves, upload(self._kernels.mover.metadata(moves), self._device))
            self._kernels.mover.settle()
            return []
        packed = pack(plan.rows, pool.block_size)
        results = self._compute(plan.rows, packed, moves)
        self.reads = self._reads(packed.step)
        return results

    def _move(self, pool: KVPool, moves: Moves, uploaded: Uploaded) -> None:
        if any(moves):
            self._kernels.mover.run(pool.device_kv, pool.host_kv, moves, uploaded)

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
    def _forward(
        self, packed: Packed, moves: Moves, drawing: Mapping[str, Array]
    ) -> tuple[torch.Tensor, Uploaded]:
        """Logits `[answered rows, vocabulary]`, and all that went to the device for the step in one copy."""
        assert self._pool is not None
        attention, mover = self._kernels.attention, self._kernels.mover
        arrays = {**packed.arrays(), **drawing, **attention.metadata(packed.step), **mover.metadata(moves)}
        uploaded = upload(arrays, self._device)
        self._move(self._pool, moves, uploaded)
        attention.begin(packed.step, uploaded)
        context = StepContext(attention, self._pool.keys, self._pool.values, mover.settle)
        inputs = uploaded["token_ids"][None], uploaded["positions"][None], uploaded["last_tokens"]
        return forward(self._network, context, *inputs), uploaded

    @torch.inference_mode()
    def _compute(self, rows: Seq[Row], packed: Packed, moves: Moves) -> list[Sampled]:
        """One result per row; `()` for rows that nothing is wanted of."""
        answered = [rows[i] for i in packed.answered]
        plan = plan_drawing(answered)
        results = [Sampled(())] * len(rows)
        there = self._samples_on_device
        logits, uploaded = self._forward(packed, moves, device_sampling.metadata(plan) if there else {})
        if not answered:
            return results
        if there:
            drawn = device_sampling.draw(logits, plan, uploaded)
        else:
            drawn = draw(logits.float().numpy(), answered, plan)
        for place, result in zip(packed.answered, answers(answered, plan, drawn), strict=True):
            results[place] = result
        return results

    def _reads(self, step: PackedStep) -> CacheReads:
        """What the layers read through the tables of a step."""
        per_layer = self._shape.bytes_per_token // self._shape.layers
        by_window = {window: step.reads(window) for window in self._layers_by_window}
        widest = max(by_window.values())
        read = sum(number * by_window[window].tokens for window, number in self._layers_by_window.items())
        return CacheReads(read * per_layer, widest.blocks, widest.runs)

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


def _eos_token_ids(network: PreTrainedModel) -> frozenset[int]:
    """The ids that end a sequence, from the generation settings or the configuration; empty when none is."""
    for settings in (network.generation_config, network.config.get_text_config()):
        named = getattr(settings, "eos_token_id", None)
        if named is not None:
            return frozenset(named if isinstance(named, (list, tuple)) else [named])
    return frozenset()
