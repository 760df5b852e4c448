"""Some of the mutations of `bench/mutations_data.py`: no traceback, and no loss above the share without a word."""

import sys
from pathlib import Path

import pytest
from building import ROOT

sys.path.insert(0, str(ROOT / "bench"))

from mutations_data import TABLES, verdict


@pytest.mark.parametrize("name", TABLES)
def test_no_mutation_is_a_traceback_or_a_silent_loss(name: str, tmp_path: Path) -> None:
    found = {seed: verdict(TABLES[name], seed, tmp_path) for seed in range(60 if name.endswith(".gz") else 30)}
    assert {seed: said for seed, said in found.items() if said not in ("read", "refused")} == {}
    assert "read" in found.values()
    assert "refused" in found.values()
