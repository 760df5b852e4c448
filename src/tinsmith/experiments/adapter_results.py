"""Reads the run folders of a study of adapters, and writes what they show: values, a table, a page; times apart."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final, cast

import msgspec

from tinsmith.analysis.rates import Metric
from tinsmith.data.replacing import replacing
from tinsmith.engine.checkpoint_files import ADAPTER
from tinsmith.engine.checkpoints import read
from tinsmith.engine.tinker_paths import TinkerPath
from tinsmith.models.base import open_base
from tinsmith.models.build import build_decoder
from tinsmith.models.held import held_base
from tinsmith.ops.native import NativeKernels
from tinsmith.reports.adapter_page import Seconds, adapter_markdown, report_adapters
from tinsmith.reports.adapter_results import (
    WORDS,
    AdapterRow,
    AdapterStudy,
    Bytes,
    Compared,
    GradientNorm,
    Scored,
    compared,
)
from tinsmith.reports.arms import Arm, Member
from tinsmith.reports.gathering import gather
from tinsmith.reports.run_reader import read_run
from tinsmith.reports.run_records import Run, Split
from tinsmith.reports.snapshot import baseline_systems
from tinsmith.reports.tried_rates import Tried
from tinsmith.training.existing_run import MANIFEST
from tinsmith.training.run_folder import STATE, TRACE, RunFolder
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.errors import DataError

STUDY_JSON: Final = "adapters.json"
"""The same bytes wherever and however often the study is run."""
TIMES_JSON: Final = "times.json"
TABLE: Final = "adapters.md"
PAGE: Final = "index.html"

_MAGNITUDE: Final = ".lora_magnitude_vector"
_SHARED: Final = ("adapter", "learning_rate", "seed")
"""Settings in which the study's runs differ."""


def write_results(out: Path, study: AdapterStudy, times: Mapping[AdapterKind, Seconds]) -> None:
    """Write values, times, table and page into a study's folder."""
    seconds = {adapter.value: asdict(one) for adapter, one in times.items()}
    for name, text in (
        (STUDY_JSON, _json({**asdict(study), "story": study.story()})),
        (TIMES_JSON, _json(seconds)),
        (TABLE, adapter_markdown(study, times)),
    ):
        with replacing(out / name) as part:
            part.write_text(text, encoding="utf-8", newline="\n")
    report_adapters(study, times, out / PAGE)


def read_results(
    folders: Mapping[AdapterKind, Sequence[Path]],
    tuned: Mapping[AdapterKind, Sequence[Tried]],
    tuning_seed: int,
) -> tuple[AdapterStudy, dict[AdapterKind, Seconds]]:
    """Read the finished runs of every adapter, one a seed, LoRA's first.

    Raises:
        DataError: a folder holds no finished run, or the runs are not of the same papers and settings.
    """
    arms = [_arm(adapter, paths) for adapter, paths in folders.items()]
    answers = [arm.answers(Split.TEST) for arm in arms]
    tested = [one for one in answers if one is not None]
    if len(tested) < len(arms):
        raise DataError("a run has no answers to the test split", field="cells")
    found = compared(arms, tested)
    first = arms[0].first
    for arm in arms:
        unequal = sorted(
            key
            for key, value in first.config.settings.items()
            if key not in _SHARED and arm.first.config.settings.get(key) != value
        )
        if unequal:
            raise DataError(
                f"{arm.name} was not trained as {arms[0].name} was",
                field=unequal[0],
                value=arm.first.config.settings.get(unequal[0]),
                allowed=str(first.config.settings[unequal[0]]),
            )
    study = AdapterStudy(
        rows=tuple(
            _row(adapter, arm, one, tuned[adapter])
            for adapter, arm, one in zip(folders, arms, found, strict=True)
        ),
        baselines=tuple(_baselines(first)),
        settings={key: value for key, value in first.config.settings.items() if key not in _SHARED},
        data=first.config.data.fingerprint,
        num_items=tested[0].num_items,
        tuning_seed=tuning_seed,
    )
    return study, {adapter: _seconds(arm) for adapter, arm in zip(folders, arms, strict=True)}


def _arm(adapter: AdapterKind, folders: Sequence[Path]) -> Arm:
    runs = [read_run(folder) for folder in folders]
    return Arm(
        name=WORDS[adapter],
        members=tuple(Member(run=run, gathered=gather(run)) for run in runs),
    )


def _row(adapter: AdapterKind, arm: Arm, found: Compared, tuned: Sequence[Tried]) -> AdapterRow:
    greedy = arm.answers(Split.TEST_GREEDY)
    hashes = [member.run.manifest.hashes if member.run.manifest else {} for member in arm.members]
    return AdapterRow(
        adapter=adapter,
        rate=cast(float, arm.first.config.settings["learning_rate"]),
        tuned=tuple(tuned),
        seeds=tuple(member.run.config.seed or 0 for member in arm.members),
        macro_f1=found.macro_f1,
        label_match=found.label_match,
        min_class_recall=found.min_class_recall,
        greedy_macro_f1=None if greedy is None else greedy.score(Metric.MACRO_F1),
        apart=found.apart,
        bytes=_bytes(adapter, arm.first.folder),
        gradient=_gradient([member.run.folder for member in arm.members]),
        weights_sha256=tuple(one.get("weights_sha256") for one in hashes),
    )


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
    held = held_base(
        build_decoder(base.config, base.weights, NativeKernels(), quantised=adapter.quantised)
    )
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


def _baselines(run: Run) -> list[Scored]:
    if run.baselines is None:
        return []
    return [
        Scored(name=system.name, macro_f1=system.measures["macro_f1"])
        for system in baseline_systems(run.baselines)
    ]


def _seconds(arm: Arm) -> Seconds:
    lines = [line for member in arm.members for line in member.run.timings]
    training = [value for line in lines if (value := line.get("train_s")) is not None]
    whole = [value for line in lines if (value := line.get("step_s")) is not None]
    runs = len(arm.members)
    return Seconds(
        a_step=_mean(training), training=math.fsum(training) / runs, run=math.fsum(whole) / runs
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
