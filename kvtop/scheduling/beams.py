"""Beam search over shared blocks: survivors are forked before losers are freed.

A step keeps the `beam_width` likeliest continuations over all beams. One that goes on from a beam stays in
its blocks; further ones fork it, which copies nothing until they write (SOSP'23, figure 9). Beams that
reach an end token leave as hypotheses, ranked by their mean log-probability a generated token.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import TYPE_CHECKING, NamedTuple

from kvtop.memory.events import FinishReason
from kvtop.scheduling.sequence import Hypothesis, Sequence, SequenceGroup

if TYPE_CHECKING:
    from kvtop.scheduling.scheduler import Scheduler

PRUNED = "pruned"


class Continuation(NamedTuple):
    """One beam with one more token."""

    score: float
    parent: Sequence
    token: int


def search_step(
    scheduler: Scheduler,
    group: SequenceGroup,
    results: Seq[tuple[Sequence, Seq[tuple[int, float]]]],
) -> None:
    """Replace a group's beams by their best continuations, given each beam's likeliest next tokens.

    Changes the group's sequences and the memory; finishes the group when no beam can do better than the
    hypotheses it has.
    """
    width = group.request.beam_width
    survivors: list[Continuation] = []
    for continuation in _ranked(results):
        if len(survivors) == width:
            break
        reason = _end_token(scheduler, group, continuation.token)
        if reason is None:
            survivors.append(continuation)
        else:
            _add_hypothesis(group, continuation, reason)
    if survivors:
        _replace_beams(scheduler, group, survivors)
    if not survivors or _is_done(scheduler, group):
        finish(scheduler, group, FinishReason.STOP)


def finish(scheduler: Scheduler, group: SequenceGroup, reason: FinishReason) -> None:
    """End a beam search: beams at their length become hypotheses, the best `beam_width` stay."""
    for sequence in group.sequences:
        if sequence.generated and (reason is FinishReason.LENGTH or _at_limit(scheduler, group, sequence)):
            generated = tuple(sequence.table.tokens[sequence.prompt_length :])
            score = sequence.score / sequence.generated
            group.hypotheses.append(Hypothesis(generated, score, FinishReason.LENGTH))
    group.hypotheses.sort(key=lambda hypothesis: -hypothesis.score)
    del group.hypotheses[group.request.beam_width :]
    best = group.hypotheses[0].reason if group.hypotheses else reason
    for sequence in reversed(list(group.sequences)):
        scheduler.drop(group, sequence, best.value)
        sequence.finish_reason = best
        scheduler.ended.append((group, sequence))
    scheduler.finish(group, best)


def _ranked(results: Seq[tuple[Sequence, Seq[tuple[int, float]]]]) -> list[Continuation]:
    """All continuations, likeliest first; ties to the earlier beam, then to the smaller token."""
    ranked = [
        (-(parent.score + log_probability), place, token, parent)
        for place, (parent, candidates) in enumerate(results)
        for token, log_probability in candidates
    ]
    ranked.sort(key=lambda item: item[:3])
    return [Continuation(-negative, parent, token) for negative, _, token, parent in ranked]


def _end_token(scheduler: Scheduler, group: SequenceGroup, token: int) -> FinishReason | None:
    if token in scheduler.eos_token_ids and not group.request.ignore_eos:
        return FinishReason.STOP
    return None


def _add_hypothesis(group: SequenceGroup, continuation: Continuation, reason: FinishReason) -> None:
    parent = continuation.parent
    generated = (*parent.table.tokens[parent.prompt_length :], continuation.token)
    group.hypotheses.append(Hypothesis(generated, continuation.score / len(generated), reason))


def _replace_beams(scheduler: Scheduler, group: SequenceGroup, survivors: Seq[Continuation]) -> None:
    before = list(group.sequences)
    continued: set[int] = set()
    grown: list[tuple[Sequence, Continuation]] = []
    for survivor in survivors:
        sequence = survivor.parent
        if sequence.id in continued:
            sequence = sequence.branch_off(group.next_branch())
            scheduler.manager.fork(survivor.parent.table, sequence.table)
            group.sequences.append(sequence)
        continued.add(sequence.id)
        grown.append((sequence, survivor))
    group.forked = True
    for sequence, survivor in grown:
        scheduler.manager.advance(sequence.table, 0, (survivor.token,))
        scheduler.counts["generated"] += 1
        sequence.score = survivor.score
    for sequence in before:
        if sequence.id not in continued:
            scheduler.drop(group, sequence, PRUNED)


def _at_limit(scheduler: Scheduler, group: SequenceGroup, sequence: Sequence) -> bool:
    limit = scheduler.config.max_positions
    if sequence.generated >= group.request.max_new_tokens:
        return True
    return limit is not None and len(sequence.table.tokens) >= limit


def _is_done(scheduler: Scheduler, group: SequenceGroup) -> bool:
    """Whether length is used up, or `beam_width` hypotheses beat all that the best live beam can become."""
    if any(_at_limit(scheduler, group, sequence) for sequence in group.sequences):
        return True
    width = group.request.beam_width
    if len(group.hypotheses) < width:
        return False
    kept = sorted((hypothesis.score for hypothesis in group.hypotheses), reverse=True)[:width]
    return kept[-1] >= max(sequence.score / sequence.generated for sequence in group.sequences)
