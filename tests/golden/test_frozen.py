"""Runs of every study, and items of every task: `cells.json` and `items.json`. Figures of made-up runs: conformance.

After a change that is meant to change them: `python scripts/freeze_golden.py cells` (items, figures), and say why.
"""

import json
from pathlib import Path

import pytest

from golden_frozen import FROZEN

pytestmark = [pytest.mark.golden, pytest.mark.whole]


@pytest.mark.parametrize("name", ["cells", "items"])
def test_it_is_what_was_committed(name: str) -> None:
    frozen = json.loads((Path(__file__).parent / f"{name}.json").read_text())
    now = FROZEN[name]()
    assert list(now) == list(frozen)
    for part, value in frozen.items():
        assert now[part] == value, part
