"""What a sampled text is measured by: are its words real, and does it go round in circles. Pure functions, no
torch.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from itertools import pairwise

WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")
GRAM = 8
WINDOW = 500


def words(text: str) -> list[str]:
    """Return the words of ``text`` in lower case: letters, with apostrophes inside. Numbers and marks are no
    words.
    """
    return WORD.findall(text.lower())


def known_share(found: Sequence[str], vocabulary: Collection[str]) -> float:
    """Return the share of ``found`` that is in ``vocabulary``; 1.0 when nothing was found."""
    return sum(word in vocabulary for word in found) / len(found) if found else 1.0


def seen_pairs_share(found: Sequence[str], pairs: Collection[tuple[str, str]]) -> float:
    """Return the share of neighbouring words in ``found`` that are neighbours somewhere in ``pairs``."""
    neighbours = list(pairwise(found))
    return sum(pair in pairs for pair in neighbours) / len(neighbours) if neighbours else 1.0


def worst_repeat(items: Sequence[Hashable], gram: int = GRAM, window: int = WINDOW) -> int:
    """Return how often the most repeated run of ``gram`` items occurs within any ``window`` consecutive
    items.
    """
    runs = [tuple(items[i : i + gram]) for i in range(len(items) - gram + 1)]
    per_window = max(window - gram + 1, 1)
    counts: Counter[tuple[Hashable, ...]] = Counter()
    worst = 0
    for index, run in enumerate(runs):
        counts[run] += 1
        if index >= per_window:
            counts[runs[index - per_window]] -= 1
        worst = max(worst, counts[run])
    return worst
