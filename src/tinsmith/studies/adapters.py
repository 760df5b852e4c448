"""LoRA, DoRA, QLoRA and QDoRA, supervised, each at the learning rate that suits it best.

    tinsmith run study/adapters [at=small | at=seed] [key=value ...]

All of them on the same prompts, papers, labels and base; what each takes stands beside what it scores.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Final

from tinsmith.lab.experiment.key_text import At, shown_value
from tinsmith.lab.papers.labels import LABEL_KINDS, NOTEBOOK
from tinsmith.lab.results.label_tables import CAPTION, PICTURE, scores_of
from tinsmith.lab.runs.files import STATE, TRACE, Kind
from tinsmith.lab.study.keys import FEWEST_RATES, StudyKey, count, learning_rates, require_a_score
from tinsmith.lab.study.measures import Results
from tinsmith.lab.study.record import Column, Shown
from tinsmith.lab.study.sizes import Request
from tinsmith.lab.study.study import Arm, Beats, Learned, Listing, Size, Study
from tinsmith.pages.measures import Measure as Figure
from tinsmith.pages.measures import from_estimate
from tinsmith.stats.mean_runs import gap_of
from tinsmith.stats.rates import Metric
from tinsmith.stats.significance import holm
from tinsmith.studies.disruption.experiments import SFT_DORA, SFT_LORA, SFT_QDORA, SFT_QLORA
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.errors import ConfigError

LORA: Final = AdapterKind.LORA.value
ADAPTERS: Final = {
    AdapterKind.LORA: ("LoRA", SFT_LORA),
    AdapterKind.DORA: ("DoRA", SFT_DORA),
    AdapterKind.QLORA: ("QLoRA", SFT_QLORA),
    AdapterKind.QDORA: ("QDoRA", SFT_QDORA),
}
"""Adapters that can be compared; LoRA first, as the others are compared with it."""
RECIPE: Final = {
    "lora_rank": "64", "lr_schedule": "cosine", "lr_warmup": "0.03", "weight_decay": "0.1", "grad_clip_norm": "1.0",
}  # fmt: skip
"""Settings of the source notes for QDoRA that a nano base can have too, for every adapter."""
RATES: Final = "0.0005,0.001,0.002,0.004,0.008"
SMALL_RATES: Final = "0.0001,0.0002,0.0004,0.0008,0.0016"
_OWN_RATES: Final = "rates."
_SET: Final = frozenset(["learning_rate", "seed", "adapter", "log_path", "stop_after", "behavior_if_log_dir_exists"])
_ABOVE: Final = Column(head="macro-F1|above LoRA", form="+.3f", missing="the reference")
_MAGNITUDE: Final = ".lora_magnitude_vector"


def with_arms(study: Study, request: Request) -> Study:
    """Return the study of the adapters that are asked for, each with its learning rates."""
    keys = request.given
    require_a_score(keys)
    if "steps" in keys:
        count("steps", keys["steps"], 1)
    named = {name.strip() for name in request.own["adapters"].split(",")}
    if LORA not in named or len(named) < 2 or not named <= set(ADAPTERS):
        what = "name at least one adapter to compare with LoRA"
        raise ConfigError(what, field="adapters", value=request.own["adapters"], allowed=ADAPTERS)
    for key, value in keys.items():
        if key.startswith(_OWN_RATES) and key.removeprefix(_OWN_RATES) not in named:
            allowed = [f"{_OWN_RATES}{one}" for one in ADAPTERS if one in named]
            raise ConfigError("this adapter cannot be compared", field=key, value=value, allowed=allowed)
    small = keys.get("at") == At.SMALL.value
    usual = keys.get("rates", SMALL_RATES if small else RATES)
    every = learning_rates("rates", usual, least=FEWEST_RATES)
    own = {
        kind: learning_rates(key, keys[key], least=FEWEST_RATES) if key in keys else every
        for kind in ADAPTERS
        for key in [f"{_OWN_RATES}{kind}"]
    }
    kinds = [kind for kind in ADAPTERS if kind in named]
    return replace(
        study,
        arms=[
            Arm(kind.value, ADAPTERS[kind][0], experiment=ADAPTERS[kind][1], learning_rate=own[kind]) for kind in kinds
        ],
        claims=(
            *(Beats(kind.value, LORA) for kind in kinds if kind is not AdapterKind.LORA),
            *(Learned(kind.value, "") for kind in kinds),
        ),
    )


def place_of(request: Request) -> Mapping[str, str]:
    """Return what all runs have where they run; at the place of the source notes their whole notebook, LoRA too."""
    if request.given.get("at") == At.SEED.value:
        return {**{key: shown_value(value) for key, value in NOTEBOOK.items() if key not in _SET}, **request.shared}
    rank = {"lora_rank": "32"} if request.given.get("at") == At.SMALL.value else {}
    return {**RECIPE, **rank, **request.shared}


def gaps(results: Results) -> dict[str, tuple[Figure, Figure]]:
    """Return how far each adapter scores above LoRA on the same papers, and p corrected by Holm."""
    score, draws = Metric.MACRO_F1, results.draws.claims
    systems = {name: arm.system(score) for name, arm in results.arms.items()}
    others = [name for name in systems if name != LORA]
    apart = [gap_of(systems[name], systems[LORA], score, draws) for name in others]
    p_values = holm([gap.p_value for gap in apart])
    return {name: (from_estimate(gap), Figure(p)) for name, gap, p in zip(others, apart, p_values, strict=True)}


def costs(results: Results) -> list[list[Shown]]:
    """Return the bytes and the gradients of every adapter."""
    rows: list[list[Shown]] = []
    for name, arm in results.arms.items():
        folders = [run.folder for run in arm.runs]
        sizes = sizes_of(AdapterKind(name), folders[0])
        cells = (
            ["held elsewhere"] * 6 if sizes is None else [*(f"{one:,}" for one in sizes[:4]), *map(Figure, sizes[4:])]
        )
        rows.append([arm.arm.label, *cells, *gradient_of(folders)])
    return rows


def sizes_of(adapter: AdapterKind, folder: Path) -> tuple[int, int, int, int, float, float] | None:
    """Return trained parameters, bytes of the adapter and of the base, and shares of fp32.

    None where the last checkpoint and the base lie with another server.
    """
    from tinsmith.engine.checkpoint_files import ADAPTER
    from tinsmith.engine.checkpoints import read
    from tinsmith.engine.tinker_paths import TinkerPath
    from tinsmith.lab.runs.folder import RunFolder
    from tinsmith.models.base import open_base
    from tinsmith.models.build import build_decoder
    from tinsmith.models.held import held_base
    from tinsmith.ops.native import NativeKernels

    manifest = RunFolder(folder).manifest()
    assert manifest.selected is not None, "it is finished"
    model = manifest.circumstances.get("model_folder")
    place = TinkerPath.parse(manifest.selected.final_path).folder(folder / STATE)
    if not isinstance(model, str) or not place.is_dir():
        return None
    checkpoint = read(place)
    base = open_base(model, seed=checkpoint.base.seed)
    held = held_base(build_decoder(base.config, base.weights, NativeKernels(), quantised=adapter.quantised))
    parameters = sum(tensor.numel() for tensor in checkpoint.tensors(ADAPTER).values())
    adapter_bytes = (place / ADAPTER).stat().st_size
    return parameters, adapter_bytes, held.linears, held.whole, held.linears_to_fp32, held.whole_to_fp32


def gradient_of(folders: Sequence[Path]) -> tuple[Shown, Shown, Shown]:
    """Return the L2 norms of the gradients of A and B and of the magnitudes, and the magnitudes' share of the square.

    Means over steps and seeds, before clipping.
    """
    files = [folder / TRACE for folder in folders]
    lines = [line for file in files if file.is_file() for line in file.read_bytes().splitlines()]
    parts = [_squares(json.loads(line)["gradient"]) for line in lines]
    if not parts:
        return "not reported", "has none", "has none"
    direction = Figure(fmean(math.sqrt(other) for _, other in parts))
    if not any(magnitude for magnitude, _ in parts):
        return direction, "has none", "has none"
    shares = [one / (one + other) for one, other in parts if one + other > 0.0]
    return direction, Figure(fmean(math.sqrt(one) for one, _ in parts)), Figure(fmean(shares))


def _squares(gradient: Mapping[str, Mapping[str, float | None]]) -> tuple[float, float]:
    squares = {name: (one["norm"] or 0.0) ** 2 for name, one in gradient.items()}
    magnitudes = [square for name, square in squares.items() if name.endswith(_MAGNITUDE)]
    others = [square for name, square in squares.items() if not name.endswith(_MAGNITUDE)]
    return math.fsum(magnitudes), math.fsum(others)


study = Study(
    name="study/adapters",
    title="Adapters",
    question="What do 4-bit weights and trained magnitudes cost and gain, each adapter at its best learning rate?",
    task=None,
    arms=(),
    complete=with_arms,
    shared=place_of,
    own=(
        StudyKey("out", "runs/study-adapters", "Folder of the study."),
        StudyKey("adapters", ",".join(ADAPTERS), "Adapters to compare: lora, and one or more of the others."),
        StudyKey(
            "rates",
            RATES,
            f"Learning rates that are tried, {FEWEST_RATES} or more; rates.qdora=... for one adapter. "
            f"at=small: {SMALL_RATES}.",
        ),
        *(StudyKey(f"{_OWN_RATES}{kind}", "", f"Rates of {name} alone.") for kind, (name, _) in ADAPTERS.items()),
    ),
    passes=LABEL_KINDS[Kind.SFT].known - {*_SET, "kind", "quiet"},
    fixed=_SET,
    sizes={"nano": Size(seeds=(1, 2, 3))},
    fewest_seeds=3,
    score=Metric.MACRO_F1,
    tables=(
        scores_of(
            f"{CAPTION} Above LoRA: on the same papers, with p corrected by Holm over the adapters.",
            (_ABOVE, Column(head="p|Holm", missing="")),
            gaps,
        ),
        Listing(
            "Cost",
            "Bytes as held in memory; the adapter's of its file. Gradient norms are means over steps and seeds, "
            "before clipping. The base's embedding, norms and free head are not in four bits.",
            (
                *("trained|parameters", "adapter|bytes", "base|bytes, linear weights", "base|bytes, whole"),
                *("of fp32|linear weights", "of fp32|whole", "gradient|direction", "gradient|magnitude"),
                "magnitude|share of the square",
            ),
            costs,
        ),
    ),
    pictures=(PICTURE,),
    notes=("That an adapter learned something takes a control on shuffled labels, which this study does not train.",),
)
