"""Reinforcement on a toy task, by rl.train: runs inside the cookbook's environment.

    python toy_rl.py OPTION=VALUE ...        # any option of tinker_cookbook.rl.train.Config

Two of three groups have the same prompt, so that many identical requests are in flight at once. An answer is rewarded
where its tokens' sum is odd. Nothing here has a seed.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import chz
import tinker
from tinker_cookbook.renderers import Renderer, get_renderer
from tinker_cookbook.rl import train
from tinker_cookbook.rl.types import Env, EnvGroupBuilder, RLDataset, RLDatasetBuilder, StepResult
from tinker_cookbook.tokenizer_utils import get_tokenizer

QUESTIONS = ("One or two?", "One or two?", "Two or one?")
RENDERER = "role_colon"


class ToyEnv(Env):
    """One question; where there are more turns, the answer is doubted and asked for again."""

    def __init__(self, renderer: Renderer, question: str, turns: int) -> None:
        requests = [{"role": "user", "content": question}]
        self.seen = renderer.build_generation_prompt(requests).to_ints()
        self.doubt = renderer.tokenizer.encode("\n\nUser: Sure?\n\nAssistant:")
        self.stop = renderer.get_stop_sequences()
        self.turns = turns

    async def initial_observation(self) -> tuple[tinker.ModelInput, list[str] | list[int]]:
        return tinker.ModelInput.from_ints(self.seen), self.stop

    async def step(self, action: list[int], *, extra: object = None) -> StepResult:  # noqa: ARG002
        self.turns -= 1
        self.seen = self.seen + list(action) + (self.doubt if self.turns else [])
        return StepResult(
            reward=float(sum(action) % 2),
            episode_done=self.turns == 0,
            next_observation=tinker.ModelInput.from_ints(self.seen),
            next_stop_condition=self.stop,
            logs={"action": " ".join(map(str, action))},
        )


@dataclass(frozen=True)
class ToyGroup(EnvGroupBuilder):
    """Several tries at one question."""

    renderer: Renderer
    question: str
    size: int
    turns: int

    async def make_envs(self) -> Sequence[Env]:
        return [ToyEnv(self.renderer, self.question, self.turns) for _ in range(self.size)]


@dataclass(frozen=True)
class ToyDataset(RLDataset):
    """The same few groups in every batch; asking for batch `dies_at` ends the process, as a power cut does."""

    groups: tuple[ToyGroup, ...]
    batches: int
    dies_at: int | None

    def get_batch(self, index: int) -> Sequence[EnvGroupBuilder]:
        if index == self.dies_at:
            os._exit(9)
        return self.groups

    def __len__(self) -> int:
        return self.batches


@chz.chz
class ToyBuilder(RLDatasetBuilder):
    """Makes the toy task's data for the tokenizer of `model_name`."""

    model_name: str
    batches: int = 4
    group_size: int = 4
    turns: int = 1
    dies_at: int | None = None

    async def __call__(self) -> tuple[RLDataset, None]:
        renderer = get_renderer(RENDERER, get_tokenizer(self.model_name))
        groups = tuple(ToyGroup(renderer, question, self.group_size, self.turns) for question in QUESTIONS)
        return ToyDataset(groups, self.batches, self.dies_at), None


if __name__ == "__main__":
    blueprint = chz.Blueprint(train.Config).apply(
        {
            "dataset_builder": ToyBuilder,
            "recipe_name": "toy",
            "renderer_name": RENDERER,
            "learning_rate": 1e-3,
            "lora_rank": 8,
            "max_tokens": 24,
            "eval_every": 0,
            "save_every": 0,
        }
    )
    asyncio.run(train.main(blueprint.make_from_argv(sys.argv[1:])))
