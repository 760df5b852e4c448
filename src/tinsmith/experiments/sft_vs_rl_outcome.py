"""Reads the finished runs of the study of SFT against RL, and writes what they show: values, a page, seconds apart."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from tinsmith.analysis.bayes import best_deterministic, best_policy
from tinsmith.analysis.posteriors import Policy
from tinsmith.analysis.rates import Metric
from tinsmith.data.replacing import replacing
from tinsmith.data.slice_reader import Slice
from tinsmith.experiments.cell import Cell
from tinsmith.experiments.compute_spent import Accountant, mean_spent
from tinsmith.experiments.paper_matter import matter_of
from tinsmith.experiments.plan import make_plan
from tinsmith.experiments.planted_world import posteriors
from tinsmith.experiments.registry import find
from tinsmith.experiments.sft_vs_rl_keys import StudyWorld
from tinsmith.experiments.sft_vs_rl_settings import SftVsRlSettings
from tinsmith.models.base import tokenizer_of
from tinsmith.renderers.choose import renderer_for
from tinsmith.reports.arms import Arm, Member
from tinsmith.reports.gathering import gather
from tinsmith.reports.judging import BOOTSTRAP
from tinsmith.reports.measures import Measure
from tinsmith.reports.run_reader import read_run
from tinsmith.reports.run_records import Run
from tinsmith.reports.sft_vs_rl_judging import Evidence, greedy, last, scores, selected
from tinsmith.reports.sft_vs_rl_page import report_sft_vs_rl
from tinsmith.reports.sft_vs_rl_results import (
    OFFSET,
    TUNED,
    WORDS,
    ArmRow,
    Known,
    SftVsRl,
    Spent,
    StudyArm,
    Truth,
)
from tinsmith.reports.sft_vs_rl_story import sentences, truth_of_offset
from tinsmith.reports.snapshot import baseline_systems
from tinsmith.reports.standings import standing_words, standings
from tinsmith.reports.tried_rates import Tried
from tinsmith.training.label_course import LabelCourse
from tinsmith.training.study import Study

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

STUDY_JSON: Final = "study.json"
"""The same bytes wherever and however often the study is run."""
SECONDS_JSON: Final = "seconds.json"
PAGE: Final = "index.html"

_TIMED: Final = ("sample_s", "score_s", "train_s")
"""What of a step is training; examinations and saving are left out, as in the FLOPs."""


@dataclass(frozen=True, slots=True)
class Books:
    """What runs took, counted on the study's papers and base."""

    source: Slice
    tokenizer: PreTrainedTokenizerBase
    accountant: Accountant

    @classmethod
    def open(cls, source: Slice, base: str, accountant: Accountant) -> Books:
        """Load the base's tokenizer."""
        return cls(source, tokenizer_of(base), accountant)

    def course(self, cell: Cell) -> LabelCourse:
        """Return what a run trains on."""
        plan = make_plan(find(cell.name), cell.overrides)
        papers = matter_of(plan, self.source).papers
        ground = Study(
            task=plan.task,
            papers=papers,
            renderer=renderer_for(self.tokenizer),
            tokenizer=self.tokenizer,
        )
        return LabelCourse(ground=ground, settings=plan.settings)

    def spent(self, cell: Cell) -> Spent:
        """Return what a finished run took."""
        return self.accountant.spent(cell.folder, self.course(cell))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """All that the study has to show."""

    study: SftVsRl
    arms: Mapping[StudyArm, Arm]
    seconds: Mapping[StudyArm, float]


def read_outcome(
    settings: SftVsRlSettings,
    source: Slice,
    books: Books,
    reported: Mapping[StudyArm, Sequence[Cell]],
    rates: Mapping[StudyArm, float | None],
    tried: Mapping[StudyArm, tuple[Tried, ...]],
) -> Outcome:
    """Read every arm's runs, score them and judge the claims.

    Raises:
        DataError: a folder holds no finished run, or the runs are not of the same papers.
    """
    arms = {arm: _arm(arm, cells) for arm, cells in reported.items()}
    evidence = Evidence.of(arms)
    spent = {
        arm: None if rates[arm] is None else mean_spent([books.spent(cell) for cell in cells])
        for arm, cells in reported.items()
    }
    first = arms[StudyArm.RL].first
    study = SftVsRl(
        world=settings.world.value,
        data=source.card.sha256,
        labels=first.labels,
        num_items=evidence.systems[WORDS[StudyArm.RL]].num_items,
        seeds=settings.seeds,
        tuning_seed=settings.tuning_seed,
        settings=settings.told(),
        rows=tuple(_rows(arms, evidence, rates, spent)),
        baselines=tuple(_baselines(first)),
        rates=tried,
        claims=evidence.judged(),
        controls=evidence.controls(),
        equivalences=evidence.equivalences(),
        standings=standing_words(standings([arms[arm] for arm in TUNED], BOOTSTRAP)),
        truth=known_truth() if settings.world is StudyWorld.PLANTED else None,
        hashes={
            cell.folder.name: dict(_hashes(member.run))
            for arm, cells in reported.items()
            for cell, member in zip(cells, arms[arm].members, strict=True)
        },
    )
    return Outcome(study=study, arms=arms, seconds={arm: _seconds(arms[arm]) for arm in arms})


def write_outcome(out: Path, outcome: Outcome, question: str) -> None:
    """Write values, seconds and page into the study's folder."""
    study = outcome.study
    values = {**msgspec.to_builtins(study), "sentences": sentences(study)}
    seconds = {arm.value: round(value, 3) for arm, value in outcome.seconds.items()}
    for name, content in ((STUDY_JSON, values), (SECONDS_JSON, seconds)):
        text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        with replacing(out / name) as part:
            part.write_text(text, encoding="utf-8", newline="\n")
    report_sft_vs_rl(study, outcome.arms, outcome.seconds, question, out / PAGE)


def known_truth() -> Truth:
    """Return what is true in the planted world, from its posteriors alone."""
    planted = posteriors()
    rule = best_deterministic(planted, Metric.MACRO_F1)
    assert rule is not None, "there are few kinds of papers"
    return Truth(
        best=_known("the best macro-F1", best_policy(planted, Metric.MACRO_F1)),
        imitation=_known(
            "answers drawn with the true probabilities: what SFT goes to, sampled",
            Policy.of(planted, planted.probabilities),
        ),
        others=(
            _known(truth_of_offset(), rule),
            _known(
                "always the likeliest label: what SFT goes to, greedy",
                best_policy(planted, Metric.LABEL_MATCH),
            ),
            _known("the best product of the recalls", best_policy(planted, Metric.G_MEAN)),
        ),
    )


def _known(name: str, policy: Policy) -> Known:
    return Known(
        name=name,
        label_match=policy.score(Metric.LABEL_MATCH),
        macro_f1=policy.score(Metric.MACRO_F1),
        min_class_recall=policy.score(Metric.MIN_CLASS_RECALL),
    )


def _arm(arm: StudyArm, cells: Sequence[Cell]) -> Arm:
    runs = [read_run(cell.folder) for cell in cells]
    return Arm(
        name=WORDS[arm],
        members=tuple(Member(run=run, gathered=gather(run)) for run in runs),
    )


def _rows(
    arms: Mapping[StudyArm, Arm],
    evidence: Evidence,
    rates: Mapping[StudyArm, float | None],
    spent: Mapping[StudyArm, Spent | None],
) -> list[ArmRow]:
    rows: list[ArmRow] = []
    for kind, arm in arms.items():
        row = ArmRow(
            name=arm.name,
            seeds=tuple(member.run.config.seed or 0 for member in arm.members),
            rate=rates[kind],
            steps=arm.first.config.steps or 0,
            selected=scores(selected(arm)),
            last=scores(last(arm)),
            greedy=scores(greedy(arm)),
            spent=spent[kind],
        )
        rows.append(row)
        if kind is StudyArm.SFT:
            decided = scores(evidence.systems[OFFSET])
            rows.append(replace(row, name=OFFSET, selected=decided, last=None, greedy=None))
    return rows


def _baselines(run: Run) -> list[tuple[str, Mapping[str, Measure]]]:
    if run.baselines is None:
        return []
    return [(system.name, dict(system.measures)) for system in baseline_systems(run.baselines)]


def _hashes(run: Run) -> Mapping[str, str | None]:
    return run.manifest.hashes if run.manifest else {}


def _seconds(arm: Arm) -> float:
    lines = [line for member in arm.members for line in member.run.timings]
    return math.fsum(line.get(name) or 0.0 for line in lines for name in _TIMED) / len(arm.members)
