from __future__ import annotations

import tomllib
from typing import Any

import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from kvtop.workload.toml_lines import key_lines

DOCUMENT = '''# a comment with [brackets] and "quotes
a.b = 1

"q\\"x" = """
[no]
x = 1 \\""" """""
[t."x.y"]
k = [1, # c ]
 {z = 1, y.w='a]}'},
 ["s"]]
[[r]]
n = 1979-05-27T07:32:00Z
[r.sub]
m = \'\'\'
# a\'\'\'\'\'
[[r]]
  n = { p = 1 } # }
[[r.s]]
[[r.s]]
p = 2
'''


def test_every_form_of_key_is_found_on_its_line():
    assert dict(key_lines(DOCUMENT)) == {
        (): 1,
        ("a",): 2,
        ("a", "b"): 2,
        ('q"x',): 4,
        ("t",): 7,
        ("t", "x.y"): 7,
        ("t", "x.y", "k"): 8,
        ("t", "x.y", "k", 0): 8,
        ("t", "x.y", "k", 1): 9,
        ("t", "x.y", "k", 1, "z"): 9,
        ("t", "x.y", "k", 1, "y"): 9,
        ("t", "x.y", "k", 1, "y", "w"): 9,
        ("t", "x.y", "k", 2): 10,
        ("t", "x.y", "k", 2, 0): 10,
        ("r",): 11,
        ("r", 0): 11,
        ("r", 0, "n"): 12,
        ("r", 0, "sub"): 13,
        ("r", 0, "sub", "m"): 14,
        ("r", 1): 16,
        ("r", 1, "n"): 17,
        ("r", 1, "n", "p"): 17,
        ("r", 1, "s"): 18,
        ("r", 1, "s", 0): 18,
        ("r", 1, "s", 1): 19,
        ("r", 1, "s", 1, "p"): 20,
    }


def paths(value: Any, path: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    """Every path in what `tomllib` returns."""
    found = {path}
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found |= paths(item, (*path, key))
    return found


TEXT = st.text(st.sampled_from("ab\"'\\\n\t#[]{}=,. é"), max_size=6)
VALUES = st.recursive(
    st.integers(-5, 5) | st.booleans() | TEXT | st.floats(allow_nan=False) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXT, VALUES, max_size=5))
def test_every_path_that_the_reader_gives_has_a_line(document: dict[str, Any]):
    text = tomlkit.dumps(document)
    lines = key_lines(text)
    assert set(lines) == paths(tomllib.loads(text))
    assert all(1 <= line <= text.count("\n") + 1 for line in lines.values())
