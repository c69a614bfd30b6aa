"""Every key of the table does what the table says."""

from __future__ import annotations

import pytest

from kvtop.config import Settings
from kvtop.memory.events import PreemptionMode, sequence_id
from kvtop.session import session as ses
from kvtop.ui.commands.actions import ACTIONS, BY_ID, available
from kvtop.ui.dialogs.add_request import AddRequestForm, FormError, read_form
from kvtop.ui.dialogs.confirm import Confirm

SMALL = (80, 24)
ONE_KEY_EACH = [(key, action.id) for action in ACTIONS for key in action.keys]


def test_no_key_is_taken_twice() -> None:
    keys = [key for key, _ in ONE_KEY_EACH]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("keys", "command"),
    [
        (BY_ID["pause"].keys, ses.Pause()),
        (BY_ID["step"].keys, ses.StepOnce()),
        (BY_ID["slower"].keys, ses.SetSpeed(10.0)),
        (BY_ID["faster"].keys, ses.SetSpeed(50.0)),
        (BY_ID["burst"].keys, ses.AddBurst()),
    ],
)
async def test_keys_send_their_command(drive, session, keys, command) -> None:
    async with drive(session, SMALL) as driven:
        await driven.press(*keys)
        assert session.sent == [command] * len(keys)


async def test_pause_resumes_what_is_paused(drive, session) -> None:
    session.phase(ses.Phase.PAUSED)
    async with drive(session, SMALL) as driven:
        await driven.press("Z")
        assert session.sent == [ses.Resume()]


@pytest.mark.parametrize(
    ("now", "slower", "faster"),
    [(1.0, None, 2.0), (100.0, 50.0, 0.0), (0.0, 100.0, None), (30.0, 20.0, 50.0), (20.0, 10.0, 50.0)],
)
async def test_speeds_go_along_the_ladder(drive, session, now, slower, faster) -> None:
    session.current = ses.Status(ses.Phase.RUNNING, speed=now)
    async with drive(session, SMALL) as driven:
        await driven.press("left_square_bracket")
        await driven.press("right_square_bracket")
        assert session.sent == [ses.SetSpeed(speed) for speed in (slower, faster) if speed is not None]


@pytest.mark.parametrize(
    ("key", "make"),
    [
        ("f", ses.Fork),
        ("p", lambda sequence: ses.Preempt(sequence, PreemptionMode.RECOMPUTE)),
        ("s", lambda sequence: ses.Preempt(sequence, PreemptionMode.SWAP)),
    ],
)
async def test_keys_act_on_the_selected_sequence(drive, session, key, make) -> None:
    async with drive(session, SMALL) as driven:
        await driven.press("down", "down", key)
        request, branch = driven.selected
        assert session.sent == [make(sequence_id(request, branch))]


@pytest.mark.parametrize("key", ["f", "p", "s", "k", "f9"])
async def test_without_a_selection_they_say_what_is_missing(drive, session, key) -> None:
    async with drive(session, SMALL) as driven:
        await driven.press(key)
        assert session.sent == []
        assert "Select a sequence to" in driven.lines[-1]


@pytest.mark.parametrize("key", ["k", "f9"])
async def test_abort_asks_and_acts_on_the_id_it_asked_about(drive, session, key) -> None:
    async with drive(session, SMALL) as driven:
        await driven.press("down", "down", key)
        request, branch = driven.selected
        assert isinstance(driven.app.screen, Confirm)
        assert f"Abort request {request} and free its blocks?" in driven.text
        session.sequences = session.sequences[::-1]  # rows re-sort while the question stands
        session.publish()
        await driven.press("y")
        assert session.sent == [ses.Abort(sequence_id(request, branch))]


@pytest.mark.parametrize("key", ["n", "escape", "q"])
async def test_abort_can_be_refused(drive, session, key) -> None:
    async with drive(session, SMALL) as driven:
        await driven.press("down", "k", key)
        assert session.sent == []
        assert driven.app.screen is driven.app.dashboard
        assert driven.app.is_running


@pytest.mark.parametrize("key", BY_ID["quit"].keys)
async def test_keys_that_quit(drive, session, key) -> None:
    async with drive(session, SMALL) as driven:
        await driven.pilot.press(key)
        await driven.pilot.pause()
    assert driven.app.return_code == 0


async def test_keys_without_a_command_are_neither_bound_nor_shown(drive, make_session) -> None:
    session = make_session(supports=frozenset({ses.Pause})).run(50)
    async with drive(session, (120, 36)) as driven:
        bar = driven.lines[-1]
        assert "Pause" in bar
        for word in ("Slower", "Faster", "Abort", "Step", "Add", "Burst", "Fork", "Preempt", "Swap"):
            assert word not in bar
        await driven.press("down", "n", "a", "A", "f", "p", "s", "k", "f7", "f8")
        assert session.sent == []
        assert driven.app.screen is driven.app.dashboard
        await driven.press("question_mark")
        assert "fork the selected" not in driven.text
    assert len(available({ses.Pause})) < len(ACTIONS)


async def test_an_action_without_a_key_is_not_in_the_key_bar(drive, session) -> None:
    settings = Settings(keys={"sort": (), "burst": ("F12",)})
    async with drive(session, (120, 36), settings=settings) as driven:
        bar = driven.lines[-1]
        assert "F5 Tree  F7 Slower" in bar and "Sort" not in bar


async def test_the_key_bar_can_be_clicked(drive, session) -> None:
    async with drive(session, (120, 36)) as driven:
        place = driven.lines[-1].index("Step")
        await driven.pilot.click("#keys", offset=(place, 0))
        await driven.settle()
        assert session.sent == [ses.StepOnce()]


async def test_pasted_text_triggers_no_key(drive, session) -> None:
    from textual import events

    async with drive(session, SMALL) as driven:
        driven.app.post_message(events.Paste("qkZn"))
        await driven.settle()
        assert driven.app.is_running
        assert session.sent == []


# -- the form ---------------------------------------------------------------------------------------------


def form(**changed: str) -> dict[str, str]:
    values = {
        "prompt": "", "prompt_tokens": "128", "max_new_tokens": "128", "n": "1", "beam_width": "1",
        "temperature": "0.7", "seed": "",
    }  # fmt: skip
    return values | changed


async def test_a_request_is_added_through_the_form(drive, session) -> None:
    async with drive(session, SMALL) as driven:
        await driven.press("a")
        assert isinstance(driven.app.screen, AddRequestForm)
        await driven.press("h", "i", "tab", "tab", "tab", "4", "enter")
        assert session.sent == [ses.AddRequest(prompt="hi", n=4)]
        assert driven.app.screen is driven.app.dashboard


async def test_the_form_can_be_left(drive, session) -> None:
    async with drive(session, SMALL) as driven:
        await driven.press("a", "x", "escape")
        assert session.sent == []
        assert driven.app.screen is driven.app.dashboard


async def test_a_wrong_field_is_named_and_gets_the_keys(drive, session) -> None:
    async with drive(session, SMALL) as driven:
        await driven.press("a", "tab", "x", "enter")
        assert "Prompt tokens: 'x' is not a whole number" in driven.text
        assert driven.app.focused is not None
        assert driven.app.focused.id == "prompt_tokens"
        assert session.sent == []


def test_every_field_reaches_the_request() -> None:
    read = read_form(
        form(prompt="[red]", prompt_tokens="9", max_new_tokens="7", n="3", temperature="0", seed="5")
    )
    assert read == ses.AddRequest("[red]", 9, 7, 3, 1, 0.0, 5)
    assert read_form(form(beam_width="4")).beam_width == 4
    assert read_form(form()) == ses.AddRequest()


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"prompt_tokens": "0"}, "prompt_tokens"),
        ({"prompt_tokens": ""}, "prompt_tokens"),
        ({"max_new_tokens": "-1"}, "max_new_tokens"),
        ({"n": "1.5"}, "n"),
        ({"n": "65"}, "n"),
        ({"beam_width": "two"}, "beam_width"),
        ({"temperature": "nan"}, "temperature"),
        ({"temperature": "-0.1"}, "temperature"),
        ({"seed": "-1"}, "seed"),
        ({"n": "2", "beam_width": "2"}, "beam_width"),
    ],
)
def test_wrong_fields_are_refused(changed: dict[str, str], field: str) -> None:
    with pytest.raises(FormError) as caught:
        read_form(form(**changed))
    assert caught.value.field == field
