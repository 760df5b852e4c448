"""Any task as environments of the Tinker cookbook: its items as an `RLDataset` of groups of conversations."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import tinker

from tinsmith.lab.cookbook import types as cookbook
from tinsmith.lab.user_task.dialogue import Earned, earned
from tinsmith.lab.user_task.items import UserItem, UserSplit, named_item
from tinsmith.lab.user_task.subject import UserEnvironment, UserSubject
from tinsmith.lab.user_task.task import Task
from tinsmith.renderers.renderer import Renderer
from tinsmith.types.errors import TaskError
from tinsmith.types.seeds import derive


@dataclass(slots=True)
class TaskEnv:
    """One conversation about an item, as the cookbook's `Env`."""

    conversation: UserEnvironment
    tokens: tuple[int, ...] = ()

    async def initial_observation(self) -> tuple[tinker.ModelInput, list[int]]:
        """Return the initial prompt and the stop condition."""
        self.tokens = self.conversation.first()
        return tinker.ModelInput.from_ints(list(self.tokens)), list(self.conversation.subject.stop())

    async def step(self, action: list[int], *, extra: Mapping[str, object] | None = None) -> cookbook.StepResult:
        """Take a reply; return the task's response to it. Rewards are computed at the end of the group."""
        del extra  # a reply that was cut off is known by its tokens
        # A task's own model may need the loop that this runs in.
        observation = await asyncio.to_thread(self.conversation.step(action).observation)
        if (failed := self.conversation.failed) is not None:
            raise TaskError(f"{failed.where} {failed.what}")
        self.tokens = (*self.tokens, *action, *(observation or ()))
        return cookbook.StepResult(
            reward=0.0,
            episode_done=observation is None,
            next_observation=tinker.ModelInput.from_ints(list(self.tokens)),
            next_stop_condition=list(self.conversation.subject.stop()),
        )


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """Conversations about one item, as the cookbook's `EnvGroupBuilder`; all have the same seed."""

    of: TaskDataset
    item: UserItem
    seed: int

    async def make_envs(self) -> list[TaskEnv]:
        """Return new conversations."""
        made = self.of.subject.environments(self.item, self.of.group_size, self.seed)
        return [TaskEnv(one) for one in made]

    async def compute_group_rewards(
        self, trajectory_group: list[object], env_group: Sequence[object]
    ) -> list[tuple[float, dict[str, float | int]]]:
        """Return the reward of each conversation, and its terms."""
        del trajectory_group
        played = [one.conversation for one in env_group if isinstance(one, TaskEnv)]
        found = await asyncio.to_thread(earned, self.of.task, played)
        failed = next((one for one in found if not isinstance(one, Earned)), None)
        if failed is not None:
            raise TaskError(f"{failed.where} {failed.what}")
        return [(one.total, dict(one.terms)) for one in found if isinstance(one, Earned)]

    def logging_tags(self) -> list[str]:
        """Return the tags by which metrics are grouped."""
        return [self.of.task.name or "task"]

    async def cleanup(self) -> None:
        """Do nothing: no resource is held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDataset:
    """Items of a task, as the cookbook's `RLDataset`: in the order they are given, each once."""

    task: Task
    items: Sequence[object]
    renderer: Renderer
    groups_per_batch: int
    group_size: int
    seed: int = 0
    subject: UserSubject = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        split = UserSplit(train=(), held_out=(), repeated=0)
        object.__setattr__(self, "subject", UserSubject(task=self.task, split=split, renderer=self.renderer))

    def get_batch(self, index: int) -> list[TaskGroup]:
        """Return the groups of one batch; random draws depend on the seed and the index."""
        first = index * self.groups_per_batch
        return [
            TaskGroup(self, named_item(self.task, item), derive(self.seed, "rollout", index, "group", place))
            for place, item in enumerate(self.items[first : first + self.groups_per_batch])
        ]

    def __len__(self) -> int:
        return len(self.items) // self.groups_per_batch
