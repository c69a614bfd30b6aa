"""What a person at the keyboard can ask of a live engine, carried out between two steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kvtop.memory.events import PreemptionMode, request_of, sequence_name
from kvtop.session.session import Abort, AddBurst, AddRequest, Fork, Notice, Preempt

if TYPE_CHECKING:
    # Engine and scheduler are imported by the engine's thread: the first frame does not wait for them.
    from kvtop.session.run import Run
    from kvtop.workload.request import Request


def add_request(run: Run, command: AddRequest) -> Notice:
    """Queue one request. Raises ValueError for a prompt that the model cannot take."""
    return _add(
        run,
        run.workload.factory.request(
            command.prompt,
            prompt_tokens=command.prompt_tokens,
            max_new_tokens=command.max_new_tokens,
            n=command.n,
            beam_width=command.beam_width,
            temperature=command.temperature,
            seed=command.seed,
        ),
    )


def add_burst(run: Run, command: AddBurst) -> Notice:
    """Queue several requests at once."""
    notices = [_add(run, request) for request in run.workload.factory.burst(command.requests)]
    refused = [notice for notice in notices if notice.warning]
    return refused[0] if refused else Notice(f"added {len(notices)} requests")


def fork(run: Run, command: Fork) -> Notice:
    """Branch a sequence. Raises SchedulerError when it cannot be."""
    child = run.scheduler.fork(command.sequence)
    return Notice(f"forked {child.table.name} from {sequence_name(command.sequence)}")


def preempt(run: Run, command: Preempt) -> Notice:
    """Take a group off the device. Raises SchedulerError when it is not on it."""
    request = request_of(command.sequence)
    mode = run.scheduler.preempt(request, command.mode)
    if mode is not command.mode:
        return Notice(f"preempted {request} by {mode.value}: the host pool is too full to swap", warning=True)
    how = "swapped out" if mode is PreemptionMode.SWAP else "preempted, to be recomputed"
    return Notice(f"{how}: {request}")


def abort(run: Run, command: Abort) -> Notice:
    """End a request."""
    request = request_of(command.sequence)
    if run.scheduler.abort(request):
        return Notice(f"aborted {request}")
    return Notice(f"{request} had ended already", warning=True)


def _add(run: Run, request: Request) -> Notice:
    from kvtop.scheduling.sequence import GroupState

    group = run.engine.add(request)
    if group.state is GroupState.REJECTED:
        return Notice(f"request {request.id} was rejected: {group.wait_reason}", warning=True)
    return Notice(f"added request {request.id}: {len(request.prompt_token_ids)} prompt tokens")


HANDLERS: dict[type, Callable[[Run, Any], Notice]] = {
    AddRequest: add_request,
    AddBurst: add_burst,
    Fork: fork,
    Preempt: preempt,
    Abort: abort,
}
"""Command type -> what carries it out."""
