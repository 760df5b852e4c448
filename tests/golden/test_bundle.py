"""A run that was made and packed elsewhere, audited here: each step and each unit, by every instruction set there is.

`bundle.zip` is of a Xeon with AVX-512. After a change that is meant to change what a run leaves:
`python scripts/freeze_golden.py bundle`, and say why.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import command
from tinsmith.ops.extension import module

pytestmark = [pytest.mark.golden, pytest.mark.whole]

BUNDLE = Path(__file__).with_name("bundle.zip")


@pytest.fixture(params=[*reversed(module().supported_isas())])
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    native = module()
    before = native.isa()
    native.use_isa(request.param)
    yield request.param
    native.use_isa(before)


@pytest.mark.parametrize(("drawn", "count"), [("--steps=2", 2), ("--units=100%", 4)])
def test_a_run_of_another_host_is_equal_here(
    isa: str, drawn: str, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = command(capsys, "audit", BUNDLE, drawn, "--json")
    assert ran.code == 0, (isa, ran)
    found = json.loads(ran.out)
    assert found["passed"]
    assert len(found["drawn"]) == count
