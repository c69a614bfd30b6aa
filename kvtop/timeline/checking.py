"""Checks every invariant while something runs: the bus's listener behind `--check` and the tests."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress

from kvtop.memory import invariants
from kvtop.memory.cache_manager import CacheManager
from kvtop.memory.errors import InvariantError
from kvtop.memory.events import (
    Admitted,
    Advanced,
    Allocated,
    AnyEvent,
    Cached,
    Copied,
    Evicted,
    Forked,
    Freed,
    Released,
    Shared,
    SwappedIn,
    SwappedOut,
    Tier,
)
from kvtop.scheduling.scheduler import Scheduler
from kvtop.scheduling.sequence import GroupState
from kvtop.timeline.state import MemoryState

FULL_FOLD_EVERY = 1000
PATIENCE = 64
"""Steps without progress (I8) beyond those of the longest prefill."""


class Checker:
    """Folds the events of one engine and compares. Subscribe `hear` before the first event.

    `after_call` checks I1 to I4 and I9 (the blocks that events touched since, all of them every thousandth
    call); `step_ended` also I6 to I8. Its price is a walk of the pool each time: at 512 blocks about 1 ms.
    """

    def __init__(
        self, manager: CacheManager, scheduler: Scheduler | None = None, *, patience: int | None = None
    ) -> None:
        self.manager = manager
        self.scheduler = scheduler
        self.state = MemoryState(manager.pool.num_blocks, manager.block_size, manager.host_pool.num_blocks)
        self.calls = 0
        self._touched: dict[Tier, set[int]] = {Tier.DEVICE: set(), Tier.HOST: set()}
        self._admitted: dict[int, int] = {}
        if patience is None:
            # The longest prefill that fits gives no token for as many steps as the budget cuts it into.
            longest = manager.pool.num_blocks * manager.block_size
            patience = PATIENCE + (longest // scheduler.config.token_budget if scheduler else 0)
        self._watch = invariants.ProgressWatch(patience)

    def hear(self, event: AnyEvent) -> None:
        """Fold one event. Raises InvariantError when it does not fit what came before."""
        try:
            if isinstance(event, Advanced):
                self._note_written(event)
            self.state.apply(event)
        except (KeyError, IndexError) as error:
            raise InvariantError(
                f"I9: {event} does not follow from the events before it: {error!r}"
            ) from error
        if isinstance(event, Admitted):
            self._admitted[event.sequence] = event.prompt_tokens
        elif isinstance(event, Forked):
            # Its table is its parent's, with the blocks that the parent has not yet come to.
            self._admitted[event.child] = self._admitted.get(event.parent, 0)
        self._note_touched(event)

    def after_call(self) -> None:
        """Check what must hold after every call of the memory core."""
        self.calls += 1
        invariants.check_manager(self.manager)
        everything = self.calls % FULL_FOLD_EVERY == 0
        pools = ((self.manager.pool, self.state.device), (self.manager.host_pool, self.state.host))
        for pool, folded in pools:
            touched: Iterable[int] | None = None if everything else self._touched[pool.tier]
            invariants.check_columns(pool, folded, pool.tier, touched)
            self._touched[pool.tier].clear()
        self._check_tables()
        self._check_fills()

    def step_ended(self) -> None:
        """Check what must hold at a step's end. Needs a scheduler."""
        self.after_call()
        scheduler = self.scheduler
        assert scheduler is not None
        live = {request: group.state.value for request, group in scheduler.groups.items()}
        queues = {
            GroupState.RUNNING.value: [group.request.id for group in scheduler.running],
            GroupState.SWAPPED.value: [
                group.request.id for group in scheduler.preempted if group.state is GroupState.SWAPPED
            ],
            GroupState.WAITING.value: [
                group.request.id
                for group in (*scheduler.preempted, *scheduler.waiting)
                if group.state is not GroupState.SWAPPED
            ],
        }
        invariants.check_queues(queues, live)
        invariants.check_lengths(
            self.manager.tables.values(), self._admitted_tokens(), self.manager.block_size
        )
        counts = scheduler.counts
        progress = sum(counts[name] for name in ("generated", "finished", "aborted", "rejected"))
        self._watch.step_ended(self.manager.bus.step, progress, list(live))

    def _admitted_tokens(self) -> dict[int, int]:
        """Sequence -> tokens it was admitted with."""
        admitted = {id_: self._admitted[id_] for id_ in self.manager.tables if id_ in self._admitted}
        self._admitted = admitted
        return admitted

    def _check_tables(self) -> None:
        """I9 for the tables: the fold knows the same sequences, blocks and stored counts."""
        for id_, table in self.manager.tables.items():
            folded = self.state.sequence(id_)
            if folded.table != table.blocks or folded.stored != table.stored or folded.tokens != table.tokens:
                raise InvariantError(
                    f"I9: {table.name} holds {list(table.blocks)} with {table.stored} stored, "
                    f"the events say {list(folded.table)} with {folded.stored}"
                )

    def _check_fills(self) -> None:
        """I4 and I9 for what is stored: cached blocks are full, and the slots that the events
        filled add up to what the tables hold."""
        for block, hash_ in enumerate(self.manager.pool.hashes):
            slots = self.state.device.fills[block]
            if hash_ and slots != self.manager.block_size:
                raise InvariantError(
                    f"I4: block {block} is cached with {slots} of {self.manager.block_size} slots filled"
                )
        for tier, folded in ((Tier.DEVICE, self.state.device), (Tier.HOST, self.state.host)):
            filled = sum(compress(folded.fills, folded.ref_counts))
            stored = self.manager.stored_tokens(tier)
            if filled != stored:
                raise InvariantError(
                    f"I9: the tables hold {stored} tokens in the {tier.value} pool, the events say {filled}"
                )

    def _note_written(self, event: Advanced) -> None:
        """The blocks that it fills further, before it is folded."""
        sequence, size = self.state.sequence(event.sequence), self.manager.block_size
        blocks = sequence.table[sequence.stored // size : -(-event.stored // size)]
        self._touched[Tier.DEVICE].update(blocks)

    def _note_touched(self, event: AnyEvent) -> None:
        device, host = self._touched[Tier.DEVICE], self._touched[Tier.HOST]
        if isinstance(event, SwappedOut | SwappedIn):
            device.update(event.device_blocks)
            host.update(event.host_blocks)
        elif isinstance(event, Freed | Released):
            (host if event.tier is Tier.HOST else device).update(event.blocks)
        elif isinstance(event, Allocated | Shared | Evicted | Cached):
            device.update(event.blocks)
        elif isinstance(event, Forked):
            device.update(self.state.sequence(event.child).table)
        elif isinstance(event, Copied):
            device.update((event.source, event.destination))
