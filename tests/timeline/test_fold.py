"""Folding events gives the pools' arrays, also after a round trip through msgpack, and at any moment."""

from __future__ import annotations

import threading

import msgspec
import pytest

from kvtop.memory import events as ev
from kvtop.timeline.state import MemoryState

BLOCKS, BLOCK_SIZE, HOST = 14, 4, 6


def fold(events, state=None):
    state = state or MemoryState(BLOCKS, BLOCK_SIZE, HOST)
    for event in events:
        state.apply(event)
    return state


def picture(state):
    """Everything that a fold knows, as comparable values."""
    pools = [
        (
            p.free_queue.stack,
            p.free_queue.next,
            p.free_queue.prev,
            p.ref_counts,
            p.hashes,
            p.fills,
            p.touched,
            p.parents,
        )
        for p in (state.device, state.host)
    ]
    requests = {
        id_: (
            request.state,
            request.wait_reason,
            request.preemptions,
            [
                (s.id, s.tokens, s.prompt_length, s.table, s.stored, s.on_host, s.holding, list(s.preempted))
                for s in request.sequences.values()
            ],
        )
        for id_, request in state.requests.items()
    }
    step = state.step, state.order, state.last_step, state.reads
    return pools, requests, state.totals, state.hits, step


def test_every_kind_of_event_happens_in_the_run(events):
    assert {type(event) for event in events} == set(ev.AnyEvent.__args__)


def test_the_fold_is_the_pools_arrays(recorded):
    recorded.everything()
    state = fold(recorded.events)
    for pool, folded in ((recorded.manager.pool, state.device), (recorded.manager.host_pool, state.host)):
        for column in ("ref_counts", "hashes"):
            assert getattr(pool, column) == getattr(folded, column)
        assert pool.free_queue.stack == folded.free_queue.stack
        assert pool.free_queue.next == folded.free_queue.next
        assert pool.free_queue.prev == folded.free_queue.prev


def test_steps_and_orders_count_up_without_gaps(events):
    step, order = 0, -1
    for event in events:
        assert (event.step, event.order) in {(step, order + 1), (step + 1, 0)}
        step, order = event.step, event.order


def test_through_msgpack_and_back(events):
    encoder, decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(ev.AnyEvent)
    decoded = [decoder.decode(encoder.encode(event)) for event in events]
    assert decoded == list(events)
    assert [type(event) for event in decoded] == [type(event) for event in events]
    assert picture(fold(decoded)) == picture(fold(events))


def test_any_prefix_can_be_folded_and_continued(events):
    state, whole = MemoryState(BLOCKS, BLOCK_SIZE, HOST), picture(fold(events))
    for event in events:
        state.apply(event)
        for pool in (state.device, state.host):
            assert min(pool.ref_counts) >= 0 and len(list(pool.free_queue)) == len(pool.free_queue)
    assert picture(state) == whole
    middle = len(events) // 2
    assert picture(fold(events[middle:], fold(events[:middle]))) == whole


def test_a_cached_blocks_tokens_are_known_for_as_long_as_its_hash(events):
    state, seen = MemoryState(BLOCKS, BLOCK_SIZE, HOST), 0
    for event in events:
        state.apply(event)
        for block, hash_ in enumerate(state.device.hashes):
            contents = state.contents(block)
            assert (contents is not None) == (hash_ != 0)
            if contents is not None:
                tokens, logical = contents
                assert len(tokens[logical * BLOCK_SIZE : (logical + 1) * BLOCK_SIZE]) == BLOCK_SIZE
                seen += 1
    assert seen


@pytest.mark.parametrize("kind", ["Allocated", "Admitted", "Forked", "Released", "Advanced"])
def test_an_event_out_of_nowhere_is_refused(events, kind):
    event = next(event for event in events if type(event).__name__ == kind)
    with pytest.raises((KeyError, IndexError)):
        fold([event])


def test_a_listener_that_holds_is_what_a_breakpoint_is(recorded):
    """While a listener holds the engine at an event, the fold shows the moment of that event."""
    reached, go_on, seen = threading.Event(), threading.Event(), []
    recorded.engine.add(ev_request())
    state = MemoryState(BLOCKS, BLOCK_SIZE, HOST)
    recorded.manager.bus.subscribe(state.apply)

    def hold(event):
        if isinstance(event, ev.Allocated):
            reached.set()
            assert go_on.wait(20)

    recorded.manager.bus.subscribe(hold)
    # The fold has not heard of the request: it arrived before anybody listened.
    state.apply(next(event for event in recorded.events if isinstance(event, ev.Arrived)))
    engine = threading.Thread(target=recorded.engine.step)
    engine.start()
    assert reached.wait(20)
    seen.append((list(state.sequence(ev.sequence_id(1)).table), state.sequence(ev.sequence_id(1)).stored))
    recorded.manager.bus.unsubscribe(hold)
    go_on.set()
    engine.join(20)
    assert not engine.is_alive()
    assert seen == [([0, 1], 0)]
    assert (
        state.sequence(ev.sequence_id(1)).stored == 6 and state.sequence(ev.sequence_id(1)).tokens[-1] >= 97
    )


def ev_request():
    from kvtop.workload.request import Request

    return Request(id=1, prompt_token_ids=(1, 2, 3, 4, 5, 6), max_new_tokens=3)


def test_without_listeners_the_bus_is_silent_again():
    bus, heard = ev.EventBus(), []
    assert not bus.active
    bus.subscribe(heard.append)
    bus.begin_step(3)
    bus.emit(ev.StepBegan)
    bus.emit(ev.Resumed, 7)
    assert heard == [ev.StepBegan(3, 0), ev.Resumed(3, 1, 7)]
    with pytest.raises(ValueError):
        bus.unsubscribe(print)
    bus.unsubscribe(heard.append)
    assert not bus.active


def test_names_of_sequences():
    assert ev.sequence_name(ev.sequence_id(42)) == "42" and ev.sequence_name(ev.sequence_id(42, 3)) == "42.3"
    for name in ("42", "42.3", "0.65535"):
        assert ev.sequence_name(ev.parse_sequence(name)) == name
    assert ev.request_of(ev.parse_sequence("7.9")) == 7
    with pytest.raises(ValueError):
        ev.parse_sequence("first")
