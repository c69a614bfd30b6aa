"""The optimizer of the training run: Muon for the matrices inside the layers, AdamW for everything else.

Muon takes the momentum of a matrix's gradient and replaces it by the nearest matrix whose rows (or columns)
are orthogonal, so that each step moves all directions of the matrix alike. At this size it needs about half
as many tokens as AdamW.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor, nn


def orthogonalise(stack: Tensor, rounds: int = 5) -> Tensor:
    """Return ``stack`` [n, rows, columns], each matrix with its singular values brought near one.

    Five rounds of a Newton-Schulz iteration whose quintic has a steep start; bf16 suffices, for the singular
    values end up between about 0.7 and 1.2 anyway.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    x = stack.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.transpose(1, 2)
    x = x / (x.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
    for _ in range(rounds):
        gram = torch.bmm(x, x.transpose(1, 2))
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.transpose(1, 2) if tall else x).float()


class Muon(torch.optim.Optimizer):
    """Orthogonalised momentum with decoupled weight decay, for 2-D weights; those of one shape are worked on
    together.
    """

    def __init__(
        self, weights: Iterable[nn.Parameter], lr: float, momentum: float = 0.95, decay: float = 0.1
    ) -> None:
        super().__init__(weights, {"lr": lr, "momentum": momentum, "decay": decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update the weights once from their gradients."""
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
            for weight in group["params"]:
                by_shape[weight.shape].append(weight)
            for (rows, columns), weights in by_shape.items():
                updates = []
                for weight in weights:
                    state = self.state[weight]
                    if not state:
                        state["momentum"] = torch.zeros_like(weight)
                    momentum = state["momentum"].lerp_(weight.grad, 1 - group["momentum"])
                    updates.append(weight.grad.lerp(momentum, group["momentum"]))
                moves = orthogonalise(torch.stack(updates))
                # A tall matrix adds to more outputs than it has inputs; without the factor their changes
                # would be too small.
                scale = group["lr"] * max(1.0, rows / columns) ** 0.5
                for weight, move in zip(weights, moves, strict=True):
                    weight.mul_(1 - group["lr"] * group["decay"]).add_(move, alpha=-scale)


def optimizers(
    model: nn.Module, matrix_lr: float, other_lr: float, decay: float
) -> list[torch.optim.Optimizer]:
    """Return the two optimizers of ``model``: Muon for the matrices of the layers, AdamW for the embedding
    and the norms.
    """
    matrices = [
        weight for name, weight in model.named_parameters() if weight.ndim == 2 and name != "embedding"
    ]
    others = [weight for name, weight in model.named_parameters() if weight.ndim != 2 or name == "embedding"]
    return [
        Muon(matrices, lr=matrix_lr, decay=decay),
        torch.optim.AdamW(others, lr=other_lr, betas=(0.9, 0.95), eps=1e-10, weight_decay=0.01),
    ]
