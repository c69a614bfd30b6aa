"""The one line of the log: what matters, not what came last."""

from __future__ import annotations

from kvtop.memory import events as ev
from kvtop.ui.dashboard.ticker import STAYS, weightiest
from kvtop.ui.frame.narration import narrate


def told(*events: ev.Event):
    return [(event, narrate(event)) for event in events]


PREEMPTED = ev.Preempted(10, 0, 4, ev.PreemptionMode.SWAP, "5 needs 1 block", 1)
EVICTED = ev.Evicted(12, 0, (3,))
ENDED = ev.SequenceEnded(20, 0, 5 << 16 | 1, "pruned")


def test_a_preemption_stays_while_it_is_fresh() -> None:
    assert weightiest(told(PREEMPTED, EVICTED, ENDED), 20)[0] is PREEMPTED
    assert weightiest(told(PREEMPTED, EVICTED, ENDED), 10 + STAYS)[0] is EVICTED
    assert weightiest(told(PREEMPTED, EVICTED, ENDED), 12 + STAYS)[0] is ENDED
    assert weightiest(told(PREEMPTED), 1000)[0] is PREEMPTED


def test_the_newest_of_equals() -> None:
    later = ev.Evicted(13, 0, (9,))
    assert weightiest(told(EVICTED, later, ENDED), 20)[0] is later


async def test_narrow_screens_say_what_was_preempted_and_how_often(drive, make_session) -> None:
    session = make_session(150).run(300)
    counters = session.published.counters
    async with drive(session, (80, 24)) as driven:
        assert f"preempted {counters.preempted_recompute + counters.preempted_swap}" in driven.text
        assert f"evicted {counters.evictions}" in driven.text
    async with drive(session, (120, 36)) as driven:
        swaps = f"{counters.preempted_recompute} recompute {counters.preempted_swap} swap)"
        assert swaps in driven.text


async def test_starting_in_prefixes_asks_for_them(drive, session) -> None:
    from kvtop.config import Settings

    asked = []
    select = session.select
    session.select = lambda **wanted: (asked.append(wanted.get("prefixes")), select(**wanted))
    async with drive(session, (120, 36), settings=Settings(preset="prefixes")) as driven:
        assert True in asked
        assert "being looked up" not in driven.text
