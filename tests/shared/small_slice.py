"""A slice and a base small enough for tests: a tiny world, a few dozen papers, a base that can hardly write."""

from dataclasses import dataclass
from pathlib import Path

from tinsmith.data.slices.reader import Slice
from tinsmith.data.slices.settings import Caps
from tinsmith.data.sources.world.spec import Preset
from tinsmith.lab.labels.task import make_task
from tinsmith.lab.papers.worlds import PaperBaseRecipe, WorldRecipe, nano_base, papers_of, world_slice

WORLD = WorldRecipe(preset=Preset.TINY, per_class=60, caps=Caps(train=120, validation=12, test=12))
BASE = PaperBaseRecipe(num_layers=1, vocab_size=512, steps=30, batch_size=8, warm_up=5)


@dataclass(frozen=True)
class Made:
    """Folders for a run."""

    home: Path
    data: Path
    base: Path


def build(told: list[str]) -> tuple[Slice, Path]:
    """Return the slice and the base, built below TINSMITH_HOME where they are not there."""
    source = world_slice(WORLD, told.append)
    task = make_task("disruption", prompt="brief", contract="two_key")
    papers = papers_of(source, task, shuffle_seed=None)
    return source, nano_base(BASE, task, papers, told.append)
