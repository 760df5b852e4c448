"""What every study of arms on one kept task has found, whatever else it looks at."""

from __future__ import annotations

from collections.abc import Mapping

from tinsmith.lab.study.arms import Study
from tinsmith.lab.study.results import StudyValues, hashes_in
from tinsmith.lab.study.task_arms import ArmRead
from tinsmith.types.errors import DataError


def values_of(study: Study, reads: Mapping[str, ArmRead]) -> StudyValues:
    """Return what every study has found, from its arms' finished runs; all of them examined the same items.

    Raises:
        DataError: they did not.
    """
    first = next(iter(reads.values())).reads[0]
    expected = {(one.id, one.prompt) for one in first.task.items}
    for read in reads.values():
        if {(one.id, one.prompt) for one in read.reads[0].task.items} != expected:
            raise DataError("arms of one study are evaluated on the same items", field="cells", value=read.words)
    arms = {
        f"{arm.name}.{key}": value
        for arm in study.arms
        for key, value in {
            **arm.keys,
            **({} if arm.opened is None else arm.opened.keys),
            **({"learning_rate": f"{arm.rates[0]:g}"} if arm.rates else {}),
        }.items()
    }
    shared = {key: value for key, value in study.shared.items() if key != "quiet"}
    return StudyValues(
        data=first.run.config.data.fingerprint,
        num_items=len(expected),
        seeds=study.seeds,
        tuning_seed=study.tuning_seed,
        settings={**shared, **arms},
        rates={},
        hashes=hashes_in([one.run for read in reads.values() for one in read.reads]),
    )


def items_seen(read: ArmRead) -> int:
    """Return how many items a run of groups of the arm looks at, again where they come again."""
    settings = read.reads[0].run.config.settings
    steps, groups = settings["steps"], settings["groups_per_batch"]
    assert isinstance(steps, int), "it is a number of steps"
    assert isinstance(groups, int), "it is a number of groups"
    return steps * groups
