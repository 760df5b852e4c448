"""Short runs on a tiny world and a base of its own: those that golden hashes, kill trials and comparisons are of.

Every number that the place or the recipe would decide otherwise stands here, so that tuning those changes no hash.
"""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from command_line import keys_in
from tinsmith.cli import main
from tinsmith.cli.registered import find, plan_of
from tinsmith.data.slices.reader import Slice
from tinsmith.data.slices.settings import Caps
from tinsmith.data.sources.world.spec import Preset
from tinsmith.lab.experiment.conduct import conduct
from tinsmith.lab.experiment.experiment import make_plan
from tinsmith.lab.labels.task import make_task
from tinsmith.lab.papers.worlds import PaperBaseRecipe, WorldRecipe, nano_base, papers_of, world_slice
from tinsmith.lab.rl import train
from tinsmith.lab.runs.files import CHECKPOINTS
from tinsmith.types.waits import unsaid

WORLD = WorldRecipe(preset=Preset.TINY, seed=0, per_class=60, caps=Caps(train=120, validation=12, test=12))
BASE = PaperBaseRecipe(
    num_layers=2,
    vocab_size=512,
    max_positions=512,
    steps=50,
    batch_size=16,
    learning_rate=4e-3,
    warm_up=10,
    broken=0.1,
    reading_every=0,
    seed=0,
)
HASHES = ("weights_sha256", "rollouts_sha256", "metrics_sha256", "trace_sha256")

_BOTH = keys_in(
    "steps=20 learning_rate=2e-3 lora_rank=4 max_tokens=24 temperature=1.0 eval_every=5 eval_items=6 save_every=3 "
    "seed=0 quiet=true"
)
RUNS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = MappingProxyType(
    {
        "rl": ("remedy/exp6", {**_BOTH, "groups_per_batch": "4", "group_size": "4"}),
        "rl_datum": ("remedy/exp6", {**_BOTH, "groups_per_batch": "4", "group_size": "4", "gradient_unit": "datum"}),
        "sft": ("sft/lora", {**_BOTH, "batch_size": "8"}),
    }
)
"""Experiment and keys by the name of the golden file."""


_RLVR: Final = keys_in(
    "steps=3 learning_rate=2e-3 lora_rank=4 groups_per_batch=3 group_size=3 eval_every=2 save_every=0 max_tokens=10 "
    "eval_items=2 eval_samples=1 seed=0 quiet=true"
)
"""Three steps on rubrics, whose criteria rules judge."""


PACKED: Final = {"steps": "2", "lora_rank": "1", "save_every": "1", "eval_every": "0", "unit_hashes": "true"}
"""Two steps, the second of which an audit begins at the checkpoint between them."""


@dataclass(frozen=True, slots=True)
class Ground:
    """Data and base of runs."""

    data: Path
    base: Path

    def keys(self, run: str, log_path: Path) -> dict[str, str]:
        """Return a run's keys, as on the command line."""
        where = {"data": self.data, "model_name": self.base, "log_path": log_path}
        return {**RUNS[run][1], **{key: str(path) for key, path in where.items()}}


def build() -> Ground:
    """Return the slice and the base, built below TINSMITH_HOME where they are not there."""
    source = world_slice(WORLD, unsaid)
    task = make_task("disruption", prompt="brief", contract="two_key")
    papers = papers_of(source, task, shuffle_seed=None)
    return Ground(source.folder, nano_base(BASE, task, papers, unsaid))


def conducted(ground: Ground, run: str, folder: Path) -> dict[str, str | None]:
    """Run it here; return its hashes, after those of the papers and the base, where a difference would begin."""
    conduct(make_plan(find(RUNS[run][0]), ground.keys(run, folder)), say=unsaid)
    model = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["identity"]["model"]
    return {
        "data_sha256": Slice.open(ground.data).card.sha256,
        "base_fingerprint": model["fingerprint"],
        **hashes_of(folder),
    }


def conducted_rlvr(ground: Ground, folder: Path) -> dict[str, str | None]:
    """Run `rlvr` for three steps; return its hashes after that of its data."""
    keys = {**_RLVR, "model_name": str(ground.base), "log_path": str(folder)}
    conduct(plan_of("rlvr", keys), say=unsaid)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return {"data": config["data"]["fingerprint"], **hashes_of(folder)}


def conducted_debate(folder: Path) -> dict[str, Any]:
    """Debate for three steps on a base that has read debates; return what was said, earned and measured.

    The metrics are those that are frozen: a run may tell more.
    """
    from debate_values import values_of
    from small_debate import build as build_debater
    from small_debate import open_debate
    from small_study import connect_to

    frozen = json.loads((Path(__file__).parent / "golden" / "run_debate.json").read_text(encoding="utf-8"))
    connection = connect_to(build_debater(folder / "base"), folder / "state")
    debate = open_debate(connection, folder / "run")
    try:
        done = train(debate)
    finally:
        debate.folder.close()
        connection.close()
    assert done is not None
    return values_of(folder / "run", frozen["metrics"])


def packed(folder: Path) -> bytes:
    """Run a task of one's own on the smallest base, with hashes of units and a checkpoint; return it as one file."""
    from own_task import KEYS, TASK

    folder.mkdir(parents=True)
    (folder / "letters.py").write_text(TASK, encoding="utf-8")
    keys = {**KEYS, **PACKED, "model_name": "tinsmith/nano", "log_path": str(folder / "run")}
    conduct(plan_of(str(folder / "letters.py"), keys), say=unsaid)
    marks = folder / "run" / CHECKPOINTS
    marks.write_bytes(marks.read_bytes().splitlines(keepends=True)[0])  # nothing is computed from the last
    with contextlib.suppress(SystemExit):
        main(["pack", str(folder / "run"), "--out", str(folder / "run.zip"), "--checkpoints", "all"])
    return (folder / "run.zip").read_bytes()


def hashes_of(folder: Path) -> dict[str, str | None]:
    """Return what a finished run must repeat; a trace's hash only where there is one."""
    lines = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return {name: lines["hashes"][name] for name in HASHES if name in lines["hashes"]}
