"""What every study runs, what every task asks, and what made-up runs come to: `cells`, `items` and `figures.json`.

After a change that is meant to change them: `python scripts/freeze_golden.py cells` (items, figures), and say why.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from golden_frozen import FROZEN

pytestmark = [pytest.mark.golden, pytest.mark.whole]


@pytest.mark.parametrize("name", FROZEN)
def test_it_is_what_was_committed(name: str) -> None:
    now = FROZEN[name]()
    frozen: dict[str, Any] = json.loads((Path(__file__).parent / f"{name}.json").read_text())
    assert list(now) == list(frozen)
    for part, value in frozen.items():
        assert now[part] == value, part
