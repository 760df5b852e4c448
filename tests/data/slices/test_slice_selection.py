"""The choice of papers at the seeds' own scale."""

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

COUNTS = (247_090, 583_215, 1_142_492)
SETTINGS = SliceSettings(task=Task.DISRUPTION, thresholds=Thresholds(cut=0.001), per_class=200_000)


@pytest.fixture(scope="module")
def pool() -> Pool:
    codes = np.repeat(np.arange(3, dtype=np.int8), COUNTS)
    np.random.default_rng(0).shuffle(codes)
    rows = np.arange(len(codes), dtype=np.uint32)
    return Pool(rows, [f"W{i}" for i in rows.tolist()], codes, np.zeros_like(codes), {})


def test_three_times_200_000_of_the_seeds_pool(pool: Pool) -> None:
    members = select(pool, SETTINGS).members
    chosen = np.concatenate([members[split] for split in Split])
    assert len(chosen) == len(np.unique(chosen)) == 600_000
    assert np.bincount(pool.disruption[chosen]).tolist() == [200_000] * 3
    assert [len(members[split]) / 600_000 for split in Split] == pytest.approx([0.8, 0.1, 0.1], abs=0.002)


def test_three_times_300_000_names_the_class_that_is_short(pool: Pool) -> None:
    with pytest.raises(ConfigError, match="247,090 disruptive") as caught:
        select(pool, replace(SETTINGS, per_class=300_000))
    assert "583,215" not in str(caught.value)
    repeated = select(pool, replace(SETTINGS, per_class=300_000, oversample=True))
    assert repeated.oversampled == {"disruptive": 300_000 - 247_090}
    assert sum(len(one) for one in repeated.members.values()) == 900_000
