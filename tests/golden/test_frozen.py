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


def _frozen(name: str) -> dict[str, Any]:
    return json.loads((Path(__file__).parent / f"{name}.json").read_text())


@pytest.mark.parametrize("name", ["cells", "items"])
def test_it_is_what_was_committed(name: str) -> None:
    now, frozen = FROZEN[name](), _frozen(name)
    assert list(now) == list(frozen)
    for part, value in frozen.items():
        assert now[part] == value, part


def test_figures_of_made_up_runs_are_what_was_committed() -> None:
    now = FROZEN["figures"]()
    for study, frozen in _frozen("figures").items():
        assert now[study]["gains"].items() >= frozen["gains"].items()
        assert now[study]["claims"] == frozen["claims"]
        for row, cells in frozen["cells"].items():
            shown = now[study]["cells"][row]
            lost = [one for one in cells if one not in shown and not any(each.startswith(f"{one} (") for each in shown)]
            assert not lost, f"{study}, {row}"
