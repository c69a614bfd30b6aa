"""Which blocks hold which tokens: the prefix cache as a chain of hashes that is checked on every hit.

A full block is known by the hash of its tokens and of everything before it. A hash only narrows the
search: a hit also compares the tokens and the identity of the chain before them, so a collision gives a
miss and never another prompt's K/V. Equal blocks are not merged (as in vLLM): a node lists every block
that holds its tokens, and the hash is gone only with the last of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from hashlib import blake2b

HashFunction = Callable[[int, bytes], int]
"""(hash of the chain before, tokens as int32 bytes) -> signed 64-bit hash, never 0."""


def chain_hash(parent: int, content: bytes) -> int:
    """BLAKE2b over the parent's hash and the block's tokens, cut to 64 bits; the same on every machine."""
    digest = blake2b(parent.to_bytes(8, "little", signed=True) + content, digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True) or 1


class PrefixNode:
    """One full block's worth of tokens after a given chain. `blocks` hold its K/V, oldest first.

    A node without blocks stays while longer chains still pass through it, so they are found again when
    its tokens are cached anew.
    """

    __slots__ = ("blocks", "children", "content", "hash", "parent")

    def __init__(self, hash_: int, parent: PrefixNode | None, content: bytes) -> None:
        self.hash = hash_
        self.parent = parent
        self.content = content
        self.blocks: list[int] = []
        self.children = 0

    @property
    def parent_hash(self) -> int:
        """Hash of the chain before; 0 at the root."""
        return self.parent.hash if self.parent is not None else 0

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The tokens of this block alone."""
        return tuple(array("i", self.content))


class PrefixCache:
    """Finds cached blocks by their tokens. Knows nothing of reference counts or of the free queue."""

    def __init__(self, block_size: int, hash_function: HashFunction = chain_hash) -> None:
        self.block_size = block_size
        self._hash = hash_function
        self._nodes: dict[int, list[PrefixNode]] = {}
        self._roots: dict[bytes, PrefixNode] = {}
        self._node_of: dict[int, PrefixNode] = {}

    def __len__(self) -> int:
        """How many blocks are cached."""
        return len(self._node_of)

    def root(self, extra_keys: bytes = b"") -> PrefixNode:
        """Where chains begin that may share: other extra keys (an adapter, a salt) never meet."""
        node = self._roots.get(extra_keys)
        if node is None:
            node = PrefixNode(self._hash(0, extra_keys) if extra_keys else 0, None, extra_keys)
            self._roots[extra_keys] = node
        return node

    def node_of(self, block: int) -> PrefixNode | None:
        """The node that a block is cached under, or None. Changes nothing."""
        return self._node_of.get(block)

    def find(self, tokens: Sequence[int], extra_keys: bytes = b"") -> list[PrefixNode]:
        """The longest chain of cached full blocks that `tokens` begin with, never all of them: at least one
        token is left to compute, for its logits. Changes nothing."""
        chain: list[PrefixNode] = []
        self.follow(chain, array("q"), tokens, extra_keys)
        return chain

    def follow(
        self, chain: list[PrefixNode], hashes: array[int], tokens: Sequence[int], extra_keys: bytes = b""
    ) -> None:
        """Lengthen `chain`, cached nodes of the first blocks of `tokens`, as `find` has it.

        `hashes` are those of the first blocks of `tokens`, at least the chain's; new ones are added.
        """
        size = self.block_size
        node = chain[-1] if chain else self.root(extra_keys)
        for logical in range(len(chain), (len(tokens) - 1) // size):
            content = array("i", tokens[logical * size : (logical + 1) * size]).tobytes()
            if logical == len(hashes):
                hashes.append(self._hash(node.hash, content))
            child = self._child(node, content, hashes[logical])
            if child is None or not child.blocks:
                break
            chain.append(child)
            node = child

    def insert(self, block: int, parent: PrefixNode, tokens: Sequence[int]) -> PrefixNode:
        """Make `block` findable as `tokens` after `parent`'s chain. The block must not be cached yet."""
        content = array("i", tokens).tobytes()
        hash_ = self._hash(parent.hash, content)
        bucket = self._nodes.get(hash_)
        node = self._child(parent, content, hash_) if bucket else None
        if node is None:
            node = PrefixNode(hash_, parent, content)
            parent.children += 1
            if bucket:
                bucket.append(node)
            else:
                self._nodes[hash_] = [node]
        node.blocks.append(block)
        self._node_of[block] = node
        return node

    def remove(self, block: int) -> None:
        """Forget a block (it is being evicted). Raises KeyError when it is not cached."""
        node = self._node_of.pop(block)
        node.blocks.remove(block)
        while node.parent is not None and not node.blocks and not node.children:
            bucket = self._nodes[node.hash]
            if len(bucket) == 1:
                del self._nodes[node.hash]
            else:
                bucket.remove(node)
            node.parent.children -= 1
            node = node.parent

    def _child(self, parent: PrefixNode, content: bytes, hash_: int) -> PrefixNode | None:
        for node in self._nodes.get(hash_, ()):
            if node.parent is parent and node.content == content:
                return node
        return None
