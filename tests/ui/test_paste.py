"""Pastes: whatever is in them, they are text, and the keys around them are keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events

from kvtop.ui.terminal.paste import END, START, PasteCleaner, PasteSafeParser


def fed(*pieces: str) -> list[events.Event]:
    parser = PasteSafeParser()
    return [message for piece in pieces for message in parser.feed(piece)]


def cleaned(text: str, cuts: list[int]) -> str:
    cleaner = PasteCleaner()
    places = sorted({min(cut, len(text)) for cut in cuts})
    return "".join(cleaner.clean(text[a:b]) for a, b in zip([0, *places], [*places, len(text)], strict=True))


@pytest.mark.parametrize(
    ("pasted", "text"),
    [
        ("q2kyA\x03", "q2kyA␃"),
        ("ab\x1bq", "ab␛q"),
        ("x\x1b[A q", "x␛[A q"),
        ("\x1b\x1b[201x\x1b", "␛␛[201x␛"),
        ("one\r\ntwo\tthree", "one  two three"),
        ("\x1b[2J\x1b[200~", "␛[2J␛[200~"),
        ("", None),
    ],
)
def test_a_paste_is_one_event_and_no_key(pasted, text) -> None:
    found = fed("a", f"{START}{pasted}{END}", "b")
    keys = [event.key for event in found if isinstance(event, events.Key)]
    assert keys == ["a", "b"]
    pastes = [event.text for event in found if isinstance(event, events.Paste)]
    assert pastes == ([text] if text is not None else pastes)


@given(st.text(alphabet="\x1b[2017~qZ\n", max_size=30), st.lists(st.integers(0, 60), max_size=6))
def test_however_it_is_cut_nothing_of_a_paste_gets_out(pasted, cuts) -> None:
    body = pasted.replace(END, "")
    whole = f"q{START}{body}{END}q"
    out = cleaned(whole, cuts)
    assert out == cleaned(whole, [])
    inside, _, rest = out.removeprefix(f"q{START}").partition(END)
    if END not in f"{body}{END}"[: len(body) + len(END) - 1]:
        assert "\x1b" not in inside
        assert rest == "q"


@given(st.text(alphabet="\x1b[20~OAq", max_size=30), st.lists(st.integers(0, 30), max_size=4))
def test_outside_of_a_paste_nothing_changes_and_nothing_is_kept_back(keys, cuts) -> None:
    if START not in keys:
        cleaner, places = PasteCleaner(), sorted({min(cut, len(keys)) for cut in cuts})
        for a, b in zip([0, *places], [*places, len(keys)], strict=True):
            assert cleaner.clean(keys[a:b]) == keys[a:b]
