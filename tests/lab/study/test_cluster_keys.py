"""What a study can be told of a cluster, and what its runs are told of it: nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tinsmith.cli.registered import STUDIES
from tinsmith.lab.study.arms import Study
from tinsmith.lab.study.cluster_keys import AskedCluster, asked_cluster, without_cluster
from tinsmith.types.errors import ConfigError

GIVEN = {"ray": "local", "cells_at_once": "2"}


def _read(name: str, **usual: str) -> Callable[[dict[str, str]], Study]:
    def read(given: dict[str, str]) -> Study:
        found = STUDIES[name].read({**usual, **given})
        assert isinstance(found, Study)
        return found

    return read


READ = {
    "study/adapters": _read("study/adapters"),
    "study/sft_vs_rl": _read("study/sft_vs_rl"),
    "study/reasoning": _read("study/reasoning", generator="chain_sum"),
}


@pytest.mark.parametrize("name", READ)
def test_every_study_of_runs_can_be_given_a_cluster_that_its_runs_do_not_know(name: str) -> None:
    plain, there = READ[name]({}), READ[name](GIVEN)
    assert plain.cluster is None
    assert there.cluster == AskedCluster(address="local", at_once=2)
    assert there.shared == plain.shared


def test_what_is_no_study_of_runs_refuses_a_cluster() -> None:
    with pytest.raises(ConfigError) as caught:
        STUDIES["rubric_quality"].read({"ray": "local"})
    assert caught.value.field == "ray"


def test_without_a_cluster_nothing_runs_there() -> None:
    assert asked_cluster({"steps": "3"}) is None
    assert without_cluster({"steps": "3", **GIVEN}) == {"steps": "3"}
    assert asked_cluster({"ray": "auto"}) == AskedCluster(address="auto", at_once=0)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"cells_at_once": "2"}, "cells_at_once"),
        ({"ray": "local", "cells_at_once": "-1"}, "cells_at_once"),
        ({"ray": "local", "cells_at_once": "many"}, "cells_at_once"),
        ({"ray": "local", "device": "cuda"}, "device"),
    ],
)
def test_what_cannot_be_had_is_refused_by_name(given: dict[str, str], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        asked_cluster(given)
    assert caught.value.field == field
