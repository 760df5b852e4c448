"""The cookbook's game of twenty questions against a model of the same server: runs inside the cookbook's environment.

    python twenty_questions.py OPTION=VALUE ...        # any option of tinker_cookbook.rl.train.Config

The recipe's own command line names no answerer and plays a hundred test words; this one plays for training only.
"""

import asyncio
import sys

import chz
from tinker_cookbook.recipes.multiplayer_rl.twenty_questions.env import TwentyQuestionsDatasetBuilder
from tinker_cookbook.rl import train
from tinker_cookbook.rl.types import RLDataset

RENDERER = "role_colon"


@chz.chz
class TrainingOnlyBuilder(TwentyQuestionsDatasetBuilder):
    """The recipe's games without the test games."""

    async def __call__(self) -> tuple[RLDataset, None]:
        games, _ = await super().__call__()
        return games, None


if __name__ == "__main__":
    blueprint = chz.Blueprint(train.Config).apply(
        {
            "dataset_builder": TrainingOnlyBuilder,
            "dataset_builder.renderer_name": RENDERER,
            "recipe_name": "recipe_multiplayer_twenty_questions",
            "renderer_name": RENDERER,
            "learning_rate": 1e-3,
            "lora_rank": 8,
            "max_tokens": 20,
            "eval_every": 0,
        }
    )
    asyncio.run(train.main(blueprint.make_from_argv(sys.argv[1:])))
