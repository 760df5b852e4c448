"""Many requests of one client, submitted to the sampler a few at a time, so that waiting ones take no memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from tinsmith.engine.sequences import Group, Policy
from tinsmith.server.samplers import Samplers
from tinsmith.types.sampling import SampleRequest

WINDOW: Final = 512
"""Requests of one client in the sampler at a time: twice what it decodes in one step."""
STARTED: Final = 4
"""Requests submitted before other events are handled."""


@dataclass(slots=True, kw_only=True)
class Submissions:
    """Requests on one policy. Its methods and callbacks are called on the compute thread."""

    samplers: Samplers
    name: str
    """Name of the served base model."""
    policy: Policy
    owner: str
    count: int
    request: Callable[[int], SampleRequest]
    """Function from a number to its request; called in order."""
    ended: Callable[[int, Group], None]
    drawn: Callable[[int, Group], None] | None = None
    failed: Callable[[Exception], None]
    """Callback with the error that ended the submissions, or that kept a finished one from being handed over."""
    next: int = 0
    posted: bool = False
    under_way: dict[int, Group] = field(default_factory=dict[int, Group])

    def start(self) -> None:
        """Submit further requests, as far as there is room."""
        self.posted = False
        try:
            for number in range(self.next, min(self.next + STARTED, self.count)):
                if len(self.under_way) >= WINDOW:
                    return
                self.next = number + 1
                self.under_way[number] = self.samplers.start(
                    self.name,
                    self.policy,
                    self.request(number),
                    owner=self.owner,
                    ended=partial(self._ended, number),
                    drawn=None if self.drawn is None else partial(self.drawn, number),
                )
        except Exception as error:  # the boundary of a request: the error goes to its client
            self.count = self.next
            self.failed(error)
        self._go_on()

    def drop(self) -> None:
        """Cancel all of them."""
        self.count = self.next
        for group in self.under_way.values():
            self.samplers.drop(group)
        self.under_way.clear()

    def _ended(self, number: int, group: Group) -> None:
        self.under_way.pop(number, None)
        try:
            self.ended(number, group)
        except Exception as error:  # the boundary of a request: its client would wait for ever
            self.count = self.next
            self.failed(error)
        self._go_on()

    def _go_on(self) -> None:
        if self.next < self.count and not self.posted:
            self.posted = True
            self.samplers.worker.post(self.start)
