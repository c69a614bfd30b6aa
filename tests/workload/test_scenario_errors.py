"""Each way in which a scenario can be wrong, with the line that says so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from kvtop.workload.scenario import (
    ARRIVALS,
    POOL,
    REQUEST,
    SCHEDULER,
    TOP,
    Scenario,
    ScenarioError,
    builtin_names,
    load_scenario,
    parse_scenario,
)

ONE = "[[request]]\nprompt_tokens = 10\n"
LENGTHS = "prompt_tokens = { mean = 20, max = 40 }\nnew_tokens = { mean = 20, max = 40 }\n"
ARRIVE = "[arrivals]\nrate_per_step = 0.1\n" + LENGTHS

CASES = [
    # unknown keys
    ("blokcs = 1\n" + ONE, "s.toml:1: blokcs: unknown key"),
    ("requests = 1\n", 's.toml:1: requests: unknown key (did you mean "request"?)'),
    ("[pool]\nblokcs = 5\n" + ONE, 's.toml:2: pool.blokcs: unknown key (did you mean "blocks"?)'),
    ("pool.block-size = 5\n" + ONE, 's.toml:1: pool.block-size: unknown key (did you mean "block_size"?)'),
    (
        ONE + "\nmax_tokens = 5\n",
        's.toml:4: request.max_tokens: unknown key (did you mean "max_new_tokens"?)',
    ),
    (ONE + "[scheduler]\nzzz = 1\n", "s.toml:4: scheduler.zzz: unknown key"),
    (
        "[arrivals]\nrate_per_step = 1\nprompt_tokens = { maen = 1, max = 2 }\n",
        's.toml:3: arrivals.prompt_tokens.maen: unknown key (did you mean "mean"?)',
    ),
    # wrong types and ranges
    ("name = 5\n" + ONE, "s.toml:1: name: must be text in quotes, not 5"),
    ("name = ''\n" + ONE, "s.toml:1: name: must hold 1 to 200 characters, not 0"),
    ("[pool]\nblocks = 0\n" + ONE, "s.toml:2: pool.blocks: must be an integer from 1 to 100,000,000, not 0"),
    (
        "[pool]\nblocks = -3\n" + ONE,
        "s.toml:2: pool.blocks: must be an integer from 1 to 100,000,000, not -3",
    ),
    (
        "[pool]\nblocks = true\n" + ONE,
        "s.toml:2: pool.blocks: must be an integer from 1 to 100,000,000, not true",
    ),
    (
        "[pool]\nblocks = 3.0\n" + ONE,
        "s.toml:2: pool.blocks: must be an integer from 1 to 100,000,000, not 3.0",
    ),
    (
        "[pool]\nblocks = '3'\n" + ONE,
        's.toml:2: pool.blocks: must be an integer from 1 to 100,000,000, not "3"',
    ),
    (
        "[pool]\nblocks = []\n" + ONE,
        "s.toml:2: pool.blocks: must be an integer from 1 to 100,000,000, not an array",
    ),
    (
        "[pool]\nblocks = 1979-05-27\n" + ONE,
        "s.toml:2: pool.blocks: must be an integer from 1 to 100,000,000, not a date or time",
    ),
    (
        f"[pool]\nblocks = 0x{'f' * 9000}\n" + ONE,
        "s.toml:2: pool.blocks: must be an integer from 1 to 100,000,000, not an integer beyond 64 bits",
    ),
    (
        '[pool]\npreemption = "swop"\n' + ONE,
        's.toml:2: pool.preemption: must be "recompute" or "swap", not "swop" (did you mean "swap"?)',
    ),
    ("[scheduler]\nvictim = 1\n" + ONE, 's.toml:2: scheduler.victim: must be "newest" or "oldest", not 1'),
    (
        "[scheduler]\nwatermark = 1\n" + ONE,
        "s.toml:2: scheduler.watermark: must be a number from 0 up to but not including 1, not 1",
    ),
    (
        "[scheduler]\nwatermark = nan\n" + ONE,
        "s.toml:2: scheduler.watermark: must be a number from 0 up to but not including 1, not nan",
    ),
    (ONE + "temperature = -inf\n", "s.toml:3: request.temperature: must be a number from 0 to 100, not -inf"),
    (ONE + "temperature = true\n", "s.toml:3: request.temperature: must be a number from 0 to 100, not true"),
    (ONE + "ignore_eos = 1\n", "s.toml:3: request.ignore_eos: must be true or false, not 1"),
    (
        ONE + "seed = -1\n",
        "s.toml:3: request.seed: must be an integer from 0 to 9,223,372,036,854,775,807, not -1",
    ),
    (ONE + "at_step = 0\n", "s.toml:3: request.at_step: must be an integer from 1 to 1,000,000,000, not 0"),
    (ONE + "n = 65\n", "s.toml:3: request.n: must be an integer from 1 to 64, not 65"),
    (
        ONE + "shared_prefix = 0\n",
        "s.toml:3: request.shared_prefix: must be an integer from 1 to 1,000,000 or text in quotes, not 0",
    ),
    ("[[request]]\nprompt = ''\n", "s.toml:2: request.prompt: must hold 1 to 100,000 characters, not 0"),
    (ARRIVE + "rate_per_step = 1", "s.toml:5: not valid TOML: Cannot overwrite a value (end of file)"),
    (
        "[arrivals]\nrate_per_step = 2_000\n" + LENGTHS,
        "s.toml:2: arrivals.rate_per_step: must be a number from 0 to 1,000, not 2000",
    ),
    (
        "[arrivals]\nrate_per_step = 1\nprompt_tokens = 5\n",
        "s.toml:3: arrivals.prompt_tokens: must be a table such as { mean = ..., max = ... }, not 5",
    ),
    (
        "[arrivals]\nrate_per_step = 1\n[arrivals.prompt_tokens]\nmean = 5\n",
        "s.toml:3: arrivals.prompt_tokens: lacks max",
    ),
    (
        "[arrivals]\nrate_per_step = 1\nprompt_tokens.mean = 5\nprompt_tokens.max = 4\n",
        "s.toml:3: arrivals.prompt_tokens: mean is 5, outside 1 to 4",
    ),
    (
        "[arrivals]\nprompt_tokens = { min = 9, mean = 5, max = 4 }\n",
        "s.toml:2: arrivals.prompt_tokens: max is 4, below min, 9",
    ),
    (ARRIVE + "n = { max = 3 }\n", "s.toml:5: arrivals.n: lacks share"),
    (ARRIVE + "n = { share = 2 }\n", "s.toml:5: arrivals.n.share: must be a number from 0 to 1, not 2"),
    # tables of the wrong kind
    ("pool = 3\n" + ONE, "s.toml:1: pool: must be a table, [pool], not 3"),
    ("scheduler = []\n" + ONE, "s.toml:1: scheduler: must be a table, [scheduler], not an array"),
    ("arrivals = 'x'\n", 's.toml:1: arrivals: must be a table, [arrivals], not "x"'),
    (
        "[request]\nprompt_tokens = 3\n",
        "s.toml:1: request: must be an array of tables, not a table: write [[request]], with two brackets",
    ),
    ("request = [1]\n", "s.toml:1: request: must be an array of tables, not an array"),
    # contradictions
    ("[[request]]\n", "s.toml:1: request: needs prompt or prompt_tokens"),
    (ONE + "prompt = 'x'\n", "s.toml:2: request.prompt_tokens: contradicts prompt: give one of the two"),
    (
        ONE + "\n" + ONE + "n = 2\nbeam_width = 2\n",
        "s.toml:7: request.beam_width: contradicts n: a request has samples or beams, not both",
    ),
    (
        ONE + "beam_width = 2\ntemperature = 1\n",
        "s.toml:4: request.temperature: contradicts beam_width: beam search does not sample",
    ),
    (ONE + "shared_prefix = 11\n", "s.toml:3: request.shared_prefix: is longer than the prompt, 10 tokens"),
    (ONE + "at_step = 7\nabort_at_step = 7\n", "s.toml:4: request.abort_at_step: must come after at_step, 7"),
    (
        ONE + "max_new_tokens = 8\nhold_at_stored = 9\n",
        "s.toml:4: request.hold_at_stored: must be 10 to 16: "
        "from the prompt's length to where the last new token but one is stored",
    ),
    (
        ONE + "max_new_tokens = 8\nhold_at_stored = 17\n",
        "s.toml:4: request.hold_at_stored: must be 10 to 16: "
        "from the prompt's length to where the last new token but one is stored",
    ),
    (
        ONE + "max_new_tokens = 2\nhold_at_stored = 11\n",
        "s.toml:4: request.hold_at_stored: must be 10: "
        "from the prompt's length to where the last new token but one is stored",
    ),
    (
        ONE + "max_new_tokens = 1\nhold_at_stored = 10\n",
        "s.toml:4: request.hold_at_stored: is never reached: "
        "with one new token the sequence ends as its prompt is stored",
    ),
    (
        ONE + '[pool]\nhost_blocks = 0\npreemption = "swap"\n',
        "s.toml:5: pool.preemption: swap needs host blocks: set pool.host_blocks above 0 or leave it out",
    ),
    (
        "[scheduler]\nmax_sequences = 300\ntoken_budget = 256\n" + ONE,
        "s.toml:3: scheduler.token_budget: must be at least max_sequences, 300: "
        "each of them computes a token a step",
    ),
    ("[arrivals]\n", "s.toml:1: arrivals: lacks rate_per_step"),
    ("\n[arrivals]\nrate_per_step = 1\n", "s.toml:2: arrivals: lacks prompt_tokens"),
    (
        "[arrivals]\nrate_per_step = 0\n" + LENGTHS,
        "s.toml:2: arrivals.rate_per_step: is 0 and there are no bursts, so nothing would ever arrive",
    ),
    (ARRIVE + "shared_share = 0.5\n", "s.toml:5: arrivals.shared_share: needs shared_prefix"),
    (
        ARRIVE + "n.share = 0.6\nbeam_width.share = 0.6\n",
        "s.toml:6: arrivals.beam_width.share: adds up with n.share to more than 1",
    ),
    ("# nothing\n", "s.toml: asks for nothing: give it [[request]] tables or [arrivals]"),
    ("request = []\n", "s.toml: asks for nothing: give it [[request]] tables or [arrivals]"),
    # not TOML
    ("a = \n" + ONE, "s.toml:1: not valid TOML: Invalid value (column 5)"),
    ("name = 'x", 's.toml:1: not valid TOML: Expected "\'" (end of file)'),
    (f"seed = {'9' * 5000}\n", "s.toml: not valid TOML: a number has too many digits"),
    (f"a = {'[' * 20_000}\n", "s.toml: not valid TOML: nested too deeply"),
    # text from outside
    (
        '"\\u001b[31m\\n[red]\\u202e" = 1\n' + ONE,
        "s.toml:1: \\x1b[31m\\n[red]\\u202e: unknown key",
    ),
    (
        '[pool]\nblocks = "\\u001b]0;title\\u0007[/]"\n' + ONE,
        's.toml:2: pool.blocks: must be an integer from 1 to 100,000,000, not "\\u001b]0;title\\u0007[/]"',
    ),
]


@pytest.mark.parametrize(("text", "message"), CASES, ids=[message[:60] for _, message in CASES])
def test_error(text: str, message: str):
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, "s.toml")
    assert str(caught.value) == message


def test_windows_line_ends_count_once():
    with pytest.raises(ScenarioError, match=r"^s\.toml:5: request\.zzz: unknown key$"):
        parse_scenario('# "\r\n[[request]]\r\nprompt = """a\r\nb"""\r\nzzz = 1\r\n', "s.toml")


# -- files -------------------------------------------------------------------------------------------------


def error_of(path: Path | str) -> str:
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    return str(caught.value)


def test_missing_file_names_what_is_built_in_and_near():
    built_in = "; built in: " + ", ".join(builtin_names())
    assert error_of("mixd") == f'mixd: no such scenario or file (did you mean "mixed"?){built_in}'
    assert error_of("no/four-draft.toml") == (
        f'no/four-draft.toml: no such scenario or file (did you mean "four-drafts"?){built_in}'
    )
    assert error_of("zzzzzz") == f"zzzzzz: no such scenario or file{built_in}"
    assert error_of("") == f": no such scenario or file{built_in}"


def test_folder(tmp_path: Path):
    assert error_of(tmp_path) == f"{tmp_path}: is a folder, not a scenario file"


def test_file_as_folder(tmp_path: Path):
    (tmp_path / "f").write_text(ONE)
    assert ": no such scenario or file" in error_of(tmp_path / "f" / "g.toml")


def test_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    assert error_of(tmp_path / "a.toml") == f"{tmp_path}/a.toml: cannot be read: Permission denied"


def test_binary(tmp_path: Path):
    file = tmp_path / "b.toml"
    file.write_bytes(b"name = 'x'\n\xff\xfe\x00")
    assert error_of(file) == f"{file}:2: not UTF-8 text: is this a TOML file?"


def test_empty(tmp_path: Path):
    file = tmp_path / "e.toml"
    file.write_bytes(b"\xef\xbb\xbf \n")
    assert error_of(file) == f"{file}: is empty: give it [[request]] tables or [arrivals]"


def test_huge(tmp_path: Path):
    file = tmp_path / "h.toml"
    file.write_bytes(b"#" * (1 << 20) + b"#")
    assert error_of(file) == f"{file}: larger than 1 MiB: not a scenario file"


def test_name_with_a_null_or_an_escape():
    assert error_of("a\0b") == "a\\x00b: not a file name"
    assert error_of("\x1b[31m[red]").startswith("\\x1b[31m[red]: no such scenario")


def test_file_in_the_way_of_a_built_in_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("mixed").write_text("name = 'mine'\n" + ONE)
    assert load_scenario("mixed").name == "mixed"
    assert load_scenario("./mixed").name == "mine"
    assert load_scenario(Path("mixed")).name == "mine"


# -- whatever comes ----------------------------------------------------------------------------------------

KEYS = st.sampled_from([*TOP, *POOL, *SCHEDULER, *REQUEST, *ARRIVALS, "mean", "max", "min", "share", "every"])
ODD = st.sampled_from(["", "\x1b[0m", "[red]", "a.b", "\u202e", "swap"])
LEAVES = (
    st.integers()
    | st.floats()
    | st.booleans()
    | st.text(max_size=5)
    | ODD
    | st.datetimes()
    | st.integers(1, 50)
)
DICTS = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | ODD, inner, max_size=4),
    max_leaves=12,
)
DOCUMENTS = st.dictionaries(st.sampled_from([*TOP]) | ODD, DICTS, max_size=4)
ONE_LINE = re.compile(r"[^\x00-\x1f\x7f-\x9f\u202e]+")


def read(text: str) -> Scenario | None:
    """A scenario, or None and the certainty that the error is one clean line that names the file."""
    try:
        return parse_scenario(text, "s.toml")
    except ScenarioError as error:
        message = str(error)
    assert ONE_LINE.fullmatch(message), ascii(message)
    assert message.startswith("s.toml:")
    return None


@given(DOCUMENTS)
def test_any_document_loads_or_says_what_is_wrong(document: dict[str, Any]):
    try:
        text = tomlkit.dumps(document)
    except ValueError:
        return
    read(text)


@given(
    st.fixed_dictionaries({}, optional={key: LEAVES | st.just({"mean": 9, "max": 30}) for key in ARRIVALS}),
    st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(REQUEST, LEAVES)), max_size=2),
)
def test_any_request_loads_or_says_what_is_wrong(arrivals: dict[str, Any], requests: list[dict[str, Any]]):
    scenario = read(tomlkit.dumps({"arrivals": arrivals, "request": requests}))
    if scenario is not None:
        assert len(scenario.requests) == len(requests)


@given(st.sampled_from(builtin_names()), st.data())
def test_a_damaged_scenario_loads_or_says_what_is_wrong(name: str, data: st.DataObject):
    from importlib import resources

    text = (resources.files("kvtop.workload") / "scenarios" / f"{name}.toml").read_text("utf-8")
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 5))
    read(
        text[:at]
        + data.draw(st.text(max_size=3) | st.sampled_from(["]", '"', "\n", "=", "-"]))
        + text[at + cut :]
    )


@given(st.text(max_size=60))
def test_any_text_loads_or_says_what_is_wrong(text: str):
    read(text)
