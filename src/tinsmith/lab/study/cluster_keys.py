"""Which cluster the cells of a study are to run on, and how many at once; no cell knows of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tinsmith.lab.study.keys import StudyKey, count
from tinsmith.types.errors import ConfigError

LOCAL: Final = "local"
"""A Ray that is started on this machine for the study."""

RAY: Final = StudyKey(
    "ray", "", "Where its runs run: local starts a Ray here, HOST:PORT or auto joins a cluster; else here, without one."
)
CELLS_AT_ONCE: Final = StudyKey(
    "cells_at_once", "0", "With ray: runs at once at most; 0: one for each core of the cluster."
)
CLUSTER_KEYS: Final = (RAY, CELLS_AT_ONCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCluster:
    """A cluster to run cells on."""

    address: str
    """`local`, `auto` or HOST:PORT."""
    at_once: int
    """Most cells at once; 0: one for each core."""


def asked_cluster(given: Mapping[str, str]) -> AskedCluster | None:
    """Read `ray` and `cells_at_once` of `key=value`; None: no cluster is asked for."""
    address = given.get(RAY.name, RAY.default)
    at_once = count(CELLS_AT_ONCE.name, given.get(CELLS_AT_ONCE.name, CELLS_AT_ONCE.default), 0)
    if not address:
        if CELLS_AT_ONCE.name in given:
            raise ConfigError(
                "this is for the runs on a cluster, and none is named",
                field=CELLS_AT_ONCE.name,
                value=given[CELLS_AT_ONCE.name],
                fix="ray=local or ray=ADDRESS",
            )
        return None
    device = given.get("device", "cpu")
    if device != "cpu":
        raise ConfigError(
            "runs on a cluster share out its processors, and no other device",
            field="device",
            value=device,
            allowed="cpu",
        )
    return AskedCluster(address=address, at_once=at_once)


def without_cluster(given: Mapping[str, str]) -> dict[str, str]:
    """Return what is given for the runs themselves."""
    own = {key.name for key in CLUSTER_KEYS}
    return {key: value for key, value in given.items() if key not in own}
