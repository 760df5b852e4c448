"""The learning rate of every step, and which settings name a run."""

import pytest

from tinsmith.lab.policy import rate
from tinsmith.lab.settings import Schedule, SftSettings, told_apart
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.errors import ConfigError


def rates(schedule: Schedule, steps: int = 10, warmup: float = 0.0) -> list[float]:
    settings = SftSettings(steps=steps, learning_rate=0.5, lr_schedule=schedule, lr_warmup=warmup)
    return [rate(settings, step) for step in range(steps)]


def test_schedules_without_warming_up() -> None:
    assert rates(Schedule.CONSTANT) == [0.5] * 10
    assert rates(Schedule.LINEAR) == [0.5 * (10 - step) / 10 for step in range(10)]
    cosine = rates(Schedule.COSINE)
    assert (cosine[0], cosine[5]) == (0.5, 0.25)
    assert cosine == sorted(cosine, reverse=True)
    assert 0.0 < cosine[-1] < 0.02


@pytest.mark.parametrize("schedule", Schedule)
def test_the_rate_rises_first_and_the_schedule_is_that_of_the_steps_after(schedule: Schedule) -> None:
    found = rates(schedule, steps=14, warmup=0.25)
    assert found[:4] == [0.125, 0.25, 0.375, 0.5]
    assert found[4:] == rates(schedule, steps=10)


def test_a_share_of_the_steps_is_rounded_up() -> None:
    assert rates(Schedule.COSINE, steps=157, warmup=0.03)[:5] == [pytest.approx(0.1 * step) for step in range(1, 6)]
    # 0.07 * 100 is a little above 7 in floats, and is meant to be 7.
    assert rates(Schedule.CONSTANT, steps=100, warmup=0.07)[6] == 0.5


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_warming_up_is_a_part_of_a_run(share: float) -> None:
    with pytest.raises(ConfigError, match="lr_warmup"):
        SftSettings(steps=1, learning_rate=1.0, lr_warmup=share)


def test_all_weights_include_the_unembedding() -> None:
    with pytest.raises(ConfigError, match="train_unembed"):
        SftSettings(steps=1, learning_rate=1.0, adapter=AdapterKind.FULL, train_unembed=False)


def test_a_later_key_names_a_run_only_where_it_is_used() -> None:
    plain = told_apart(SftSettings(steps=1, learning_rate=1.0))
    assert "lr_schedule" in plain
    assert not {"lr_warmup", "train_unembed"} & set(plain)
    used = told_apart(SftSettings(steps=1, learning_rate=1.0, lr_warmup=0.1, train_unembed=False))
    assert used == {**plain, "lr_warmup": 0.1, "train_unembed": False}
