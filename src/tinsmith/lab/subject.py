"""A subject: what a run is about, and all that the laboratory asks of it.

Its own part is to say:

1. which items a split has                        `items`
2. what an item asks, as environments             `environments`, with `stop` and `text` for the model's tokens
3. what was answered, a step's answers together   `read`
4. what that earns, as named terms                `score`
5. figures of answers, for metrics and pages      `figures`, `train_figures`, and `facts` of a single one
6. sections of its page                           `sections`

What else stands here has an answer that does for most. Groups, advantages, updates, evaluation, alarms, the choice of a
policy and resuming are the laboratory's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from tinsmith.lab.datums import Example
from tinsmith.lab.grouping import ScoredGroup
from tinsmith.lab.probe import Probe
from tinsmith.lab.rollout_metrics import Line
from tinsmith.lab.rollouts import A, Environments, Failure, I, Rollout
from tinsmith.lab.terms import Terms
from tinsmith.types.errors import ConfigError


class Split(StrEnum):
    """Which items."""

    TRAIN = "train"
    VALIDATION = "validation"
    """What a policy is evaluated on while it is trained."""
    TEST = "test"
    """What the chosen policy is evaluated on, once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionRecord:
    """A section of a page: a text or a table; or why there is none."""

    title: str
    text: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    failure: str = ""


class Subject(Environments[I, A], Protocol[I, A]):
    """Items, conversations and rewards of a run, as the loop uses them."""

    def items(self, split: Split) -> Sequence[I]:
        """Return a split's items; of the test's there may be none."""
        ...

    def unit(self, item: I) -> str:
        """Return the name of what an item belongs to: items of one unit are taken together, wherever some are taken."""
        return item.prompt_id

    def aside(self, item: I) -> bool:
        """Whether an item is trained on in batches of its own alone, where `interleave` asks for them."""
        del item
        return False

    def score(self, rollouts: Sequence[Rollout[I, A]]) -> Sequence[Terms]:
        """Return each rollout's reward, by the state that rewards had before this step; then let the step enter it."""
        ...

    def figures(self, groups: Sequence[Sequence[Rollout[I, A] | Failure[I]]], split: str) -> Mapping[str, float]:
        """Return what an evaluation says by the answers to each item, as `SPLIT/...`."""
        ...

    def train_figures(self, groups: Sequence[ScoredGroup[I, A]]) -> Mapping[str, float]:
        """Return what is told of a training step beside rewards and groups, as `train/...`."""
        ...

    def facts(self, rollout: Rollout[I, A]) -> Line:
        """Return what a rollout's line says of its answer."""
        ...

    def item_facts(self, item: I) -> Line:
        """Return what the line of a failed rollout says of its item."""
        del item
        return {}

    def sections(self, rollouts: Mapping[str, Sequence[Rollout[I, A]]]) -> Sequence[SectionRecord]:
        """Return sections of the page, from the answers of the test by split, or of the last evaluation."""
        del rollouts
        return ()

    def example(self, item: I) -> Example:
        """Return what supervised training reads: the prompt and its right answer, or a whole conversation."""
        raise ConfigError("no answer is known to be right", field="item", value=item.prompt_id)

    def options(self, item: I) -> Sequence[tuple[int, ...]]:
        """Return every answer that there is to an item, as the tokens of a reply; none where they are not known."""
        del item
        return ()

    def probe(self, rollout: Rollout[I, A]) -> Probe:
        """Return a reply taken apart: what confidence along its reasoning is read from."""
        raise ConfigError(
            "nothing says where this subject's reasoning ends, and which answers there are",
            field="confidence",
            value=rollout.item.prompt_id,
            fix="watch=none and confidence_penalty=0, or probed=... in a task of your own",
        )

    def trace(self) -> Mapping[str, float]:
        """Return what is worth telling of the rewards' state after a step."""
        return {}

    def state(self) -> object:
        """Return what a resumed run must know of its rewards, as plain JSON values."""
        return None

    def restore(self, state: object) -> None:
        """Go on from what `state` returned."""
        del state

    def close(self) -> None:
        """Let go of what it holds open; the run is over, or lost."""
        return
