"""Fine-tuning on a file of conversations, by supervised.train: runs inside the cookbook's environment.

python supervised.py OPTION=VALUE ...        # any option of tinker_cookbook.supervised.train.Config
"""

import asyncio
import os
import sys

import chz
import tinker
from tinker_cookbook.supervised import train
from tinker_cookbook.supervised.data import FromConversationFileBuilder
from tinker_cookbook.supervised.types import SupervisedDataset

RENDERER = "role_colon"


class EndingDataset(SupervisedDataset):
    """Another data set; asking for batch `dies_at` ends the process, as a power cut does."""

    def __init__(self, whole: SupervisedDataset, dies_at: int | None) -> None:
        self.whole = whole
        self.dies_at = dies_at

    def get_batch(self, index: int) -> list[tinker.Datum]:
        if index == self.dies_at:
            os._exit(9)
        return self.whole.get_batch(index)

    def set_epoch(self, seed: int = 0) -> None:
        self.whole.set_epoch(seed)

    def __len__(self) -> int:
        return len(self.whole)


@chz.chz
class FileBuilder(FromConversationFileBuilder):
    """The cookbook's own reading of a file, and an end to the process where one is asked for."""

    dies_at: int | None = None

    def __call__(self) -> tuple[SupervisedDataset, SupervisedDataset | None]:
        train_dataset, test_dataset = super().__call__()
        return EndingDataset(train_dataset, self.dies_at), test_dataset


if __name__ == "__main__":
    blueprint = chz.Blueprint(train.Config).apply(
        {
            "dataset_builder": FileBuilder,
            "dataset_builder.common_config.renderer_name": RENDERER,
            "dataset_builder.common_config.max_length": 512,
            "dataset_builder.common_config.batch_size": 4,
            "recipe_name": "supervised",
            "renderer_name": RENDERER,
            "learning_rate": 1e-3,
            "lora_rank": 8,
        }
    )
    asyncio.run(train.main(blueprint.make_from_argv(sys.argv[1:])))
