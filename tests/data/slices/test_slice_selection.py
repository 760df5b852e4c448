"""The choice of papers from a tenth of the seeds' own pool."""

from dataclasses import replace

import numpy as np
import pytest

from tinsmith.data.labels import Thresholds
from tinsmith.data.slices.pool import Pool
from tinsmith.data.slices.selection import select
from tinsmith.data.slices.settings import SliceSettings, Task
from tinsmith.data.slices.splits import Split
from tinsmith.types.errors import ConfigError

pytestmark = pytest.mark.whole

COUNTS = (24_709, 58_321, 114_249)
SETTINGS = SliceSettings(task=Task.DISRUPTION, thresholds=Thresholds(cut=0.001), per_class=20_000)


@pytest.fixture(scope="module")
def pool() -> Pool:
    codes = np.repeat(np.arange(3, dtype=np.int8), COUNTS)
    np.random.default_rng(0).shuffle(codes)
    rows = np.arange(len(codes), dtype=np.uint32)
    return Pool(rows, [f"W{i}" for i in rows.tolist()], codes, np.zeros_like(codes), {})


def test_as_many_of_each_class_are_chosen(pool: Pool) -> None:
    members = select(pool, SETTINGS).members
    chosen = np.concatenate([members[split] for split in Split])
    assert len(chosen) == len(np.unique(chosen)) == 60_000
    assert np.bincount(pool.disruption[chosen]).tolist() == [20_000] * 3
    assert [len(members[split]) / 60_000 for split in Split] == pytest.approx([0.8, 0.1, 0.1], abs=0.004)


def test_the_class_that_is_short_is_named(pool: Pool) -> None:
    with pytest.raises(ConfigError, match="24,709 disruptive") as caught:
        select(pool, replace(SETTINGS, per_class=30_000))
    assert "58,321" not in str(caught.value)
    repeated = select(pool, replace(SETTINGS, per_class=30_000, oversample=True))
    assert repeated.oversampled == {"disruptive": 30_000 - 24_709}
    assert sum(len(one) for one in repeated.members.values()) == 90_000
