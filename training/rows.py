"""Attention and loss as torch operators over the C loops of ``rows.c``.

torch's own CPU kernels spend more time on the softmax over attention rows, forward and backward, than on all
matrix products of a step together; here it is one pass over each row. The C file is compiled once for the
processor at hand.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

SOURCE = Path(__file__).with_name("rows.c")
BUILT = Path(__file__).parent / "runs" / "rows.so"
BLOCK = 128  # positions whose rows of the attention matrix are computed together
CACHED = 1 << 20  # scores held at a time, so that they stay in the second-level cache
SLICE = 512  # tokens whose logits are held at a time


def load() -> ctypes.CDLL:
    """Compile ``rows.c`` unless that is done, and load it."""
    if not BUILT.exists() or BUILT.stat().st_mtime < SOURCE.stat().st_mtime:
        BUILT.parent.mkdir(parents=True, exist_ok=True)
        temporary = BUILT.with_suffix(f".{os.getpid()}")
        options = ["-O3", "-march=native", "-ffast-math", "-mprefer-vector-width=512", "-shared", "-fPIC"]
        compiler = os.environ.get("CC", "cc")
        subprocess.run([compiler, *options, str(SOURCE), "-o", str(temporary), "-lmvec", "-lm"], check=True)
        os.replace(temporary, BUILT)
    library = ctypes.CDLL(str(BUILT))
    pointer, number, real = ctypes.c_void_p, ctypes.c_long, ctypes.c_float
    library.attention_weights.argtypes = [pointer, *[number] * 5, real]
    library.attention_gradients.argtypes = [pointer, pointer, *[number] * 5, real]
    library.cross_entropy.argtypes = [pointer, pointer, number, number, real]
    library.cross_entropy.restype = ctypes.c_double
    return library


LIBRARY = load()


def blocks(groups: int, time: int, share: int) -> Iterator[tuple[slice, int, int]]:
    """Yield (groups, first position, end position): pieces of the attention matrices that fit the cache."""
    for start in range(0, time, BLOCK):
        stop = min(start + BLOCK, time)
        several = max(1, CACHED // ((stop - start) * share * stop))
        for group in range(0, groups, several):
            yield slice(group, min(group + several, groups)), start, stop


@torch.library.custom_op("inside::attend", mutates_args=())
def attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Causal attention of q [groups, time, share, width] over k and v [groups, time, width], all contiguous
    bf16.

    A group is a sequence and a key head; ``share`` query heads read the same key head and make one matrix
    product. Returns the output, shaped as q, and the attention weights of all blocks in one flat tensor,
    which the backward pass reads.
    """
    groups, time, share, width = q.shape
    out = torch.empty_like(q)
    pieces = list(blocks(groups, time, share))
    kept = q.new_empty(sum((g.stop - g.start) * (stop - start) * share * stop for g, start, stop in pieces))
    at = 0
    for group, start, stop in pieces:
        count, rows = group.stop - group.start, (stop - start) * share
        weights = kept[at : at + count * rows * stop].view(count, rows, stop)
        at += weights.numel()
        torch.bmm(
            q[group, start:stop].reshape(count, rows, width), k[group, :stop].transpose(1, 2), out=weights
        )
        LIBRARY.attention_weights(weights.data_ptr(), count, rows, stop, share, start, width**-0.5)
        out[group, start:stop] = torch.bmm(weights, v[group, :stop]).view(count, stop - start, share, width)
    return out, kept


@attend.register_fake
def _(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    groups, time, share, _ = q.shape
    return torch.empty_like(q), q.new_empty(
        sum((g.stop - g.start) * (b - a) * share * b for g, a, b in blocks(groups, time, share))
    )


@torch.library.custom_op("inside::attend_backward", mutates_args=())
def attend_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, kept: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of q, k and v from that of the output; ``kept`` is what ``attend`` returned."""
    groups, time, share, width = q.shape
    q_grad = torch.empty_like(q)
    k_grad = torch.zeros(k.shape, dtype=torch.float32)
    v_grad = torch.zeros(v.shape, dtype=torch.float32)
    at = 0
    for group, start, stop in blocks(groups, time, share):
        count, rows = group.stop - group.start, (stop - start) * share
        weights = kept[at : at + count * rows * stop].view(count, rows, stop)
        at += weights.numel()
        out_grad = grad[group, start:stop].reshape(count, rows, width)
        scores = torch.bmm(out_grad, v[group, :stop].transpose(1, 2))
        v_grad[group, :stop] += torch.bmm(weights.transpose(1, 2), out_grad)
        LIBRARY.attention_gradients(
            scores.data_ptr(), weights.data_ptr(), count, rows, stop, share, start, width**-0.5
        )
        q_grad[group, start:stop] = torch.bmm(scores, k[group, :stop]).view(count, stop - start, share, width)
        k_grad[group, :stop] += torch.bmm(
            scores.transpose(1, 2), q[group, start:stop].reshape(count, rows, width)
        )
    return q_grad, k_grad.to(k.dtype), v_grad.to(v.dtype)


@attend_backward.register_fake
def _(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, kept: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs, output[1])


def _backward(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    return attend_backward(grad.contiguous(), *ctx.saved_tensors)


attend.register_autograd(_backward, setup_context=_keep)


class TiedLoss(torch.autograd.Function):
    """Mean cross-entropy of hidden states against tied output embeddings, a slice of tokens at a time.

    The gradients are worked out on the way forward, while a slice's logits lie in the cache: with 4,096
    entries the logits of one batch would be larger than everything else in the step.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, table: Tensor, targets: Tensor) -> Tensor:
        """hidden [n, d] bf16, table [v, d] bf16, targets [n] int64 -> scalar fp32."""
        targets = targets.contiguous()
        count = hidden.shape[0]
        hidden_grad = torch.empty_like(hidden)
        table_grad = torch.zeros(table.shape, dtype=torch.float32)
        total = 0.0
        for start in range(0, count, SLICE):
            part, wanted = hidden[start : start + SLICE], targets[start : start + SLICE]
            logits = part @ table.T
            total += LIBRARY.cross_entropy(logits.data_ptr(), wanted.data_ptr(), *logits.shape, 1.0)
            torch.mm(logits, table, out=hidden_grad[start : start + SLICE])
            table_grad += logits.T @ part
        ctx.save_for_backward(hidden_grad, table_grad)
        return hidden.new_tensor(total / count, dtype=torch.float32)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:  # type: ignore[override]
        """Divide the stored gradients, which are those of the sum, by the number of tokens."""
        hidden_grad, table_grad = ctx.saved_tensors
        factor = grad / hidden_grad.shape[0]
        return hidden_grad * factor.to(hidden_grad.dtype), (table_grad * factor).to(hidden_grad.dtype), None
