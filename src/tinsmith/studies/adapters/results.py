"""What adapters take beside their scores: bytes, gradients, and how far each is above or below LoRA."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import msgspec

from tinsmith.engine.checkpoint_files import ADAPTER
from tinsmith.engine.checkpoints import read
from tinsmith.engine.tinker_paths import TinkerPath
from tinsmith.lab.results.arms import Arm
from tinsmith.lab.results.baseline_rivals import metadata_of
from tinsmith.lab.results.judging import training_of
from tinsmith.lab.runs.files import MANIFEST, STATE, TRACE
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.runs.records import Split
from tinsmith.lab.study.results import StudyFound, answers
from tinsmith.models.base import open_base
from tinsmith.models.build import build_decoder
from tinsmith.models.held import held_base
from tinsmith.ops.native import NativeKernels
from tinsmith.stats.estimates import Bootstrap, difference
from tinsmith.stats.gate.claims import Beats, Learned, judge_beats, judge_learned
from tinsmith.stats.rates import Metric
from tinsmith.stats.significance import holm
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.errors import DataError

METRIC: Final = Metric.MACRO_F1
"""What adapters are compared on: named before any run."""

_MAGNITUDE: Final = ".lora_magnitude_vector"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bytes:
    """What weights take."""

    parameters: int
    """Trained ones."""
    adapter: int
    """Bytes of the adapter's file, fp32."""
    linears: int
    """Bytes of the base's linear weights in its layers, as they are held in memory."""
    whole: int
    """Bytes of the whole base: embedding, norms and a free head stay fp32."""
    linears_to_fp32: float
    whole_to_fp32: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientNorm:
    """The gradient's L2 norm, mean over steps and seeds, before clipping."""

    direction: float
    """Of A and B together."""
    magnitude: float | None
    """Of DoRA's magnitudes; None where there are none."""
    share: float | None
    """Mean share of the magnitudes in the squared norm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """An adapter's score less LoRA's, on the same papers."""

    value: float
    low: float
    high: float
    p_holm: float
    gate: str
    """What the claim gate says of "it beats LoRA"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterFigures:
    """What is told of an adapter beside its scores."""

    apart: Apart | None
    """None: it is LoRA."""
    bytes: Bytes | None
    """None: a server elsewhere has the weights."""
    gradient: GradientNorm | None
    """None: the server told no trace."""
    learned: str
    """What the claim gate says of "it learned something"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptersFound(StudyFound):
    """What the study has found."""

    adapters: Mapping[str, AdapterFigures]
    """By the name of the arm's row."""


def adapter_figures(arms: Mapping[AdapterKind, Arm], draws: Bootstrap) -> dict[str, AdapterFigures]:
    """Return what every adapter takes, and how far it is from LoRA, which is the first.

    Raises:
        DataError: the runs are not of the same papers and settings.
    """
    _require_alike(list(arms.values()))
    apart = [None, *_apart(list(arms.values()), draws)]
    learned = judge_learned(
        [
            Learned(system=one, metric=METRIC, metadata=metadata_of(arm.first, one), parity=arm.parity())
            for arm in arms.values()
            for one in [answers(arm, Split.TEST)]
        ],
        draws,
    )
    return {
        arm.name: AdapterFigures(
            learned=claim.sentence(),
            apart=gap,
            bytes=_bytes(adapter, arm.first.folder),
            gradient=_gradient([member.run.folder for member in arm.members]),
        )
        for (adapter, arm), gap, claim in zip(arms.items(), apart, learned, strict=True)
    }


def settings_of(arm: Arm) -> dict[str, object]:
    """Return what all runs of a study were trained with."""
    shared = arm.first.config.settings
    return {key: value for key, value in shared.items() if key not in ("adapter", "learning_rate", "seed")}


def _require_alike(arms: Sequence[Arm]) -> None:
    expected = settings_of(arms[0])
    for arm in arms:
        found = settings_of(arm)
        for key in sorted(expected):
            if found.get(key) != expected[key]:
                raise DataError(
                    f"{arm.name} was not trained as {arms[0].name} was",
                    field=key,
                    value=found.get(key),
                    allowed=str(expected[key]),
                )


def _apart(arms: Sequence[Arm], draws: Bootstrap) -> list[Apart]:
    lora, *others = (answers(arm, Split.TEST) for arm in arms)
    claims = judge_beats(
        [
            Beats(
                first=one,
                second=lora,
                metric=METRIC,
                training=None if mine is None or theirs is None else (mine, theirs),
                parity=arm.parity(),
            )
            for arm, one in zip(arms[1:], others, strict=True)
            for mine, theirs in [(training_of(arm), training_of(arms[0]))]
        ],
        draws,
    )
    gaps = [difference(one, lora, METRIC, draws) for one in others]
    p_values = holm([gap.p_value for gap in gaps])
    found: list[Apart] = []
    for gap, p_value, claim in zip(gaps, p_values, claims, strict=True):
        assert gap.interval is not None, "macro-F1 is defined in every resample"
        low, high = gap.interval.low, gap.interval.high
        found.append(Apart(value=gap.value, low=low, high=high, p_holm=p_value, gate=claim.sentence()))
    return found


def _bytes(adapter: AdapterKind, folder: Path) -> Bytes | None:
    """Count from the last checkpoint and from the base's own tensors; None where they lie with another server."""
    manifest = RunFolder(folder).read_json(MANIFEST)
    model = cast(Mapping[str, str | None], manifest["circumstances"]).get("model_folder")
    path = cast(Mapping[str, str], manifest["selected"])["final_path"]
    place = TinkerPath.parse(path).folder(folder / STATE)
    if model is None or not place.is_dir():
        return None
    checkpoint = read(place)
    base = open_base(model, seed=checkpoint.base.seed)
    held = held_base(build_decoder(base.config, base.weights, NativeKernels(), quantised=adapter.quantised))
    return Bytes(
        parameters=sum(tensor.numel() for tensor in checkpoint.tensors(ADAPTER).values()),
        adapter=(place / ADAPTER).stat().st_size,
        linears=held.linears,
        whole=held.whole,
        linears_to_fp32=held.linears_to_fp32,
        whole_to_fp32=held.whole_to_fp32,
    )


class _Mark(msgspec.Struct, frozen=True):
    norm: float | None


class _Traced(msgspec.Struct, frozen=True):
    gradient: dict[str, _Mark]


def _gradient(folders: Sequence[Path]) -> GradientNorm | None:
    """Split every optimizer step's gradient into magnitudes and the rest, which is direction."""
    decoder = msgspec.json.Decoder(_Traced)
    parts: list[tuple[float, float]] = []
    for folder in folders:
        file = folder / TRACE
        lines = file.read_bytes().splitlines() if file.is_file() else []
        parts += [_squares(decoder.decode(line).gradient) for line in lines]
    if not parts:
        return None
    mean = _mean([math.sqrt(direction) for _, direction in parts])
    if not any(magnitude for magnitude, _ in parts):
        return GradientNorm(direction=mean, magnitude=None, share=None)
    return GradientNorm(
        direction=mean,
        magnitude=_mean([math.sqrt(magnitude) for magnitude, _ in parts]),
        share=_mean([one / (one + other) for one, other in parts if one + other > 0.0]),
    )


def _squares(gradient: Mapping[str, _Mark]) -> tuple[float, float]:
    """The squared norms of the magnitudes' gradient and of all others', tensors by name."""
    norms = {name: gradient[name].norm or 0.0 for name in sorted(gradient)}
    magnitudes = [norm**2 for name, norm in norms.items() if name.endswith(_MAGNITUDE)]
    others = [norm**2 for name, norm in norms.items() if not name.endswith(_MAGNITUDE)]
    return math.fsum(magnitudes), math.fsum(others)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
