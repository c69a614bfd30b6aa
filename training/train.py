"""Train the model inside and write it to the folder that the package ships.

    THP_MEM_ALLOC_ENABLE=1 OMP_NUM_THREADS=1 python training/train.py --minutes 80

The run is planned by the clock: the learning rate and the length of the windows follow the share of
``--minutes`` that has been spent, so that a run on a busy machine still ends with a learning rate of zero.
Every few minutes a checkpoint goes to ``training/runs/NAME/``; the same command continues from it, also with
more minutes than before. The text comes from ``corpus.py``, which must have run first.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from corpus import DATA
from model import Model, Shape, export
from muon import optimizers
from torch import Tensor

HERE = Path(__file__).parent
SHIPPED = HERE.parent / "kvtop" / "models" / "inside-3m"


@dataclass(frozen=True)
class Phase:
    """A part of the run: it lasts until the share ``until`` of the budget is spent, with ``batch`` windows of
    ``length`` from the file ``text``.npy.
    """

    until: float
    batch: int
    length: int
    text: str = "train"


# Short windows first, because attention over them is cheap; long ones last, so that late positions are
# trained too. The very last part leaves the Bible out: its lists of cities and names, taken up at length,
# make a model of this size go round in circles.
PHASES = (
    Phase(0.54, 32, 256),
    Phase(0.70, 16, 512),
    Phase(0.88, 4, 2048),
    Phase(1.0, 4, 2048, "prose"),
)


@dataclass
class State:
    """What a checkpoint holds beside weights and optimizers: how far the run is."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    windows: int = 0
    length: int = 0
    text: str = "train"
    epoch: int = 0


def windows(ids: np.ndarray, length: int, seed: int, epoch: int) -> np.ndarray:
    """Return the starts of one pass over ``ids`` in windows of ``length`` tokens, shuffled, cut at a random
    offset.
    """
    random = np.random.default_rng((seed, length, epoch))
    starts = np.arange(int(random.integers(length)), len(ids) - length - 1, length)
    random.shuffle(starts)
    return starts


def batches(ids: np.ndarray, phase: Phase, seed: int, state: State) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (tokens, targets) of one phase without end, going on where ``state`` stands and moving it
    forward.
    """
    if (state.length, state.text) != (phase.length, phase.text):
        state.length, state.text, state.windows = phase.length, phase.text, 0
    while True:
        starts = windows(ids, phase.length, seed, state.epoch)
        while state.windows + phase.batch <= len(starts):
            chosen = starts[state.windows : state.windows + phase.batch]
            state.windows += phase.batch
            rows = torch.from_numpy(
                np.stack([ids[s : s + phase.length + 1] for s in chosen]).astype(np.int64)
            )
            yield rows[:, :-1], rows[:, 1:]
        state.windows, state.epoch = 0, state.epoch + 1


def rate(progress: float, step: int, warmup: int = 60, flat: float = 0.3) -> float:
    """Return the factor on the learning rates: a short rise, level until ``flat`` of the budget, then
    straight to zero.
    """
    return min(1.0, (step + 1) / warmup) * min(1.0, max(0.0, (1.0 - progress) / (1.0 - flat)))


@torch.no_grad()
def held_out_loss(model: Model, ids: np.ndarray, length: int, tokens: int) -> float:
    """Return the mean loss on the first ``tokens`` of ``ids`` in windows of ``length``, in nats a token."""
    losses = []
    for start in range(0, min(tokens, len(ids) - 1) - length + 1, 8192):
        stop = min(start + 8192, len(ids) - 1)
        stop -= (stop - start) % length
        piece = torch.from_numpy(ids[start : stop + 1].astype(np.int64))
        losses.append(float(model(piece[:-1].view(-1, length), piece[1:].view(-1, length))))
    return sum(losses) / len(losses)


def save(path: Path, model: Model, both: list[torch.optim.Optimizer], state: State) -> None:
    """Write a checkpoint; the one before stays whole until the new one is."""
    temporary = path.with_suffix(".new")
    content = {
        "model": model.state_dict(),
        "optimizers": [o.state_dict() for o in both],
        "state": asdict(state),
    }
    torch.save(content, temporary)
    os.replace(temporary, path)


def train(arguments: argparse.Namespace) -> Model:
    """Run until the minutes are spent; return the trained model."""
    torch.manual_seed(arguments.seed)
    run: Path = HERE / "runs" / arguments.name
    run.mkdir(parents=True, exist_ok=True)
    texts = {name: np.load(DATA / f"{name}.npy") for name in ("train", "prose", "heldout")}
    model, state = Model(Shape()), State()
    both = optimizers(model, arguments.matrix_lr, arguments.other_lr, arguments.decay)
    base = [group["lr"] for optimizer in both for group in optimizer.param_groups]
    checkpoint = run / "checkpoint.pt"
    if checkpoint.exists():
        found = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(found["model"])
        for optimizer, content in zip(both, found["optimizers"], strict=True):
            optimizer.load_state_dict(content)
        state = State(**found["state"])
    if arguments.compile:
        torch._dynamo.config.cache_size_limit = 32  # three lengths, with and without gradients
        for layer in model.layers:
            layer.compile(dynamic=False)

    log = (run / "log.jsonl").open("a", encoding="utf-8")
    budget, already = arguments.minutes * 60, state.seconds
    began = saved = time.monotonic()
    stream: Iterator[tuple[Tensor, Tensor]] | None = None
    phase: Phase | None = None
    recent: list[float] = []
    while state.seconds < budget:
        progress = state.seconds / budget
        due = next(p for p in PHASES if progress < p.until)
        if stream is None or due != phase:
            phase, stream = due, batches(texts[due.text], due, arguments.seed, state)
        factor = rate(progress, state.step)
        for group, lr in zip((g for o in both for g in o.param_groups), base, strict=True):
            group["lr"] = lr * factor
        tokens, targets = next(stream)
        loss = model(tokens, targets)
        loss.backward()
        for optimizer in both:
            optimizer.step()
            optimizer.zero_grad()
        recent.append(loss.item())
        state.step += 1
        state.tokens += tokens.numel()
        state.seconds = already + time.monotonic() - began
        if state.step % arguments.report == 0:
            entry = {
                "step": state.step,
                "tokens": state.tokens,
                "minutes": round(state.seconds / 60, 2),
                "length": phase.length,
                "rate": round(factor, 4),
                "train": round(sum(recent) / len(recent), 4),
                "heldout": round(held_out_loss(model, texts["heldout"], phase.length, 32768), 4),
            }
            log.write(json.dumps(entry) + "\n")
            log.flush()
            print(entry, flush=True)
            recent.clear()
        if time.monotonic() - saved > 240:
            save(checkpoint, model, both, state)
            saved = time.monotonic()
    save(checkpoint, model, both, state)
    return model


def main() -> None:
    """Read the options, train, export."""
    parser = argparse.ArgumentParser(description="Train the model that ships inside.")
    parser.add_argument("--name", default="inside-3m", help="folder of the run under training/runs")
    parser.add_argument(
        "--minutes", type=float, default=80.0, help="time to spend, earlier parts of the run included"
    )
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--matrix-lr", type=float, default=0.02, help="Muon's learning rate")
    parser.add_argument("--other-lr", type=float, default=0.004, help="AdamW's learning rate")
    parser.add_argument("--decay", type=float, default=0.1, help="Muon's weight decay")
    parser.add_argument("--report", type=int, default=200, help="steps between two lines of the log")
    parser.add_argument(
        "--compile", action=argparse.BooleanOptionalAction, default=True, help="use torch.compile"
    )
    parser.add_argument("--out", type=Path, default=SHIPPED, help="folder to export to")
    arguments = parser.parse_args()
    model = train(arguments)
    export(model, DATA / "tokenizer.json", arguments.out)


if __name__ == "__main__":
    main()
