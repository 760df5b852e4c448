"""What the runs of a study of learning came to: read once, measured, judged, and made into its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinsmith.lab.study.driver import Outcome, TunedArm
from tinsmith.lab.study.results import Draws, Seconds, hashes_in, seconds_in
from tinsmith.lab.study.task_arms import ArmRead, read_runs
from tinsmith.studies.learning.keys import WORDS, ArmName
from tinsmith.studies.learning.page import learning_page
from tinsmith.studies.learning.results import (
    LearnedArm,
    LearningFound,
    Sized,
    baseline_scores,
    corrected_over_arms,
    judged,
    learned_arm,
    sized,
)
from tinsmith.studies.learning.settings import LearningSettings
from tinsmith.studies.learning.story import sentences
from tinsmith.types.errors import DataError

TunedArms = Mapping[str, TunedArm]


def read_outcome(
    settings: LearningSettings, tuned: TunedArms, by_size: Mapping[int, TunedArms], draws: Draws
) -> Outcome:
    """Read the finished runs.

    Raises:
        DataError: a run was not evaluated, or not on the items that the others were.
    """
    reads = {name: _read(name, tuned[name]) for name in settings.trained}
    _require_same_items(list(reads.values()))
    found = _found(settings, tuned, reads, _all_sized(settings, by_size, draws), draws)
    told = sentences(found)
    seconds = {name.value: _seconds(read) for name, read in reads.items()}
    return Outcome(
        found=found,
        sentences=told,
        seconds=seconds,
        page=learning_page(found, told, reads, {WORDS[ArmName(name)]: one for name, one in seconds.items()}),
    )


def _found(
    settings: LearningSettings,
    tuned: TunedArms,
    reads: Mapping[ArmName, ArmRead],
    by_size: tuple[Sized, ...],
    draws: Draws,
) -> LearningFound:
    study, first = settings.study, next(iter(reads.values()))
    run, task = first.reads[0].run, first.reads[0].task
    arms = [_arm(settings, name, tuned, reads[name], draws) for name in settings.trained]
    num_train = run.config.data.train
    start = first.at(first.steps[0], settings.score)
    if start is None:
        raise DataError("a run has no score before its training", field="cells")
    beats, learned = judged(settings, reads, draws)
    return LearningFound(
        data=run.config.data.fingerprint,
        num_items=start.num_items,
        seeds=study.seeds,
        tuning_seed=study.tuning_seed,
        settings=settings.deciding(),
        rates={one.arm.words: one.tried for one in tuned.values() if one.tried},
        hashes=hashes_in([one.run for read in reads.values() for one in read.reads]),
        task=run.config.task.name,
        question=run.config.question,
        score=settings.score,
        terms=task.terms,
        metrics=task.metrics,
        num_clusters=start.num_clusters,
        num_train=num_train,
        untrained=arms[0].looks[0].value,
        arms=corrected_over_arms(arms, settings.score),
        baselines=baseline_scores(first, settings.score, draws.tables),
        beats=beats,
        learned=learned,
        sized=(*by_size, *_whole(arms, num_train)) if by_size else (),
    )


def _arm(settings: LearningSettings, name: ArmName, tuned: TunedArms, read: ArmRead, draws: Draws) -> LearnedArm:
    one = tuned[name]
    assert one.rate is not None, "it is trained"
    own = one.arm.keys.get("sft_learning_rate")
    return learned_arm(
        name,
        read,
        rate=one.rate,
        sft_rate=None if own is None else float(own),
        effort=settings.effort(name),
        score=settings.score,
        draws=draws.tables,
    )


def _read(name: ArmName, tuned: TunedArm) -> ArmRead:
    return read_runs(WORDS[name], [cell.folder for cell in tuned.cells])


def _all_sized(settings: LearningSettings, by_size: Mapping[int, TunedArms], draws: Draws) -> tuple[Sized, ...]:
    found = [
        sized(name, size, _read(name, arms[name]), settings.score, draws.tables)
        for size, arms in by_size.items()
        for name in settings.trained
    ]
    return tuple(one for one in found if one is not None)


def _whole(arms: Sequence[LearnedArm], num_train: int | None) -> list[Sized]:
    """Return the arms on all the items there are, as the last of the sizes."""
    if num_train is None:
        return []
    return [Sized(arm=one.arm, size=num_train, value=one.looks[-1].value) for one in arms]


def _require_same_items(reads: Sequence[ArmRead]) -> None:
    first = {(one.id, one.prompt) for one in reads[0].reads[0].task.items}
    for read in reads[1:]:
        if {(one.id, one.prompt) for one in read.reads[0].task.items} != first:
            raise DataError("arms of one study are evaluated on the same items", field="cells", value=read.words)


def _seconds(read: ArmRead) -> Seconds:
    return seconds_in([one.run for one in read.reads])
