"""Measure the model inside: loss on the held-out text, and the quality of texts sampled up to 1,900 tokens.

    OMP_NUM_THREADS=1 python training/evaluate.py

Reads the exported folder with transformers, as everyone else does, and the text of ``corpus.py``. Prints one
JSON object; ``--texts FILE`` also keeps the sampled texts.
"""

from __future__ import annotations

import argparse
import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from corpus import DATA, documents
from quality import WINDOW, known_share, seen_pairs_share, words, worst_repeat
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

SHIPPED = Path(__file__).parent.parent / "kvtop" / "models" / "inside-3m"
QUARTERS = 4


@torch.no_grad()
def token_losses(model: Any, ids: Tensor) -> Tensor:
    """Return the loss of each token of ``ids`` [n] but the first, in nats; the context is what precedes it in
    its window.

    Windows are as long as the model has positions and lie end to end, so that on average half of them is
    context.
    """
    length = model.config.max_position_embeddings
    losses = []
    for start in range(0, len(ids) - 1, length):
        window = ids[start : start + length + 1]
        logits = model(window[None, :-1]).logits[0].float()
        losses.append(F.cross_entropy(logits, window[1:], reduction="none"))
    return torch.cat(losses)


def held_out_losses(model: Any, tokenizer: Any) -> dict[str, dict[str, float]]:
    """Return loss and size of the held-out documents, by source and together.

    Each document begins after an end-of-text token, which is context but not text: the bits are those of its
    bytes alone.
    """
    sums: dict[str, list[float]] = {}
    places: dict[str, list[float]] = {
        "first quarter of the window": [0.0, 0.0],
        "last quarter of the window": [0.0, 0.0],
    }
    length = model.config.max_position_embeddings
    for document in documents(DATA / "packages"):
        if not document.held_out:
            continue
        ids = torch.tensor([tokenizer.bos_token_id, *tokenizer(document.text, verbose=False).input_ids])
        losses = token_losses(model, ids)
        for source in (document.source, "all"):
            total = sums.setdefault(source, [0.0, 0.0, 0.0])
            total[0] += float(losses.sum())
            total[1] += len(losses)
            total[2] += len(document.text.encode("utf-8"))
        # Only whole windows: both ends of them are then measured on the same text.
        whole = losses[: len(losses) // length * length].view(-1, length)
        ends = (whole[:, : length // QUARTERS], whole[:, -length // QUARTERS :])
        for place, part in zip(places.values(), ends, strict=True):
            place[0] += float(part.sum())
            place[1] += part.numel()
    result = {
        source: {
            "nats a token": round(nats / tokens, 4),
            "bits a byte": round(nats / math.log(2) / size, 4),
            "tokens": int(tokens),
            "bytes": int(size),
        }
        for source, (nats, tokens, size) in sums.items()
    }
    result |= {
        name: {"nats a token": round(nats / tokens, 4)} for name, (nats, tokens) in places.items() if tokens
    }
    return result


def sample(
    model: Any, tokenizer: Any, prompt: str, count: int, tokens: int, temperature: float, seed: int
) -> list[list[int]]:
    """Return ``count`` texts of ``tokens`` sampled token ids each, after ``prompt``; the end-of-text token is
    never drawn.
    """
    torch.manual_seed(seed)
    ids = torch.tensor([tokenizer(prompt).input_ids or [tokenizer.bos_token_id]]).repeat(count, 1)
    out = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        min_new_tokens=tokens,
        max_new_tokens=tokens,
        do_sample=True,
        temperature=temperature,
        top_k=0,
        top_p=1.0,
    )
    return out[:, ids.shape[1] :].tolist()


def judge(
    texts: list[list[int]], tokenizer: Any, vocabulary: set[str], pairs: set[tuple[str, str]]
) -> dict[str, Any]:
    """Return the figures of the sampled texts: the worst of each text's repeats, and the shares over all of
    them.
    """
    decoded = [tokenizer.decode(ids) for ids in texts]
    found = [words(text) for text in decoded]
    every = [word for text in found for word in text]
    quarters = []
    for quarter in range(QUARTERS):
        pieces = [
            text[len(text) * quarter // QUARTERS : len(text) * (quarter + 1) // QUARTERS] for text in found
        ]
        quarters.append(
            {
                "words known": round(
                    known_share([word for piece in pieces for word in piece], vocabulary), 4
                ),
                "word pairs seen": round(
                    sum(seen_pairs_share(piece, pairs) for piece in pieces) / len(pieces), 4
                ),
            }
        )
    stretches = [ids[i : i + WINDOW] for ids in texts for i in range(0, len(ids) - WINDOW + 1, WINDOW)]
    unknown = sorted({word for word in every if word not in vocabulary})
    return {
        "texts": len(texts),
        "tokens each": len(texts[0]),
        "words": len(every),
        "words known": round(known_share(every, vocabulary), 4),
        "words known, worst text": round(min(known_share(text, vocabulary) for text in found), 4),
        "worst repeat of 8 tokens in 500": max(worst_repeat(ids) for ids in texts),
        "worst repeat of 8 words in 500": max(worst_repeat(text) for text in found),
        "stretches of 500 tokens": len(stretches),
        "of them with a run of 8 tokens more than 3 times": sum(worst_repeat(ids) > 3 for ids in stretches),
        "by quarter of the text": quarters,
        "unknown words": unknown[:40],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure the model that ships inside.")
    parser.add_argument("--model", type=Path, default=SHIPPED, help="folder of the model")
    parser.add_argument(
        "--prompt", default="", help="what the texts go on from (default: the beginning of a document)"
    )
    parser.add_argument("--count", type=int, default=8, help="texts to sample")
    parser.add_argument("--tokens", type=int, default=1900, help="tokens in each text")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--texts", type=Path, help="file to keep the sampled texts in")
    parser.add_argument("--no-loss", action="store_true", help="leave out the held-out loss")
    arguments = parser.parse_args()

    model = AutoModelForCausalLM.from_pretrained(arguments.model).eval()
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    everything = documents(DATA / "packages")
    train = [words(document.text) for document in everything if not document.held_out]
    held_out = [word for document in everything if document.held_out for word in words(document.text)]
    vocabulary = {word for text in train for word in text}
    pairs = {pair for text in train for pair in pairwise(text)}
    report: dict[str, Any] = {
        "parameters": model.num_parameters(),
        "bytes": sum(file.stat().st_size for file in arguments.model.iterdir()),
        "training words": len(vocabulary),
        # What human text reaches by the same two measures.
        "held-out text": {
            "words known": round(known_share(held_out, vocabulary), 4),
            "word pairs seen": round(seen_pairs_share(held_out, pairs), 4),
        },
    }
    if not arguments.no_loss:
        report["held-out loss"] = held_out_losses(model, tokenizer)
    texts = sample(
        model,
        tokenizer,
        arguments.prompt,
        arguments.count,
        arguments.tokens,
        arguments.temperature,
        arguments.seed,
    )
    report["sampled"] = judge(texts, tokenizer, vocabulary, pairs)
    if arguments.texts:
        arguments.texts.write_text(
            "\n\n=====\n\n".join(tokenizer.decode(ids) for ids in texts) + "\n", encoding="utf-8"
        )
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
