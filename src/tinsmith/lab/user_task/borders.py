"""Where a template ends and what is said begins, in the tokens that follow a reply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

from tinsmith.renderers.renderer import Message, Renderer, Role

_PROBES: Final = ("a", "7", "?")
"""Texts that have no token in common."""


@dataclass(slots=True, eq=False)
class TemplateBorders:
    """Knows how many tokens a renderer puts before and after what is said."""

    renderer: Renderer
    _known: dict[bool, tuple[int, int]] = field(default_factory=dict[bool, tuple[int, int]])
    """Before and after, by whether the reply ended with its stop token."""

    def own_words(self, reply: Sequence[int], observation: Sequence[int]) -> tuple[bool, ...]:
        """Return for each token after a reply whether it is what was said, and no template's."""
        before, after = self._borders(tuple(reply))
        said = max(0, len(observation) - before - after)
        return (False,) * before + (True,) * said + (False,) * (len(observation) - before - said)

    def _borders(self, reply: tuple[int, ...]) -> tuple[int, int]:
        stopped = bool(reply) and reply[-1] in self.renderer.stop_sequences()
        if stopped not in self._known:
            seen = [
                self.renderer.extend((), reply, (Message(role=Role.USER, content=one),))[len(reply) :]
                for one in _PROBES
            ]
            self._known[stopped] = _alike(seen), _alike([one[::-1] for one in seen])
        return self._known[stopped]


def _alike(seen: Sequence[Sequence[int]]) -> int:
    """Return with how many tokens all of them begin."""
    return len(list(takewhile(lambda some: len(set(some)) == 1, zip(*seen, strict=False))))
