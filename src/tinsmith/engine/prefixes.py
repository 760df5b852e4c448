"""Prefix cache: beginnings of sequences in the KV cache, computed once and read by every request that begins so.

A row's keys and values are a function of the weights and of the tokens up to it, to the bit, so it does not matter
which request computed them. Whole pages are kept, in a tree over their tokens for each weights; the ones that nobody
uses are given up, the longest unused first, where the cache needs room. What is begun in the same step waits for a
beginning that another request is just computing, if that saves enough.
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
"""A request waits for a beginning that is being computed where that saves one row of so many."""

Weights = Adapter | Decoder
"""Weights that keys and values depend on, beside tokens: an adapter with its base, or a base alone."""


@dataclass(slots=True, eq=False)
class _Node:
    """A page of tokens, after those of the nodes above it."""

    key: bytes
    above: _Node | None
    page: int | None = None
    """Page of its keys and values; None: they are not cached."""
    makers: list[int] = field(default_factory=list[int])
    """Numbers of the requests that are computing it."""
    below: dict[bytes, _Node] = field(default_factory=dict[bytes, "_Node"])
    routes: NDArray[np.int64] | None = None
    """Of a mixture: a digest of each token's experts."""


@dataclass(slots=True, eq=False)
class _Tree:
    """Cached pages of some weights, as long as these are the same and anybody has them."""

    weights: weakref.ref[Weights]
    version: int
    top: _Node = field(default_factory=lambda: _Node(b"", None))

    @property
    def current(self) -> bool:
        weights = self.weights()
        return weights is not None and _version(weights) == self.version


@dataclass(slots=True, eq=False)
class Beginning:
    """Cached tokens of a request, and the tokens that it computes for others."""

    pages: list[int] = field(default_factory=list[int])
    """Of its first tokens; the request has a reference to each."""
    routes: list[NDArray[np.int64]] = field(default_factory=list[NDArray[np.int64]])
    """Of a mixture: digests of these tokens' experts, page by page."""
    tree: _Tree | None = None
    """Tree that caches it; None: not cached."""
    number: int = 0
    """The request's."""
    made: Sequence[_Node] = ()
    """Pages that it computes."""


@dataclass(slots=True, eq=False)
class Prefixes:
    """All beginnings in one pool."""

    pool: PagePool
    most: int
    """Pages kept at most when nobody uses them; 0: none are."""
    _trees: dict[int, _Tree] = field(default_factory=dict[int, _Tree])
    """By the id of the weights."""
    _gone: deque[int] = field(default_factory=deque[int])
    """Ids of weights that nobody has any more: noted at any time, looked at by the next call here."""
    _kept: OrderedDict[int, _Node] = field(default_factory=OrderedDict[int, _Node])
    """By page, the longest unused first; a node comes before those above it."""

    def __post_init__(self) -> None:
        self.pool.reclaim = self._give_up_one

    def begin(self, weights: Weights | None, prompt: IntArray, needed: int, number: int) -> Beginning | None:
        """Find what is there of a prompt, of which the rows from row `needed` on are needed.

        None: a request of a smaller `number`, which came earlier, computes enough of it just now; it is to be asked
        again after the next step.
        """
        if weights is None or self.most == 0:
            return Beginning()
        tree, keys = self._tree(weights), list(_keys(prompt, len(prompt)))
        path = _path(tree.top, keys[: needed // PAGE])
        found = 0
        while found < len(path) and path[found].page is not None:
            found += 1
        made = takewhile(lambda node: min(node.makers, default=number) < number, path[found:])
        coming = len(list(made))
        if coming and coming * PAGE * LEAST_SAVED >= len(prompt) - found * PAGE:
            return None
        begun = Beginning(tree=tree, number=number)
        for node in path[:found]:
            assert node.page is not None
            self.pool.share(node.page)
            begun.pages.append(node.page)
            if node.routes is not None:
                begun.routes.append(node.routes)
        self._touch(path[:found])
        begun.made = _grown(path[found - 1] if found else tree.top, keys[found:])
        for node in begun.made:
            node.makers.append(number)
        self.pool.num_reused += found * PAGE
        return begun

    def keep(
        self, begun: Beginning, tokens: IntArray, pages: Sequence[int], routes: Sequence[NDArray[np.int64]] = ()
    ) -> None:
        """Keep the full pages of a sequence, all rows of which have been computed and are sound.

        `tokens` are those of these rows, from the prompt's first on; `routes`, of a mixture, their digests in pieces.
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
                self._kept[pages[i]] = node
        self._touch(path)

    def trim(self) -> None:
        """Give up what is kept beyond the limit, as far as nobody uses it."""
        while len(self._kept) > self.most and self.pool.idle:
            self._give_up_one()

    def settle(self, begun: Beginning) -> None:
        """Let nobody wait for what a request was going to compute: it is kept by now, or will not be."""
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
        """These were used last, the ones above later than those below."""
        for node in reversed(path):
            assert node.page is not None
            self._kept.move_to_end(node.page)

    def _give_up_one(self) -> None:
        """Free at least one page that nobody uses."""
        while self._gone:
            self._drop_tree(self._gone.popleft())
        unused = next((p for p in self._kept if self.pool.is_idle(p)), None)
        if unused is not None:
            self._remove(self._kept[unused])

    def _remove(self, top: _Node) -> None:
        """Keep a node and what is below it no longer."""
        if top.above is not None and top.above.below.get(top.key) is top:
            del top.above.below[top.key]
        nodes = [top]
        while nodes:
            node = nodes.pop()
            nodes += node.below.values()
            node.below = {}
            if node.page is not None:
                del self._kept[node.page]
                self.pool.let_go(node.page)
                node.page = node.routes = None


def _version(weights: Weights) -> int:
    return weights.version if isinstance(weights, Adapter) else 0


def _keys(tokens: IntArray, count: int) -> Iterator[bytes]:
    """The full pages among the first `count` tokens."""
    data = np.ascontiguousarray(tokens, np.int32)
    for i in range(count // PAGE):
        yield data[i * PAGE : (i + 1) * PAGE].tobytes()


def _path(top: _Node, keys: Sequence[bytes]) -> list[_Node]:
    """The nodes that are there, as far as they go."""
    path: list[_Node] = []
    for key in keys:
        found = (path[-1] if path else top).below.get(key)
        if found is None:
            break
        path.append(found)
    return path


def _grown(top: _Node, keys: Sequence[bytes]) -> list[_Node]:
    """The nodes of all these pages; those that are missing are made."""
    path: list[_Node] = []
    for key in keys:
        above = path[-1] if path else top
        if key not in above.below:
            above.below[key] = _Node(key, above)
        path.append(above.below[key])
    return path


def _prune(node: _Node) -> None:
    """Remove a node that stands for nothing."""
    above = node.above
    if above is None or above.below.get(node.key) is not node:
        return
    if node.page is None and not node.makers and not node.below:
        del above.below[node.key]
