"""`study/adapters`: LoRA, DoRA, QLoRA and QDoRA, supervised, each at the learning rate that suits it best.

Rates are swept on one seed and chosen by the validation split alone; then every adapter is trained at its own rate
with every seed, on the same prompts, papers, labels and base, and tested. Each run is a `tinsmith run`; those that
came to their end stay as they are, so that the same call goes on where it was stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tinsmith.experiments.adapter_results import read_results, write_results
from tinsmith.experiments.adapter_settings import (
    QUESTION,
    AdapterStudySettings,
    adapter_study_settings,
)
from tinsmith.experiments.estimate import minutes, time_and_disk
from tinsmith.experiments.plan import make_plan
from tinsmith.experiments.registry import find
from tinsmith.experiments.study import run_cells, sole_process
from tinsmith.experiments.worlds import Told
from tinsmith.reports.tried_rates import Tried, chosen, held_against_chosen, read_tried
from tinsmith.types.adapters import AdapterKind

_MEGABYTES: Final = 8
"""Of one run: rollouts, trace, and adapters of rank 64."""


def run_adapter_study(overrides: Mapping[str, str], told: Told) -> Path:
    """Run what has not been run, and write table and page; return the study's folder.

    Raises:
        ConfigError, DataError: a key is wrong, a run cannot begin, or another process runs this study.
        LostError: a server was lost; the same call goes on.
    """
    settings = adapter_study_settings(overrides)
    if settings.dry_run:
        for line in _forecast(settings):
            told(line)
        return settings.out
    told(_forecast(settings)[-1])
    with sole_process(settings.out):
        _conduct(settings, told)
    return settings.out


def _conduct(settings: AdapterStudySettings, told: Told) -> None:
    run_cells(settings.tuning(), told)
    tried = {adapter: _tried(settings, adapter) for adapter in settings.adapters}
    rates = {adapter: chosen(each).rate for adapter, each in tried.items()}
    for adapter, rate in rates.items():
        told(f"{adapter}: learning rate {rate:g}, by validation")
    run_cells(
        [
            settings.cell(adapter, rate, seed)
            for adapter, rate in rates.items()
            for seed in settings.seeds
        ],
        told,
    )
    study, times = read_results(
        {
            adapter: [settings.cell(adapter, rate, seed).folder for seed in settings.seeds]
            for adapter, rate in rates.items()
        },
        tried,
        settings.tuning_seed,
    )
    write_results(settings.out, study, times)
    for sentence in study.story():
        told(sentence)


def _tried(settings: AdapterStudySettings, adapter: AdapterKind) -> tuple[Tried, ...]:
    folders = {
        rate: settings.cell(adapter, rate, settings.tuning_seed).folder
        for rate in settings.rates[adapter]
    }
    return held_against_chosen(read_tried(folders), folders)


def _forecast(settings: AdapterStudySettings) -> list[str]:
    """Return what the study would take; nothing is built.

    Raises:
        ConfigError: a run could not begin.
    """
    tuning = settings.tuning()
    again = len(settings.adapters) * len(settings.seeds)
    cell = tuning[0]
    each = minutes(make_plan(find(cell.name), cell.overrides))
    cells = len(tuning) + again
    time = time_and_disk(None if each is None else each * cells, cells * _MEGABYTES)
    return [
        f"study/adapters: {QUESTION}",
        f"{', '.join(settings.adapters)}; {len(tuning)} runs to choose rates, {again} more to report",
        f"{cells} runs in {settings.out / 'cells'}: {time}",
    ]
