from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtop.workload.prompts import PromptSource, sentences

Encode = Callable[[str], list[int]]


def source(encode: Callable[[str], Sequence[int]], block_size: int = 16, seed: int = 1) -> PromptSource:
    return PromptSource(encode, block_size, seed)


def blocks(prompt: Sequence[int], block_size: int) -> list[tuple[int, ...]]:
    return [tuple(prompt[i : i + block_size]) for i in range(0, len(prompt) - block_size + 1, block_size)]


def test_text_is_plain_english_a_sentence_a_line():
    found = sentences()
    assert len(found) > 900
    assert 150_000 < sum(map(len, found)) < 200_000
    assert all(sentence.isascii() and sentence.isprintable() for sentence in found)
    assert found[0].startswith("To the Congress of the United States:")


@pytest.mark.parametrize("tokens", [1, 2, 15, 16, 17, 1000, 70_000])
def test_exactly_as_many_tokens_as_asked_for(encode: Encode, tokens: int):
    assert len(source(encode).prompt(tokens)) == tokens


@pytest.mark.parametrize("block_size", [2, 4, 16, 64])
def test_prompts_share_nothing(encode: Encode, block_size: int):
    prompts = source(encode, block_size)
    firsts = [prompts.prompt(block_size + 3)[:block_size] for _ in range(3000)]
    assert len(set(firsts)) == 3000


def test_prompts_share_nothing_beyond_the_end_of_the_text():
    """Bytes of one letter a word: few tokens and fewer starts, so windows come round again and again."""
    prompts = source(lambda text: [ord(text.strip()[0]) % 8 for _ in text.split()][:3] if text else [], 4)
    firsts = [prompts.prompt(4) for _ in range(300)]
    assert prompts._starts < 300
    assert len(set(firsts)) == 300


def test_blocks_of_one_token_differ_as_long_as_the_text_has_different_tokens(encode: Encode):
    prompts = source(encode, 1)
    different = len(set(encode(" ".join(sentences()))))
    assert len({prompts.prompt(5)[0] for _ in range(different)}) == different
    assert len(prompts.prompt(5)) == 5


def test_prompts_begin_where_sentences_do(encode: Encode):
    prompts = source(encode)
    openings = {tuple(encode(sentence))[:4] for sentence in sentences()}
    assert all(prompts.prompt(40)[:4] in openings for _ in range(500))


def test_tokens_are_those_of_the_text(encode: Encode):
    text = encode(" ".join(sentences()))
    window = list(source(encode).prompt(300))
    twice = text + text
    assert any(twice[i : i + 300] == window for i, token in enumerate(text) if token == window[0])


def test_special_tokens_stand_once_at_the_front(encode: Encode):
    prompts = source(lambda text: [7, *encode(text)])
    drawn = [prompts.prompt(40) for _ in range(200)]
    assert all(prompt[0] == 7 and 7 not in prompt[1:] and len(prompt) == 40 for prompt in drawn)
    assert len({prompt[:16] for prompt in drawn}) == 200
    preface = prompts.preface(32)
    assert preface[0] == 7 and len(preface) == 32
    joined = prompts.text_after(preface, "a few words")
    assert joined == (*preface, *encode("a few words"))
    assert prompts.text_after((), "a few words") == (7, *encode("a few words"))
    assert prompts.prompt(1) == (7,)


def test_prefaces_are_shared_and_what_follows_is_not(encode: Encode):
    prompts = source(encode)
    preface = prompts.preface(48)
    longer = prompts.preface(64)
    assert longer[:48] == preface
    after = [prompts.after(preface, 80) for _ in range(400)]
    assert all(len(prompt) == 80 and prompt[:48] == preface for prompt in after)
    assert len({prompt[48:64] for prompt in after}) == 400
    assert prompts.after(preface, 20) == preface[:20]
    assert len(prompts.preface(100_000)) == 100_000


def test_no_window_begins_like_a_preface_or_a_text_of_the_users(encode: Encode):
    prompts = source(encode)
    text = " ".join(sentences()[5:8])
    taken = {prompts.preface(32)[:16], tuple(encode(text))[:16], prompts.preface(text)[:16]}
    prompts.reserve(tuple(encode(" ".join(sentences()[9:12]))))
    taken.add(tuple(encode(" ".join(sentences()[9:12])))[:16])
    assert not taken & {prompts.prompt(20)[:16] for _ in range(5000)}


def test_a_tokenizer_that_knows_one_token_gives_equal_prompts_without_hanging():
    prompts = source(lambda text: [5] * len(text.split()), 4)
    prompts.preface(8)
    assert prompts.prompt(6) == (5,) * 6


def test_a_tokenizer_that_gives_nothing_is_refused():
    with pytest.raises(ValueError, match=r"^the tokenizer gives no tokens"):
        source(lambda _: []).prompt(3)


def test_the_seed_decides(encode: Encode):
    def draw(seed: int) -> list[tuple[int, ...]]:
        prompts = source(encode, seed=seed)
        return [prompts.prompt(30) for _ in range(20)]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


@given(
    st.lists(st.integers(1, 90), min_size=2, max_size=12),
    st.sampled_from([2, 3, 8]),
    st.integers(0, 2**64 - 1),
)
def test_no_block_is_in_two_prompts(lengths: list[int], block_size: int, seed: int):
    prompts = PromptSource(lambda text: list(text[:40].encode()), block_size, seed)
    chains = [prompts.prompt(length) for length in lengths]
    firsts = [blocks(chain, block_size)[0] for chain in chains if len(chain) >= block_size]
    assert len(set(firsts)) == len(firsts)
    assert [len(chain) for chain in chains] == lengths
