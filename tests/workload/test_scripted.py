from __future__ import annotations

from collections.abc import Callable

import pytest

from kvtop.workload.factory import RequestFactory
from kvtop.workload.prompts import PromptSource
from kvtop.workload.request import Request
from kvtop.workload.scenario import Scenario, ScenarioError, load_scenario
from kvtop.workload.scripted import ScenarioWorkload
from kvtop.workload.workload import Workload

Encode = Callable[[str], list[int]]
Parse = Callable[[str], Scenario]

THREE = """
[[request]]
at_step = 5
prompt_tokens = 40
n = 3
[[request]]
prompt_tokens = 50
max_new_tokens = 20
hold_at_stored = 60
ignore_eos = true
temperature = 0
seed = 9
[[request]]
at_step = 5
prompt = "What is the state of the Union?"
abort_at_step = 9
beam_width = 2
"""


def take(workload: ScenarioWorkload, steps: int) -> list[tuple[int, Request]]:
    return [(step, request) for step in range(1, steps + 1) for request in workload.arrivals(step, 0)]


def test_requests_come_at_their_steps_in_the_order_of_the_file(scenario: Parse, encode: Encode):
    workload: Workload = ScenarioWorkload(scenario(THREE), encode=encode, block_size=16, seed=1)
    assert isinstance(workload, ScenarioWorkload)
    assert (workload.holding_requests, workload.endless) == (1, False)
    arrived = take(workload, 4)
    assert not workload.exhausted(4)
    arrived += [(5, request) for request in workload.arrivals(5, 0)]
    assert workload.exhausted(5)
    assert [step for step, _ in arrived] == [1, 5, 5]
    first, second, third = (request for _, request in arrived)
    assert (first.id, second.id, third.id) == (1, 2, 3)
    assert (len(first.prompt_token_ids), first.max_new_tokens, first.hold_at_stored) == (50, 20, 60)
    assert (first.temperature, first.seed, first.ignore_eos) == (0.0, 9, True)
    assert (len(second.prompt_token_ids), second.n, second.temperature) == (40, 3, 0.7)
    assert (second.max_new_tokens, second.ignore_eos) == (128, False)
    assert third.prompt_token_ids == tuple(encode("What is the state of the Union?"))
    assert (third.beam_width, third.temperature, third.abort_at_step) == (2, 0.0, 9)


def test_nothing_arrives_twice(scenario: Parse, encode: Encode):
    workload = ScenarioWorkload(scenario(THREE), encode=encode, block_size=16)
    assert len(take(workload, 5)) == 3
    assert workload.arrivals(5, 0) == []


def test_seed_and_id_decide_and_nothing_else(encode: Encode):
    def traffic(seed: int) -> list[tuple[int, Request]]:
        return take(ScenarioWorkload(load_scenario("mixed"), encode=encode, block_size=16, seed=seed), 300)

    one = traffic(1)
    assert one == traffic(1)
    assert one != traffic(2)
    assert len({request.seed for _, request in one}) == len(one)
    assert [request.id for _, request in one] == list(range(1, len(one) + 1))


def test_requests_by_hand_leave_the_scenario_as_it_was(encode: Encode):
    def traffic(bursts: int) -> list[tuple[int, int]]:
        workload = ScenarioWorkload(load_scenario("mixed"), encode=encode, block_size=16, seed=1)
        workload.factory.burst(bursts)
        return [(step, len(request.prompt_token_ids)) for step, request in take(workload, 200)]

    assert traffic(0) == traffic(5)


def test_mixed_is_what_it_says(encode: Encode):
    workload = ScenarioWorkload(
        load_scenario("mixed"), encode=encode, block_size=16, max_positions=2048, seed=1
    )
    assert workload.endless and not workload.exhausted(10**9)
    requests = [request for _, request in take(workload, 4000)]
    prefaces = [request.prompt_token_ids[:256] for request in requests]
    preface = max(set(prefaces), key=prefaces.count)
    assert prefaces.count(preface) == pytest.approx(0.7 * len(requests), rel=0.1)
    others = [prompt[:16] for prompt in prefaces if prompt != preface]
    assert len(set(others)) == len(others) and preface[:16] not in others
    after = [r.prompt_token_ids[256:272] for r in requests if r.prompt_token_ids[:256] == preface]
    assert len(set(after)) == len(after)
    assert {request.n for request in requests} == {1, 2, 3, 4} == {request.beam_width for request in requests}
    assert all(272 <= len(request.prompt_token_ids) <= 960 for request in requests)
    assert all(48 <= request.max_new_tokens <= 400 for request in requests)


def test_shared_prefixes_of_tokens_and_of_text(scenario: Parse, encode: Encode):
    text = """
[[request]]
shared_prefix = 32
prompt_tokens = 40
[[request]]
shared_prefix = 32
prompt_tokens = 32
[[request]]
shared_prefix = "Fellow citizens of the Senate"
prompt = "and of the House"
[[request]]
shared_prefix = "Fellow citizens of the Senate"
prompt_tokens = 9
[[request]]
prompt_tokens = 40
"""
    workload = ScenarioWorkload(scenario(text), encode=encode, block_size=8)
    a, b, c, d, e = (request.prompt_token_ids for _, request in take(workload, 1))
    assert a[:32] == b and len(a) == 40
    assert c == tuple(encode("Fellow citizens of the Senate and of the House"))
    assert d[:5] == c[:5] and len(d) == 9
    assert len({prompt[:8] for prompt in (a, c, d, e)}) == 4


def test_lengths_are_cut_to_the_models_positions(encode: Encode):
    workload = ScenarioWorkload(
        load_scenario("mixed"), encode=encode, block_size=16, max_positions=256, seed=1
    )
    requests = [request for _, request in take(workload, 400)]
    assert all(len(request.prompt_token_ids) + request.max_new_tokens <= 256 for request in requests)
    assert all(request.prompt_token_ids and request.max_new_tokens for request in requests)


TRAFFIC = """
[[request]]
at_step = 2
prompt_tokens = 40
[[request]]
at_step = 2
prompt_tokens = 40
[arrivals]
rate_per_step = 50
max_unfinished = 5
shared_prefix = 32
prompt_tokens = { mean = 10, max = 20 }
new_tokens = { mean = 5, max = 9 }
"""


def test_requests_of_the_file_count_as_unfinished_and_always_come(scenario: Parse, encode: Encode):
    workload = ScenarioWorkload(scenario(TRAFFIC), encode=encode, block_size=16)
    assert [len(workload.arrivals(step, step)) for step in (1, 2, 3, 4, 5)] == [4, 3, 2, 1, 0]


def test_a_drawn_prompt_is_longer_than_its_prefix(scenario: Parse, encode: Encode):
    workload = ScenarioWorkload(scenario(TRAFFIC), encode=encode, block_size=16)
    assert {len(request.prompt_token_ids) for request in workload.arrivals(1, 0)} == {33}


PROBLEMS = [
    (
        "[[request]]\nprompt_tokens = 3\nshared_prefix = 'one two three four'\n",
        "s.toml:3: request.shared_prefix: is 4 tokens, longer than the prompt, 3 tokens",
    ),
    (
        "[[request]]\nprompt_tokens = 64\n",
        "s.toml:2: request.prompt_tokens: the prompt's 64 tokens leave no room in the model's 64 positions",
    ),
    ("\n[[request]]\nprompt = ' '\n", "s.toml:3: request.prompt: the prompt has no tokens"),
    (
        "[[request]]\nprompt = 'a b c d'\nmax_new_tokens = 4\n\nhold_at_stored = 8\n",
        "s.toml:5: request.hold_at_stored: must be 4 to 6: "
        "from the prompt's length to where the last new token but one is stored",
    ),
    (
        "[[request]]\nprompt_tokens = 40\nhold_at_stored = 63\n",
        "s.toml:3: request.hold_at_stored: is never reached: "
        "the model's 64 positions end a sequence before it",
    ),
]


@pytest.mark.parametrize(("text", "message"), PROBLEMS)
def test_what_only_tokens_can_tell(scenario: Parse, encode: Encode, text: str, message: str):
    with pytest.raises(ScenarioError) as caught:
        ScenarioWorkload(scenario(text), encode=encode, block_size=16, max_positions=64)
    assert str(caught.value) == message


def test_a_hold_just_within_reach_is_taken(scenario: Parse, encode: Encode):
    text = "[[request]]\nprompt_tokens = 40\nhold_at_stored = 62\n"
    workload = ScenarioWorkload(scenario(text), encode=encode, block_size=16, max_positions=64)
    assert take(workload, 1)[0][1].max_new_tokens == 24


# -- requests by hand --------------------------------------------------------------------------------------


@pytest.fixture
def factory(encode: Encode) -> RequestFactory:
    return RequestFactory(PromptSource(encode, 16, 1), seed=1, max_positions=100)


def test_typed_prompts_are_kept_and_drawn_ones_cut(factory: RequestFactory, encode: Encode):
    typed = factory.request("[red]\x1b[31m one two", max_new_tokens=500, seed=4, label="mine")
    assert typed.prompt_token_ids == tuple(encode("[red]\x1b[31m one two"))
    assert (typed.id, typed.max_new_tokens, typed.seed, typed.label) == (1, 97, 4, "mine")
    drawn = factory.request(prompt_tokens=5000, max_new_tokens=10, beam_width=3)
    assert (drawn.id, len(drawn.prompt_token_ids), drawn.max_new_tokens, drawn.temperature) == (2, 99, 1, 0.0)
    assert len(factory.request(prompt_tokens=0).prompt_token_ids) == 1


def test_a_prompt_that_cannot_be_served_makes_nothing(factory: RequestFactory):
    with pytest.raises(ValueError, match=r"^the prompt has no tokens$"):
        factory.request("  ")
    with pytest.raises(
        ValueError, match=r"^the prompt's 100 tokens leave no room in the model's 100 positions$"
    ):
        factory.request("word " * 100)
    assert factory.request("word").id == 1


def test_bursts_are_varied_and_fit(factory: RequestFactory):
    burst = factory.burst(30)
    assert [request.id for request in burst] == list(range(1, 31))
    assert len({len(request.prompt_token_ids) for request in burst}) > 5
    assert all(len(request.prompt_token_ids) + request.max_new_tokens <= 100 for request in burst)
    assert len({request.prompt_token_ids[:16] for request in burst}) == 30
