"""Finding blocks by their tokens: chains, namesakes, copies, and what is left when blocks go."""

from __future__ import annotations

import pytest

from kvtop.memory.prefix_cache import PrefixCache, chain_hash

A, B, C = [1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]


def found(cache, tokens, **keys):
    return [node.blocks for node in cache.find(tokens, **keys)]


def insert(cache, blocks, tokens, **keys):
    node = cache.root(**keys)
    for number, block in enumerate(blocks):
        node = cache.insert(block, node, tokens[number * 4 : number * 4 + 4])
    return node


@pytest.fixture(params=["blake2b", "constant"])
def cache(request):
    """With the real hash and with one that always collides: nothing may differ."""
    return PrefixCache(4, chain_hash if request.param == "blake2b" else lambda parent, content: 5)


def test_the_longest_chain_and_never_the_whole_prompt(cache):
    insert(cache, [3, 4, 5], A + B + C)
    assert found(cache, [*A, *B, *C, 1]) == [[3], [4], [5]]
    assert found(cache, A + B + C) == [[3], [4]]
    assert found(cache, [*A, *B, *C[:3]]) == found(cache, [*A, *B, 0, 0, 0, 0, 0]) == [[3], [4]]
    assert found(cache, A) == found(cache, []) == found(cache, [*B, 1]) == []


def test_the_same_tokens_behind_another_beginning_are_not_the_same(cache):
    insert(cache, [1, 2], A + B)
    assert found(cache, [*B, 9]) == [] and found(cache, [*C, *B, 9]) == []
    insert(cache, [7, 8], C + B)
    assert found(cache, [*C, *B, 9]) == [[7], [8]] and found(cache, [*A, *B, 9]) == [[1], [2]]


def test_other_extra_keys_never_meet(cache):
    insert(cache, [1], A)
    insert(cache, [2], A, extra_keys=b"salt")
    assert found(cache, [*A, 9]) == [[1]]
    assert found(cache, [*A, 9], extra_keys=b"salt") == [[2]]
    assert found(cache, [*A, 9], extra_keys=b"pepper") == []


def test_a_chain_whose_middle_is_gone_is_found_again_when_it_is_cached_anew(cache):
    insert(cache, [1, 2, 3], A + B + C)
    cache.remove(2)
    assert found(cache, [*A, *B, *C, 9]) == [[1]]
    first = cache.node_of(1)
    cache.insert(6, first, B)
    assert found(cache, [*A, *B, *C, 9]) == [[1], [6], [3]]


def test_equal_blocks_stand_side_by_side(cache):
    insert(cache, [1], A)
    insert(cache, [2], A)
    assert found(cache, [*A, 9]) == [[1, 2]] and len(cache) == 2
    cache.remove(1)
    assert found(cache, [*A, 9]) == [[2]]
    cache.remove(2)
    assert found(cache, [*A, 9]) == [] and len(cache) == 0


def test_nothing_is_left_when_every_block_is_gone(cache):
    insert(cache, [1, 2, 3], A + B + C)
    insert(cache, [4, 5], A + C)
    for block in (1, 4, 5, 2, 3):
        cache.remove(block)
        assert cache.node_of(block) is None
    assert cache._nodes == {} and cache.root().children == 0
    with pytest.raises(KeyError):
        cache.remove(1)


def test_hashes_are_the_same_on_every_machine_and_never_zero():
    content = bytes(range(16))
    assert chain_hash(0, content) == 3_156_498_299_022_538_587
    assert chain_hash(0, content) != chain_hash(1, content) != chain_hash(-1, content)
    assert -(2**63) <= chain_hash(-(2**63), content) < 2**63
    cache = PrefixCache(4)
    node = insert(cache, [1, 2], A + B)
    assert node.token_ids == tuple(B) and node.parent_hash == cache.node_of(1).hash
    assert cache.node_of(1).parent_hash == 0
