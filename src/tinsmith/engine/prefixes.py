"""Prefix cache: keys and values of prompt prefixes, computed once and shared by later requests.

A row's keys and values are a function of the weights and of the tokens up to it, to the bit, so it does not matter
which request computed them. Full pages are cached in a tree over their tokens, one for each set of weights. Unused
pages are evicted when the KV cache needs room, least recently used first. A request waits for a prefix that another
request of the same step is computing, if that saves enough.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tinsmith.engine.cache import PagePool
from tinsmith.models.adapter import Adapter
from tinsmith.models.decoder import Decoder
from tinsmith.ops.paging import PAGE
from tinsmith.types.datum import IntArray

LEAST_SAVED: Final = 8
"""A request waits for a prefix in progress if that saves at least one of this many rows."""

Weights = Adapter | Decoder
"""Weights on which keys and values depend, besides tokens: an adapter with its base, or a base alone."""


@dataclass(slots=True, eq=False)
class _Node:
    """Page of tokens that follow those of the nodes above it."""

    key: bytes
    above: _Node | None
    page: int | None = None
    """Page of its keys and values; None if they are not cached."""
    makers: list[int] = field(default_factory=list[int])
    """Numbers of the requests that are computing it."""
    below: dict[bytes, _Node] = field(default_factory=dict[bytes, "_Node"])
    routes: NDArray[np.int64] | None = None
    """Digest of each token's experts, for a mixture."""


@dataclass(slots=True, eq=False)
class _Tree:
    """Cached pages of one set of weights, valid while these are alive and unchanged."""

    weights: weakref.ref[Weights]
    version: int
    top: _Node = field(default_factory=lambda: _Node(b"", None))

    @property
    def current(self) -> bool:
        weights = self.weights()
        return weights is not None and _version(weights) == self.version


@dataclass(slots=True, eq=False)
class Beginning:
    """Cached prefix of a request, and the pages that it computes for others."""

    pages: list[int] = field(default_factory=list[int])
    """Pages of its first tokens; the request holds a reference to each."""
    routes: list[NDArray[np.int64]] = field(default_factory=list[NDArray[np.int64]])
    """Digests of these tokens' experts, page by page, for a mixture."""
    tree: _Tree | None = None
    """Tree that caches it; None if it is not cached."""
    number: int = 0
    """Number of the request."""
    made: Sequence[_Node] = ()
    """Nodes of the pages that it computes."""


@dataclass(slots=True, eq=False)
class Prefixes:
    """Prefix cache of one page pool."""

    pool: PagePool
    most: int
    """Most unused pages to cache; 0 disables the cache."""
    _trees: dict[int, _Tree] = field(default_factory=dict[int, _Tree])
    """Trees by the id of the weights."""
    _gone: deque[int] = field(default_factory=deque[int])
    """Ids of weights that were garbage-collected: appended at any time, processed by the next call here."""
    _cached: OrderedDict[int, _Node] = field(default_factory=OrderedDict[int, _Node])
    """Nodes by page, least recently used first; a node comes before those above it."""

    def __post_init__(self) -> None:
        self.pool.reclaim = self._give_up_one

    def begin(self, weights: Weights | None, prompt: IntArray, needed: int, number: int) -> Beginning | None:
        """Look up the cached prefix of a prompt, of which the rows from row `needed` on must be computed.

        Returns None if an earlier request (a smaller `number`) is computing enough of it now; retry after the next
        step.
        """
        if weights is None or self.most == 0:
            return Beginning()
        tree, keys = self._tree(weights), list(_keys(prompt, len(prompt)))
        path = _path(tree.top, keys[: needed // PAGE])
        num_cached = 0
        while num_cached < len(path) and path[num_cached].page is not None:
            num_cached += 1
        made = takewhile(lambda node: min(node.makers, default=number) < number, path[num_cached:])
        coming = len(list(made))
        if coming and coming * PAGE * LEAST_SAVED >= len(prompt) - num_cached * PAGE:
            return None
        begun = Beginning(tree=tree, number=number)
        for node in path[:num_cached]:
            assert node.page is not None
            self.pool.share(node.page)
            begun.pages.append(node.page)
            if node.routes is not None:
                begun.routes.append(node.routes)
        self._touch(path[:num_cached])
        begun.made = _grown(path[num_cached - 1] if num_cached else tree.top, keys[num_cached:])
        for node in begun.made:
            node.makers.append(number)
        self.pool.num_reused += num_cached * PAGE
        return begun

    def keep(
        self, begun: Beginning, tokens: IntArray, pages: Sequence[int], routes: Sequence[NDArray[np.int64]] = ()
    ) -> None:
        """Cache the full pages of a sequence whose rows have all been computed and are finite.

        `tokens` are those of these rows, starting with the prompt's first; `routes` are a mixture's digests in chunks.
        """
        tree = begun.tree
        if tree is None or not tree.current or self._trees.get(id(tree.weights())) is not tree:
            return
        keys = list(_keys(tokens, len(tokens)))
        digests = np.concatenate(routes) if len(routes) else None
        path = _grown(tree.top, keys)
        for i, node in enumerate(path):
            if node.page is None:
                node.page = pages[i]
                node.routes = None if digests is None else digests[i * PAGE : (i + 1) * PAGE].copy()
                self.pool.keep(pages[i])
                self._cached[pages[i]] = node
        self._touch(path)

    def trim(self) -> None:
        """Evict unused pages beyond the limit."""
        while len(self._cached) > self.most and self.pool.idle:
            self._give_up_one()

    def settle(self, begun: Beginning) -> None:
        """Mark a request's pages as no longer in progress, whether or not they were cached."""
        for node in reversed(begun.made):
            node.makers.remove(begun.number)
            _prune(node)
        begun.made = ()

    def _tree(self, weights: Weights) -> _Tree:
        while self._gone:
            self._drop_tree(self._gone.popleft())
        name = id(weights)
        tree = self._trees.get(name)
        if tree is None or tree.weights() is not weights or not tree.current:
            self._drop_tree(name)
            gone = self._gone
            alive = weakref.ref(weights, lambda _: gone.append(name))
            tree = self._trees[name] = _Tree(alive, _version(weights))
        return tree

    def _drop_tree(self, name: int) -> None:
        tree = self._trees.get(name)
        if tree is not None:
            del self._trees[name]
            self._remove(tree.top)

    def _touch(self, path: Sequence[_Node]) -> None:
        """Mark nodes as most recently used, ancestors after descendants."""
        for node in reversed(path):
            assert node.page is not None
            self._cached.move_to_end(node.page)

    def _give_up_one(self) -> None:
        """Evict at least one unused page."""
        while self._gone:
            self._drop_tree(self._gone.popleft())
        unused = next((p for p in self._cached if self.pool.is_idle(p)), None)
        if unused is not None:
            self._remove(self._cached[unused])

    def _remove(self, top: _Node) -> None:
        """Remove a node and its descendants from the cache."""
        if top.above is not None and top.above.below.get(top.key) is top:
            del top.above.below[top.key]
        nodes = [top]
        while nodes:
            node = nodes.pop()
            nodes += node.below.values()
            node.below = {}
            if node.page is not None:
                del self._cached[node.page]
                self.pool.let_go(node.page)
                node.page = node.routes = None


def _version(weights: Weights) -> int:
    return weights.version if isinstance(weights, Adapter) else 0


def _keys(tokens: IntArray, count: int) -> Iterator[bytes]:
    """Keys of the full pages among the first `count` tokens."""
    data = np.ascontiguousarray(tokens, np.int32)
    for i in range(count // PAGE):
        yield data[i * PAGE : (i + 1) * PAGE].tobytes()


def _path(top: _Node, keys: Sequence[bytes]) -> list[_Node]:
    """Return the existing nodes along the keys, up to the first missing one."""
    path: list[_Node] = []
    for key in keys:
        found = (path[-1] if path else top).below.get(key)
        if found is None:
            break
        path.append(found)
    return path


def _grown(top: _Node, keys: Sequence[bytes]) -> list[_Node]:
    """Nodes along all keys; missing ones are created."""
    path: list[_Node] = []
    for key in keys:
        above = path[-1] if path else top
        if key not in above.below:
            above.below[key] = _Node(key, above)
        path.append(above.below[key])
    return path


def _prune(node: _Node) -> None:
    """Remove a node without page, makers or descendants."""
    above = node.above
    if above is None or above.below.get(node.key) is not node:
        return
    if node.page is None and not node.makers and not node.below:
        del above.below[node.key]
