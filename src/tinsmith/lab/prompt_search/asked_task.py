"""A task of one's own as a search asks it: its questions under a document, answered by a policy and rewarded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import tinker

from tinsmith.lab.prompt_search.document import Document, placed
from tinsmith.lab.rollouts import Failure, Sampling, sample_groups
from tinsmith.lab.user_task.items import UserItem, UserSplit
from tinsmith.lab.user_task.subject import UserSubject
from tinsmith.lab.user_task.task import Task
from tinsmith.renderers.renderer import Renderer


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedTask:
    """Scores documents; see Score."""

    client: tinker.SamplingClient
    task: Task
    renderer: Renderer
    start: Document
    """Beginning of every prompt of the task."""
    items: Mapping[str, UserItem]
    """All that may be asked, by name."""
    samples: int
    temperature: float
    max_tokens: int

    def __call__(
        self, document: Document, items: Sequence[str], seed: int, *, greedy: bool = False
    ) -> dict[str, Fraction]:
        """Return the mean reward of each item's answers; items of which every answer failed are left out."""
        asked = [self._under(document, self.items[name]) for name in items]
        subject = UserSubject(
            task=self.task, split=UserSplit(train=tuple(asked), held_out=(), repeated=0), renderer=self.renderer
        )
        groups = sample_groups(
            self.client,
            subject,
            asked,
            Sampling(
                samples=1 if greedy else self.samples,
                max_tokens=self.max_tokens,
                temperature=0.0 if greedy else self.temperature,
                seed=seed,
            ),
        )
        found: dict[str, Fraction] = {}
        for name, group in zip(items, groups, strict=True):
            earned = [Fraction(repr(one.answer.earned.total)) for one in group if not isinstance(one, Failure)]
            if earned:
                found[name] = sum(earned, Fraction()) / len(earned)
        return found

    def _under(self, document: Document, item: UserItem) -> UserItem:
        *others, last = item.messages
        said = replace(last, content=placed(document, self.start, last.content))
        return replace(item, messages=(*others, said))
