"""`study/adapters`: LoRA, DoRA, QLoRA and QDoRA, supervised, each at the learning rate that suits it best.

All of them on the same prompts, papers, labels and base; what each takes stands beside what it scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tinsmith.lab.live.progress import Say
from tinsmith.lab.runs.records import Split
from tinsmith.lab.study.cells import run_cells
from tinsmith.lab.study.driver import Outcome, RunCells, Stages, Study, Tuned, conduct_study
from tinsmith.lab.study.results import DRAWS, Draws, answers, arm_row, baselines_of, hashes_of, seconds_of
from tinsmith.studies.adapters.page import adapter_page, adapter_sentences
from tinsmith.studies.adapters.results import AdaptersFound, adapter_figures, settings_of
from tinsmith.studies.adapters.settings import adapter_study
from tinsmith.types.adapters import AdapterKind

_DRAWS: Final = Draws(tables=DRAWS.claims)
"""Few arms: the intervals of the table are drawn as often as those of claims."""


def run_adapter_study(
    overrides: Mapping[str, str], say: Say, *, run: RunCells = run_cells, draws: Draws = _DRAWS
) -> Path:
    """Run what has not been run, and write tables and page; return the study's folder.

    Raises:
        ConfigError, DataError: a key is wrong, a run cannot begin, or another process runs this study.
        LostError: a server was lost; the same call goes on.
    """
    study = adapter_study(overrides)

    def conduct(stages: Stages) -> Outcome:
        tuned = stages.tune(study, study.arms)
        stages.report(tuned)
        return _outcome(study, tuned, draws)

    return conduct_study(study, say, conduct, run=run)


def _outcome(study: Study, tuned: Tuned, draws: Draws) -> Outcome:
    arms = {AdapterKind(name): one.read() for name, one in tuned.items()}
    lora = arms[AdapterKind.LORA]
    figures = adapter_figures(arms, draws.claims)
    found = AdaptersFound(
        data=lora.first.config.data.fingerprint,
        labels=lora.labels,
        num_items=answers(lora, Split.TEST).num_items,
        seeds=study.seeds,
        tuning_seed=study.tuning_seed,
        settings=settings_of(lora),
        rows=tuple(arm_row(arm, tuned[name].rate, draws) for name, arm in arms.items()),
        baselines=baselines_of(lora.first),
        rates={one.arm.words: one.tried for one in tuned.values()},
        hashes=hashes_of(list(arms.values())),
        adapters=figures,
    )
    seconds = {name.value: seconds_of(arm) for name, arm in arms.items()}
    sentences = adapter_sentences(found)
    return Outcome(
        found=found,
        sentences=sentences,
        seconds=seconds,
        page=adapter_page(found, sentences, {arm.name: seconds[name] for name, arm in arms.items()}),
    )
